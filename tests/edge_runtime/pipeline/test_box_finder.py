"""A network of the bundle finds the people who are counted: boxes to places, and what is refused."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BundleRefused, DeviceFailed, FrameDropped
from edgeveil.edge_runtime.ext.counting.inside import Counter
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.capture import pipeline_sha256
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.schema import check_manifest, referenced_files
from edgeveil.edge_runtime.pipeline.crops import BoxFinder, Capture
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from tests.support import bundles
from tests.support.promised.detector_bundle import FRAME, detector_example


@pytest.fixture(scope="module")
def example():
    return detector_example()


@pytest.fixture(scope="module")
def opened(example, tmp_path_factory):
    made = bundles.make_bundle(tmp_path_factory.mktemp("detector"), example=(dict(example[0]), dict(example[1])))
    with Perturber.open(str(made.path), trust=str(made.trust)) as perturber:
        yield perturber


class Places:
    def __init__(self):
        self.seen, self.restarts = [], 0

    def people(self, places):
        self.seen.append(list(places))

    def restart(self):
        self.restarts += 1


def frame(*cells):
    """A dark picture of 128 x 256 with bright cells (row, column) of eight by eight."""
    picture = np.zeros(FRAME, np.uint8)
    for row, column in cells:
        picture[16 * row : 16 * row + 16, 32 * column : 32 * column + 32] = 255
    return picture


def test_people_are_where_their_boxes_are_in_the_sensors_frame(opened):
    watcher = Places()
    capture = Capture(opened.manifest, watcher, opened.detector)
    for cells in ((), ((0, 0),), ((3, 4), (7, 1))):
        ((slot, sample),) = capture.frames(RawFrame(frame(*cells), 0))
        assert (slot, sample._data.shape) == (0, (8, 8, 1))  # the whole frame, as without a detector
    assert watcher.seen[:2] == [[], [(8.0, 16.0)]]
    assert sorted(watcher.seen[2]) == [(56.0, 144.0), (120.0, 48.0)]
    capture.restart()
    assert watcher.restarts == 1


def test_somebody_who_crosses_the_line_is_counted(opened):
    now = [5.0]
    rules = opened.manifest.detector
    counter = Counter(
        opened.manifest.counts, FRAME[:2], step_px=rules.step_px, gone_frames=rules.gone_frames, clock=lambda: now[0]
    )
    capture = Capture(opened.manifest, counter, opened.detector)
    for column in (1, 2, 3, 4, 5, 6):
        now[0] += 0.1
        capture.frames(RawFrame(frame((3, column)), column))
    now[0] = 10.1
    assert sum(counter.close().values) == 1


class Fixed:
    """A network that gives these boxes, scores and classes."""

    def __init__(self, boxes, scores, classes=None):
        self.found = {"boxes": np.array([boxes], np.float32), "scores": np.array([scores], np.float32)}
        self.found["classes"] = np.array([classes], np.float32)

    def run(self, inputs):
        (self.picture,) = inputs.values()
        return self.found


def finder(opened, network, most=16, **change):
    return BoxFinder(opened.manifest.detector._replace(**change), network, FRAME, most=most)


BOXES = [[0, 0, 0.5, 0.5], [0.02, 0, 0.5, 0.5], [0.5, 0.5, 1, 0.75], [0, 0.5, 0.25, 1], [0.5, 0, 0.5, 0.5]]


def test_boxes_that_are_one_person_unsure_of_another_kind_or_empty_are_left_out(opened):
    network = Fixed(BOXES, [0.9, 0.8, 0.7, 0.3, 0.99], [0, 0, 0, 0, 0])
    assert finder(opened, network)(frame()) == [(32.0, 64.0), (96.0, 160.0)]
    assert finder(opened, network, most=1)(frame()) == [(32.0, 64.0)]
    assert finder(opened, network, point="feet")(frame())[0] == (64.0, 64.0)
    network = Fixed(BOXES, [0.9] * 5, [17, 2, 0, 17, 0])
    assert finder(opened, network, person=17)(frame()) == [(32.0, 64.0), (16.0, 192.0)]


def test_boxes_in_pixels_and_in_the_other_order(opened):
    network = Fixed([[32, 0, 64, 16]], [0.9])
    assert finder(opened, network, order="xyxy", unit="pixel")(frame()) == [(16.0, 192.0)]


def test_the_picture_has_the_range_that_the_network_learned(opened):
    network = Fixed([[0, 0, 1, 1]], [0.9])
    finder(opened, network, low=-1.0, high=1.0)(frame((0, 0)))
    assert (network.picture.min(), network.picture.max()) == (-1.0, 1.0)
    assert network.picture.shape == (1, 64, 64, 3)


def test_a_network_that_gives_no_numbers_drops_the_frame(opened):
    with pytest.raises(FrameDropped, match="not-finite"):
        finder(opened, Fixed([[0, 0, 1, 1]], [np.nan]))(frame())


@pytest.mark.parametrize("promises", [False, True])
def test_where_a_promise_is_made_a_failure_of_it_drops_no_frame(opened, promises):
    watcher = Places()
    capture = Capture(opened.manifest, watcher, opened.detector)
    capture._boxes, capture._promises = finder(opened, Fixed([[0, 0, 1, 1]], [np.nan])), promises
    if promises:
        assert [slot for slot, _ in capture.frames(RawFrame(frame(), 0))] == [0]
        assert watcher.seen == [[]]
    else:
        with pytest.raises(FrameDropped, match="not-finite"):
            capture.frames(RawFrame(frame(), 0))


def test_noisy_counts_and_a_promised_epsilon_are_promises(example):
    manifest = parse(dict(example[0]))
    assert not Capture(manifest, Places(), None)._promises
    noise = manifest.counts._replace(noise=object())
    assert Capture(manifest._replace(counts=noise), Places(), None)._promises
    assert Capture(manifest._replace(spending=object()), Places(), None)._promises


def test_another_network_than_was_recorded_is_not_run(example, tmp_path):
    def other(_manifest, members):
        members["golden/detector.scores.npy"] = bundles.npy(np.zeros((2, 64), np.float32))

    made = bundles.make_bundle(tmp_path, example=(dict(example[0]), dict(example[1])), change=other)
    with pytest.raises(DeviceFailed, match="its scores are other than recorded"):
        Perturber.open(str(made.path), trust=str(made.trust))


def test_the_hash_of_the_pipeline_and_the_files_speak_of_it(example):
    manifest, _ = example
    assert {"artefacts/detector.onnx", "golden/detector.input.npy"} <= set(referenced_files(manifest))
    other = {**manifest, "detector": {**manifest["detector"], "least_score": 0.6}}
    assert pipeline_sha256(other, "numpy", {}) != pipeline_sha256(manifest, "numpy", {})


def changed(manifest, **change):
    entry = change.pop("entry", {})
    section = {**manifest["detector"], **change}
    return {**manifest, "detector": {**section, "artefact": {**section["artefact"], **entry}}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"least_score": 2}, "detector.least_score"),
        ({"person": 1}, "it gives no classes"),
        ({"order": "xywh"}, "detector.order"),
        ({"low": 1.0}, "low below high"),
        ({"step_px": 0}, "detector.step_px"),
        ({"point": "head"}, "detector.point"),
        ({"entry": {"outputs": []}}, "outputs"),
        ({"entry": {"tolerance": {"max_abs": 0.9}}}, "difference of scores"),
    ],
)
def test_a_section_that_cannot_be_followed_is_refused(example, change, words):
    with pytest.raises(BundleRefused, match=words):
        check_manifest(changed(example[0], **change), sealed=False)


def test_it_needs_counts_and_a_cameras_frames(example):
    manifest = example[0]
    check_manifest(manifest, sealed=False)
    with pytest.raises(BundleRefused, match="expected a count"):
        check_manifest({key: value for key, value in manifest.items() if key != "count"}, sealed=False)
    with pytest.raises(BundleRefused, match=r"capture.crop or a detector"):
        check_manifest({key: value for key, value in manifest.items() if key != "detector"}, sealed=False)
    gray = {**manifest["capture"], "frame": {**manifest["capture"]["frame"], "shape": [128, 256]}}
    with pytest.raises(BundleRefused, match="as many channels"):
        check_manifest({**manifest, "capture": gray}, sealed=False)


def test_a_file_that_is_not_the_one_of_its_hash_is_refused(example, tmp_path):
    def swapped(manifest, _members):
        manifest["detector"]["artefact"]["sha256"] = "0" * 64

    copied = {**example[0], "detector": {**example[0]["detector"], "artefact": {**example[0]["detector"]["artefact"]}}}
    made = bundles.make_bundle(tmp_path, example=(copied, dict(example[1])), change=swapped)
    with pytest.raises(BundleRefused, match="not the hash of its member"):
        Perturber.open(str(made.path), trust=str(made.trust))
