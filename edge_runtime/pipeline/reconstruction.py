"""Whether a receiver could compute x from everything that leaves, by a least-squares map from all outputs to x.

The model runs on inputs made anew each time: noise, golden vectors shifted and mirrored, smooth pictures. One part of
them fits the map, the other part and the golden vectors judge it. A feature of x is *exact* if the map's error is at
most ``ERROR`` of its range, or ``STEP`` of an integer's steps where it has many. Raw data under another name has exact
features only: inverted, mirrored, permuted, scaled, shifted, split over two outputs, sent as a code. A trained
perturber has few, although the map may explain nine tenths of the variance of x. A linear cleaner that removes r of d
directions evenly has none if r / d > 0.0012.

With at most ``DENSE`` values in all outputs, the map uses all of them. With more it would need more inputs than there
is time for, so that each feature is computed from the ``TERMS`` values that suit it best.

Not found: an encoding that is not linear, such as a cipher; a mixture of more than ``TERMS`` of more than ``DENSE``
values; fewer raw features than ``LIMIT``; a model that tells these inputs from a camera's. This finds mistakes and
plain disguises. It does not replace trust in the key that signs.
"""

from typing import Callable, Mapping, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped, PrivacyStop
from edgeveil.edge_runtime.manifest.manifest import Input
from edgeveil.edge_runtime.pipeline.random_draws import integers, uniform

LIMIT = 0.5  # the share of exact features from which nothing is released
ERROR, STEP = 0.01, 0.6
FEW_STEPS = 0.05  # the most that STEP may be of a feature's range
DENSE, TERMS = 128, 2
FEATURES = 64  # of x that are judged, chosen at random where there are more
CLASSES = 32  # most values of a label for which each one is a value of its own
_KINDS, _FEW = 3, 18  # of inputs; how many of them for a map of few terms
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
    values = sum(int(np.prod(value.shape[1:])) for value in outputs.values())
    dense = values <= DENSE
    x = probes(spec, golden, 2 * (values + 12) if dense else _FEW)
    made = run(x)
    columns = {name: _classes(value) for name, value in made.items()}
    size = int(np.prod(spec.shape))
    chosen = np.argsort(uniform((size,)))[:FEATURES]
    wanted, wanted_golden = (_flat(one)[:, chosen] for one in (x, golden))
    given, given_golden = (_columns(one, columns) for one in (made, outputs))
    # The kinds of inputs take turns; so each part has all of them.
    judged = np.arange(len(x)) // _KINDS % 3 == 2
    solve = _dense if dense else _of_few_terms
    new = np.vstack([given[judged], given_golden])
    errors = solve(given[~judged], wanted[~judged], new) - np.vstack([wanted[judged], wanted_golden])
    held, of_golden = np.split(errors, [int(judged.sum())])
    limit = _largest_error(spec, x)[chosen]
    # A feature that hardly moves is given by its mean, which proves nothing.
    moves = np.ptp(wanted_golden, axis=0) > 4 * limit
    shares = [np.mean(_rms(held) <= limit)]
    if moves.any():
        shares.append(np.mean(_rms(of_golden)[moves] <= limit[moves]))
    return float(max(shares))


def probes(spec: Input, golden: np.ndarray, n: int) -> np.ndarray:
    """Random samples (n, *shape) within the range of x: noise, changed golden vectors and smooth pictures, in turns."""
    low, high = _range(spec, golden)
    unit = np.empty((n,) + spec.shape)
    unit[0::_KINDS] = uniform(unit[0::_KINDS].shape)
    unit[1::_KINDS] = _moved((golden - low) / (high - low), len(unit[1::_KINDS]))
    unit[2::_KINDS] = _smooth(unit[2::_KINDS].shape)
    x = low + unit * (high - low)
    return (np.rint(x) if np.dtype(spec.dtype).kind in "iu" else x).astype(spec.dtype)


