"""For how many frames of a stream a bound holds: by the dataflow, and what a manifest may not say about it."""

import copy

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import Stream
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.manifest.stream_bound import ANSWERS, GIVEN_LABELS, NONE, ONE_CLASS, ONE_FRAME, stream_bound
from edgeveil.edge_runtime.pipeline.track_memory import TrackMemory
from tests.support import bundles
from tests.support.promised import held_examples, local_examples

FIRST = {"hold": "track", "votes": 1, "period_s": None, "acknowledged": None}
SEVERAL = {**FIRST, "draws": 3, "acknowledged": "codes of three frames add up"}
PERIOD = {"hold": "period", "votes": None, "period_s": 600, "acknowledged": None}


def first(**stream):
    """Class and code of the first frames of a track, so many, then of the last of them."""
    manifest, members = bundles.held_example()
    manifest["stream"] = {**FIRST, **stream}
    manifest["stages"][2:5] = [
        {"stage": "hold", "op": "first", "input": "label", "output": "held"},
        {"stage": "draw", "distribution": "channel", "input": "label", "table": "channel", "output": "drawn"},
        {"stage": "hold", "op": "first", "input": "drawn", "output": "kept"},
    ]
    return manifest, members


def checked(manifest, members):
    check_manifest(bundles.with_members(manifest, members))
    return stream_bound(manifest)


def test_one_draw_of_a_track_is_one_release_whatever_its_length():
    voted = checked(*bundles.held_example())
    assert (voted.kind, voted.frames) == (ONE_CLASS, None)
    assert "voted by its first 3 frames" in voted.text
    one = checked(*first())
    assert (one.kind, one.frames, one.line) == (ONE_FRAME, None, "for any number of frames of one track")
    assert "met by a restart counts as another" in one.text


def test_several_draws_without_a_promise_have_no_bound():
    several = checked(*first(**SEVERAL))
    assert (several.kind, several.frames) == (NONE, 1)
    assert "3 frames of one track are drawn for" in several.text


def test_a_frame_that_leaves_next_to_what_is_held_takes_the_bound_away():
    manifest, members = first()
    assert checked(manifest, members).kind == ONE_FRAME
    manifest["outputs"][1]["tensor"] = "label"  # of every frame; the flow refuses it
    assert stream_bound(manifest).kind == GIVEN_LABELS
    manifest["outputs"] = [{**manifest["outputs"][1], "kind": "code"}]
    assert stream_bound(manifest).kind == NONE
    with pytest.raises(BundleRefused, match="'label' changes with every frame"):
        checked(*(manifest, members))


def test_samples_without_a_stream_and_codes_by_frame_have_none():
    manifest, members = bundles.numpy_example()
    assert checked(manifest, members).kind == GIVEN_LABELS  # class means, chosen by the label that is sent
    manifest["outputs"] = manifest["outputs"][:1]
    assert stream_bound(manifest).kind == NONE
    assert "no bound for more than one frame" in stream_bound(manifest).line


def test_a_code_of_a_period_adds_nothing_to_the_labels_that_are_sent():
    manifest, _ = bundles.held_example()
    manifest["stream"] = dict(PERIOD)
    manifest["stages"][2:5] = [
        {"stage": "draw", "distribution": "channel", "input": "label", "table": "channel", "output": "drawn"},
        {"stage": "hold", "op": "keep", "input": "drawn", "by": "label", "output": "kept"},
    ]
    manifest["outputs"][1]["tensor"] = "label"
    found = stream_bound(manifest)
    assert found.kind == GIVEN_LABELS
    assert "of the labels themselves there is no bound" in found.text.lower()
    manifest["stages"][2]["input"] = manifest["stages"][1]["input"]  # a code of x, and not of its class
    assert stream_bound(manifest).kind == NONE


def promised(draws=None, unit="release", most=8, period_s=None, hold="track"):
    parts, _ = held_examples.parts("k-rr", hold)
    if draws:
        parts["stream"]["draws"] = draws
    parts["spending"] = {
        "micro_epsilon": 10**6, "unit": unit, "most_micro_epsilon": most * 10**6, "period_s": period_s,
    }  # fmt: skip
    return parts


def test_answers_with_a_promise_add_up_whatever_frames_have_to_do_with_each_other():
    found = stream_bound(promised(draws=4))
    assert (found.kind, found.frames, found.draws, found.epsilon) == (ANSWERS, None, 4, 1.0)
    assert "at most e^4: 4 answers of epsilon 1 each" in found.text
    assert stream_bound(promised()).draws == 1
    assert stream_bound(promised(draws=12)).draws == 8  # the ledger stops sooner
    assert stream_bound(promised(draws=12, period_s=60.0)).draws == 12  # and begins anew within the track


