"""``run sweep --trials N``: Optuna proposes settings from what those before them leaked and kept.

Both are measured on the rows by which checkpoints are chosen, so that the test slice is read for the front alone. The
sampler is the tree-structured Parzen estimator for several objectives (Ozaki et al., 2020), seeded with the recipe's
seed: the same command proposes the same settings, and finds those that are done.
"""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, LimitNotMet
from edgeveil.trainer.ext.sweep.axes import Axis, Point, check_keys, has, with_settings
from edgeveil.trainer.progress import progress
from edgeveil.trainer.recipe.schema import Recipe

Measure = Callable[[Sequence[Point]], Sequence[Mapping[str, Any]]]
LOGARITHMIC = 10  # from this factor between the ends of a range on
STARTS = 3  # one trial in so many is drawn at random, at the start; and at least so many
REPEATS = 20  # proposals in a row that were tried before, until one is drawn of those that were not
LISTED = 10_000  # combinations


def check(recipes: Sequence[Recipe], axes: Sequence[Axis], trials: int) -> None:
    """Raise ``BadInput`` for what no search can take: a key, an end of a range or a value that a recipe refuses.

    ``DeviceFailed`` where Optuna is not installed.
    """
    if trials < 2:
        raise BadInput(f"--trials: expected 2 or more; got {trials}.")
    check_keys(recipes, axes)
    for recipe in recipes:
        mine = _of(recipe, axes)
        if not mine:
            raise BadInput(
                f"--trials: {recipe.name} has none of the keys to search. Give it an --axis, or leave it out."
            )
        for axis in mine:
            for value in axis.span or axis.values:
                with_settings(recipe, {axis.key: value})
    _optuna()


def search(
    recipes: Sequence[Recipe], axes: Sequence[Axis], trials: int, measure: Measure, *, at_once: int
) -> tuple[list[Point], list[dict[str, Any]]]:
    """The points of the front of each recipe, and a line for each of its ``trials``.

    ``measure`` gives the documents of some points, ``at_once`` of them at a time. A line has ``recipe``, ``settings``
    and ``leak`` and ``kept`` in [0, 1] (or ``pruned``, by how much y missed its limit, or why it ``failed``); ``front``
    marks those that no other trial of the recipe is better than in one and as good as in the other. Raises
    ``LimitNotMet`` where no trial of a recipe has figures.
    """
    front, lines = [], []
    with progress("trials", total=trials * len(recipes)) as advance:
        for recipe in recipes:
            points, of_recipe = _search(recipe, _of(recipe, axes), trials, measure, at_once, advance)
            front += points
            lines += of_recipe
    return front, lines


def _of(recipe: Recipe, axes: Sequence[Axis]) -> list[Axis]:
    return [axis for axis in axes if has(recipe, axis.key)]


