"""An encoder trained by DP-SGD, which a killed training cannot make spend more than was planned; and its pictures.

Before steps begin they are written down as begun, ``BLOCK`` at a time, and what a resumed training does comes out of
the rest of the plan, with lots and noise drawn anew. The last weights are kept, or the average of those of the plan's
second half; nothing is chosen by validation.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset, Part, SliceName
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.ext.private import cover
from edgeveil.trainer.ext.private.noise import Noise, Shares, noise_of, noisy_means, readings_of, shares, train
from edgeveil.trainer.ext.private.per_example import Loss
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.progress import progress, say
from edgeveil.trainer.recipe.private import Head as Section
from edgeveil.trainer.recipe.private import PateHead, Private
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Head, Log

BLOCK = 10  # steps between checkpoints, and the most that a kill can cost


def cross_entropy(logits: Any, of: Any) -> Any:
    """Of the class, for each example."""
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(of, logits)


def guarded(dataset: Dataset, asked: Private, name: SliceName = "perturber") -> tuple[Part, list[np.ndarray], Shares]:
    """The rows of a slice that train what ships, those of each unit, and the budget's shares. Raises ``BadInput``."""
    if dataset.units is None:
        raise ValueError("[private] asks for data that were cut by unit")
    part, _ = fit_and_validation(dataset, name)
    rows = dataset.units.rows(part.index)
    return part, rows, shares(asked, len(rows))


def train_encoder(
    model: Any,
    u: np.ndarray,
    labels: Any,
    rows: Sequence[np.ndarray],
    made: Shares,
    *,
    noise: Noise,
    log: Log,
    loss: Loss = cross_entropy,
    name: str = "perturber",
    beside: Any = None,
) -> dict[str, int]:
    """Train ``model`` in place on samples u (n, ...) and ``labels``, arrays (n, ...) or a dict of them.

    ``rows`` are those of each unit, ``name`` is that of the checkpoints, and ``beside`` a ``noise.Beside`` with the
    ``variables`` that a checkpoint must keep. Returns how many steps were ever ``begun``, which is what was spent, and
    how many the weights come of (``kept``).
    """
    import keras

    settings, steps = made.asked, made.encoder.steps
    optimizer = keras.optimizers.Adam(settings.learning_rate)
    optimizer.build(model.trainable_variables)
    mean = keras.models.clone_model(model)
    more = {} if beside is None else {"beside": beside}
    last = log.checkpoint(name, model=model, optimizer=optimizer, mean=mean, **more)
    book = log.checkpoint(f"{name}-begun")
    applied, averaged = (last.restore() or {"steps": (0, 0)})["steps"]
    before = max((book.restore() or {"begun": 0})["begun"], applied)
    left = steps - before

    word = "encoder" if name == "perturber" else name
    with whole_steps() as check, progress(word, total=steps, done=before) as advance:

        def after(number: int) -> None:
            nonlocal applied, averaged
            applied += 1
            if before + number > steps // 2:
                averaged += 1
                for total, one in zip(mean.trainable_variables, model.trainable_variables, strict=True):
                    total.assign_add((one - total) / averaged)
            advance()
            if number % BLOCK == 0 or number == left:
                last.save(steps=(applied, averaged))
                check()
                book.save(begun=before + min(number + BLOCK, left))

        if left:
            book.save(begun=before + min(BLOCK, left))
            rest = replace(made.encoder, steps=left)
            given = {"rows": rows, "optimizer": optimizer, "noise": noise, "after": after, "beside": beside}
            train(model, u, labels, loss, rest, **given)
    if settings.average and averaged:
        model.set_weights(mean.get_weights())
    return {"begun": steps, "kept": applied}


# Pictures of classes or codes by the Gaussian mechanism, which a resumed run does not draw again.


