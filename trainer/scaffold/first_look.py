"""The first look at a user's data: how well a random forest reads y and z, and which small network reads y best."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.networks.training import LOOK_POINTS, MARGIN, beats_guessing, commonest, unseen_accuracy
from edgeveil.trainer.recipe.networks import NETWORKS, networks
from edgeveil.trainer.recipe.training_sections import Classifiers
from edgeveil.trainer.runs.run import Checkpoint
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

ROWS = 3000  # that are looked at, of each slice
VALUES = 50_000_000  # at most, of these rows: 200 MB as float32
HARDLY = 0.2  # of what is left above guessing: who reads less of y has little to keep
TRIAL_S = 50.0  # for all networks together


@dataclass(frozen=True)
class Look:
    """The accuracies for one attribute of a random forest and of always guessing the commonest class."""

    accuracy: float
    chance: float
    classes: int

    @property
    def blind(self) -> bool:
        """Whether the forest does no better than guessing."""
        return self.accuracy < self.chance + 0.02


@dataclass(frozen=True)
class Tried:
    """A network of the recipe's own kind, and its accuracy of y on the rows that the forest was tested on.

    ``cut``: its share of the time was over before its training.
    """

    architecture: str
    accuracy: float
    cut: bool = False


def affordable(dataset: Dataset) -> int:
    """How many rows at a time may be looked at."""
    return max(20, VALUES // int(np.prod(dataset.input.shape)))


def with_forest(dataset: Dataset, label: str, names: Sequence[str]) -> Look:
    """A forest's look at ``label``, "y" or "z": trained on the first slice, tested on the second."""
    from sklearn.ensemble import RandomForestClassifier

    first, second = dataset.part("classifiers"), dataset.part("perturber")
    most = min(ROWS, affordable(dataset))
    train, test = (part.take(np.arange(min(len(part), most))) for part in (first, second))
    forest = RandomForestClassifier(100, random_state=0, n_jobs=2)
    forest.fit(dataset.unit(train.x).reshape(len(train), -1), getattr(train, label))
    truth = getattr(test, label)
    accuracy = float((forest.predict(dataset.unit(test.x).reshape(len(test), -1)) == truth).mean())
    return Look(accuracy, commonest(truth), len(names))


def candidates(kind: str) -> list[str]:
    """The classifiers to try on samples of a ``kind``, the first one first."""
    facts = {name: NETWORKS[name].facts for name in networks("classifier")}
    fit = {name: one["tried"] for name, one in facts.items() if one.get("tried") and kind in one["of"]}
    return sorted(fit, key=fit.__getitem__)


def with_networks(
    dataset: Dataset, *, batch: int, epochs: int, shift: int, clock: Callable[[], float] = time.monotonic
) -> list[Tried]:
    """Small classifiers of y, the best first, each trained like D_y but for its share of ``TRIAL_S`` at most."""
    load_tensorflow()
    import keras

    from edgeveil.trainer.networks.training import build, train_one

    dataset = dataset.for_training()
    fit, choose = fit_and_validation(dataset, "classifiers")
    most = min(ROWS, affordable(dataset))
    fit = fit.take(np.arange(min(len(fit), most)))
    u, held = dataset.unit(fit.x), dataset.unit(choose.x)
    names = candidates(dataset.input.kind)
    tried = []
    for name in names:
        keras.utils.set_random_seed(0)
        model = build(name, dataset.input, len(dataset.y_names))
        share = _Share(clock, TRIAL_S / len(names))
        with tempfile.TemporaryDirectory() as folder:
            try:
                train_one(
                    model,
                    (u, fit.y),
                    (held, choose.y),
                    settings=Classifiers(architecture=name, shift=shift, patience=max(5, epochs // 4)),
                    batch=batch,
                    epochs=epochs,
                    seed=0,
                    log=_Nowhere(Path(folder)),
                    stage="trial",
                    title=f"trying {name} on y",
                    enough=share.over,
                )
            except LimitNotMet:  # it diverged: no candidate
                continue
        tried.append(Tried(name, unseen_accuracy(dataset, model, most=most)[0], share.was_over))
    return sorted(tried, key=lambda one: -one.accuracy)


def expected(forest: Look, tried: Sequence[Tried]) -> float:
    """What D_y should read of y: as much as the forest, or as the best network, where that reads y but less well."""
    best = tried[0].accuracy if tried else forest.accuracy
    return min(forest.accuracy, best) if beats_guessing(best, forest.chance) else forest.accuracy


def floor(reads: float, chance: float) -> float:
    """The accuracy of D_y that a recipe asks for: ten points below ``reads``, but better than guessing."""
    better = chance + MARGIN * (1 - chance)
    return round(float(np.clip(max(reads - LOOK_POINTS, better), 0.05, 0.97)), 2)


def notes(on_y: Look, on_z: Look, tried: Sequence[Tried], *, untried: bool = False) -> list[str]:
    """What a person should know of the look, in sentences. ``untried``: networks were left out, and could be tried."""
    said = []
    if tried:
        others = ", ".join(f"{one.architecture} {one.accuracy:.1%}" for one in tried)
        said.append(
            f"y on the second slice: {others}, a random forest {on_y.accuracy:.1%}, always guessing the commonest of "
            f"its {on_y.classes} classes {on_y.chance:.1%}. The recipe has {tried[0].architecture}."
        )
        if tried[0].accuracy < on_y.accuracy - LOOK_POINTS:
            said.append(
                f"No network here reads y as a random forest does ({on_y.accuracy:.1%}): give features in place of raw "
                "samples, or more rows."
            )
    for one, name, what in ((on_y, "y", "keep"), (on_z, "z", "hide")):
        if one.blind:
            said.append(
                f"A random forest reads {name} in {one.accuracy:.1%}, and always guessing its commonest class is right "
                f"in {one.chance:.1%}: there may be little to {what}."
            )
    best = max([on_y.accuracy, *(one.accuracy for one in tried)])
    if best < on_y.chance + HARDLY * (1 - on_y.chance):
        more = " Without --no-trial, small networks are tried as well." if untried else ""
        said.append(
            f"Here y is read in {best:.1%} at best, hardly more than the {on_y.chance:.1%} of guessing, and a "
            f"perturber keeps no more of it: give features in place of raw samples, or more rows.{more}"
        )
        cut = [one.architecture for one in tried if one.cut]
        if cut:
            said.append(
                f"The trial's {TRIAL_S:.0f} s were over before {' and '.join(cut)} had been trained to the end, so y "
                "may be read better than that: `edgeveil train` on this recipe says."
            )
    return said


class _Share:
    """A share of the time: whether it is over, and whether it ever was found to be."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock, self._ends, self.was_over = clock, clock() + seconds, False

    def over(self) -> bool:
        """Asked after each epoch."""
        self.was_over = self._clock() >= self._ends
        return self.was_over


class _Nowhere:
    """A log that keeps nothing but the checkpoints in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def metric(self, *, stage: str, step: int, **values: float) -> None:
        """Nothing."""

    def record(self, **facts: Any) -> None:
        """Nothing."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Nothing."""
        del name
        return nullcontext()

    def checkpoint(self, name: str, **holders: Any) -> Checkpoint:
        """One in the folder."""
        return Checkpoint(self._folder / f"{name}.npz", **holders)