def test_the_ledger_says_how_many_frames_where_each_is_answered():
    parts = promised()
    parts["stream"], parts["stages"] = None, [one for one in parts["stages"] if one["stage"] != "hold"]
    parts["outputs"] = [{**parts["outputs"][0], "tensor": "report"}]
    found = stream_bound(parts)
    assert (found.kind, found.frames, found.draws, found.line) == (ANSWERS, 8, 8, "for 8 frames, epsilon 8 in all")


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ({**SEVERAL, "draws": 1}, "bad-value"),
        ({**SEVERAL, "draws": 1001}, "bad-value"),
        ({**SEVERAL, "draws": None}, "wrong-type"),
        ({**SEVERAL, "draws": 2.0}, "wrong-type"),
        ({**SEVERAL, "acknowledged": None}, "bad-value"),
        ({**SEVERAL, "acknowledged": ""}, "bad-value"),
        ({**SEVERAL, "hold": "frame", "votes": None}, "unknown-key"),
        ({**FIRST, "acknowledged": "one draw needs no reason"}, "bad-value"),
    ],
)
def test_what_a_manifest_may_not_say_of_draws(stream, reason):
    manifest, members = first()
    manifest["stream"] = stream
    with pytest.raises(BundleRefused) as caught:
        checked(manifest, members)
    assert (caught.value.reason, "stream" in str(caught.value)) == (reason, True)


def test_with_a_promise_no_reason_is_asked_for():
    manifest, members = held_examples.example("k-rr", "track")
    manifest["stream"]["draws"] = 2
    manifest["spending"] = promised()["spending"]
    check_manifest(bundles.with_members(manifest, members))
    del manifest["spending"]
    with pytest.raises(BundleRefused):
        check_manifest(bundles.with_members(manifest, members))


def test_a_limit_that_another_hold_would_not_keep_is_refused():
    manifest, members = bundles.held_example()
    manifest["stream"] |= {"draws": 3, "acknowledged": "three"}
    with pytest.raises(BundleRefused) as caught:
        checked(manifest, members)
    assert caught.value.reason == "stream-mismatch"


def sent(memory, values, tracks):
    out = []
    for value, track in zip(values, tracks, strict=True):
        memory.begin([track])
        out += memory.first("code", np.array([value])).tolist()
        memory.commit()
    return out


def test_after_so_many_draws_a_track_sends_the_last_one():
    memory = TrackMemory(Stream(**SEVERAL))
    assert sent(memory, range(10), [7] * 10) == [0, 1, 2] + [2] * 7
    memory.begin([7, 8, 8, 7, 8, 8])
    assert memory.first("code", np.arange(20, 26)).tolist() == [2, 21, 22, 2, 24, 24]


def test_a_track_that_is_split_draws_anew_and_one_that_is_merged_does_not():
    memory = TrackMemory(Stream(**SEVERAL))
    assert sent(memory, range(8), [1, 1, 1, 1, 2, 2, 2, 2]) == [0, 1, 2, 2, 4, 5, 6, 6]  # one person, two numbers
    assert sent(memory, range(20, 24), [2, 1, 2, 1]) == [6, 2, 6, 2]
    memory.forget(2)
    assert sent(memory, range(30, 34), [2] * 4) == [30, 31, 32, 32]
    memory.restart()
    assert sent(memory, range(40, 44), [1] * 4) == [40, 41, 42, 42]  # what a restart begins is another track


def test_a_frame_that_failed_has_not_drawn():
    memory = TrackMemory(Stream(**SEVERAL))
    for value in range(5):
        memory.begin([0])
        memory.first("code", np.array([value]))  # nothing is sent of it
    assert sent(memory, range(10, 15), [0] * 5) == [10, 11, 12, 12, 12]


def test_a_period_draws_so_often_for_all_of_its_tracks():
    now = [0.0]
    memory = TrackMemory(Stream(**{**SEVERAL, "hold": "period", "votes": None, "period_s": 600}), clock=lambda: now[0])
    assert sent(memory, range(5), range(5)) == [0, 1, 2, 2, 2]
    now[0] = 600.0
    assert sent(memory, range(5), range(5)) == [0, 1, 2, 2, 2]


def test_the_runtime_draws_and_charges_as_often_as_the_manifest_says():
    parts = promised(draws=3)
    _, tables = held_examples.parts("k-rr", "track")
    pipeline = local_examples.pipeline(copy.deepcopy(parts), tables)
    x = np.eye(4, dtype=np.uint8)
    frames = [pipeline.perturb(RawFrame(x[at % 4] * 9, at, track=5)) for at in range(8)]
    names = [frame.drawn for frame in frames]
    assert len(set(names[:3])) == 3
    assert set(names[3:]) == {names[2]}
    assert {frame.data.tobytes() for frame in frames[3:]} == {frames[2].data.tobytes()}