def noisy_pictures(
    u: np.ndarray, of: np.ndarray, count: int, rows: Sequence[np.ndarray], *, sigma: float, noise: Noise, log: Log
) -> np.ndarray:
    """The mean (count, *shape) of samples u (n, *shape) by the class or code ``of`` (n,); float32 in the unit cube.

    ``rows`` are the row numbers of each unit, ``sigma`` is the deviation of the noise on ``bounded_sums``.
    """
    import tensorflow as tf

    pictures = tf.Variable(tf.zeros((count, *u.shape[1:])))
    saved = log.checkpoint("pictures", pictures=SimpleNamespace(variables=[pictures]))
    if saved.restore() is None:  # drawn once: another draw of a resumed run would have to be paid for
        pictures.assign(noisy_means(u, of, count, rows, sigma=sigma, noise=noise))
        saved.save()
    return np.asarray(pictures.numpy())


# [head] of a recipe: a private linear classifier of y, fitted on the first slice.
#
# Under [private] each unit is in one slice, so the people behind the head are none of those behind the perturber: each
# guarantee stands for its own. A unit of several readings gives one of them, drawn at random, so that a row is a unit.


ESTIMATORS: Mapping[str, tuple[str, str]] = {  # the class, and the mechanism in words
    "logistic": ("PrivateLogisticRegression", "logistic regression by {method} perturbation"),
    "huber-svm": ("PrivateHuberSVM", "Huber support vector machine by {method} perturbation"),
    "functional-logistic": ("FunctionalLogisticRegression", "logistic regression by the functional mechanism"),
    "dp-sgd": ("DPSGDClassifier", "logistic regression by DP-SGD"),
    "pate": ("PATEClassifier", "PATE"),
}
HERE = ("kind", "of", "students")  # keys of the section that are none of the estimator's


def check(recipe: Recipe, dataset: Dataset) -> None:
    """Raise ``BadInput`` where [head] does not fit the data, before anything is trained."""
    section = recipe.head
    if section is None:
        return
    if section.kind == "pate":
        _check_pate(section, dataset)
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
    """The head and what run.json says of its fit. ``frames`` gives what is sent of raw samples, as a receiver has it.

    Raises ``BadInput`` where its solver does not converge, so that nothing could be promised.
    """
    part = dataset.part("classifiers")

    def seen(x: np.ndarray) -> np.ndarray:
        given = dataset.unit(x if section.of == "reading" else frames(x))
        return given.reshape(len(x), -1).astype(np.float64)

    if section.kind == "pate":
        return _pate(section, dataset, seen)
    noise, units = noise_of(section.random_state), _units(dataset)
    chosen = readings_of(np.arange(len(units)), units, noise)
    rows, y = seen(part.x[chosen]), part.y[chosen]
    estimator, mechanism = unfitted(section, rows.shape[1], len(dataset.y_names))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        estimator.fit(rows, y)
    messages = [str(one.message) for one in warned if issubclass(one.category, UserWarning)]
    if estimator.guarantee_ is None and section.random_state is None:
        raise BadInput(f"[head]: {' '.join(messages)} Raise `head.regularization`.")
    for text in messages:
        say(f"[head]: {text}")
    unit = "row" if dataset.units is None else dataset.units.kind
    one = () if unit == "row" else (f"one reading of each {unit}, drawn at random",)
    promised = None if estimator.guarantee_ is None else _promise(estimator.guarantee_, unit, one)
    weights, bias = _each_class(estimator.coef_, estimator.intercept_)
    beyond = estimator.clipped_ if section.kind == "functional-logistic" else estimator.shortened_
    facts = {"kind": section.kind, "of": section.of, "rows": len(rows), "beyond": beyond, "promise": promised}
    if section.kind == "dp-sgd":
        plan = estimator.plan_
        facts["steps"] = {**plan.claim.as_dict(), "clip": plan.clip, "lot": plan.lot}
    return Head(section.of, mechanism, weights, bias, promised), facts


