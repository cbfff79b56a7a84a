"""Each recipe's network as it ships, untrained: what a compiler takes of it does not depend on what it has learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.perturbers.codebook.training import below
from edgeveil.trainer.perturbers.prgan import build_generator
from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.training import classifiers
from scripts.reproduce import record

ROWS = 64  # of calibration
# One recipe for each form of network that ships.
FORMS = (
    *("faces-prgan", "faces-minimax", "faces-codebook", "wifi-prgan", "wifi-codebook"),
    *("digits-label-only", "motion-codebook"),
)


@dataclass(frozen=True)
class Untrained:
    """A Keras network, and real inputs (n, ...) of it by name: training rows in the unit cube, and drawn noise."""

    recipe: Recipe
    network: Any
    inputs: dict[str, np.ndarray]


Make = Callable[[str, Untrained], dict[str, Any]]


def rows(names: Sequence[str], make: Make, work: Path) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """What ``make`` finds of each recipe's network, None where what ships has none; kept in the folder ``work``."""

    def row(name: str) -> dict[str, Any] | None:
        one = _untrained(name)
        return None if one is None else make(name, one)

    for name in names:
        yield name, record.kept(work / f"{name}.json", partial(row, name))


def _untrained(name: str) -> Untrained | None:
    recipe = Recipe.find(name)
    dataset = datasets.load(recipe)
    made = _network(recipe, dataset)
    if made is None:
        return None
    rng = np.random.default_rng(1)
    # The last layer of a generator begins as zeros, which a converter leaves out.
    for weight in made.layers[-1].weights:
        weight.assign(rng.normal(0, 0.1, weight.shape).astype(np.float32))
    u = dataset.unit(dataset.x[dataset.slices.training()[:ROWS]])
    inputs = {
        one.name: u if place == 0 else rng.random((len(u), *one.shape[1:]), np.float32)
        for place, one in enumerate(made.inputs)
    }
    return Untrained(recipe, made, inputs)


def _network(recipe: Recipe, dataset: Dataset) -> Any | None:
    import keras

    keras.utils.set_random_seed(1)
    section, spec, classes = recipe.perturber, dataset.input, len(dataset.y_names)
    if hasattr(section, "generator"):
        return build_generator(spec, section.generator, noise=getattr(section, "noise", 0))
    if section.kind == "codebook":
        return _codebook(section, dataset)
    if section.kind == "label-only" or getattr(section, "of", None) == "label":
        architecture = getattr(section, "network", "target")
        if architecture == "target":
            architecture = recipe.classifiers.architecture
        return classifiers.build(architecture, spec, classes, width=getattr(section, "width", None))
    return None


def _codebook(section: Codebook, dataset: Dataset) -> Any:
    """An encoder: for the method "residual" with eight attributes kept, and all pairs of y and z."""
    from keras import layers

    from edgeveil.models import encoders

    groups, others = len(dataset.y_names), len(dataset.z_names)
    trunk = below(dataset.input, section)
    label = encoders.label_head(section.features, groups)
    if section.method == "funnel":
        head = encoders.code_head(section.features, groups, section.codes, width=section.width_of_head)
        return encoders.encoder(trunk, label, head)
    cells, kept, rng = groups * others, 8, np.random.default_rng(1)
    slope, offset = rng.normal(size=(cells, kept, section.codes)), rng.normal(size=(cells, section.codes))
    return encoders.residual_encoder(trunk, label, layers.Dense(cells), layers.Dense(kept), slope=slope, offset=offset)
