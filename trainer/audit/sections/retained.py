"""Properties of x that x' retains: what a perturber gives beyond label-only, which retains none.

Everything is measured within y: the class is released anyway, and a property that follows the class (light from the
left, many access points in one building) would be credited to any perturber that keeps y. What is kept of a property is
leakage about it; the reader of the card decides whether that is a use or a harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.rows import places, to_learn
from edgeveil.trainer.audit.findings import DONOR, LABEL_ONLY, RAW, SENT, Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.datasets.base import Dataset, Part, taken
from edgeveil.trainer.graphs import fitting
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.measures.per_code import MOMENTS, moments
from edgeveil.trainer.runs.run import Run

# Utility of x': networks trained on x' and tested on clean x (Table 5 of paper 001), and on x'.
#
# One small network is trained on each kind of data - raw, perturbed, label-only - to predict y and every further
# property that is known of a sample. Tested on clean samples it shows how good the data are for training. Tested on
# perturbed ones it shows what they tell about each property: leakage about it, wanted or not.

MOST_PROPERTIES, MOST_CLASSES = 6, 40  # of a property whose values are whole numbers; with more it counts as a number


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


def properties(dataset: Dataset, *, named: Sequence[str] = ()) -> list[Property]:
    """Those of ``moments_of``, and the data set's own attributes, ``MOST_PROPERTIES`` at most; never z."""
    eligible = []
    if shown := moments_of(dataset, named):
        values = np.concatenate(
            [moments(dataset.unit(dataset.x[i : i + 4096])) for i in range(0, len(dataset.x), 4096)]
        )
        eligible = [Property(name, values[:, MOMENTS.index(name)], 0) for name in shown]
    for name, values in dataset.attributes.items():
        if np.ptp(values) > 0:
            distinct, numbers = np.unique(values, return_inverse=True)
            few = len(distinct) <= MOST_CLASSES and bool((distinct == np.round(distinct)).all())
            eligible.append(Property(name, numbers if few else values.astype(np.float64), len(distinct) if few else 0))
    return eligible[:MOST_PROPERTIES]


@dataclass(frozen=True)
class Shown:
    """Raw samples x (n, *shape), or what is sent in their place, and the rows of the data set they are of."""

    x: np.ndarray
    rows: np.ndarray

    def at_most(self, n: int, rng: np.random.Generator) -> Shown:
        """``n`` of them at random, or all."""
        chosen = rng.permutation(len(self.rows))[:n]
        return Shown(self.x[chosen], self.rows[chosen])


class Reader:
    """A network trained on the samples ``given`` to predict y and the properties of the rows they are of."""

    def __init__(self, dataset: Dataset, given: Shown, known: list[Property], effort: Effort, seed: int) -> None:
        import keras

        given = given.at_most(effort.rows, np.random.default_rng([seed, 5]))
        self._dataset, self._known = dataset, known
        units = {"y": len(dataset.y_names), **{f"p{i}": p.classes or 1 for i, p in enumerate(known)}}
        losses = {f"p{i}": keras.losses.MeanSquaredError() for i, p in enumerate(known) if not p.classes}
        targets = {"y": dataset.y[given.rows]}
        for i, p in enumerate(known):
            values = p.values[given.rows]
            targets[f"p{i}"] = values if p.classes else ((values - values.mean()) / max(values.std(), 1e-9))[:, None]
        self._answers = _trained(dataset, given.x, targets, units, effort, seed, losses=losses, decay=True)

    def read(self, shown: Shown) -> dict[str, np.ndarray]:
        """y (n,) class numbers and every property (n,), class numbers or standardised values, as predicted."""
        answers = self._answers(shown.x)
        predictions = {"y": answers["y"].argmax(axis=1)}
        for i, p in enumerate(self._known):
            predictions[p.name] = answers[f"p{i}"].argmax(axis=1) if p.classes else answers[f"p{i}"][:, 0]
        return predictions

    def score(self, shown: Shown) -> Iterator[tuple[str | None, str, Interval]]:
        """How well that is: of y (None) and of each property, the figure, a rate or a correlation within y."""
        read, data = self.read(shown), self._dataset
        cluster, y = taken(data.cluster, shown.rows), data.y[shown.rows]
        yield None, "right", intervals.rate(read["y"] == y, cluster)
        for p in self._known:
            truth = p.values[shown.rows]
            if p.classes:
                yield p.name, "right", intervals.rate(read[p.name] == truth, cluster)
            else:
                yield p.name, "correlation", correlation(truth, read[p.name], y, cluster)


