"""The networks of every shipped recipe by Sony's own converter for the IMX500, a sensor that runs the network itself.

Sony's packages need TensorFlow 2.15, so they are in an environment of their own (scripts/environments/vendors, with a
Java runtime), where each network of a run of scripts/measure/converters.py (one of each architecture) is built again
with the same weights, quantised by Sony's toolkit and converted. What is finished stays in --work, and networks of the
paper's size with drawn weights stay in the record from an earlier version of this script. Nothing ran on a sensor.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.trainer.export.export import calibration_of
from edgeveil.trainer.graphs.macs import keras_macs
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts import record
from scripts.environments import pythons
from scripts.measure.converters import WORK

OUT = record.RESULTS / "imx500.json"
ROWS, LIMIT_S = 16, 300
PACKAGES = ("imx500-converter", "model-compression-toolkit", "tensorflow")
WORKER = """
import json, sys
import numpy as np, tensorflow as tf
import model_compression_toolkit as mct
L, folder = tf.keras.layers, sys.argv[1]
steps, saved = json.load(open(folder + "/steps.json")), np.load(folder + "/arrays.npz")
made, inputs, steps, last = {}, [], steps["steps"], steps["last"]
for kind, name, config, given in steps:
    if kind == "InputLayer":
        made[name] = L.Input(config, name=name)
        inputs.append(made[name])
        continue
    if kind.startswith("ops."):
        place = tf.nn if kind == "ops.relu" else tf.math
        made[name] = getattr(place, kind[4:])(*[made[one] if one in made else one for one in given])
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
model = tf.keras.Model(inputs, [made[one] for one in last])
rows = [saved["rows:" + one.name] for one in inputs]
def data():
    for row in range(len(rows[0])):
        yield [one[row:row + 1] for one in rows]
sensor = mct.get_target_platform_capabilities("tensorflow", "imx500")
quantised, _ = mct.ptq.keras_post_training_quantization(model, data, target_platform_capabilities=sensor)
def outputs(one):
    found = one(rows if len(rows) > 1 else rows[0])
    return [np.asarray(value) for value in (found if isinstance(found, (list, tuple)) else [found])]
got, exact = outputs(quantised), outputs(model)
mct.exporter.keras_export_model(model=quantised, save_model_path=folder + "/model.keras")
ours = max(float(np.abs(a - saved["expected:%d" % n]).max()) for n, a in enumerate(exact))
away = max(float(np.abs(a - b).mean()) for a, b in zip(got, exact))
json.dump({"as_built": ours, "mean_abs": away}, open(folder + "/off.json", "w"))
"""
KEYS = {  # of a layer's settings, those that both versions of Keras have
    "Conv2D": ("filters", "kernel_size", "strides", "padding", "use_bias", "activation"),
    "Dense": ("units", "use_bias", "activation"),
    "BatchNormalization": ("epsilon", "center", "scale"),
    "AveragePooling2D": ("pool_size", "strides", "padding"),
    "ReLU": ("max_value",),
    "Activation": ("activation",),
    "Reshape": ("target_shape",),
    "Permute": ("dims",),
    "Rescaling": ("scale", "offset"),
    "Concatenate": ("axis",),
    "Cropping2D": ("cropping",),
    "ResizeNearest": ("height", "width"),
}
IN_TRAINING = ("Dropout", "GaussianNoise")  # nothing at inference


def _steps(model: Any, given: list[str], steps: list[list[Any]], arrays: dict[str, np.ndarray]) -> list[str]:
    """Append the layers of a network whose inputs are the steps ``given``, and their weights; returns its outputs."""
    makers = {id(tensor): name for tensor, name in zip(model.inputs, given, strict=True)}
    nodes = [node for depth in sorted(model._nodes_by_depth, reverse=True) for node in model._nodes_by_depth[depth]]
    for node in nodes:
        layer, kind = node.operation, type(node.operation).__name__
        if kind == "InputLayer":
            continue
        sources = [makers[id(tensor)] for tensor in node.input_tensors]
        if hasattr(layer, "_nodes_by_depth"):
            made = _steps(layer, sources, steps, arrays)
        elif kind in IN_TRAINING:
            made = sources
        elif not hasattr(layer, "get_weights"):  # an operation of keras.ops, on tensors and numbers
            made = [f"step{len(steps)}"]
            steps.append([f"ops.{kind.lower()}", made[0], {}, [makers.get(id(a), a) for a in node.arguments.args]])
        else:
            name, config = f"step{len(steps)}", layer.get_config()
            some: Any = {key: config[key] for key in KEYS.get(kind, ())}
            steps.append([kind, name, list(some.values()) if kind == "ResizeNearest" else some, sources])
            arrays |= {f"{name}/{number:02}": value for number, value in enumerate(layer.get_weights())}
            made = [name]
        makers |= {id(tensor): name for tensor, name in zip(node.output_tensors, made, strict=True)}
    return [makers[id(tensor)] for tensor in model.outputs]


def _written(model: Any, rows: dict[str, np.ndarray], folder: Path) -> None:
    """The network's layers, weights and rows, for the worker."""
    steps: list[list[Any]] = [["InputLayer", one.name, list(one.shape[1:]), []] for one in model.inputs]
    arrays = {f"rows:{name}": values for name, values in rows.items()}
    given = list(rows.values())
    expected = model(given if len(given) > 1 else given[0], training=False)
    outputs = expected if isinstance(expected, (list, tuple)) else [expected]
    arrays |= {f"expected:{number}": np.asarray(value) for number, value in enumerate(outputs)}
    last = _steps(model, list(rows), steps, arrays)
    (folder / "steps.json").write_text(json.dumps({"steps": steps, "last": last}))
    np.savez(folder / "arrays.npz", **cast(Any, arrays))


