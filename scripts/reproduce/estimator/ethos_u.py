"""Every recipe's int8 networks on Arm's Ethos-U NPUs: what the NPU takes and how long Vela expects a frame to take.

The networks are those of the recipes, untrained, with their real inputs as calibration rows: which operations the NPU
takes does not depend on what a network has learned, and its time hardly (Vela packs the weights). Nothing is run. Takes
two minutes. Records docs/results/devices/ethos-u.json; exit code 3 where an operation is left to a CPU.

    EDGEVEIL_DATA=... python -m scripts.reproduce.estimator.ethos_u
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.export.convert import to_tflite
from edgeveil.trainer.graphs import vela
from edgeveil.trainer.graphs.cost import file_cost
from edgeveil.trainer.perturbers.prgan import build_generator
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.training import classifiers
from scripts.reproduce import record

RESULT = Path("docs/results/devices/ethos-u.json")
NPUS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
ROWS = 64  # of calibration


def network(recipe: Recipe, dataset: Dataset) -> Any | None:
    """The recipe's network as it ships, untrained; None where what ships has none."""
    import keras

    keras.utils.set_random_seed(1)
    section, spec, classes = recipe.perturber, dataset.input, len(dataset.y_names)
    if hasattr(section, "generator"):
        return build_generator(spec, section.generator, noise=getattr(section, "noise", 0))
    if section.kind == "codebook":
        return codebook(section, spec, classes, len(dataset.z_names))
    if section.kind == "label-only" or getattr(section, "of", None) == "label":
        architecture = getattr(section, "network", "target")
        if architecture == "target":
            architecture = recipe.classifiers.architecture
        return classifiers.build(architecture, spec, classes, width=getattr(section, "width", None))
    return None


def codebook(section: Codebook, spec: InputSpec, groups: int, others: int) -> Any:
    """An encoder: for the method "residual" with eight attributes kept, and all pairs of y and z."""
    from keras import layers

    from edgeveil.models import encoders

    if spec.kind == "image":
        height, wide, channels = spec.shape
        trunk = encoders.image_trunk((height, wide, channels), width=section.width, features=section.features)
    else:
        trunk = encoders.vector_trunk(spec.shape[0], width=section.width, features=section.features)
    label = encoders.label_head(section.features, groups)
    if section.method == "funnel":
        head = encoders.code_head(section.features, groups, section.codes, width=section.width_of_head)
        return encoders.encoder(trunk, label, head)
    cells, kept, rng = groups * others, 8, np.random.default_rng(1)
    slope, offset = rng.normal(size=(cells, kept, section.codes)), rng.normal(size=(cells, section.codes))
    return encoders.residual_encoder(trunk, label, layers.Dense(cells), layers.Dense(kept), slope=slope, offset=offset)


def placed(name: str) -> dict[str, Any] | None:
    """One recipe's row; None where what ships has no network."""
    recipe = Recipe.find(name)
    dataset = datasets.load(recipe)
    if (made := network(recipe, dataset)) is None:
        return None
    rng = np.random.default_rng(1)
    for weight in made.layers[
        -1
    ].weights:  # the last layer of a generator begins as zeros, which a converter leaves out
        weight.assign(rng.normal(0, 0.1, weight.shape).astype(np.float32))
    u = dataset.unit(dataset.x[dataset.slices.training()[:ROWS]])
    inputs = {
        one.name: u if place == 0 else rng.random((len(u), *one.shape[1:]), np.float32)
        for place, one in enumerate(made.inputs)
    }
    data = to_tflite.convert(made, ["int8"], inputs)["int8"]
    cost = file_cost(data, "tflite")
    on = [vela.place(data, npu).document() for npu in NPUS]
    return {"recipe": name, "kind": recipe.perturber.kind, "macs": cost.macs, "parameters": cost.parameters, "on": on}


def _text(row: dict[str, Any] | None) -> str:
    if row is None:
        return "no network"
    return "; ".join(f"{one['npu']} {one['on_npu']} on, {one['on_cpu']} off, {one['ms']:.3g} ms" for one in row["on"])


def main() -> int:
    """Compile all of them and write the record."""
    script = record.Script(__file__, __doc__, "faces-prgan")
    script.add_argument("recipes", nargs="*", metavar="RECIPE", help="these alone, and no record")
    asked = script.parse_args()
    load_tensorflow()
    rows, without = [], []
    for name in asked.recipes or Recipe.names():
        row = placed(name)
        say(f"{name}: {_text(row)}")
        if row is None:
            without.append(name)
        else:
            rows.append(row)
    left = sum(one["on_cpu"] for row in rows for one in row["on"])
    if asked.recipes:
        return 3 if left else 0
    document = {
        "kind": "ethos-u",
        "what": __doc__.splitlines()[0],
        "vela": vela.version(),
        "npus": list(NPUS),
        "left_to_a_cpu": left,
        "rows": rows,
        "without_a_network": without,
        **record.here(),
    }
    record.write(RESULT, script.path, document)
    return 3 if left else 0


if __name__ == "__main__":
    record.run(main)