def _range(spec: Input, golden: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Low and high of each feature; those of the golden vectors where x has no range."""
    low, high = spec.low, spec.high
    if low is None:
        low, high = golden.min(axis=0), golden.max(axis=0)
        high = np.where(high > low, high, low + 1.0)
    return tuple(np.broadcast_to(np.asarray(end, np.float64), spec.shape) for end in (low, high))  # type: ignore


def _moved(unit: np.ndarray, n: int) -> np.ndarray:
    """``n`` of the samples, shifted and, at random, mirrored along each axis and inverted."""
    alone = (n,) + (1,) * (unit.ndim - 1)  # one number for each sample
    places = [integers(len(unit), n).reshape(alone)]
    for axis, size in enumerate(unit.shape[1:], 1):
        along = np.arange(size).reshape((-1,) + (1,) * (unit.ndim - 1 - axis))
        way = 1 - 2 * integers(2, n).reshape(alone)
        places.append((way * along + integers(size, n).reshape(alone)) % size)
    moved = np.clip(unit[tuple(places)], 0.0, 1.0)
    return np.abs(integers(2, n).reshape(alone) - moved)


def _smooth(shape: Tuple[int, ...]) -> np.ndarray:
    """Samples of a few random values along each axis, and straight lines between them; ``shape`` is (n, ...)."""
    ends = 1 + (len(shape) == 4)  # neither between samples nor between channels
    axes = len(shape) - ends
    unit: np.ndarray = uniform(shape[:1] + (_CELLS,) * axes + shape[1 + axes :])
    for axis in range(1, 1 + axes):
        place = np.linspace(0, _CELLS - 1, shape[axis])
        cell = np.minimum(place.astype(int), _CELLS - 2)
        part = (place - cell).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        unit = np.take(unit, cell, axis) * (1 - part) + np.take(unit, cell + 1, axis) * part
    return unit


def _largest_error(spec: Input, x: np.ndarray) -> np.ndarray:
    """The error at which each feature still counts as exact, in units of x."""
    span = np.ptp(_flat(x), axis=0)
    # Where an integer has few values, a guess is never far from it: most of a step is no exactness there.
    step = np.minimum(STEP, FEW_STEPS * span) if np.dtype(spec.dtype).kind in "iu" else 0.0
    return np.maximum(ERROR * span, step)


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1).astype(np.float64)


def _classes(values: np.ndarray) -> np.ndarray:
    """The values of a label or an index, if they are few; else none."""
    if values.ndim > 1 or values.dtype.kind not in "iu":
        return np.empty(0)
    # np.unique would load numpy.ma, which takes longer than all the rest of this.
    ordered = np.sort(values)
    found = ordered[np.append(True, ordered[1:] != ordered[:-1])]
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


def _dense(given: np.ndarray, wanted: np.ndarray, new: np.ndarray) -> np.ndarray:
    """A ridge regression of ``wanted`` on ``given``, each (n, columns), at ``new``."""
    scaled, scaled_new = _scaled(given, new)
    centre = wanted.mean(axis=0)
    # A ridge that rounding needs, and that hides nothing.
    gram = scaled.T.dot(scaled) + 1e-6 * len(scaled) * np.eye(scaled.shape[1])
    return centre + scaled_new.dot(np.linalg.solve(gram, scaled.T.dot(wanted - centre)))


def _of_few_terms(given: np.ndarray, wanted: np.ndarray, new: np.ndarray) -> np.ndarray:
    """As ``_dense``, by orthogonal matching pursuit of ``TERMS`` columns for each feature."""
    scaled, scaled_new = _scaled(given, new)
    centre = wanted.mean(axis=0)
    left = wanted - centre
    found = np.empty((wanted.shape[1], 0), int)  # (features, terms)
    made = np.zeros((len(new), wanted.shape[1]))
    for _ in range(TERMS):
        found = np.hstack([found, np.abs(left.T.dot(scaled)).argmax(axis=1)[:, None]])
        terms = scaled[:, found]  # (n, features, terms)
        gram = np.einsum("nft,nfu->ftu", terms, terms) + 1e-6 * len(scaled) * np.eye(found.shape[1])
        weights = np.linalg.solve(gram, np.einsum("nft,nf->ft", terms, wanted - centre)[..., None])[..., 0]
        left = wanted - centre - np.einsum("nft,ft->nf", terms, weights)
        made = np.einsum("nft,ft->nf", scaled_new[:, found], weights)
    return centre + made


def _scaled(given: np.ndarray, new: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Both in units of the spread of ``given`` around its mean; a column that stands still becomes 0."""
    middle, spread = given.mean(axis=0), given.std(axis=0)
    spread[spread == 0] = np.inf
    return (given - middle) / spread, (new - middle) / spread
