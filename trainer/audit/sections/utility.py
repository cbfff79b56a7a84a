"""Utility of x': networks trained on x' and tested on clean x (Table 5 of paper 001), and on x'.

One small network is trained on each kind of data - raw, perturbed, label-only - to predict y and every further property
that is known of a sample. Tested on clean samples it shows how good the data are for training. Tested on perturbed ones
it shows what they tell about each property: leakage about it, wanted or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from edgeveil.trainer.attacks.rows import to_learn
from edgeveil.trainer.audit.document import interval, short
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.graphs.compilation import compile_built
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.moments import MOMENTS, moments

MOST_CLASSES = 40  # of a property whose values are whole numbers; with more it counts as a number


@dataclass(frozen=True)
class Effort:
    """How much a network is trained: rows to learn from, and epochs."""

    rows: int
    epochs: int


EFFORT = {"quick": Effort(5_000, 6), "thorough": Effort(30_000, 20)}


@dataclass(frozen=True)
class Property:
    """A property of every sample: ``values`` (N,), class numbers where ``classes`` > 0."""

    name: str
    values: np.ndarray
    classes: int


def moments_of(dataset: Dataset, named: Sequence[str]) -> tuple[str, ...]:
    """Which of ink, slant and stroke mean something here: all for digits, for other images what a recipe ``named``."""
    if dataset.input.kind != "image":
        return ()
    if "digit" in dataset.known or "moments" in named:
        return MOMENTS
    return tuple(name for name in MOMENTS if name in named)


def properties(dataset: Dataset, *, named: Sequence[str] = (), most: int = 6) -> list[Property]:
    """Those of ``moments_of``, and the data set's own attributes, ``most`` at most; never z."""
    found = []
    if shown := moments_of(dataset, named):
        values = np.concatenate(
            [moments(dataset.unit(dataset.x[i : i + 4096])) for i in range(0, len(dataset.x), 4096)]
        )
        found = [Property(name, values[:, MOMENTS.index(name)], 0) for name in shown]
    for name, values in dataset.attributes.items():
        if np.ptp(values) > 0:
            distinct, numbers = np.unique(values, return_inverse=True)
            few = len(distinct) <= MOST_CLASSES and bool((distinct == np.round(distinct)).all())
            found.append(Property(name, numbers if few else values.astype(np.float64), len(distinct) if few else 0))
    return found[:most]


@dataclass(frozen=True)
class Shown:
    """Samples in the unit cube (n, *shape), or raw where there is none, and the rows of the data set they are of."""

    u: np.ndarray
    rows: np.ndarray

    def at_most(self, n: int, rng: np.random.Generator) -> Shown:
        """``n`` of them at random, or all."""
        chosen = rng.permutation(len(self.rows))[:n]
        return Shown(self.u[chosen], self.rows[chosen])


