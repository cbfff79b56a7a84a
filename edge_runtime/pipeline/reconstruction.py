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

import math
from typing import Any, Callable, Dict, Mapping, Tuple

import numpy as np

from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped, PrivacyStop
from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.manifest import Input, Manifest
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.pipeline.perturber import PassthroughCheck
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline, numbers_in
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages.random_draws import integers, uniform

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
        if share >= LIMIT:  # of few features one draw of inputs shows half too often: the middle of three counts
            share = sorted([share, *(exact_share(run, spec, golden, outputs) for _ in range(2))])[1]
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
    probe_outputs = run(x)
    columns = {name: _classes(value) for name, value in probe_outputs.items()}
    size = int(np.prod(spec.shape))
    chosen = np.argsort(uniform((size,)))[:FEATURES]
    wanted, wanted_golden = (_flat(one)[:, chosen] for one in (x, golden))
    given, given_golden = (_columns(one, columns) for one in (probe_outputs, outputs))
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
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return distinct if len(distinct) <= CLASSES else np.empty(0)


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
    columns = np.empty((wanted.shape[1], 0), int)  # (features, terms)
    estimates = np.zeros((len(new), wanted.shape[1]))
    for _ in range(TERMS):
        columns = np.hstack([columns, np.abs(left.T.dot(scaled)).argmax(axis=1)[:, None]])
        terms = scaled[:, columns]  # (n, features, terms)
        gram = np.einsum("nft,nfu->ftu", terms, terms) + 1e-6 * len(scaled) * np.eye(columns.shape[1])
        weights = np.linalg.solve(gram, np.einsum("nft,nf->ft", terms, wanted - centre)[..., None])[..., 0]
        left = wanted - centre - np.einsum("nft,ft->nf", terms, weights)
        estimates = np.einsum("nft,ft->nf", scaled_new[:, columns], weights)
    return centre + estimates


