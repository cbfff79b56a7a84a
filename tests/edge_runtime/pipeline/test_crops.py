"""From sensor frames to readings: patches around people in fixed places, measure, size and type, without OpenCV."""

import copy
import subprocess
import sys

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.pipeline.crops import Capture, Tracker
from edgeveil.edge_runtime.util.simulated_scene import Scene
from tests.support import bundles
from tests.support.checkout import ROOT

GOTPD = "gotpd_overhead_depth/recording_120"


def manifest(capture=None, frame=None, crop=None, **spec):
    """A manifest's two keys: an overhead depth camera unless something else is said."""
    document = copy.deepcopy(bundles.captured_example()[0])
    document["input"].update({"shape": [180, 180, 1], "low": 0.0, "high": 255.0, **spec})
    document["capture"].update(capture or {})
    document["capture"]["frame"].update(frame or {})
    if document["capture"]["crop"]:
        document["capture"]["crop"].update(crop or {})
    return parse({key: document[key] for key in ("input", "capture")})


def plain(frame, shape, dtype, capture=None, low=0.0, high=255.0):
    """The same without crops: values of a picture of ``frame``'s shape and dtype as ``shape`` of ``dtype``."""
    about = {"crop": None, "slots": 1, "measure": "value", "low": None, "high": None, **(capture or {})}
    frame = {"shape": list(frame.shape), "dtype": frame.dtype.name}
    return Capture(manifest(about, frame, shape=list(shape), dtype=dtype, low=low, high=high))


def scene_frames(seconds, people=2, seed=5, fps=10):
    scene = Scene(seed=seed, people=people)
    for tick in range(int(seconds * fps)):
        yield RawFrame(scene.frame(tick / fps)[:, :, None], tick, tick), scene


def test_without_capture_a_frame_is_handed_on_as_it_is():
    frame = RawFrame(np.zeros((2, 2, 1), np.uint8), 3)
    capture = Capture(manifest()._replace(capture=None))
    assert capture.frames(frame) == [(0, frame)]
    assert capture.slots == 1
    assert capture.ended == []


def test_everybody_in_the_picture_is_the_middle_of_a_patch():
    capture, found, people = Capture(manifest({"measure": "depth", "low": 1000.0, "high": 3400.0})), 0, 0
    for frame, scene in scene_frames(60):
        patches = capture.frames(frame)
        inside = [w for w in scene.walkers if all(70 < p < n - 70 for p, n in zip(scene.pixel(w), scene.shape))]
        if frame.index < 60:
            continue  # the floor is learnt
        people += len(inside)
        assert len(patches) <= len(scene.walkers)
        for _, patch in patches:
            picture = patch._data[..., 0].astype(float)
            near = np.argwhere(picture < picture[picture < 255].min() + 30)
            found += bool(np.linalg.norm(near.mean(axis=0) - 90) < 40)
    assert people > 100
    assert found >= people


def test_a_person_keeps_track_and_slot_and_the_track_ends_when_they_have_gone():
    capture, who, ended = Capture(manifest()), {}, []
    for frame, scene in scene_frames(60):
        for slot, patch in capture.frames(frame):
            assert slot in (0, 1)
            assert patch.index == frame.index
            assert patch.captured_ns == frame.captured_ns
            who.setdefault(patch.track, []).append((slot, tuple(sorted(w.who for w in scene.walkers))))
        ended += capture.ended
    assert len(who) >= 10
    assert all(len({slot for slot, _ in seen}) == 1 for seen in who.values())
    assert sorted(set(ended)) == sorted(ended)
    assert set(ended) >= set(sorted(who)[:-2])


def test_a_patch_that_reaches_over_the_edge_has_no_readings_there():
    low = {"measure": "depth", "low": 1000.0, "high": 3000.0}
    capture = Capture(manifest(low, crop={"floor_frames": 2}))
    floor = np.full((424, 512), 3300, np.uint16)
    capture.frames(RawFrame(floor, 0))
    body = floor.copy()
    body[10:60, 20:70] = 1700
    ((_, patch),) = capture.frames(RawFrame(body, 1))
    picture = patch._data[..., 0]
    assert (picture == 255).sum() > 180 * 180 // 2
    assert picture[:55].min() == 255
    assert picture[70:110, 70:110].max() == round(255 * 700 / 2000)


