"""The first look at a user's data: how well trees read y and z, which small network reads y best, and a quick run.

All are cross-validated over the two training slices, whole people or sessions at a time.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.attacks.families.estimator import MOST_CLASSES, boosted
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Part
from edgeveil.trainer.datasets.slicing import VALIDATION_SHARE, hold_out
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.networks.training import LOOK_POINTS, MARGIN, beats_guessing, commonest, unseen_accuracy
from edgeveil.trainer.recipe.networks import NETWORKS, networks
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Classifiers
from edgeveil.trainer.runs.run import Checkpoint
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

ROWS = 3000  # that are looked at
FOLDS = 3
TREES, MOST_VALUES = 100, 2048  # of boosted trees; samples of more values take too long
VALUES = 50_000_000  # at most, of these rows: 200 MB as float32
HARDLY = 0.2  # of what is left above guessing: who reads less of y has little to keep
KEEPS = 0.75  # of what the yardstick reads of y above guessing, that a quick run must keep
TRIAL_S = 60.0  # for all networks together
CLOCKS = (time.monotonic, time.process_time)  # on a busy machine the second is slow, on one of many cores the first
FOREST, BOOSTED = "a random forest", "a boosted tree"


@dataclass(frozen=True)
class Look:
    """The accuracies for one attribute of the better one of two kinds of trees and of always guessing its commonest
    class, over ``rows``."""

    accuracy: float
    chance: float
    classes: int
    reader: str = FOREST
    rows: int = ROWS

    @property
    def blind(self) -> bool:
        """Whether the trees do no better than guessing."""
        return self.accuracy < self.chance + 0.02


@dataclass(frozen=True)
class Tried:
    """A network of the recipe's own kind, and its accuracy of y on the rows that the trees were tested on.

    ``cut``: its share of the time was over before its training.
    """

    architecture: str
    accuracy: float
    cut: bool = False


@dataclass(frozen=True)
class Seen:
    """What a quick run of ``kind`` with ``architecture`` kept: y by the best ``reader`` on ``rows`` of validation, and
    what D_y reads of raw samples of the second slice."""

    kind: str
    architecture: str
    kept: float
    reader: str
    rows: int
    raw: float

    @property
    def room(self) -> float:
        """How far below its truth ``kept`` may lie by the luck of its few rows."""
        return room(self.kept, self.rows)


def room(accuracy: float, rows: int) -> float:
    """Two standard errors of an accuracy that was seen in so many rows."""
    return 2 * float(np.sqrt(max(0.0, accuracy * (1 - accuracy)) / rows))


def affordable(dataset: Dataset) -> int:
    """How many rows at a time may be looked at."""
    return max(20, VALUES // int(np.prod(dataset.input.shape)))


def folds(dataset: Dataset, label: str) -> Iterator[tuple[Part, Part]]:
    """Rows of the training slices to learn ``label``, "y" or "z", from, and others to test: whole clusters."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    most = min(ROWS, affordable(dataset))
    part = dataset.rows(np.random.default_rng(0).permutation(dataset.slices.training())[:most])
    by = StratifiedKFold if part.cluster is None else StratifiedGroupKFold
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of classes with fewer rows than folds
        for train, test in by(FOLDS, shuffle=True, random_state=0).split(part.y, getattr(part, label), part.cluster):
            yield part.take(train), part.take(test)


def with_trees(dataset: Dataset, label: str, names: Sequence[str]) -> Look:
    """Trees' look at ``label``, "y" or "z": the yardstick of what can be read."""
    from sklearn.ensemble import RandomForestClassifier

    right = dict.fromkeys((FOREST, BOOSTED), 0)
    labels = list[np.ndarray]()
    boost = len(names) <= MOST_CLASSES and np.prod(dataset.input.shape) <= MOST_VALUES
    for train, test in folds(dataset, label):
        x, unseen = (dataset.unit(part.x).reshape(len(part), -1) for part in (train, test))
        known, truth = getattr(train, label), getattr(test, label)
        forest = RandomForestClassifier(100, random_state=0, n_jobs=2).fit(x, known)
        right[FOREST] += int((forest.predict(unseen) == truth).sum())
        if boost:
            fit, stop = hold_out(train, share=VALIDATION_SHARE, seed=0)
            model = boosted(x[fit], known[fit], x[stop], known[stop], TREES, 0)
            right[BOOSTED] += int((model.predict(unseen) == truth).sum())
        labels.append(truth)
    every = np.concatenate(labels)
    reader = max(right, key=right.__getitem__)
    return Look(right[reader] / len(every), commonest(every), len(names), reader, len(every))