def _search(
    recipe: Recipe, axes: Sequence[Axis], trials: int, measure: Measure, at_once: int, advance: Callable[[], None]
) -> tuple[list[Point], list[dict[str, Any]]]:
    optuna = _optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of two arguments, by name
        sampler = optuna.samplers.TPESampler(
            seed=recipe.seed,
            n_startup_trials=max(STARTS, trials // STARTS),
            multivariate=True,
            constant_liar=at_once > 1,
        )
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    rng = np.random.default_rng([recipe.seed, len(axes)])
    every = _combinations(axes)
    seen: dict[str, dict[str, Any]] = {}
    repeats = 0
    while len(seen) < min(trials, len(every) if every else trials) and repeats <= 2 * REPEATS:
        batch: dict[str, tuple[Any, Point]] = {}
        while len(batch) < min(at_once, trials - len(seen)) and repeats <= 2 * REPEATS:
            trial = study.ask()
            settings = {axis.key: _suggested(trial, axis) for axis in axes}
            name = name_of(settings)
            if name not in {*seen, *batch}:
                batch[name], repeats = (trial, Point(with_settings(recipe, settings), settings)), 0
                continue
            _tell(optuna, study, trial, seen.get(name, {"failed": "It is measured now."}))
            repeats += 1
            untried = [one for one in every if name_of(one) not in {*seen, *batch}]
            if repeats >= REPEATS and untried:
                drawn = untried[int(rng.integers(len(untried)))]
                study.enqueue_trial({axis.key: _coded(axis, drawn[axis.key]) for axis in axes})
        documents = measure([point for _, point in batch.values()])
        for (name, (trial, point)), document in zip(batch.items(), documents, strict=True):
            line = {"recipe": recipe.name, "settings": dict(point.settings), **objectives(document)}
            seen[name] = line
            _tell(optuna, study, trial, line)
            advance()
    points, lines = [], [*seen.values()]
    for line in lines:
        line["front"] = _undominated(line, lines)
        if line["front"]:
            points.append(Point(with_settings(recipe, line["settings"]), line["settings"]))
    if not points:
        missed = [line["pruned"] for line in lines if "pruned" in line]
        failed = next((line["failed"] for line in lines if "failed" in line), "")
        why = f"y misses its limit on validation, by {min(missed):.3f} at least." if missed else failed
        raise LimitNotMet(
            f"{recipe.name}: none of {len(lines)} trials came to figures: {why} Widen the ranges, or lower "
            "`limits.target_accuracy`."
        )
    return points, lines


def _combinations(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """All of them; none where they are too many to list."""
    values = []
    for axis in axes:
        low, high = axis.span or (0, 0)
        if isinstance(low, float) or high - low > LISTED:
            return []
        values.append(range(low, high + 1) if axis.span else axis.values)
    if math.prod(map(len, values)) > LISTED:
        return []
    return [{axis.key: value for axis, value in zip(axes, one, strict=True)} for one in itertools.product(*values)]


def name_of(settings: Mapping[str, Any]) -> str:
    """Equal for equal settings."""
    return json.dumps(settings, sort_keys=True)


def _ordered(axis: Axis) -> list[Any]:
    """The values of an axis: of numbers from low to high, so that neighbours are alike to the sampler."""
    return sorted(axis.values) if _numeric(axis) else [*axis.values]


def _numeric(axis: Axis) -> bool:
    return all(type(value) in (int, float) for value in axis.values)


def _coded(axis: Axis, value: Any) -> int:
    """A value as Optuna has it: of listed ones, its place."""
    return value if axis.span else _ordered(axis).index(value)


def _suggested(trial: Any, axis: Axis) -> Any:
    if axis.span is not None:
        low, high = axis.span
        log = low > 0 and high >= LOGARITHMIC * low
        if isinstance(low, int):
            return trial.suggest_int(axis.key, low, high, log=log)
        return float(f"{trial.suggest_float(axis.key, low, high, log=log):.3g}")
    values = _ordered(axis)
    if _numeric(axis):
        return values[trial.suggest_int(axis.key, 0, len(values) - 1)]
    return values[trial.suggest_categorical(axis.key, [*range(len(values))])]


def objectives(document: Mapping[str, Any]) -> dict[str, Any]:
    """Of a point's document: how often the best attack is right, and how much of a sample is kept within y.

    That is the mean correlation over its properties; where none is measured, the accuracy of y.
    """
    for name in ("failed", "pruned"):
        if name in document:
            return {name: document[name]}
    kept = [one["correlation"] for one in document["kept"].values() if one["correlation"] is not None]
    value = float(np.mean(kept)) if kept else document["target"]["accuracy"]
    return {"leak": document["leak"]["accuracy"], "kept": value}


def _tell(optuna: Any, study: Any, trial: Any, line: Mapping[str, Any]) -> None:
    """What a trial came to. One that misses the limit of y has the worst values."""
    if "failed" in line:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(trial, [line.get("leak", 1.0), line.get("kept", 0.0)])


def _undominated(line: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> bool:
    if "leak" not in line:
        return False
    better = (
        other["leak"] <= line["leak"]
        and other["kept"] >= line["kept"]
        and (other["leak"], other["kept"]) != (line["leak"], line["kept"])
        for other in lines
        if "leak" in other
    )
    return not any(better)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise DeviceFailed(
            "--trials needs Optuna, which is not installed: pip install 'edgeveil[search]', or leave out --trials, and "
            "every combination is trained."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