def test_heights_are_above_the_floor_and_nothing_where_there_is_no_reading():
    capture = Capture(manifest({"low": 0.0, "high": 2550.0}))
    floor = np.full((424, 512), 3300, np.uint16)
    capture.frames(RawFrame(floor, 0))
    body = floor.copy()
    body[180:240, 220:280] = 1600
    body[200:205, 240:245] = 0
    ((_, patch),) = capture.frames(RawFrame(body, 1))
    values, counts = np.unique(patch._data, return_counts=True)
    assert values.tolist() == [0, 170]
    assert counts[1] == 60 * 60 - 25


def test_a_chair_becomes_floor_after_a_while():
    capture = Capture(manifest(crop={"floor_frames": 5, "least_height_mm": 500.0}))
    room = np.full((424, 512), 3300, np.uint16)
    capture.frames(RawFrame(room, 0))
    room[180:240, 220:280] = 2500
    seen = [len(capture.frames(RawFrame(room, n))) for n in range(1, 15)]
    assert seen[0] == 1
    assert seen[-1] == 0


def test_more_people_than_slots_are_counted_and_left_out():
    capture = Capture(manifest({"slots": 1}))
    counts = [len(capture.frames(frame)) for frame, _ in scene_frames(20, people=3)]
    assert max(counts) == 1
    assert capture.left_out > 5


def test_a_broken_stream_ends_all_tracks():
    capture = Capture(manifest())
    tracks = {patch.track for frame, _ in scene_frames(15) for _, patch in capture.frames(frame)}
    before = set(capture.ended)
    capture.restart()
    assert before | set(capture.ended) == tracks


@pytest.mark.parametrize(
    ("shape", "dtype", "reason"), [((424, 511), "uint16", "shape"), ((424, 512), "uint8", "dtype")]
)
def test_frames_of_another_sensor_are_dropped(shape, dtype, reason):
    with pytest.raises(FrameDropped, match=reason):
        Capture(manifest()).frames(RawFrame(np.zeros(shape, dtype), 0))


def test_depth_is_clipped_scaled_and_far_where_it_was_not_read():
    depth = np.array([[0, 500, 1000, 2000, 3000, 9000]], np.uint16)
    about = {"measure": "depth", "low": 1000.0, "high": 3000.0}
    capture = plain(depth, (1, 6, 1), "uint8", about)
    ((slot, frame),) = capture.frames(RawFrame(depth, 7))
    assert (slot, frame.index, frame.track) == (0, 7, 0)
    assert frame._data[0, :, 0].tolist() == [255, 0, 0, 128, 255, 255]
    half = Capture(manifest({**about, "crop": None, "slots": 1}, {"shape": [1, 6], "unit_mm": 0.5}, shape=[1, 6, 1]))
    assert half.frames(RawFrame(depth, 0))[0][1]._data[0, :, 0].tolist() == [255, 0, 0, 0, 64, 255]


def test_every_reading_goes_to_the_same_value_by_table_and_by_arithmetic():
    every = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    about = {"low": 100.0, "high": 60001.5}
    table = plain(every, (256, 256, 1), "uint8", about)
    ((_, one),) = table.frames(RawFrame(every, 0))
    wanted = np.rint(np.clip((every - 100.0) / 59901.5, 0, 1) * 255)
    assert (one._data[..., 0] == wanted).mean() > 0.9999  # float32 rounds a few halves the other way


def test_a_window_is_cut_out_before_all_else():
    picture = np.arange(20 * 30 * 3, dtype=np.uint32).reshape(20, 30, 3).astype(np.uint8)
    part = picture[2:14, 5:29]
    for shape, resized in (((12, 24, 3), "nearest"), ((6, 8, 1), "area"), ((6, 8, 3), "nearest")):
        windowed = plain(picture, shape, "uint8", {"resize": resized, "window": [2, 5, 12, 24]})
        alone = plain(part, shape, "uint8", {"resize": resized})
        sent = windowed.frames(RawFrame(picture, 0))[0][1]._data
        assert np.array_equal(sent, alone.frames(RawFrame(part, 0))[0][1]._data)
        assert not np.shares_memory(sent, picture)


def test_a_manifest_may_have_a_window_or_be_of_before_there_were_any():
    document, _ = bundles.captured_example()
    assert "window" not in document["capture"]
    check_manifest(document, sealed=False)
    document["capture"].update(crop=None, slots=1, measure="depth", window=[12, 20, 400, 480])
    check_manifest(document, sealed=False)
    assert parse(document).capture.window == [12, 20, 400, 480]


