"""Each recipe's network as it ships, untrained: what a compiler takes of it does not depend on what it has learned."""

from __future__ import annotations

import hashlib
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
# The sections of a recipe that say nothing of its data.
NO_DATA = {"name", "description", "classifiers", "perturber", "spending", "head", "budget", "limits", "certificate"}
NO_DATA |= {"count"}
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

    def digest(self) -> str:
        """The same for recipes that ship the same network with the same inputs."""
        found = hashlib.sha256(self.network.to_json().encode())
        for values in (*(weight.numpy() for weight in self.network.weights), *self.inputs.values()):
            found.update(values.tobytes())
        return found.hexdigest()


Make = Callable[[str, Untrained], dict[str, Any]]
Load = Callable[[Recipe], Dataset]


def rows(names: Sequence[str], make: Make, work: Path) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """What ``make`` finds of each recipe's network, None where what ships has none; kept in the folder ``work``."""
    load = _loader()

    def row(name: str) -> dict[str, Any] | None:
        one = _untrained(Recipe.find(name), load)
        return None if one is None else make(name, one)

    for name in names:
        yield name, record.kept(work / f"{name}.json", partial(row, name))


def _loader() -> Load:
    """Loads data sets; recipes that follow each other and ask for the same data get what the first of them got."""
    last: dict[Any, Dataset] = {}

    def load(recipe: Recipe) -> Dataset:
        asked = recipe.model_dump_json(exclude=NO_DATA), recipe.budget.rows, recipe.perturber.unbounded, recipe.promises
        if asked not in last:
            last.clear()
            last[asked] = datasets.load(recipe)
        return last[asked]

    return load


def _untrained(recipe: Recipe, load: Load) -> Untrained | None:
    build = _builder(recipe)
    if build is None:
        return None
    import keras

    dataset = load(recipe)
    keras.utils.set_random_seed(1)
    made = build(dataset)
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


def _builder(recipe: Recipe) -> Callable[[Dataset], Any] | None:
    """What builds the network that a recipe ships; None where that has none."""
    section = recipe.perturber
    if hasattr(section, "generator"):
        noise = getattr(section, "noise", 0)
        return lambda dataset: build_generator(dataset.input, section.generator, noise=noise)
    if isinstance(section, Codebook):
        return partial(_codebook, section)
    if section.kind == "label-only" or getattr(section, "of", None) == "label":
        architecture = getattr(section, "network", "target")
        if architecture == "target":
            architecture = recipe.classifiers.architecture
        width = getattr(section, "width", None)
        return lambda dataset: classifiers.build(architecture, dataset.input, len(dataset.y_names), width=width)
    return None


def _codebook(section: Codebook, dataset: Dataset) -> Any:
    """An encoder: for the method "residual" with eight attributes kept, and all pairs of y and z."""
    from keras import layers

    from edgeveil.models import encoders

    groups, others = len(dataset.y_names), len(dataset.z_names)
    trunk = below(dataset.input, section)
    label = encoders.label_head(section.features(dataset.input.kind), groups)
    if section.method == "funnel":
        features = section.features(dataset.input.kind)
        head = encoders.code_head(features, groups, section.codes, width=section.width_of_head)
        return encoders.encoder(trunk, label, head)
    cells, kept, rng = groups * others, 8, np.random.default_rng(1)
    slope, offset = rng.normal(size=(cells, kept, section.codes)), rng.normal(size=(cells, section.codes))
    return encoders.residual_encoder(trunk, label, layers.Dense(cells), layers.Dense(kept), slope=slope, offset=offset)