def figures(model: Any, rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """What Sony's converter makes of a network, or what it printed last."""
    place = pythons.folder() / "imx500" / "bin"
    row: dict[str, Any] = {"macs": keras_macs(model).macs}
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name) / "out"
        _written(model, {one.name: rows[one.name][:ROWS] for one in model.inputs}, folder)
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
                return {**row, "refused": re.sub(r".*ERROR : | \[/.*\]$", "", errors[-1])[:300]}
        row |= json.loads((folder / "off.json").read_text())
        row |= {"seconds": time.monotonic() - begun, "bytes": (out / "packerOut.zip").stat().st_size}
        (memory,) = out.glob("*MemoryReport.json")
        return {**row, "memory": json.loads(memory.read_text())}


def of_recipe(name: str, work: Path, *, finished: bool) -> list[dict[str, Any]]:
    """A row for each network of the recipe's run; of an architecture that another recipe has, that recipe's figures.

    ``finished``: no network is converted that was not by now.
    """
    if why := record.read(work / f"{name}.json").get("refused"):
        return [{"recipe": name, "refused": why}]
    try:
        run = Run.open(work / f"{name}-run")
        fitted = run.perturber()
    except EdgeVeilError:
        return [{"recipe": name, "refused": "no run of scripts/measure/converters.py"}]
    rows = []
    calibration, _ = calibration_of(run, fitted)
    for model, network in fitted.models.items():
        digest = hashlib.sha256(network.to_json().encode()).hexdigest()[:16]
        path = work / "imx500" / f"{digest}.json"
        if finished and not path.is_file():
            return [{"recipe": name, "refused": "not run"}]
        found = record.kept(path, lambda n=network, m=model: figures(n, calibration[m]))
        rows.append({"recipe": name, "model": model, "architecture": digest, **found})
    return rows


def main() -> int:
    """Record the recipes that were named, or all."""
    names = Recipe.names()
    script = record.Script(__file__, __doc__, "mnist-prgan", out=OUT)
    script.add_argument("recipes", nargs="*", default=names, metavar="RECIPE", help="left out: all that ship")
    script.add_argument("--work", type=Path, default=WORK, help="folder of scripts/measure/converters.py")
    script.add_argument("--finished", action="store_true", help="record what was converted, and convert nothing")
    asked = script.parse_args()
    if unknown := [name for name in asked.recipes if name not in names]:
        script.error(f"expected names of {', '.join(names)}; got {', '.join(unknown)}")
    load_tensorflow()
    rows = [
        {**row, "recipe": f"{row['case']}, drawn weights", "architecture": row["case"]}
        for row in record.read(asked.out).get("networks", ())
        if row.get("case", "").startswith("paper-")
    ]
    for name in asked.recipes:
        print(name, file=sys.stderr, flush=True)
        rows += of_recipe(name, asked.work, finished=asked.finished)
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
