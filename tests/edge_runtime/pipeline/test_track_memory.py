"""A stream that is held: one class and one draw for a track, whatever its later frames show."""

import io

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import Stream, parse
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.pipeline.track_memory import TrackMemory
from tests.support import bundles
from tests.support.promised import held_examples, local_examples

TRACK = Stream("track", 3, None)
UNDECIDED = 4
OF = {label: np.eye(4, dtype=np.uint8)[label] * 9 for label in range(4)}  # a reading of each class
FLAT = [8, 8, 8, 8]


@pytest.fixture
def perturber(tmp_path):
    made = bundles.make_bundle(tmp_path, example=bundles.held_example())
    with Perturber.open(made.path, trust=made.trust) as opened:
        yield opened


def frames(labels, tracks):
    return [RawFrame(OF[label], i, track=track) for i, (label, track) in enumerate(zip(labels, tracks, strict=True))]


def labels(perturbed):
    return [int(frame.outputs["label"]) for frame in perturbed]


def test_until_it_has_voted_a_track_is_flat_and_then_it_never_changes(perturber):
    out = perturber.perturb_batch(frames([2, 0, 2, 0, 0, 0, 1, 3], [5] * 8))
    assert labels(out) == [UNDECIDED] * 2 + [2] * 6
    assert [frame.data.tolist() for frame in out[:2]] == [FLAT, FLAT]
    assert len({frame.data.tobytes() for frame in out[2:]}) == 1


def test_what_leaves_after_the_vote_does_not_depend_on_x(perturber):
    perturber.perturb_batch(frames([1, 1, 1], [0] * 3))
    once = perturber.perturb(RawFrame(OF[1], 3)).data.tolist()
    for label in (0, 2, 3) * 10:
        assert perturber.perturb(RawFrame(OF[label], 4)).data.tolist() == once


def test_tracks_are_held_apart_and_one_by_one_is_the_same_as_together(perturber):
    shown, tracks = [0, 3, 0, 3, 0, 3, 1, 1], [7, 9] * 4
    together = labels(perturber.perturb_batch(frames(shown, tracks)))
    assert together == [4, 4, 4, 4, 0, 3, 0, 3]
    for track in (7, 9):
        perturber.forget(track)
    assert labels([perturber.perturb(frame) for frame in frames(shown, tracks)]) == together


def test_a_track_that_ended_votes_and_draws_anew(perturber):
    assert labels(perturber.perturb_batch(frames([0] * 4, [1] * 4)))[-1] == 0
    perturber.forget(1)
    assert labels(perturber.perturb_batch(frames([2] * 4, [1] * 4))) == [4, 4, 2, 2]


def test_each_track_draws_for_itself(perturber):
    shown = [[int(f.data[0]) for f in perturber.perturb_batch(frames([1] * 3, [t] * 3))][-1] for t in range(80)]
    assert set(shown) == {0, 16}  # both codes of its class: 2 ** -80 * 3 ** 80 is how likely a wrong failure is


def test_a_dropped_frame_has_not_voted(perturber):
    bad = RawFrame(np.zeros(3, np.uint8), 0, track=2)
    out = perturber.perturb_batch([*frames([0, 1], [2, 2]), bad, *frames([1], [2])])
    assert labels(out) == [4, 4, 1]
    assert perturber.dropped == {"shape": 1}
    memory = TrackMemory(TRACK)
    for attempt in range(6):
        memory.begin([0])
        assert memory.majority("held", np.array([3]), 4).tolist() == [UNDECIDED]
        if attempt == 0:
            memory.commit()  # all others failed after the vote


def test_readings_without_tracks_stand_for_whole_tracks(perturber):
    x = np.stack([OF[label] for label in (0, 1, 2, 3)])
    assert perturber.pipeline.run(x)["label"].tolist() == [0, 1, 2, 3]
    assert perturber.pipeline.run(x, tracks=[0] * 4)["label"].tolist() == [4, 4, 0, 0]


