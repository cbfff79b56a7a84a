"""A small real perturber with real artefacts for tests of what runs on boards: strided convolution, resize, sigmoid.

Images uint8 (12, 12, 1) in 0..255 and 4 random numbers in, an image out. Untrained: what it computes is nonsense, and
the same nonsense on every interpreter. Needs TensorFlow, which takes some seconds once a process.
"""

from __future__ import annotations

import copy
import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.converters.tf_lite import TfLite
from tests.support import bundles, seeds

SHAPE = (12, 12, 1)
VARIANTS = ("tflite-int8", "tflite-float32", "onnx-float32", "onnx-int8")


def example() -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members of a bundle with ``VARIANTS``; ``bundles.make_bundle(folder, example=example())``."""
    return copy.deepcopy(_example())


@functools.lru_cache(maxsize=1)
def _example() -> tuple[dict[str, Any], dict[str, bytes]]:
    model = _generator()
    rng = np.random.default_rng(0)
    rows = {"image": rng.random((32, *SHAPE), np.float32), "noise": rng.random((32, 4), np.float32)}
    rows["image"][0], rows["image"][1] = 0, 1  # so that images come out at a scale of 1/255
    files = {f"tflite-{p}": data for p, data in TfLite().convert(model, ("float32", "int8"), rows).items()}
    files |= {f"onnx-{p}": data for p, data in Tf2Onnx().convert(model, ("float32", "int8"), rows).items()}
    manifest, members = bundles.artefact_example(audited=False)
    manifest = copy.deepcopy(manifest)
    members = {bundles.RUNTIME_MEMBER: members[bundles.RUNTIME_MEMBER]}
    manifest["name"] = "tiny"
    manifest["input"] |= {"shape": list(SHAPE), "high": 255.0}
    for stage in manifest["stages"]:
        if "high" in stage:
            stage["high"] = 255.0
        if stage["stage"] == "draw":
            stage["shape"] = [4]
    manifest["outputs"][0]["shape"] = list(SHAPE)
    artefacts = {}
    for variant in VARIANTS:
        form, precision = variant.split("-")
        name = f"artefacts/generator.{variant}.{form}"
        members[name] = files[variant]
        artefacts[variant] = {
            "file": name,
            "format": form,
            "precision": precision,
            "sha256": hashlib.sha256(files[variant]).hexdigest(),
            "weight_bytes": 1,
            **_tensors(form, files[variant]),
            "tolerance": {"max_abs": 4.0},
        }
    manifest["models"]["generator"]["artefacts"] = artefacts
    manifest["preference"] = list(VARIANTS)
    manifest["profiles"] = {"workstation": {"artefacts": list(VARIANTS), "backends": ["tflite", "onnx"]}}
    x = rng.integers(0, 256, (3, *SHAPE)).astype(np.uint8)
    noise = rng.random((3, 4), np.float32)
    members["golden/input.npy"], members["golden/draws.noise.npy"] = bundles.npy(x), bundles.npy(noise)
    manifest["golden"]["outputs"] = {v: {"frame": f"golden/{v}.frame.npy"} for v in VARIANTS}
    for variant in VARIANTS:
        pipeline = load_pipeline(parse(manifest), members, variant, kernels="reference")
        members[f"golden/{variant}.frame.npy"] = bundles.npy(pipeline.run(x, {"noise": noise})["frame"])
    return manifest, members


def backend(manifest: dict[str, Any], members: dict[str, bytes], variant: str, **options: Any) -> Any:
    """The generator of an example on one interpreter."""
    entry = manifest["models"]["generator"]["artefacts"][variant]
    return open_backend(entry["format"], members[entry["file"]], entry, **options)


def _generator() -> Any:
    import keras

    keras.utils.set_random_seed(seeds.seed(7))
    image = keras.Input(SHAPE, name="image")
    noise = keras.Input((4,), name="noise")
    x = keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(image)
    spread = keras.layers.Reshape((6, 6, 1))(keras.layers.Dense(36, activation="relu")(noise))
    x = keras.layers.Concatenate()([x, spread])
    x = keras.layers.UpSampling2D(2, interpolation="bilinear")(x)
    x = keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid", name="output")(x)
    return keras.Model([image, noise], x)


def _tensors(form: str, data: bytes) -> dict[str, Any]:
    if form == "tflite":
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(model_content=data)
        details = interpreter.get_input_details(), interpreter.get_output_details()
        facts = [
            [(d["name"], d["shape"].tolist(), np.dtype(d["dtype"]).name, d["quantization"]) for d in end]
            for end in details
        ]
    else:
        import onnxruntime

        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        facts = [
            [(t.name, t.shape, "float32", (0.0, 0)) for t in end]
            for end in (session.get_inputs(), session.get_outputs())
        ]
    return {
        "inputs": [_entry("image" if len(fact[1]) == 4 else "noise", *fact) for fact in facts[0]],
        "outputs": [_entry("output", *fact) for fact in facts[1]],
    }


def _entry(name: str, tensor: str, shape: list[int], dtype: str, quantization: tuple[float, int]) -> dict[str, Any]:
    scale, zero_point = quantization if dtype == "int8" else (None, None)
    return {"name": name, "tensor": tensor, "shape": shape, "dtype": dtype, "scale": scale, "zero_point": zero_point}


def write(folder: Path) -> bundles.Made:
    """The bundle of ``example()`` in a folder, with its trust folder."""
    return bundles.make_bundle(folder, example=example())
