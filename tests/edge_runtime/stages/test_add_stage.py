"""The Laplace mechanism on the board: whole steps on a grid, cut at its ends, fresh for every frame."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import Stage, parse
from edgeveil.edge_runtime.pipeline.compiler import compile_stage
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from tests.support import bundles


def pipeline(change=None):
    text, _ = bundles.laplace_example()
    if change:
        change(text)
    return Pipeline(parse(text), tables={}, runners={})


def test_steps_are_added_and_cut_at_the_ends_of_the_range():
    x = np.array([[0, 16, 8, 8], [1, 2, 3, 4]], np.uint8)
    noise = np.array([[-1, 1, 2**62, -(2**62)], [-3, 5, 0, 12]], np.int64)
    out = pipeline().run(x, {"noise": noise})["frame"]
    assert out.dtype == np.uint8
    assert out.tolist() == [[0, 16, 16, 0], [0, 7, 3, 16]]


def test_a_bundle_of_it_opens_and_perturbs(tmp_path):
    made = bundles.make_bundle(tmp_path, example=bundles.laplace_example())
    with Perturber.open(made.path, trust=made.trust) as perturber:
        sent = [perturber.perturb(RawFrame(np.full(4, 8, np.uint8), i)).outputs["frame"] for i in range(200)]
    assert len({frame.tobytes() for frame in sent}) > 150
    assert abs(np.mean(sent) - 8) < 1


@pytest.mark.parametrize("noise", [np.zeros((1, 4)), np.zeros((1, 4), np.int32)])
def test_noise_of_another_type_drops_the_frame(noise):
    with pytest.raises(FrameDropped, match="shape"):
        pipeline().run(np.zeros((1, 4), np.uint8), {"noise": noise})


def test_readings_of_sixteen_bits_keep_every_level():
    def wide(text):
        text["input"].update(dtype="uint16", high=65535.0)
        text["stages"][0]["high"] = text["stages"][3]["high"] = 65535.0
        text["stages"][3]["dtype"] = text["outputs"][0]["dtype"] = "uint16"
        text["stages"][2]["levels"] = 65535

    x = np.arange(65536, dtype=np.uint16).reshape(-1, 4)
    assert (pipeline(wide).run(x, {"noise": np.zeros(x.shape, np.int64)})["frame"] == x).all()


def test_a_model_behind_it_sees_the_grid_alone():
    stage = {"stage": "add", "input": "u", "noise": "noise", "levels": 4, "output": "v"}
    flow = {"u": np.array([[0.0, 0.3, 0.6, 1.0]], np.float32), "noise": np.array([[-1, 1, 0, 3]])}
    compile_stage(Stage(stage), None)(flow)
    assert flow["v"].tolist() == [[0.0, 0.5, 0.5, 1.0]]
    assert flow["v"].dtype == np.float32