def test_only_so_many_tracks_are_remembered():
    memory = TrackMemory(TRACK, most=2)
    for track in (1, 2, 1, 3, 1, 2):
        memory.begin([track])
        out = memory.majority("held", np.array([0]), 4)
        memory.commit()
    assert out.tolist() == [UNDECIDED]  # track 2 was the oldest when 3 came
    memory.begin([1])
    assert memory.majority("held", np.array([2]), 4).tolist() == [0]


def period_pipeline(clock):
    manifest, _ = bundles.held_example()
    manifest["stream"] = {"hold": "period", "votes": None, "period_s": 600, "acknowledged": None}
    manifest["stages"][2:5] = [
        {"stage": "draw", "distribution": "channel", "input": "label", "table": "channel", "output": "drawn"},
        {"stage": "hold", "op": "keep", "input": "drawn", "by": "label", "output": "kept"},
    ]
    manifest["outputs"] = [{"name": "code", "kind": "code", "tensor": "kept", "shape": [], "dtype": "int64"}]
    tables = {"channel": np.full((4, 256), 1, np.uint32), "pictures": np.zeros((256, 4), np.float32)}
    return Pipeline(parse(manifest), tables=tables, runners={}, clock=clock)


class Same:
    """A model that changes nothing."""

    def run(self, inputs):
        return {"output": inputs["image"]}

    def close(self):
        pass


def test_a_track_that_ended_is_gone_although_its_last_frames_have_still_to_leave():
    """Three threads: what comes after the model is done later, when others may have come under that number."""
    manifest, members = bundles.held_example()
    manifest["stages"][1]["input"] = "w"
    model = {"stage": "artefact", "model": "g", "inputs": {"image": "u"}, "outputs": {"output": "w"}}
    manifest["stages"].insert(1, model)
    tables = {name: np.load(io.BytesIO(members[entry["file"]])) for name, entry in manifest["tables"].items()}
    pipeline = Pipeline(parse(manifest), tables=tables, runners={"g": Same()})

    def inferred(label):
        batch = [pipeline.preprocess(frame) for frame in frames([label] * 3, [1] * 3)]
        for in_flight in batch:
            pipeline.infer(in_flight)
        return batch

    leaving = inferred(0)
    pipeline.forget(1)
    leaving += inferred(2)
    assert labels([pipeline.postprocess(in_flight) for in_flight in leaving]) == [4, 4, 0, 4, 4, 2]


def test_a_period_has_one_draw_for_each_class_whoever_is_there():
    now = [0.0]
    pipeline = period_pipeline(lambda: now[0])
    seen = {}
    for now[0] in (1.0, 599.0, 600.0, 1199.0):
        x = np.stack([OF[label] for label in (0, 1, 2, 3, 0, 1)])
        code = pipeline.run(x, tracks=range(6))["code"].tolist()
        assert code[:2] == code[4:]
        seen.setdefault(int(now[0] // 600), set()).add(tuple(code))
    assert {len(codes) for codes in seen.values()} == {1}
    assert seen[0] != seen[1]
    assert len(pipeline.track_memory._kept) == 1


def test_the_manifest_lets_nothing_unheld_out():
    manifest, members = bundles.held_example()
    manifest["stages"][4:5] = []  # drawn afresh for every frame, but from what is held: that tells no more
    manifest["stages"][4]["input"] = "drawn"
    check_manifest(bundles.with_members(manifest, members))
    manifest["stages"][3]["input"] = "label"
    with pytest.raises(BundleRefused) as caught:
        check_manifest(bundles.with_members(manifest, members))
    assert caught.value.reason == "unheld"


def bout_manifest(**stream):
    """Held by bout: the class leaves as it is read, and its code is kept."""
    manifest, members = bundles.held_example()
    manifest["stream"] = {
        **{"hold": "bout", "votes": None, "period_s": None, "acknowledged": "bouts leak", "gap": 2},
        **stream,
    }
    stages = [{**stage, "input": "label"} if stage.get("input") == "held" else stage for stage in manifest["stages"]]
    stages = [{**stage, "by": "label"} if stage.get("by") == "held" else stage for stage in stages]
    manifest["stages"] = [stage for stage in stages if stage.get("op") != "majority"]
    manifest["outputs"] = [{**one, "tensor": one["tensor"].replace("held", "label")} for one in manifest["outputs"]]
    return bundles.with_members(manifest, members)


def test_a_manifest_of_bouts():
    check_manifest(bout_manifest())


def test_a_manifest_of_bouts_of_which_no_stage_holds_anything_is_refused():
    manifest = bout_manifest()
    manifest["outputs"].append({"name": "code", "kind": "code", "tensor": "drawn", "shape": [], "dtype": "int64"})
    manifest["stages"] = [stage for stage in manifest["stages"] if stage["stage"] != "hold"]
    manifest["stages"][-2]["input"] = "drawn"
    with pytest.raises(BundleRefused) as caught:
        check_manifest(manifest)
    assert caught.value.reason == "stream-mismatch"


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ({"gap": 0}, "bad-value"),
        ({"acknowledged": None}, "wrong-type"),
        ({"acknowledged": ""}, "bad-value"),
        ({"votes": 3}, "bad-value"),
        ({"hold": "frame"}, "unknown-key"),
    ],
)
def test_what_a_manifest_of_bouts_may_not_say(stream, reason):
    with pytest.raises(BundleRefused) as caught:
        check_manifest(bout_manifest(**stream))
    assert caught.value.reason == reason
    assert "stream" in str(caught.value)