class Reader:
    """A network trained on the samples ``given`` to predict y and the properties of the rows they are of."""

    def __init__(self, dataset: Dataset, given: Shown, known: list[Property], effort: Effort, seed: int) -> None:
        import keras

        from edgeveil.models.property_readers import reader

        rng = np.random.default_rng([seed, 5])
        given = given.at_most(effort.rows, rng)
        self._dataset, self._known = dataset, known
        self._mean, self._scale = _scaling(dataset)
        keras.utils.set_random_seed(seed)
        units = {"y": len(dataset.y_names), **{f"p{i}": p.classes or 1 for i, p in enumerate(known)}}
        self._model = reader(dataset.input.shape, units)
        entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        losses = {"y": entropy, **{f"p{i}": entropy if p.classes else "mse" for i, p in enumerate(known)}}
        targets = {"y": dataset.y[given.rows]}
        for i, p in enumerate(known):
            values = p.values[given.rows]
            targets[f"p{i}"] = values if p.classes else ((values - values.mean()) / max(values.std(), 1e-9))[:, None]
        batch = int(np.clip(len(given.rows) // 40, 16, 64))
        steps = effort.epochs * -(-len(given.rows) // batch)
        rate = keras.optimizers.schedules.CosineDecay(2e-3, steps)
        compile_built(self._model, keras.optimizers.Adam(rate), losses, steps_per_execution=8)
        self._model.fit(self._inputs(given.u), targets, batch_size=batch, epochs=effort.epochs, verbose=0)

    def read(self, shown: Shown) -> dict[str, np.ndarray]:
        """y (n,) class numbers and every property (n,), class numbers or standardised values, as predicted."""
        pieces = [
            self._model(self._inputs(shown.u[i : i + 2048]), training=False) for i in range(0, len(shown.u), 2048)
        ]
        answers = {name: np.concatenate([np.asarray(piece[name]) for piece in pieces]) for name in pieces[0]}
        found = {"y": answers["y"].argmax(axis=1)}
        for i, p in enumerate(self._known):
            found[p.name] = answers[f"p{i}"].argmax(axis=1) if p.classes else answers[f"p{i}"][:, 0]
        return found

    def score(self, shown: Shown) -> dict[str, Any]:
        """How well that is: ``{"y": rate, "attributes": {name: rate or correlation within y}}`` with 95 % intervals."""
        read, data = self.read(shown), self._dataset
        cluster = None if data.cluster is None else data.cluster[shown.rows]
        y = data.y[shown.rows]
        attributes = {}
        for p in self._known:
            truth = p.values[shown.rows]
            if p.classes:
                attributes[p.name] = interval(intervals.rate(read[p.name] == truth, cluster))
            else:
                attributes[p.name] = correlation(truth, read[p.name], y, cluster)
        return {"y": interval(intervals.rate(read["y"] == y, cluster)), "attributes": attributes}

    def _inputs(self, u: np.ndarray) -> np.ndarray:
        return ((u - self._mean) * self._scale).astype(np.float32)


def discriminator_accuracy(
    dataset: Dataset, real: tuple[Shown, Shown], made: tuple[Shown, Shown], effort: Effort, seed: int
) -> Any:
    """How often a fresh discriminator tells ``made`` from ``real`` samples, (to learn on, to test on) of each.

    0.5 is perfect; there are as many real ones as made ones. Returns a rate with its interval.
    """
    import keras

    from edgeveil.models.property_readers import reader

    rng = np.random.default_rng([seed, 6])
    mean, scale = _scaling(dataset)
    sides = []
    for a, b in zip(real, made, strict=True):
        n = min(len(a.rows), len(b.rows), effort.rows // 2)
        a, b = a.at_most(n, rng), b.at_most(n, rng)
        u = np.concatenate([a.u, b.u])
        sides.append((((u - mean) * scale).astype(np.float32), np.repeat([0, 1], n), np.concatenate([a.rows, b.rows])))
    keras.utils.set_random_seed(seed)
    model = reader(dataset.input.shape, {"made": 2})
    loss = {"made": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    compile_built(model, keras.optimizers.Adam(2e-3), loss, steps_per_execution=8)
    (u, side, _), (u_test, side_test, rows) = sides
    order = rng.permutation(len(u))
    batch = int(np.clip(len(u) // 40, 16, 64))
    model.fit(u[order], {"made": side[order]}, batch_size=batch, epochs=effort.epochs, verbose=0)
    answers = np.concatenate([np.asarray(model(u_test[i : i + 2048])["made"]) for i in range(0, len(u_test), 2048)])
    cluster = None if dataset.cluster is None else dataset.cluster[rows]
    return interval(intervals.rate(answers.argmax(axis=1) == side_test, cluster))


def correlation(a: np.ndarray, b: np.ndarray, y: np.ndarray, cluster: np.ndarray | None) -> dict[str, Any]:
    """Correlation of a and b (n,) within y with its 95 % interval: Fisher's z, its variance from the influence of each
    row, or of each cluster where given."""
    a, b = residual(a, y), residual(b, y)
    scale = float(np.sqrt((a**2).mean() * (b**2).mean()))
    if scale < 1e-12:
        return {"correlation": 0.0, "low": None, "high": None}
    r = float((a * b).mean()) / scale
    influence = a * b / scale - r * (a**2 / (a**2).mean() + b**2 / (b**2).mean()) / 2
    unit = np.arange(len(a)) if cluster is None else np.unique(cluster, return_inverse=True)[1].reshape(-1)
    totals = np.bincount(unit, weights=influence)
    if len(totals) < 3 or abs(r) > 1 - 1e-9:
        return {"correlation": short(r), "low": None, "high": None}
    error = float(np.sqrt((totals**2).sum())) / len(a) / (1 - r**2)
    half = float(stats.t.ppf(0.975, len(totals) - 1)) * error
    middle = float(np.arctanh(r))
    return {
        "correlation": short(r),
        "low": short(float(np.tanh(middle - half))),
        "high": short(float(np.tanh(middle + half))),
    }


def residual(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``values`` (n,) less the mean of their class of y (n,)."""
    sums, n = np.bincount(y, values), np.maximum(np.bincount(y), 1)
    return values - (sums / n)[y]


def chances(dataset: Dataset, known: list[Property]) -> Mapping[str, float]:
    """For every property of classes: how often the commonest of its class of y is right on the test slice."""
    training, test = to_learn(dataset), dataset.slices.test
    found = {}
    for p in known:
        if p.classes:
            counts = np.zeros((len(dataset.y_names), p.classes))
            np.add.at(counts, (dataset.y[training], p.values[training]), 1)
            found[p.name] = short(float((counts.argmax(axis=1)[dataset.y[test]] == p.values[test]).mean()))
    return found


def _scaling(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """None for images; others to mean 0 and variance 1 of raw ones of the first slice, the same for all data."""
    if dataset.input.kind == "image":
        return np.zeros(()), np.ones(())
    u = dataset.unit(dataset.part("classifiers").x)
    spread = u.std(axis=0)
    return u.mean(axis=0), np.where(spread > 1e-6, 1 / np.maximum(spread, 1e-6), 0.0)