def discriminator_accuracy(
    dataset: Dataset, real: tuple[Shown, Shown], made: tuple[Shown, Shown], effort: Effort, seed: int
) -> Interval:
    """How often a fresh discriminator tells ``made`` from ``real`` samples, (to learn on, to test on) of each.

    0.5 is perfect; there are as many real ones as made ones.
    """
    rng, sides = np.random.default_rng([seed, 6]), []
    for a, b in zip(real, made, strict=True):
        n = min(len(a.rows), len(b.rows), effort.rows // 2)
        a, b = a.at_most(n, rng), b.at_most(n, rng)
        sides.append((np.concatenate([a.x, b.x]), np.repeat([0, 1], n), np.concatenate([a.rows, b.rows])))
    (x, side, _), (x_test, side_test, rows) = sides
    order = rng.permutation(len(x))
    answers = _trained(dataset, x[order], {"made": side[order]}, {"made": 2}, effort, seed)
    return intervals.rate(answers(x_test)["made"].argmax(axis=1) == side_test, taken(dataset.cluster, rows))


def _trained(
    dataset: Dataset,
    x: np.ndarray,
    targets: Mapping[str, np.ndarray],
    units: Mapping[str, int],
    effort: Effort,
    seed: int,
    *,
    losses: Mapping[str, Any] | None = None,
    decay: bool = False,
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """A network that learned ``targets`` (n, ...), of so many ``units`` each, of samples x (n, ...): what it answers.

    Targets are class numbers, but for those that ``losses`` have. ``decay``: the rate goes down to 0.
    """
    import keras

    from edgeveil.models.property_readers import reader

    mean, scale = _scaling(dataset)

    def inputs(x: np.ndarray) -> np.ndarray:
        return np.asarray(((dataset.unit(x) - mean) * scale).astype(np.float32))

    keras.utils.set_random_seed(seed)
    model = reader(dataset.input.shape, dict(units))
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss = fitting.total({**dict.fromkeys(targets, entropy), **(losses or {})})
    batch = int(np.clip(len(x) // 40, 16, 64))
    steps = effort.epochs * -(-len(x) // batch)
    adam = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(2e-3, steps) if decay else 2e-3)
    fitting.fit(model, inputs(x), dict(targets), loss, adam, batch=batch, epochs=effort.epochs)

    def answers(x: np.ndarray) -> dict[str, np.ndarray]:
        pieces = [model(inputs(x[i : i + 2048]), training=False) for i in range(0, len(x), 2048)]
        return {name: np.concatenate([np.asarray(piece[name]) for piece in pieces]) for name in pieces[0]}

    return answers


def correlation(a: np.ndarray, b: np.ndarray, y: np.ndarray, cluster: np.ndarray | None) -> Interval:
    """Correlation of a and b (n,) within y with its 95 % interval: Fisher's z, its variance from the influence of each
    row, or of each cluster where given. Ends that are not known are NaN."""
    a, b = residual(a, y), residual(b, y)
    scale = float(np.sqrt((a**2).mean() * (b**2).mean()))
    if scale < 1e-12:
        return Interval(0.0, np.nan, np.nan)
    r = float((a * b).mean()) / scale
    influence = a * b / scale - r * (a**2 / (a**2).mean() + b**2 / (b**2).mean()) / 2
    totals = np.bincount(intervals.unit_numbers(len(a), cluster), weights=influence)
    if len(totals) < 3 or abs(r) > 1 - 1e-9:
        return Interval(r, np.nan, np.nan)
    error = float(np.sqrt((totals**2).sum())) / len(a) / (1 - r**2)
    half = intervals.student(len(totals)) * error
    middle = float(np.arctanh(r))
    return Interval(r, float(np.tanh(middle - half)), float(np.tanh(middle + half)))


def residual(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``values`` (n,) less the mean of their class of y (n,)."""
    sums, n = np.bincount(y, values), np.maximum(np.bincount(y), 1)
    return values - (sums / n)[y]


def chances(dataset: Dataset, known: list[Property]) -> Mapping[str, float]:
    """For every property of classes: how often the commonest of its class of y is right on the test slice."""
    training, test = to_learn(dataset), dataset.slices.test
    shares = {}
    for p in known:
        if p.classes:
            classes = len(dataset.y_names), p.classes
            counts = intervals.count(dataset.y[training], p.values[training], shape=classes)
            shares[p.name] = float((counts.argmax(axis=1)[dataset.y[test]] == p.values[test]).mean())
    return shares


def _scaling(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """None for images; others to mean 0 and variance 1 of raw ones of the first slice, the same for all data."""
    if dataset.input.kind == "image":
        return np.zeros(()), np.ones(())
    u = dataset.unit(dataset.part("classifiers").x)
    spread = u.std(axis=0)
    return u.mean(axis=0), np.where(spread > 1e-6, 1 / np.maximum(spread, 1e-6), 0.0)


ROUNDING = 1e-6  # of the unit cube
SIMILARITY_ROWS = 2_000  # for pictures compared one by one
TRAINED = "trained on perturbed samples (raw: on raw ones), tested on clean test samples"
READ = "trained and tested on perturbed samples: leakage about each property"
KEPT = "correlation within y of a property of x with the same property of x'; label-only keeps 0"
TOLD_APART = "a fresh discriminator's accuracy, half real: 0.5 is perfect; for donors it proves nothing"
KIND = {"kind": "collateral"}


@dataclass(frozen=True)
class Asked:
    """What is asked of each kind of data; ``y`` is the name of y.

    ``named`` are the properties that the recipe asks to keep; nothing was tuned for the others.
    """

    dataset: Dataset
    y: str
    named: tuple[str, ...]
    budget: str
    seed: int

    @cached_property
    def known(self) -> list[Property]:
        """The properties."""
        return properties(self.dataset, named=self.named)

    def answered(
        self, scores: Iterable[tuple[str | None, str, Interval]], name: str, of: str, text: str
    ) -> Iterator[Finding]:
        """What a reader says, as findings; of what is sent they have what y alone reaches."""
        chance = chances(self.dataset, self.known) if of == SENT else {}
        for question, figure, value in scores:
            more = {**KIND, "named_by_recipe": True} if of == SENT and question in self.named else KIND
            question_name = self.y if question is None else question
            facts: dict[str, Any] = {"of": of, "null": chance.get(question_name), "text": text, "more": more}
            yield Finding.measured(question_name, name, figure, value, **facts)

    def side(self, shown: Mapping[str, Shown], of: str) -> Iterator[Finding]:
        """What samples made of the raw ones are good for: a reader learns on them, and a discriminator."""
        dataset, effort = self.dataset, EFFORT[self.budget]
        clean = Shown(dataset.part("test").x, dataset.slices.test)
        reader = Reader(dataset, shown["learn"], self.known, effort, self.seed)
        # Real samples to learn on are of the first slice, made ones of the second: no row is seen as both.
        first = Shown(dataset.part("classifiers").x, dataset.slices.classifiers)
        half = len(clean.rows) // 2
        order = np.random.default_rng([self.seed, 8]).permutation(len(clean.rows))
        real, perturbed = (
            Shown(of.x[rows], of.rows[rows]) for of, rows in ((clean, order[:half]), (shown["test"], order[half:]))
        )
        yield from self.answered(reader.score(clean), "trained on it", of, TRAINED)
        # Of what is sent y has its readers.
        read = (one for one in reader.score(shown["test"]) if one[0] is not None)
        yield from self.answered(read, "read from it", of, READ)
        apart = discriminator_accuracy(dataset, (first, real), (shown["second"], perturbed), effort, self.seed)
        facts: dict[str, Any] = {"of": of, "null": 0.5, "text": TOLD_APART, "more": KIND}
        yield Finding.measured("told apart from raw samples", "discriminator", "right", apart, **facts)


def section(asked: Asked, frames: np.ndarray) -> list[Finding]:
    """What the released frames (n, ...) of the rows of all slices, in their order, are still good for."""
    dataset = asked.dataset
    shown, test = _by_slice(dataset, frames), dataset.part("test")
    sent = dataset.unit(shown["test"].x)
    moved = (dataset.unit(test.x) - sent).reshape(len(test), -1)
    by_property = correlations(dataset, test, frames[-len(test) :], named=asked.named)
    distance = intervals.mean(np.linalg.norm(moved, axis=1), test.cluster)
    alike = {"distance": distance, **_similarity(dataset, test, sent, asked.seed)}
    facts: dict[str, Any] = {"null": 0.0, "text": KEPT, "more": KIND}
    return [
        *asked.side(shown, SENT),
        *(Finding.measured(name, "x to x'", "correlation", value, **facts) for name, value in by_property.items()),
        *(Finding.measured("likeness", name, "number", value, more=KIND) for name, value in alike.items()),
    ]


def label_only(asked: Asked, means: np.ndarray, label: np.ndarray) -> list[Finding]:
    """The same networks on raw samples and on label-only, as its mean (``means``, frames of all rows) and as a donor.

    ``label`` (n,) is y-hat of the rows of all slices. A donor is a random training sample of class y-hat: it
    shows how much of a row's figures is due to donors alone.
    """
    dataset = asked.dataset
    rng = np.random.default_rng([asked.seed, 7])
    pool, drawn = dataset.part("perturber"), np.empty(len(label), np.int64)
    for value in np.unique(label):
        rows = pool.index[pool.y == value]
        drawn[label == value] = rng.choice(rows, int((label == value).sum()))
    raw = _by_slice(dataset, dataset.x[dataset.slices.rows()])
    reader = Reader(dataset, raw["learn"], asked.known, EFFORT[asked.budget], asked.seed)
    return [
        *asked.answered(reader.score(raw["test"]), "trained on it", RAW, TRAINED),
        *asked.side(_by_slice(dataset, means), LABEL_ONLY),
        *asked.side(_by_slice(dataset, dataset.x[drawn]), DONOR),
    ]


def correlations(
    dataset: Dataset, part: Part, frames: np.ndarray, *, named: tuple[str, ...] = ()
) -> dict[str, Interval]:
    """Correlation within y between x and x' by property, for rows ``part`` and their raw ``frames`` (n, *shape).

    What ``moments_of`` names is measured. An attribute of the data set is looked up where every frame is a
    sample of the data set (donors); else it is left out, because it is not known of a made frame.
    """
    by_property = {}
    if shown := moments_of(dataset, named):
        before, after = moments(dataset.unit(part.x)), moments(dataset.unit(frames))
        for name in shown:
            i = MOMENTS.index(name)
            by_property[name] = correlation(before[:, i], after[:, i], part.y, part.cluster)
    donors = _rows_of(dataset, frames) if dataset.attributes else None
    if donors is not None:
        for name, values in dataset.attributes.items():
            by_property[name] = correlation(values[part.index], values[donors], part.y, part.cluster)
    return by_property


def _by_slice(dataset: Dataset, frames: np.ndarray) -> dict[str, Shown]:
    rows, frames = dataset.slices.rows(), frames.reshape((-1, *dataset.input.shape))
    return {name: Shown(frames[at], rows[at]) for name, at in places(dataset)._asdict().items()}


def _similarity(dataset: Dataset, test: Part, u: np.ndarray, seed: int) -> dict[str, Interval]:
    """Mean SSIM and PSNR (dB) between pictures and what is sent in their place; none for vectors."""
    if dataset.input.kind != "image":
        return {}
    import tensorflow as tf

    some = np.random.default_rng([seed, 9]).permutation(len(test))[:SIMILARITY_ROWS]
    before, after = dataset.unit(test.x[some]), u[some]
    side = min(11, *dataset.input.shape[:2])
    cluster = taken(test.cluster, some)
    ssim = tf.image.ssim(before, after, 1.0, filter_size=side).numpy().astype(np.float64)
    error = ((before - after) ** 2).reshape(len(some), -1).mean(axis=1)
    psnr = -10 * np.log10(np.maximum(error, 1e-10))  # 100 dB where nothing was changed
    return {"ssim": intervals.mean(ssim, cluster), "psnr_db": intervals.mean(psnr, cluster)}


def _rows_of(dataset: Dataset, frames: np.ndarray) -> np.ndarray | None:
    """The training row that each frame is, or None where some frame is none.

    Floats come back from the unit cube, so they are equal but for rounding; first of all in their sum.
    """
    known = dataset.slices.training()
    different, which = np.unique(dataset.unit(frames).reshape(len(frames), -1), axis=0, return_inverse=True)
    samples = dataset.unit(dataset.x[known]).reshape(len(known), -1)
    sums, row_of = samples.sum(axis=1, dtype=np.float64), np.empty(len(different), np.int64)
    for number, frame in enumerate(different):
        near = np.flatnonzero(np.abs(sums - frame.sum(dtype=np.float64)) <= ROUNDING * len(frame))
        same = near[(np.abs(samples[near] - frame) <= ROUNDING).all(axis=1)]
        if not len(same):
            return None
        row_of[number] = known[same[0]]
    return row_of[which.reshape(-1)]


def named_by(run: Run) -> tuple[str, ...]:
    """The properties of a sample that a run's recipe asks to keep."""
    return tuple(getattr(run.recipe.perturber, "keep", ()))


class Collateral(Section):
    """What is kept of other properties; nothing where no frame leaves and no code stands for one."""

    name = "collateral"
    order = 7

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``."""
        outputs = about.subject.manifest["outputs"]
        if not any(output["kind"] == "frame" or "decoder" in output for output in outputs):
            return []
        request = Asked(about.dataset, about.target, named_by(about.run), about.budget.name, about.seed)
        return section(request, about.released.x)