def _scaled(given: np.ndarray, new: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Both in units of the spread of ``given`` around its mean; a column that stands still becomes 0."""
    middle, spread = given.mean(axis=0), given.std(axis=0)
    spread[spread == 0] = np.inf
    return (given - middle) / spread, (new - middle) / spread


# How many bits labels, codes and a period's counts can carry, against the bits of a reading.
#
# A frame has the form of x, so that its capacity says nothing; what it carries is measured
# (``pipeline.reconstruction``). Labels and codes are small by design: an index has as many values as what it is an
# index of, a code as many as its type and shape, a count as many as people or crossings are counted at most, less its
# noise. Together they must carry less than one reading, or they could hold it in any encoding.


def refuse_capacity(manifest: Manifest, artefact: str, outputs: Mapping[str, np.ndarray]) -> None:
    """Raise ``PrivacyStop`` if labels, codes and counts can hold a reading, or ``outputs`` (n, ...) more than they
    declare."""
    values = index_values(manifest, artefact)
    bits = 0.0
    for output in outlets.values(manifest.document):
        if output["kind"] == "frame":
            continue
        count = values.get(output["tensor"])
        if count is None:
            bits += 8 * np.dtype(output["dtype"]).itemsize * int(np.prod(output["shape"]))
            continue
        bits += math.log(max(count, 1), 2)
        produced = outputs[output["name"]]
        if (produced < 0).any() or (produced >= count).any():
            raise PrivacyStop(
                "the output {} has other values than the {} that the manifest declares. Do not use the bundle; tell "
                "its maker.".format(output["name"], count)
            )
    if manifest.spending is not None:
        # What is epsilon-private tells at most epsilon nats, whatever its form.
        bits = min(bits, manifest.spending.micro_epsilon * 1e-6 / math.log(2))
    bits += outlets.bits(manifest.document)
    reading = reading_bits(manifest.input)
    if bits >= reading:
        raise PrivacyStop(
            "labels, codes and counts can carry {:.0f} bits, and a reading has {:.0f}: raw data could leave in them, "
            "and the manifest does not allow that. Do not use the bundle; its maker should quantise the code or make "
            "it shorter.".format(bits, reading)
        )


def reading_bits(spec: Input) -> float:
    """The bits of one x: of an integer type those of its range, of a float type all."""
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f" or spec.low is None:
        each = np.full(spec.shape, 8.0 * dtype.itemsize)
    else:
        steps = np.asarray(spec.high, np.float64) - np.asarray(spec.low, np.float64) + 1
        each = np.broadcast_to(np.log2(steps), spec.shape)
    return float(each.sum())


def index_values(manifest: Manifest, artefact: str) -> Dict[str, int]:
    """How many values each index of the stages has, by its name."""
    shapes: Dict[str, Tuple[int, ...]] = {manifest.input.name: manifest.input.shape}
    counts: Dict[str, int] = {}
    for stage in manifest.stages:
        kind_of(stage.entry).measure(stage, manifest, artefact, shapes, counts)
    return counts


# The golden self-test: before the first frame, compares the outputs of the kernels that will run with recorded ones.
#
# Kernels have been wrong on one processor or in one version; they report no error and return numbers.


ROUNDING = 1e-5  # of a report of real numbers, of length 1: logarithms and sines differ in their last bits


def self_test(pipeline: Pipeline, manifest: Manifest, members: Mapping[str, bytes], artefact: str) -> float:
    """Run the golden inputs through ``pipeline`` and compare with the outputs recorded for ``artefact``.

    Frames may differ by ``tolerance.max_abs`` of the artefact (in units of x'), quantised codes with a decoder too (in
    steps); labels and other codes of an integer type must be the same. Each model must also give the same bits for the
    same input, whatever it ran before. Returns the largest difference. Raises ``DeviceFailed`` if it is larger. Raises
    ``PrivacyStop`` if a frame comes out unchanged, or x under another name (``pipeline.capacity``,
    ``pipeline.reconstruction``), and the manifest does not allow that.
    """
    golden = manifest.golden
    x = numbers_in(members, golden.input)
    draws = {name: numbers_in(members, file) for name, file in golden.draws.items()}
    reason, out = "", {}
    try:
        out = pipeline.run(x, draws)
    except FrameDropped as drop:
        reason = drop.reason
    if reason:
        raise DeviceFailed(
            "the golden self-test of {} failed: its input was dropped ({}). "
            "Update the interpreter, or choose another artefact or device.".format(artefact or NO_MODEL, reason)
        )
    allowed = max([model.artefacts[artefact].max_abs for model in manifest.models.values()] + [0])
    recorded = golden.outputs[artefact if manifest.models else NO_MODEL]
    worst = 0.0
    for output in manifest.outputs:
        exact = output.kind != "frame" and np.dtype(output.dtype).kind in "iu"
        exact = exact and (output.decoder is None or not output.shape)
        limit = 0 if exact else max(allowed, ROUNDING if output.kind == "code" else 0)
        difference = _difference(out[output.name], numbers_in(members, recorded[output.name]))
        if not difference <= limit:
            raise DeviceFailed(
                "the golden self-test of {} failed: {} is off by {:g}, and {:g} was recorded as the most. This "
                "machine's kernels compute something else: update the interpreter, or choose another artefact or "
                "device.".format(artefact or NO_MODEL, output.name, difference, limit)
            )
        worst = max(worst, difference)
    _check_repeats(pipeline, manifest, artefact)
    PassthroughCheck(manifest).check_golden(x, out)
    if not manifest.perturber.identity_allowed:
        refuse_capacity(manifest, artefact, out)
        refuse_reconstruction(pipeline.run, manifest.input, x, out)
    return worst


def _check_repeats(pipeline: Pipeline, manifest: Manifest, artefact: str) -> None:
    """Raise ``DeviceFailed`` where a model's outputs depend on what it ran before: two inputs, in both orders.

    On a processor they must be the same bits. An accelerator may add up in another order each time: there they must be
    within the tolerance.
    """
    for name, runner in pipeline.runners.items():
        chosen = manifest.models[name].artefacts[artefact]
        one, other = (
            {tensor["name"]: uniform((1,) + tuple(tensor["shape"][1:])) for tensor in chosen.entry["inputs"]}
            for _ in range(2)
        )
        outcomes = [_outcome(runner, feeds) for feeds in (one, other, other, one)]
        allowed = 0.0 if getattr(runner, "device", CPU) == CPU else chosen.max_abs
        for first, again in ((outcomes[0], outcomes[3]), (outcomes[1], outcomes[2])):
            if first.keys() != again.keys() or any(not _same(first[key], again[key], allowed) for key in first):
                raise DeviceFailed(
                    "the golden self-test of {} failed: {!r} gives other outputs for the same input. It draws or keeps "
                    "something, or this machine's kernels do not repeat: choose another artefact or device.".format(
                        artefact, name
                    )
                )


def _outcome(runner: Any, feeds: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """The outputs for one input, or none where it is dropped: a random one may be beyond a table."""
    try:
        outputs = runner.run(feeds)
        return {name: np.array(outputs[name]) for name in outputs}
    except FrameDropped:
        return {}


def _same(one: np.ndarray, other: np.ndarray, allowed: float) -> bool:
    return one.tobytes() == other.tobytes() or (allowed > 0 and _difference(one, other) <= allowed)


def _difference(got: np.ndarray, wanted: np.ndarray) -> float:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return float("inf")
    # A NaN in either makes the largest difference NaN, which no limit admits.
    return float(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max())
