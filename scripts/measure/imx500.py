"""Each generator of scripts/measure/converters.py, with drawn weights, by Sony's own converter for the IMX500.

The sensor runs the network itself. Sony's packages need TensorFlow 2.15, so they are in an environment of their own
(scripts/environments/vendors, with a Java runtime), where the network is built again with the same weights, quantised
by Sony's toolkit and converted. Nothing ran on a sensor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.trainer.graphs.macs import keras_macs
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts import record
from scripts.environments import pythons
from scripts.measure.converters import SIZES, network

OUT = record.RESULTS / "imx500.json"
ROWS, LIMIT_S = 16, 300
PACKAGES = ("imx500-converter", "model-compression-toolkit", "tensorflow")
WORKER = """
import json, sys
import numpy as np, tensorflow as tf
import model_compression_toolkit as mct
L, folder = tf.keras.layers, sys.argv[1]
steps, saved = json.load(open(folder + "/steps.json")), np.load(folder + "/arrays.npz")
made, inputs = {}, []
for kind, name, config, given in steps:
    if kind == "InputLayer":
        made[name] = L.Input(config, name=name)
        inputs.append(made[name])
        continue
    if kind == "ResizeNearest":
        layer = L.Resizing(*config, interpolation="nearest", name=name)
    elif kind == "UnitClip":
        layer = L.ReLU(1.0, name=name)
    else:
        layer = getattr(L, kind)(name=name, **config)
    values = [made[one] for one in given]
    made[name] = layer(values[0] if len(values) == 1 else values)
    weights = [saved[key] for key in sorted(saved.files) if key.startswith(name + "/")]
    if weights:
        layer.set_weights(weights)
model = tf.keras.Model(inputs, made[name])
rows = [saved["rows:" + one.name] for one in inputs]
def data():
    for row in range(len(rows[0])):
        yield [one[row:row + 1] for one in rows]
sensor = mct.get_target_platform_capabilities("tensorflow", "imx500")
quantised, _ = mct.ptq.keras_post_training_quantization(model, data, target_platform_capabilities=sensor)
got, exact = (np.asarray(one(rows if len(rows) > 1 else rows[0])) for one in (quantised, model))
mct.exporter.keras_export_model(model=quantised, save_model_path=folder + "/model.keras")
ours = float(np.abs(exact - saved["expected"]).max())
json.dump({"as_built": ours, "mean_abs": float(np.abs(got - exact).mean())}, open(folder + "/off.json", "w"))
"""
KEYS = {
    "Conv2D": ("filters", "kernel_size", "strides", "padding"),
    "Dense": ("units",),
    "ReLU": ("max_value",),
    "Activation": ("activation",),
    "Reshape": ("target_shape",),
    "Cropping2D": ("cropping",),
}


def _written(model: Any, rows: dict[str, np.ndarray], folder: Path) -> None:
    """The network's layers, weights and rows, for the worker."""
    makers = {id(layer.output): layer.name for layer in model.layers}
    steps, arrays = [], {f"rows:{name}": values for name, values in rows.items()}
    given = list(rows.values())
    arrays["expected"] = np.asarray(model(given if len(given) > 1 else given[0], training=False))
    for layer in model.layers:
        kind, config = type(layer).__name__, layer.get_config()
        if kind == "InputLayer":
            steps.append([kind, layer.name, list(layer.output.shape[1:]), []])
            continue
        some: Any = {key: config[key] for key in KEYS.get(kind, ())}
        if kind == "ResizeNearest":
            some = [config["height"], config["width"]]
        sources = layer.input if isinstance(layer.input, (list, tuple)) else [layer.input]
        steps.append([kind, layer.name, some, [makers[id(one)] for one in sources]])
        arrays |= {f"{layer.name}/{number}": value for number, value in enumerate(layer.get_weights())}
    (folder / "steps.json").write_text(json.dumps(steps))
    np.savez(folder / "arrays.npz", **cast(Any, arrays))


def figures(case: str) -> dict[str, Any]:
    """What Sony's converter makes of a generator, or what it printed last."""
    model, rows, _ = network(case, Path())
    place = pythons.folder() / "imx500" / "bin"
    row: dict[str, Any] = {"case": case, "macs": keras_macs(model).macs}
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name) / "out"
        _written(model, {key: values[:ROWS] for key, values in rows.items()}, folder)
        begun = time.monotonic()
        convert = [place / "imxconv-tf", "-i", folder / "model.keras", "-o", out, "--no-input-persistency"]
        for command in ([place / "python", "-c", WORKER, name], convert):
            environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}
            done = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, check=False, timeout=LIMIT_S, env=environment
            )
            if done.returncode:
                lines = (done.stdout + done.stderr).replace(name, "").strip().splitlines()
                errors = [line for line in lines if "error" in line.lower()] or lines[-1:]
                return {**row, "refused": errors[-1][:300]}
        row |= json.loads((folder / "off.json").read_text())
        row |= {"seconds": time.monotonic() - begun, "bytes": (out / "packerOut.zip").stat().st_size}
        (memory,) = out.glob("*MemoryReport.json")
        return {**row, "memory": json.loads(memory.read_text())}


def main() -> int:
    """Record the networks that were named, or all."""
    script = record.Script(__file__, __doc__, "mnist-prgan", out=OUT)
    script.add_argument("cases", nargs="*", default=list(SIZES), metavar="NAME", help=f"of {', '.join(SIZES)}")
    asked = script.parse_args()
    if unknown := [name for name in asked.cases if name not in SIZES]:
        script.error(f"expected names of {', '.join(SIZES)}; got {', '.join(unknown)}")
    load_tensorflow()
    rows = []
    for case in asked.cases:
        print(case, file=sys.stderr)
        rows.append(figures(case))
    asked_for = f"import importlib.metadata as m; print(*map(m.version, {PACKAGES}))"
    python = str(pythons.folder() / "imx500" / "bin" / "python")
    versions = subprocess.run([python, "-c", asked_for], capture_output=True, text=True, check=True).stdout.split()
    record.write(
        asked.out,
        script.made_by(asked),
        {**record.here(), "vendor": dict(zip(PACKAGES, versions, strict=True)), "networks": rows},
    )
    return 0


if __name__ == "__main__":
    record.run(main)