def unfitted(section: Section, values: int, classes: int) -> tuple[Any, str]:
    """The estimator that the recipe asks for, of rows (n, ``values``) in the unit cube, and its mechanism in words."""
    from edgeveil.trainer.ext.private import estimators

    settings = section.model_dump(exclude=set(HERE), exclude_none=True)
    if section.kind == "functional-logistic":
        settings["bounds"] = (0.0, 1.0)
    elif section.kind != "pate":
        settings.setdefault("data_norm", math.sqrt(values))
    kind, words = ESTIMATORS[section.kind]
    return getattr(estimators, kind)(**settings, classes=np.arange(classes)), words.format(**settings)


def _units(dataset: Dataset) -> list[np.ndarray]:
    """The places within the first slice of each unit's rows; without [private] every row is its own."""
    index = dataset.part("classifiers").index
    return [np.array([row]) for row in range(len(index))] if dataset.units is None else dataset.units.rows(index)


def _check_pate(section: PateHead, dataset: Dataset) -> None:
    """Raise ``BadInput`` where the data do not name people, or people, teachers and queries do not fit."""
    from edgeveil.trainer.ext.private.estimators import pate

    if dataset.units is None or dataset.units.kind != "subject":
        raise BadInput(
            'The head "pate" has one teacher for each person: expected [private] with `unit = "subject"`, of data that '
            "name the person of each row. Add `data.subject`, or take another kind of head."
        )
    public, people = _roles(section, dataset)
    count = len(np.unique(people))
    try:
        pate.check(count, int(public.sum()), len(dataset.y_names), section.teachers, section.queries)
        if section.delta is not None:
            pate.check_delta(section.delta, count)
    except BadInput as error:
        raise BadInput(f"[head]: {error}") from None


def _roles(section: PateHead, dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The mask of the first slice's rows that count as public, and whose each other one is: by each one's own hash."""
    index, units = dataset.part("classifiers").index, dataset.units
    if units is None:
        raise ValueError("PATE asks for data that were cut by person")
    public = units.second[index] < section.students
    return public, units.number[index][~public]


def _pate(section: PateHead, dataset: Dataset, seen: Callable[[np.ndarray], np.ndarray]) -> tuple[Head, dict[str, Any]]:
    """As ``fit``, of a student: its own rows are those of people whose readings count as public, in random order."""
    part = dataset.part("classifiers")
    public, people = _roles(section, dataset)
    asked = np.flatnonzero(public)
    asked = asked[np.argsort(noise_of(section.random_state).uniform((len(asked),)))][: section.queries]
    estimator, words = unfitted(section, math.prod(dataset.input.shape), len(dataset.y_names))
    estimator.fit(seen(part.x[~public]), part.y[~public], people=people, public=seen(part.x[asked]))
    votes = estimator.votes_
    mechanism = (
        f"{words}: {votes.teachers} teachers, {votes.queries:,} votes with Gaussian noise of deviation {votes.sigma:g}"
    )
    promised = None if estimator.guarantee_ is None else _promise(estimator.guarantee_, "subject")
    weights, bias = _each_class(estimator.coef_, estimator.intercept_)
    facts = {"kind": section.kind, "of": section.of, "rows": int((~public).sum()), "promise": promised}
    return Head(section.of, mechanism, weights, bias, promised), {**facts, "votes": votes.as_dict()}


def _promise(guarantee: Any, unit: str, more: Sequence[str] = ()) -> dict[str, Any]:
    given = tuple(dict.fromkeys((*guarantee.given, *more, *cover.GIVEN)))
    outside = (*guarantee.outside, *cover.OUTSIDE)
    return asdict(replace(guarantee, unit=unit, covers=cover.HEAD_COVERS, given=given, outside=outside))


def _each_class(weights: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (classes, values) and bias (classes,), float32; of two classes an estimator has their difference."""
    if len(weights) == 1:
        weights, bias = np.vstack([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
    return weights.astype(np.float32), bias.astype(np.float32)
