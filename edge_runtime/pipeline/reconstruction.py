"""Whether a receiver could compute x from everything that leaves, by a least-squares map from all outputs to x.

The model runs on inputs made anew each time: noise, golden vectors shifted and mirrored, smooth pictures. One part of
them fits the map, the other part and the golden vectors judge it. A feature of x is *exact* if the map's error is at
most ``ERROR`` of its range, or ``STEP`` of an integer's steps. Raw data under another name has exact features only:
inverted, mirrored, permuted, scaled, shifted, split over two outputs, sent as a code. A trained perturber has few,
although the map may explain nine tenths of the variance of x. A linear cleaner that removes r of d directions evenly
has none if r / d > 0.0012.

With at most ``DENSE`` values in all outputs, the map uses all of them. With more it would need more inputs than there
is time for, so that each feature is computed from the ``TERMS`` values that suit it best.

Not found: an encoding that is not linear, such as a cipher; a mixture of more than ``TERMS`` of more than ``DENSE``
values; fewer raw features than ``LIMIT``; a model that tells these inputs from a camera's. This finds mistakes and
plain disguises. It does not replace trust in the key that signs.
"""

import os
from typing import Callable, Mapping, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped, PrivacyStop
from edgeveil.edge_runtime.manifest.manifest import Input

LIMIT = 0.5  # the share of exact features from which nothing is released
ERROR, STEP = 0.01, 0.6
DENSE, TERMS = 128, 2
FEATURES = 64  # of x that are judged, chosen at random where there are more
CLASSES = 32  # most values of a label for which each one is a value of its own
_KINDS, _FEW = 3, 12  # of inputs; how many of them for a map of few terms
_CELLS = 4  # of a smooth picture, along each axis

Run = Callable[[np.ndarray], Mapping[str, np.ndarray]]


def refuse_reconstruction(run: Run, spec: Input, golden: np.ndarray, outputs: Mapping[str, np.ndarray]) -> None:
    """Raise ``PrivacyStop`` if ``LIMIT`` of x's features are exact; ``run`` maps samples (n, ...) to all outputs.

    ``golden`` are samples (n, ...), ``outputs`` what they became.
    """
    share, reason = 0.0, ""
    try:
        share = exact_share(run, spec, golden, outputs)
    except FrameDropped as drop:
        reason = drop.reason
    if reason:
        raise PrivacyStop(
            "a random input was dropped ({}), so the self-test cannot tell whether raw data passes through. "
            "Do not use the bundle; tell its maker.".format(reason)
        )
    if share >= LIMIT:
        raise PrivacyStop(
            "raw data leaves under another name: a linear map gives {:.0%} of the features of x from the outputs, and "
            "the manifest does not allow that. Do not use the bundle; tell its maker.".format(share)
        )


def exact_share(run: Run, spec: Input, golden: np.ndarray, outputs: Mapping[str, np.ndarray]) -> float:
    """The share of x's features that are exact, 0 to 1: on random or on golden inputs, whichever is larger."""
    rng = np.random.RandomState(np.frombuffer(os.urandom(16), np.uint32))
    values = sum(int(np.prod(value.shape[1:])) for value in outputs.values())
    dense = values <= DENSE
    x = probes(spec, golden, 3 * (values + 8) if dense else _FEW, rng)
    made = run(x)
    columns = {name: _classes(value) for name, value in made.items()}
    chosen = rng.permutation(int(np.prod(spec.shape)))[:FEATURES]
    wanted, wanted_golden = (_flat(one)[:, chosen] for one in (x, golden))
    given, given_golden = (_columns(one, columns) for one in (made, outputs))
    # The kinds of inputs take turns; so each part has all of them.
    judged = np.arange(len(x)) // _KINDS % 3 == 2
    solve = _dense if dense else _of_few_terms
    held = solve(given[~judged], wanted[~judged], given[judged], wanted[judged])
    of_golden = solve(given[~judged], wanted[~judged], given_golden, wanted_golden)
    limit = _largest_error(spec, x)[chosen]
    # A feature that hardly moves is given by its mean, which proves nothing.
    moves = np.ptp(wanted_golden, axis=0) > 4 * limit
    shares = [np.mean(_rms(held) <= limit)]
    if moves.any():
        shares.append(np.mean(_rms(of_golden)[moves] <= limit[moves]))
    return float(max(shares))


def probes(spec: Input, golden: np.ndarray, n: int, rng: np.random.RandomState) -> np.ndarray:
    """Random samples (n, *shape) within the range of x: noise, changed golden vectors and smooth pictures, in turns."""
    low, high = _range(spec, golden)
    rows = []
    for number in range(n):
        kind = number % _KINDS
        if kind == 0:
            unit = rng.random_sample(spec.shape)
        elif kind == 1:
            unit = _moved((golden[rng.randint(len(golden))] - low) / (high - low), rng)
        else:
            unit = _smooth(spec.shape, rng)
        rows.append(low + unit * (high - low))
    x = np.stack(rows)
    return (np.rint(x) if np.dtype(spec.dtype).kind in "iu" else x).astype(spec.dtype)