def test_colour_becomes_gray_and_small_as_opencv_does_it():
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)
    capture = plain(picture, (10, 15, 1), "uint8", {"resize": "area"})
    ((_, frame),) = capture.frames(RawFrame(picture, 0))
    gray = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (15, 10), interpolation=cv2.INTER_AREA)
    assert abs(frame._data[..., 0].astype(int) - gray).max() <= 1
    assert frame._data.dtype == np.uint8


def test_access_points_are_seen_or_not():
    document = bundles.fingerprint_example()[0]
    capture = Capture(parse(document))
    ((_, frame),) = capture.frames(RawFrame(np.array([-60, -104, 100, -105], np.int8), 0))
    assert frame._data.tolist() == [1, 1, 0, 0]
    assert frame._data.dtype == np.uint8


def test_the_examples_hold_and_the_tests_are_about_what_can_be_signed():
    for example in (bundles.captured_example, bundles.fingerprint_example):
        check_manifest(example()[0], sealed=False)


def test_it_needs_numpy_alone():
    code = "import sys, edgeveil.edge_runtime.pipeline.crops; assert not {'cv2', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)


@pytest.mark.data
def test_the_one_person_of_a_real_recording_is_one_patch_around_their_head(data_folder):
    """GOTPD1: 120 frames of one walking person under an overhead Kinect v2, with the head's place by its authors."""
    folder = data_folder / GOTPD
    heads = np.genfromtxt(folder / "head.csv", delimiter=",", skip_header=1, usecols=(2, 3, 4))
    pictures = [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in sorted((folder / "depth").glob("*.png"))]
    assert len(pictures) == len(heads) == 120
    capture = Capture(manifest())
    centres = []
    update = capture._people.tracker.update
    capture._people.tracker.update = lambda found: centres.append(found) or update(found)
    counts = [len(capture.frames(RawFrame(picture, 0))) for picture in pictures * 2]
    # Nobody knows the floor under somebody in the first two pictures.
    assert counts[2:] == [1] * 238
    away = [
        np.hypot(row - head[2], column - head[1])
        for head, ((row, column),) in zip(heads, centres[120:], strict=True)
        if head[0]
    ]
    assert len(away) > 60
    assert np.median(away) < 20  # pixels, of a head about 45 wide
    assert max(away) < 45
    ((slot, _),) = capture.frames(RawFrame(pictures[0], 0))
    assert slot in (0, 1)
    assert len(capture.ended) <= 1  # where the recording begins anew the person is somewhere else


# The tracker alone


def test_tracks_follow_the_nearest_and_cross_without_changing():
    tracker = Tracker(slots=2, step_px=20, gone_frames=1)
    first, second = tracker.update([(0.0, 0.0), (0.0, 100.0)])
    for step in range(1, 11):
        found = tracker.update([(10.0, 100.0 - 10 * step), (0.0, 10.0 * step)])
        assert found == [second, first]


def test_a_track_waits_for_who_was_not_seen_and_ends_after_that():
    tracker = Tracker(slots=1, step_px=20, gone_frames=2)
    ((track, slot),) = tracker.update([(0.0, 0.0)])
    assert tracker.update([]) == tracker.update([]) == []
    assert tracker.update([(0.0, 55.0)]) == [(track, slot)]
    for _ in range(3):
        tracker.update([])
    assert tracker.ended == [track]
    assert tracker.update([(0.0, 55.0)]) == [(track + 1, 0)]


def test_a_slot_is_free_again_when_its_track_has_ended_and_not_before():
    tracker = Tracker(slots=1, step_px=5, gone_frames=1)
    tracker.update([(0.0, 0.0)])
    assert tracker.update([(90.0, 90.0)]) == [None]
    assert tracker.update([(90.0, 90.0)]) == [(2, 0)]
    assert tracker.ended == [1]


def test_one_person_is_not_two_tracks():
    tracker = Tracker(slots=2, step_px=20, gone_frames=0)
    (first, _), _ = tracker.update([(0.0, 0.0), (0.0, 10.0)])
    assert tracker.update([(0.0, 4.0)]) == [(first, 0)]
    assert tracker.ended == [first + 1]
