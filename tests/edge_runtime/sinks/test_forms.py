"""PNG, JPEG and JSON of records: what other software reads is what left, in as many bytes whatever it shows."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.late_imports import decoded
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.sinks import forms, wire
from tests.support import network_receivers


def bundle(shape, dtype="uint8", kind="image", low=0.0, high=255.0):
    """A manifest of frames of that shape, with a label of the classes é and "b"."""
    document = {
        "name": "hall",
        "created": "2026-11-21T12:00:00Z",
        "security_version": 1,
        "perturber": {"kind": "prgan", "target": "posture", "sensitive": "who", "target_classes": ["é", '"b"']},
        "input": {"name": "x", "kind": kind, "shape": list(shape), "dtype": dtype, "low": low, "high": high},
        "outputs": [
            {"name": "frame", "kind": "frame", "tensor": "x_out", "shape": list(shape), "dtype": dtype},
            {"name": "label", "kind": "label", "tensor": "label", "shape": [], "dtype": "int64"},
        ],
        "privacy": {"file": None, "speaks_of": {}},
    }
    return parse(document)


def record(frame, label=0, index=7, tick_ns=10**18, slot=0):
    return wire.Record("00" * 8 + "-5", index, tick_ns, slot, {"frame": frame, "label": np.int64(label)})


def scenes(shape):
    """An empty one, noise of all sorts, and a checkerboard, which costs a JPEG most."""
    board = (np.indices(shape).sum(axis=0) % 2 * 255).astype(np.uint8)
    noise = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
    return [np.zeros(shape, np.uint8), noise, (noise > 127).astype(np.uint8) * 255, board, np.sort(noise, axis=0)]


@pytest.mark.parametrize("shape", [(4, 5, 1), (33, 47, 3), (64, 64, 1), (120, 160, 3)])
def test_a_png_is_the_frame_and_its_size_says_nothing(shape):
    form = forms.PngForm(bundle(shape).outputs, bundle(shape))
    made = [form.encode(record(scene)) for scene in scenes(shape)]
    assert len({len(one) for one in made}) == 1
    for one, scene in zip(made, scenes(shape), strict=True):
        seen = decoded(one)
        assert np.array_equal(seen.reshape((*shape[:2], -1))[:, :, ::-1], scene.reshape(shape))


@pytest.mark.parametrize("rgb", [False, True])
@pytest.mark.parametrize("shape", [(4, 5, 1), (33, 47, 3), (64, 64, 1), (120, 160, 3)])
def test_a_jpeg_is_like_the_frame_and_its_size_says_nothing(shape, rgb):
    form = forms.JpegForm(bundle(shape).outputs, bundle(shape), rgb=rgb)
    made = [form.encode(record(scene)) for scene in scenes(shape)]
    assert {len(one) for one in made} == {form.size}
    assert all(one[:2] == b"\xff\xd8" and one[-2:] == b"\xff\xd9" for one in made)
    smooth = np.linspace(0, 255, int(np.prod(shape))).reshape(shape).astype(np.uint8)
    seen = decoded(form.encode(record(smooth)))
    assert (seen.ndim == 3) == (rgb or shape[2] == 3)
    seen = seen.reshape((*shape[:2], -1))[:, :, ::-1].astype(int)
    assert np.abs(seen - smooth).mean() < 12 if shape[2] == 3 else np.abs(seen - smooth).max() < 12


@pytest.mark.parametrize(
    ("dtype", "extremes"),
    [
        ("uint8", [0, 255]),
        ("int16", [-(2**15), 2**15 - 1]),
        ("int64", [-(2**63), 2**63 - 1]),
        ("float32", [0.0, 1.0, np.nan, np.inf, np.finfo("f4").min, -np.finfo("f4").tiny, 0.1, -1.2345678e-39]),
        ("float64", [np.finfo("f8").min, -np.finfo("f8").tiny, 1 / 3]),
    ],
)
def test_json_is_every_output_and_its_size_says_nothing(dtype, extremes):
    manifest = bundle((3, 2), dtype, kind="vector", low=0.0, high=1.0)
    form = forms.JsonForm(manifest.outputs, manifest)
    frames = [np.full((3, 2), value, dtype) for value in extremes]
    made = [form.encode(record(one, label=n % 3, index=2**40 * n, slot=n)) for n, one in enumerate(frames)]
    made.append(form.encode(record(frames[0], 2**40, 2**64 - 1, None, 65535)))
    assert {len(one) for one in made} == {form.size}
    for one, frame in zip(made[:-1], frames, strict=True):
        values = np.array(json.loads(one)["outputs"]["frame"], float)
        finite = np.where(np.isfinite(frame), frame, np.nan) if frame.dtype.kind == "f" else frame
        assert np.array_equal(values, finite.astype(float), equal_nan=True)
    assert [json.loads(one)["names"]["label"] for one in made[:2]] == ["é", '"b"']
    first = json.loads(made[0])
    assert (first["kind"], first["id"], first["tick"], first["bundle"]) == (
        "edgeveil-frame",
        "00" * 8 + "-5",
        0,
        "hall",
    )
    assert json.loads(made[-1])["names"]["label"] is None


def test_a_vector_is_a_picture_too():
    outputs = network_receivers.OUTPUTS[1:]
    made = [forms.PngForm(outputs, None).encode(record(None, label)) for label in (0, 200)]
    assert len(made[0]) == len(made[1])
    assert made[0] != made[1]
