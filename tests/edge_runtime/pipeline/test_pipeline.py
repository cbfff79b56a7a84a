"""edgeveil.edge_runtime.pipeline.pipeline: stages in order, everything wrong drops the frame, nothing of it shows."""

import copy
import io
import traceback

import numpy as np
import pytest

from edgeveil.edge_runtime.api import BadInput, FrameDropped, PerturbedFrame, Pipeline, RawFrame, load_pipeline
from edgeveil.edge_runtime.manifest.manifest import parse, parse_table
from edgeveil.edge_runtime.pipeline.pipeline import read_array
from tests.support import bundles

SHAPE = [2, 3, 1]


class Runner:
    """Turns the image around; ``returns`` stands in for what it gives, or is raised."""

    def __init__(self, returns=None):
        self.returns, self.closed = returns, False

    def run(self, inputs):
        if isinstance(self.returns, Exception):
            raise self.returns
        return {"output": 1 - inputs["image"] if self.returns is None else self.returns}

    def close(self):
        self.closed = True


def description(dtype="uint8", **changes):
    high = 255.0
    text = {
        "input": {"name": "x", "kind": "image", "shape": SHAPE, "dtype": dtype, "low": 0.0, "high": high},
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", "low": 0.0, "high": high},
            {"stage": "artefact", "model": "g", "inputs": {"image": "u"}, "outputs": {"output": "v"}},
            {"stage": "output", "input": "v", "output": "x_out", "low": 0.0, "high": high, "dtype": dtype},
        ],
        "outputs": [{"name": "frame", "kind": "frame", "tensor": "x_out", "shape": SHAPE, "dtype": dtype}],
    }
    return {**text, **changes}


def pipeline(runner=None, dtype="uint8", **changes):
    return Pipeline(parse(description(dtype, **changes)), tables={}, runners={"g": runner or Runner()})


def readings(n=4, dtype="uint8"):
    return np.random.default_rng(0).integers(0, 256, (n, *SHAPE)).astype(dtype)


def test_the_stages_run_in_order():
    x = readings()
    assert np.array_equal(pipeline().run(x)["frame"], 255 - x)


def test_a_frame_goes_through_alone_and_in_a_batch():
    x = readings()
    frames = [RawFrame(row, index) for index, row in enumerate(x, 10)]
    alone = [pipeline().perturb(frame) for frame in frames]
    together = pipeline().perturb_batch(frames)
    for one, other, row in zip(alone, together, x, strict=True):
        assert isinstance(other, PerturbedFrame)
        assert one.index == other.index
        assert np.array_equal(one.data, 255 - row)
        assert np.array_equal(other.data, 255 - row)
    assert pipeline().perturb_batch([]) == []


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (np.zeros((2, 3), np.uint8), "shape"),
        (np.zeros((3, 2, 1), np.uint8), "shape"),
        (np.zeros((2, 3, 3), np.uint8), "shape"),
        (np.zeros((2, 3, 1), np.float32), "dtype"),
        (np.zeros((2, 3, 1), np.int8), "dtype"),
        (np.zeros((2, 3, 1), ">u2"), "dtype"),
    ],
)
def test_a_reading_of_another_form_is_dropped(x, reason):
    with pytest.raises(FrameDropped) as caught:
        pipeline().perturb(RawFrame(x, 0))
    assert caught.value.reason == reason


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reading_that_is_not_finite_is_dropped(value):
    x = readings(3, "float32")
    x[1, 0, 0, 0] = value
    results = pipeline(dtype="float32").perturb_batch([RawFrame(row, i) for i, row in enumerate(x)])
    assert results[1] == "not-finite"
    assert [type(result) for result in results] == [PerturbedFrame, str, PerturbedFrame]


def test_a_bad_frame_in_a_batch_costs_itself_alone():
    x = readings(3)
    frames = [RawFrame(x[0], 0), RawFrame(x[1].astype(np.float32), 1), RawFrame(x[2][:1], 2), RawFrame(x[2], 3)]
    results = pipeline().perturb_batch(frames)
    assert [result if isinstance(result, str) else result.index for result in results] == [0, "dtype", "shape", 3]


@pytest.mark.parametrize(
    ("returns", "reason"),
    [
        (np.full((1, *SHAPE), np.nan, np.float32), "not-finite"),
        (np.full((2, *SHAPE), 0.5, np.float32), "shape"),
        (np.full((1, 2, 3, 2), 0.5, np.float32), "output-shape"),
        (np.full((1, 6), 0.5, np.float32), "output-shape"),
        (ValueError("171"), "error"),
        (MemoryError(), "error"),
        (FrameDropped("backend"), "backend"),
    ],
)
def test_a_wrong_result_is_dropped(returns, reason):
    with pytest.raises(FrameDropped) as caught:
        pipeline(Runner(returns)).perturb(RawFrame(readings(1)[0], 0))
    assert caught.value.reason == reason


def test_an_output_of_another_type_than_promised_is_dropped():
    changed = description()
    changed["outputs"][0]["dtype"] = "int16"
    with pytest.raises(FrameDropped, match="output-dtype"):
        pipeline(outputs=changed["outputs"]).run(readings())


def test_an_error_on_the_way_shows_nothing_of_the_frame():
    """Not its text, not its cause, not the variables of its traceback."""
    frame = RawFrame(np.full(SHAPE, 171, np.uint8), 3)
    failing = pipeline(Runner(ValueError("could not handle 171, 171, 171")))
    with pytest.raises(FrameDropped) as caught:
        failing.perturb(frame)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    inside = [frame for frame in told.stack if frame.filename.endswith("pipeline.py")]
    assert inside
    for line in [str(told), *(str(frame.locals) for frame in inside)]:
        assert "171" not in line


