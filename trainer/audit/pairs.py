"""Samples before a mechanism, and what it made of them: what such an audit needs, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec, taken
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.datasets.slicing import check_hidden, clusters

FEWEST_OF_A_CLASS = 5  # rows; a rarer class can hardly be in the rows to learn, to choose and to test
Order = Literal["test", "matched", "shuffled"]


@dataclass(frozen=True)
class Pairs:
    """``before`` and ``after`` as samples with labels. Row i of both is one sample, unless ``order`` is *shuffled*.

    ``order`` says whether rows are in one order: *test* it, *matched* as the user vouches, or *shuffled*: the labels of
    ``after`` are its own then, and no row of ``before`` is known to belong to one of ``after``. Where it is not
    shuffled, labels, subjects and sessions are the same in both. ``notes`` are sentences for the report: what was found
    or left out while reading.
    """

    before: Readings
    after: Readings
    order: Order = "test"
    notes: tuple[str, ...] = ()

    def take(self, rows: np.ndarray) -> Pairs:
        """Some rows of both; for rows that are not shuffled."""
        return replace(self, before=some(self.before, rows), after=some(self.after, rows))


def paired(before: Readings, x: np.ndarray, *, order: Order = "test", notes: Sequence[str] = ()) -> Pairs:
    """The pairs of labelled samples and what was made of them, ``x`` (n, ...). Raises ``BadInput``."""
    if len(x) != len(before.x):
        raise BadInput(
            f"As many rows after as before were expected; got {len(before.x):,} before and {len(x):,} after. Leave out "
            "of both what is missing in one, such that row i of both is the same sample."
        )
    kind: Literal["image", "vector"] = "vector" if x.ndim == 2 else "image"
    return Pairs(before, replace(before, x=x, kind=kind, low=None, high=None), order, tuple(notes))


def some(readings: Readings, rows: np.ndarray) -> Readings:
    """Some rows of samples, with their labels."""
    arrays = {name: taken(getattr(readings, name), rows) for name in ("x", "y", "z", "subject", "session")}
    known = {name: replace(one, values=one.values[rows]) for name, one in readings.known.items()}
    return replace(readings, **arrays, known=known, attributes={}, labels=None, consent=None)


def without_rare(pairs: Pairs) -> Pairs:
    """Without the rows of a y or z that has too few of them; a note says so. Raises ``BadInput`` if nothing is left.

    Raises it too where z follows from y, or where there is one class only.
    """
    if pairs.order == "shuffled":
        for name, readings in (("before", pairs.before), ("after", pairs.after)):
            _check_classes(readings, f" {name}")
        return pairs
    before = pairs.before
    keep = np.ones(len(before.y), bool)
    notes = list(pairs.notes)
    for of, labels in (("y", before.y), ("z", before.z)):
        counts = np.bincount(labels, minlength=1)
        rare = np.flatnonzero((counts > 0) & (counts < FEWEST_OF_A_CLASS))
        if len(rare):
            keep &= ~np.isin(labels, rare)
            notes.append(
                f"{len(rare)} of {int((counts > 0).sum())} classes of {of} have fewer than {FEWEST_OF_A_CLASS} rows: "
                f"their {int(counts[rare].sum())} rows are left out."
            )
    if not keep.any():
        raise BadInput(
            f"Every class of y or z has fewer than {FEWEST_OF_A_CLASS} rows, so no adversary could learn it. Group z "
            "into fewer classes (numpy.digitize for numbers), or give more rows of each."
        )
    common = pairs if keep.all() else pairs.take(np.flatnonzero(keep))
    common = replace(common, before=_renumbered(common.before), after=_renumbered(common.after), notes=tuple(notes))
    _check_classes(common.before, "")
    return common


def spec(readings: Readings, others: Sequence[Readings] = ()) -> InputSpec:
    """Kind, shape and range of samples; the range over ``others`` of the same shape too."""
    x = readings.x
    alike = [other.x for other in others if other.x.shape[1:] == x.shape[1:]]
    return spec_of(x, alike, image=readings.kind == "image")


def spec_of(x: np.ndarray, others: Sequence[np.ndarray] = (), *, image: bool) -> InputSpec:
    """``spec`` of arrays of one shape."""
    alike = [x, *others]
    if image and all(one.dtype == np.uint8 for one in alike):
        return InputSpec("image", x.shape[1:], str(x.dtype), 0.0, 255.0)
    lows = np.min([one.min(axis=0).astype(np.float64) for one in alike], axis=0)
    highs = np.max([one.max(axis=0).astype(np.float64) for one in alike], axis=0)
    if image:
        low, high = float(lows.min()), float(highs.max())
        return InputSpec("image", x.shape[1:], str(x.dtype), low, high if high > low else low + 1)
    highs = np.where(highs > lows, highs, lows + 1)
    return InputSpec("vector", x.shape[1:], str(x.dtype), tuple(lows.tolist()), tuple(highs.tolist()))


def units(readings: Readings) -> tuple[np.ndarray | None, str | None]:
    """The independent units (n,) of rows and what they are: subjects or sessions; None where each row is one.

    Raises ``BadInput`` where z follows from the subject and sessions are not known.
    """
    return clusters(readings.z, subject=readings.subject, session=readings.session)


def _renumbered(readings: Readings) -> Readings:
    """Class numbers without gaps."""
    numbers: dict[str, Any] = {}
    for name, names in (("y", readings.y_names), ("z", readings.z_names)):
        present, place = np.unique(getattr(readings, name), return_inverse=True)
        numbers |= {name: place.reshape(-1), f"{name}_names": tuple(names[i] for i in present)}
    return replace(readings, **numbers)


def _check_classes(readings: Readings, where: str) -> None:
    for of, names in (("y", readings.y_names), ("z", readings.z_names)):
        if len(names) < 2:
            raise BadInput(
                f"{of}{where} must have at least 2 classes of {FEWEST_OF_A_CLASS} rows; got {len(names)}. There is "
                "nothing to tell apart."
            )
    check_hidden(readings.y, readings.z)


# Is row i after made of row i before? Permutation tests, and the offset of two films.
#
# Two statistics, each against 999 random orders of the rows after: the mean inner product of standardised rows (where
# both have one shape; the matched filter, which finds a sample under much noise), and the distance covariance (Székely,
# Rizzo and Bakirov 2007), which needs no common shape. A mechanism that destroys everything looks like rows in another
# order: data alone cannot tell the two apart.

SHUFFLES = 999
MOST_ROWS = 1000  # for inner products
MOST_FOR_DISTANCES = 400
LEVEL = 0.005
MOST_OFFSET = 30  # frames
PIECES = 3  # of a film: its begin, its middle and its end drift apart where frames are lost on the way
CLEAR = 5.0  # standard deviations over the other offsets


class Match(NamedTuple):
    """``p`` of the hypothesis that rows are in unrelated orders (None where it cannot be tested), and a sentence."""

    p: float | None
    matched: bool | None
    sentence: str


def match(before: np.ndarray, after: np.ndarray, *, seed: int) -> Match:
    """Test rows (n, ...) before and after on a random choice of them."""
    rng = np.random.default_rng([seed, 11])
    rows = rng.permutation(len(before))[:MOST_ROWS]
    a, b = (x[rows].reshape(len(rows), -1).astype(np.float64) for x in (before, after))
    if not b.std(axis=0).any():
        return Match(None, None, "All rows after are the same, so their order cannot be tested.")
    d_a, d_b = _centred_distances(a), _centred_distances(b)
    observed = float((d_a * d_b).sum())
    p_values = [
        _p(observed - 1e-9 * abs(observed), lambda order: (d_a * d_b[np.ix_(order, order)]).sum(), len(d_b), rng)
    ]
    if before.shape[1:] == after.shape[1:]:
        products = _standard(a) @ _standard(b).T
        own = np.arange(len(products))
        p_values.append(_p(np.trace(products) - 1e-9, lambda order: products[own, order].sum(), len(own), rng))
    p = min(1.0, len(p_values) * min(p_values))
    what = f"row i after depends on row i before (p {'<=' if p <= 2 / SHUFFLES else '='} {p:.3g}"
    if p <= LEVEL:
        return Match(p, True, f"Rows seem to be matched: {what}, {len(rows):,} rows, permutation test).")
    why = "permutation test). They are in another order, or the mechanism leaves nothing of a sample."
    what = f"row i after does not depend on row i before (p = {p:.3g}, {len(rows):,} rows, {why}"
    return Match(p, False, f"Rows seem not to be matched: {what}")


def _standard(x: np.ndarray) -> np.ndarray:
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)


def _p(least: float, statistic: Callable[[np.ndarray], float], n: int, rng: np.random.Generator) -> float:
    """How seldom a ``statistic`` of random orders of n rows is at ``least`` that high."""
    null = np.array([float(statistic(rng.permutation(n))) for _ in range(SHUFFLES)])
    return float((1 + (null >= least).sum()) / (1 + SHUFFLES))


def _centred_distances(x: np.ndarray) -> np.ndarray:
    x = x[:MOST_FOR_DISTANCES]
    squares = (x**2).sum(axis=1)
    d = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * x @ x.T, 0.0))
    return d - d.mean(axis=0) - d.mean(axis=1, keepdims=True) + d.mean()


def offset(before: np.ndarray, after: np.ndarray) -> int:
    """How many frames after its place in ``before`` a frame of the other film comes; 0 where no offset stands out.

    Both are (frames, ...) in order, of one shape. Estimated in each third of the film by correlation of frames whose
    mean over the film is subtracted. Raises ``BadInput`` where the thirds disagree: the films drift apart.
    """
    n = min(len(before), len(after))
    bounds = np.linspace(0, n, PIECES + 1).astype(int)
    offsets = [
        one
        for start, stop in zip(bounds, bounds[1:], strict=False)
        if (one := _offset(before, after, start, stop)) is not None
    ]
    if len(set(offsets)) > 1:
        raise BadInput(
            f"The films drift apart: frames after come {', then '.join(map(str, offsets))} frames late in its thirds. "
            "Write the film again at a constant frame rate, without dropping frames (ffmpeg -fps_mode passthrough)."
        )
    return offsets[0] if offsets else 0


def _offset(before: np.ndarray, after: np.ndarray, start: int, stop: int) -> int | None:
    """The offset in frames [start, stop), None where none stands out."""
    most = min(MOST_OFFSET, (stop - start) // 4)
    if most < 1:
        return None
    a, b = (_frames(x) for x in (before, after))
    scores = {}
    for k in range(-most, most + 1):
        here = np.arange(max(start, -k), min(stop, len(b) - k, len(a)))
        if len(here) >= most:
            scores[k] = float((a[here] * b[here + k]).sum(axis=1).mean())
    best = max(scores, key=lambda k: scores[k])
    # Neighbours of the best are high as well: films move slowly. Far offsets are the noise.
    far = [value for k, value in scores.items() if abs(k - best) > most // 2]
    if len(far) < 3 or scores[best] < np.mean(far) + CLEAR * np.std(far):
        return None
    return best


def _frames(x: np.ndarray) -> np.ndarray:
    """Frames as rows of unit length, without the mean of the film: (frames, values)."""
    flat = x.reshape(len(x), -1).astype(np.float32)
    flat = flat - flat.mean(axis=0)
    length = np.linalg.norm(flat, axis=1, keepdims=True)
    return flat / np.where(length > 0, length, 1.0)