def candidates(spec: InputSpec) -> list[str]:
    """The classifiers to try on samples of ``spec``, the first one first."""
    facts = {name: NETWORKS[name].facts for name in networks("classifier")}
    fit = {
        name: one["tried"]
        for name, one in facts.items()
        if one.get("tried") and spec.kind in one["of"] and spec.shape[0] >= one.get("least", 0)
    }
    return sorted(fit, key=fit.__getitem__)


def with_networks(
    dataset: Dataset, *, batch: int, epochs: int, shift: int, clocks: Sequence[Callable[[], float]] = CLOCKS
) -> list[Tried]:
    """Small classifiers of y, the best first, each trained like D_y but for its share of ``TRIAL_S`` at most."""
    load_tensorflow()
    import keras

    from edgeveil.trainer.networks.training import build, train_one

    names = candidates(dataset.input)
    right, rows, cut = Counter[str](), 0, set[str]()
    for number, (train, test) in enumerate(folds(dataset, "y")):
        fit, choose = (train.take(places) for places in hold_out(train, share=VALIDATION_SHARE, seed=0))
        rows += len(test)
        for name in names:
            keras.utils.set_random_seed(number)
            model = build(name, dataset.input, len(dataset.y_names))
            share = _Share(clocks, TRIAL_S / len(names) / FOLDS)
            with tempfile.TemporaryDirectory() as folder, suppress(LimitNotMet):  # it diverged: nothing is right
                train_one(
                    model,
                    (dataset.unit(fit.x), fit.y),
                    (dataset.unit(choose.x), choose.y),
                    settings=Classifiers(architecture=name, shift=shift, patience=max(5, epochs // 4)),
                    batch=batch,
                    epochs=epochs,
                    seed=number,
                    log=_Nowhere(Path(folder)),
                    stage="trial",
                    title=f"trying {name} on y, {number + 1} of {FOLDS}",
                    enough=share.over,
                )
                right[name] += int((predict(model, dataset.unit(test.x)).argmax(axis=1) == test.y).sum())
            cut |= {name} if share.was_over else set()
    return sorted((Tried(name, right[name] / rows, name in cut) for name in names), key=lambda one: -one.accuracy)


def quick_run(recipe: Recipe, folder: Path, classifiers: Path | None = None) -> Seen | None:
    """Train a recipe at its quick budget in ``folder``, with the D_y and D_z of another run; None where it diverged."""
    from edgeveil.trainer.train import train

    try:
        run = train(recipe, folder, budget="quick", classifiers=classifiers, trial=True)
    except LimitNotMet:
        return None
    figures = run.facts["validation"]
    return Seen(
        recipe.perturber.kind,
        recipe.classifiers.architecture,
        max(figures["target_accuracy"], figures["reader_accuracy"]),
        figures["reader"],
        figures["rows"],
        unseen_accuracy(run.dataset().for_training(), run.classifiers()["target"])[0],
    )


def least_kept(yardstick: float, chance: float) -> float:
    """The accuracy of y by the best reader below which a recipe is not written."""
    return max(chance + KEEPS * (yardstick - chance), chance + MARGIN * (1 - chance))


def refuse_hopeless(on_y: Look, tried: Sequence[Tried]) -> None:
    """Raise ``LimitNotMet`` where nothing reads y, so that no perturber keeps any of it."""
    best = max([on_y.accuracy, *(one.accuracy for one in tried)])
    if not beats_guessing(best, on_y.chance) or best < on_y.chance + room(on_y.chance, on_y.rows):
        raise LimitNotMet(
            f"No recipe is written: y cannot be read from x. {_figures(on_y, tried)} of {on_y.rows} rows, "
            "cross-validated. Give features in place of raw samples, more rows, or another y."
        )


def _figures(on_y: Look, tried: Sequence[Tried]) -> str:
    networks = "".join(f", {one.architecture} in {one.accuracy:.1%}" for one in tried)
    guessing = f"always guessing the commonest class is right in {on_y.chance:.1%}"
    return f"{on_y.reader.capitalize()} reads it in {on_y.accuracy:.1%}{networks}, and {guessing}"


def none_kept(on_y: Look, tried: Sequence[Tried], runs: Sequence[Seen]) -> LimitNotMet:
    """The error where no quick run kept enough of y, with its figures."""
    if not runs:
        return LimitNotMet("No recipe is written: every quick run diverged. Scale x, or name another --kind.")
    best = max(runs, key=lambda one: one.kept)
    cure = "more rows, or features in place of raw samples"
    if best.raw - best.kept > LOOK_POINTS:
        cure = "another --kind, or more rows"
    return LimitNotMet(
        f"No recipe is written: the best of {counted(len(runs), 'quick run')}, {best.kind} with {best.architecture}, "
        f"keeps y in {best.kept:.1%} of {best.rows} rows (by {best.reader}), and "
        f"{least_kept(on_y.accuracy, on_y.chance):.1%} are needed. {_figures(on_y, tried)}. Give {cure}."
    )


def expected(forest: Look, tried: Sequence[Tried]) -> float:
    """What D_y should read of y: as much as the forest, or as the best network, where that reads y but less well."""
    best = tried[0].accuracy if tried else forest.accuracy
    return min(forest.accuracy, best) if beats_guessing(best, forest.chance) else forest.accuracy


def floor(reads: float, chance: float, rows: int = ROWS) -> float:
    """The accuracy of y that a recipe asks for: ten points below ``reads``, more where ``rows`` are few, but better
    than guessing."""
    better = chance + MARGIN * (1 - chance)
    below = reads - max(LOOK_POINTS, room(reads, rows))
    return round(float(np.clip(max(below, better), 0.05, 0.97)), 2)


def notes(on_y: Look, on_z: Look, tried: Sequence[Tried], *, untried: bool = False) -> list[str]:
    """What a person should know of the look, in sentences. ``untried``: networks were left out, and could be tried."""
    sentences = []
    if tried:
        others = ", ".join(f"{one.architecture} {one.accuracy:.1%}" for one in tried)
        sentences.append(
            f"y of rows not seen: {others}, {on_y.reader} {on_y.accuracy:.1%}, always guessing the commonest of "
            f"its {on_y.classes} classes {on_y.chance:.1%}. The recipe has {tried[0].architecture}."
        )
        if tried[0].accuracy < on_y.accuracy - LOOK_POINTS:
            sentences.append(
                f"No network here reads y as {on_y.reader} can ({on_y.accuracy:.1%}): give features in place of raw "
                "samples, or more rows."
            )
    for one, name, what in ((on_y, "y", "keep"), (on_z, "z", "hide")):
        if one.blind:
            sentences.append(
                f"{one.reader.capitalize()} reads {name} in {one.accuracy:.1%}, and always guessing its commonest "
                f"class is right in {one.chance:.1%}: there may be little to {what}."
            )
    best = max([on_y.accuracy, *(one.accuracy for one in tried)])
    if best < on_y.chance + HARDLY * (1 - on_y.chance):
        more = " Without --no-trial, small networks are tried as well." if untried else ""
        sentences.append(
            f"Here y is read in {best:.1%} at best, hardly more than the {on_y.chance:.1%} of guessing, and a "
            f"perturber keeps no more of it: give features in place of raw samples, or more rows.{more}"
        )
        cut = [one.architecture for one in tried if one.cut]
        if cut:
            sentences.append(
                f"The trial's {TRIAL_S:.0f} s were over before {' and '.join(cut)} had been trained to the end, so y "
                "may be read better than that: `edgeveil train` on this recipe says."
            )
    return sentences


class _Share:
    """A share of the time, over when it is by each of the clocks; it begins after the first epoch, which compiles."""

    def __init__(self, clocks: Sequence[Callable[[], float]], seconds: float) -> None:
        self._clocks, self._seconds, self.was_over = clocks, seconds, False
        self._ends: list[float] = []

    def over(self) -> bool:
        """Asked after each epoch."""
        now = [clock() for clock in self._clocks]
        self._ends = self._ends or [one + self._seconds for one in now]
        self.was_over = all(one >= end for one, end in zip(now, self._ends, strict=True))
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