def test_a_batch_does_not_turn_readings_of_another_type_into_the_right_one():
    x = readings(2)
    results = pipeline(dtype="float32").perturb_batch([RawFrame(x[0].astype(np.float32), 0), RawFrame(x[1], 1)])
    assert isinstance(results[0], PerturbedFrame)
    assert results[1] == "dtype"


def test_what_comes_out_is_memory_of_its_own():
    runner = Runner(np.full((1, *SHAPE), 0.5, np.float32))
    code = [{"name": "code", "kind": "code", "tensor": "v", "shape": SHAPE, "dtype": "float32"}]
    out = pipeline(runner, dtype="float32", outputs=code).run(readings(1, "float32"))["code"]
    assert not np.shares_memory(out, runner.returns)
    out[:] = 0
    assert runner.returns.min() == 0.5


def test_recorded_draws_stand_in_for_the_generator():
    text = description()
    text["stages"].insert(0, {"stage": "draw", "distribution": "uniform", "output": "noise", "shape": [3]})
    text["stages"][2]["inputs"]["noise"] = "noise"
    seen = []

    class Keeps(Runner):
        def run(self, inputs):
            seen.append(inputs["noise"])
            return super().run(inputs)

    made = Pipeline(parse(text), tables={}, runners={"g": Keeps()})
    recorded = np.arange(12, dtype=np.float32).reshape(4, 3)
    made.run(readings(), {"noise": recorded})
    assert np.array_equal(seen[-1], recorded)
    made.run(readings())
    made.run(readings())
    assert seen[-1].shape == (4, 3)
    assert not np.array_equal(seen[-1], seen[-2])
    for wrong in ({}, {"noise": recorded[:3]}, {"noise": recorded[:, :2]}):
        with pytest.raises(BadInput, match=r"noise.*\(4, 3\)"):
            made.run(readings(), wrong)


def test_table_synthesis_and_channel():
    for example in (bundles.numpy_example, bundles.channel_example):
        manifest, members = example()
        made = load_pipeline(parse(manifest), members, "numpy")
        draws = {name: np.load(io.BytesIO(members[file])) for name, file in manifest["golden"]["draws"].items()}
        out = made.run(np.load(io.BytesIO(members["golden/input.npy"])), draws or None)
        for name, file in manifest["golden"]["outputs"]["numpy"].items():
            expected = np.load(io.BytesIO(members[file]))
            assert np.array_equal(out[name], expected)
            assert out[name].dtype == expected.dtype


def test_a_channel_draws_for_every_frame():
    manifest, members = bundles.channel_example()
    made = load_pipeline(parse(manifest), members, "numpy")
    x = np.tile(np.array([[9, 1, 2, 3]], np.uint8), (4000, 1))
    counts = np.bincount(made.run(x)["code"], minlength=4) / 4000
    assert np.abs(counts - np.array([10, 2, 2, 2]) / 16).max() < 0.1


@pytest.mark.parametrize("code", [-1, 4])
def test_a_code_outside_its_table_is_dropped(code):
    manifest, members = bundles.channel_example()
    stage = {"stage": "synthesis", "op": "row", "input": "code", "table": "means", "output": "v"}
    manifest["stages"] = [*manifest["stages"], stage]
    manifest["outputs"] = [{"name": "code", "kind": "code", "tensor": "v", "shape": [4], "dtype": "float32"}]
    means, q = np.zeros((4, 4), np.float32), read_array(members, parse_table(manifest["tables"]["q"]))
    made = Pipeline(parse(manifest), tables={"means": means, "q": q}, runners={})
    with pytest.raises(FrameDropped, match="code-range"):
        made.run(np.zeros((1, 4), np.uint8), {"code": np.array([code])})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t["stages"].pop(0), "uses 'u'"),
        (lambda t: t["stages"].append(t["stages"][0]), "second 'u'"),
        (lambda t: t["stages"][1].update(model="other"), "model 'other'"),
        (lambda t: t["stages"][0].update(stage="blur"), "stage of"),
        (lambda t: t["stages"].insert(0, {"stage": "draw", "distribution": "normal", "output": "n"}), "'draw normal'"),
        (lambda t: t["outputs"].clear(), "outputs"),
        (lambda t: t["outputs"][0].update(tensor="x"), "outputs"),
        (lambda t: t["outputs"][0].update(tensor="nowhere"), "nowhere"),
        (lambda t: t["stages"][0].update(high=0.0), "low < high"),
    ],
)
def test_a_description_that_does_not_hold_together_is_refused(change, match):
    text = copy.deepcopy(description())
    change(text)
    with pytest.raises(BadInput, match=match):
        Pipeline(parse(text), tables={}, runners={"g": Runner()})


def test_a_table_that_is_not_there_or_not_as_said_is_refused():
    manifest, members = bundles.numpy_example()
    with pytest.raises(BadInput, match="table 'means'"):
        Pipeline(parse(manifest), tables={}, runners={})
    manifest["tables"]["means"]["shape"] = [4, 5]
    with pytest.raises(BadInput, match=r"means\.npy"):
        load_pipeline(parse(manifest), members, "numpy")


def test_an_artefact_that_is_not_there_is_named():
    manifest, members = bundles.artefact_example()
    with pytest.raises(BadInput, match=r"no artefact 'onnx-int8'; it has onnx-float32, tflite-int8"):
        load_pipeline(parse(manifest), members, "onnx-int8")


def test_close_lets_the_runners_go():
    runner = Runner()
    pipeline(runner).close()
    assert runner.closed