def test_a_bout_ends_with_its_gap_or_its_track():
    memory = TrackMemory(Stream("bout", gap=2))

    def sent(shown, track=0):
        out = []
        for value, label in shown:
            memory.begin([track])
            out += memory.keep("code", np.array([value]), np.array([label])).tolist()
            memory.commit()
        return out

    assert sent([(1, 0), (2, 0), (3, 1), (4, 0), (5, 1), (6, 1), (7, 0)]) == [1, 1, 3, 1, 3, 3, 7]
    assert sent([(8, 0)], track=1) == [8]
    assert len(memory._kept[0].kept["code"]) == 2
    memory.forget(0)
    assert sent([(9, 0)]) == [9]


def test_frames_of_one_draw_have_one_name_and_others_have_others():
    parts, tables = held_examples.parts("oue", "track")
    pipeline = local_examples.pipeline(parts, tables)

    def names(*tracks):
        made = [pipeline.perturb(RawFrame(OF[0], 0, track=track)) for track in tracks]
        return [frame.drawn for frame in made], [frame.data.tobytes() for frame in made]

    (one, two, again), (first, _, repeated) = names(1, 2, 1)
    assert one == again
    assert first == repeated
    assert len({0, one, two}) == 3
    together = pipeline.perturb_batch([RawFrame(OF[3], place, track=track) for place, track in enumerate([2, 1, 3])])
    assert [frame.drawn for frame in together][:2] == [two, one]
    pipeline.forget(1)
    assert names(1, 2)[0][1] == two
    assert names(1)[0][0] not in (0, one)
    pipeline.restart()
    assert names(2)[0][0] not in (0, two)
    bad = pipeline.perturb_batch([RawFrame(np.zeros(3, np.uint8), 0, track=2), RawFrame(OF[0], 1, track=2)])
    assert bad[0] == "shape"
    assert bad[1].drawn == names(2)[0][0]


def test_a_vote_gives_a_track_another_name():
    parts, _ = bundles.held_example()
    parts["spending"] = {"micro_epsilon": 10**7, "unit": "track", "most_micro_epsilon": 10**8, "period_s": None}
    parts["outputs"] = parts["outputs"][:1]
    tables = {
        name: np.load(io.BytesIO(bundles.held_example()[1][one["file"]])) for name, one in parts["tables"].items()
    }
    pipeline = local_examples.pipeline(parts, tables)
    drawn = [frame.drawn for frame in pipeline.perturb_batch(frames([1] * 6, [0] * 6))]
    assert drawn[0] == drawn[1] != drawn[2] == drawn[5]
    del parts["spending"]
    drawn = [frame.drawn for frame in local_examples.pipeline(parts, tables).perturb_batch(frames([1] * 6, [0] * 6))]
    assert set(drawn) == {0}
