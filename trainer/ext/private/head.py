"""[head] of a recipe: a private linear classifier of y, fitted on the first slice.

Under [private] each unit is in one slice, so the people behind the head are none of those behind the perturber: each
guarantee stands for its own. A unit of several readings gives one of them, drawn at random, so that a row is a unit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.ext.private import cover
from edgeveil.trainer.ext.private.noise import noise_of, readings_of
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.private import Head as Section
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Head

ESTIMATORS: Mapping[str, tuple[str, str]] = {  # the class, and the mechanism in words
    "logistic": ("PrivateLogisticRegression", "logistic regression by {method} perturbation"),
    "huber-svm": ("PrivateHuberSVM", "Huber support vector machine by {method} perturbation"),
    "functional-logistic": ("FunctionalLogisticRegression", "logistic regression by the functional mechanism"),
    "dp-sgd": ("DPSGDClassifier", "logistic regression by DP-SGD"),
}
HERE = ("kind", "of")  # keys of the section that are none of the estimator's


def check(recipe: Recipe, dataset: Dataset) -> None:
    """Raise ``BadInput`` where [head] does not fit the data, before anything is trained."""
    section = recipe.head
    if section is None:
        return
    rows, values = len(_units(dataset)), math.prod(dataset.input.shape)
    if section.kind == "dp-sgd":
        if section.lot is not None and section.lot > rows:
            raise BadInput(f"`head.lot`: expected at most the {rows:,} rows that fit the head; got {section.lot}.")
        if section.delta is not None and section.delta >= 1 / rows:
            raise BadInput(f"`head.delta`: expected below 1 / {rows:,}, one row's share; got {section.delta:g}.")
    if section.kind == "functional-logistic" and max(section.sensitive or [0]) >= values:
        raise BadInput(f"`head.sensitive`: expected columns of 0 to {values - 1}; got {max(section.sensitive or [])}.")
    whole = np.dtype(dataset.input.dtype).kind in "iu"
    if section.of == "sent" and recipe.perturber.whole_pictures and whole:
        raise BadInput('`head.of`: expected "reading"; of such data a codebook sends whole pictures of a table.')


def fit(section: Section, dataset: Dataset, frames: Callable[[np.ndarray], np.ndarray]) -> tuple[Head, dict[str, Any]]:
    """The head and what run.json says of its fit. ``frames`` gives what leaves of raw samples, as a receiver has it.

    Raises ``BadInput`` where its solver does not converge, so that nothing could be promised.
    """
    part, noise = dataset.part("classifiers"), noise_of(section.random_state)
    units = _units(dataset)
    chosen = readings_of(np.arange(len(units)), units, noise)
    x, y = part.x[chosen], part.y[chosen]
    rows = dataset.unit(x if section.of == "reading" else frames(x)).reshape(len(x), -1).astype(np.float64)
    estimator, mechanism = unfitted(section, rows.shape[1], len(dataset.y_names))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        estimator.fit(rows, y)
    said = [str(one.message) for one in warned if issubclass(one.category, UserWarning)]
    if estimator.guarantee_ is None and section.random_state is None:
        raise BadInput(f"[head]: {' '.join(said)} Raise `head.regularization`.")
    for text in said:
        say(f"[head]: {text}")
    unit = "row" if dataset.units is None else dataset.units.kind
    promised = None if estimator.guarantee_ is None else _promise(estimator.guarantee_, unit)
    weights, bias = _each_class(estimator.coef_, estimator.intercept_)
    beyond = estimator.clipped_ if section.kind == "functional-logistic" else estimator.shortened_
    facts = {"kind": section.kind, "of": section.of, "rows": len(rows), "beyond": beyond, "promise": promised}
    if section.kind == "dp-sgd":
        made = estimator.plan_
        facts["steps"] = {**made.claim.as_dict(), "clip": made.clip, "lot": made.lot}
    return Head(section.of, mechanism, weights, bias, promised), facts


def unfitted(section: Section, values: int, classes: int) -> tuple[Any, str]:
    """The estimator that the recipe asks for, of rows (n, ``values``) in the unit cube, and its mechanism in words."""
    from edgeveil.trainer.ext.private import estimators

    asked = section.model_dump(exclude=set(HERE), exclude_none=True)
    if section.kind == "functional-logistic":
        asked["bounds"] = (0.0, 1.0)
    else:
        asked.setdefault("data_norm", math.sqrt(values))
    kind, words = ESTIMATORS[section.kind]
    return getattr(estimators, kind)(**asked, classes=np.arange(classes)), words.format(**asked)


def _units(dataset: Dataset) -> list[np.ndarray]:
    """The places within the first slice of each unit's rows; without [private] every row is its own."""
    index = dataset.part("classifiers").index
    return [np.array([row]) for row in range(len(index))] if dataset.units is None else dataset.units.rows(index)


def _promise(guarantee: Any, unit: str) -> dict[str, Any]:
    one = () if unit == "row" else (f"one reading of each {unit}, drawn at random",)
    given = tuple(dict.fromkeys((*guarantee.given, *one, *cover.GIVEN)))
    return asdict(replace(guarantee, unit=unit, covers=cover.HEAD_COVERS, given=given, outside=cover.OUTSIDE))


def _each_class(weights: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (classes, values) and bias (classes,), float32; of two classes an estimator has their difference."""
    if len(weights) == 1:
        weights, bias = np.vstack([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
    return weights.astype(np.float32), bias.astype(np.float32)