def _range(spec: Input, golden: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Low and high of each feature; those of the golden vectors where x has no range."""
    low, high = spec.low, spec.high
    if low is None:
        low, high = golden.min(axis=0), golden.max(axis=0)
        high = np.where(high > low, high, low + 1.0)
    return tuple(np.broadcast_to(np.asarray(end, np.float64), spec.shape) for end in (low, high))  # type: ignore


def _moved(unit: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A sample shifted and, at random, mirrored along each axis and inverted."""
    for axis, size in enumerate(unit.shape):
        unit = np.roll(unit, rng.randint(size), axis)
        unit = np.flip(unit, axis) if rng.randint(2) else unit
    unit = np.clip(unit, 0.0, 1.0)
    return 1.0 - unit if rng.randint(2) else unit


def _smooth(shape: Tuple[int, ...], rng: np.random.RandomState) -> np.ndarray:
    """A few random values along each axis, and straight lines between them."""
    axes = len(shape) - (len(shape) == 3)  # not between channels
    unit = rng.random_sample((_CELLS,) * axes + shape[axes:])
    for axis in range(axes):
        place = np.linspace(0, _CELLS - 1, shape[axis])
        cell = np.minimum(place.astype(int), _CELLS - 2)
        part = (place - cell).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        unit = np.take(unit, cell, axis) * (1 - part) + np.take(unit, cell + 1, axis) * part
    return unit


def _largest_error(spec: Input, x: np.ndarray) -> np.ndarray:
    """The error at which each feature still counts as exact, in units of x."""
    flat = _flat(x)
    return np.maximum(ERROR * np.ptp(flat, axis=0), STEP * (np.dtype(spec.dtype).kind in "iu"))


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1).astype(np.float64)


def _classes(values: np.ndarray) -> np.ndarray:
    """The values of a label or an index, if they are few; else none."""
    if values.ndim > 1 or values.dtype.kind not in "iu":
        return np.empty(0)
    found = np.unique(values)
    return found if len(found) <= CLASSES else np.empty(0)


def _columns(outputs: Mapping[str, np.ndarray], classes: Mapping[str, np.ndarray]) -> np.ndarray:
    """All outputs side by side (n, values); a label with few values is 1 in the column of its own."""
    return np.hstack(
        [
            (_flat(outputs[name]) == found).astype(np.float64) if len(found) else _flat(outputs[name])
            for name, found in classes.items()
        ]
    )


def _rms(errors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(errors * errors, axis=0))


def _dense(given: np.ndarray, wanted: np.ndarray, new: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Errors of a ridge regression of ``wanted`` on ``given`` at ``new``, each (n, columns)."""
    middle, centre = given.mean(axis=0), wanted.mean(axis=0)
    spread = given.std(axis=0)
    moving = spread > 0
    scaled = (given - middle)[:, moving] / spread[moving]
    # A ridge that rounding needs, and that hides nothing: of the order of 1e-6 of a column's variance.
    gram = scaled.T.dot(scaled) + 1e-6 * len(scaled) * np.eye(int(moving.sum()))
    weights = np.linalg.solve(gram, scaled.T.dot(wanted - centre))
    return centre + ((new - middle)[:, moving] / spread[moving]).dot(weights) - truth


def _of_few_terms(given: np.ndarray, wanted: np.ndarray, new: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """As ``_dense``, by orthogonal matching pursuit of ``TERMS`` columns for each feature."""
    middle, centre = given.mean(axis=0), wanted.mean(axis=0)
    spread = given.std(axis=0)
    spread[spread == 0] = np.inf
    scaled, left = (given - middle) / spread, wanted - centre
    errors = centre - truth
    terms = [np.abs(left.T.dot(scaled)).argmax(axis=1)]
    while True:
        found = np.stack(terms)
        for feature in range(wanted.shape[1]):
            columns = found[:, feature]
            weights = np.linalg.lstsq(scaled[:, columns], wanted[:, feature] - centre[feature], rcond=1e-9)[0]
            left[:, feature] = wanted[:, feature] - centre[feature] - scaled[:, columns].dot(weights)
            if len(terms) == TERMS:
                scaled_new = (new[:, columns] - middle[columns]) / spread[columns]
                errors[:, feature] += scaled_new.dot(weights)
        if len(terms) == TERMS:
            return errors
        terms.append(np.abs(left.T.dot(scaled)).argmax(axis=1))
