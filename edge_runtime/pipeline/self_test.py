"""The golden self-test: before the first frame, compares the outputs of the kernels that will run with recorded ones.

Kernels have been wrong on one processor or in one version; they report no error and return numbers.
"""

import io
from typing import Any, Dict, Mapping

import numpy as np

from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.pipeline.capacity import refuse_capacity
from edgeveil.edge_runtime.pipeline.passthrough import PassthroughCheck
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.pipeline.random_draws import uniform
from edgeveil.edge_runtime.pipeline.reconstruction import refuse_reconstruction

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
    x = _array(members, golden.input)
    draws = {name: _array(members, file) for name, file in golden.draws.items()}
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
        difference = _difference(out[output.name], _array(members, recorded[output.name]))
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
        made = [_outcome(runner, feeds) for feeds in (one, other, other, one)]
        allowed = 0.0 if getattr(runner, "device", CPU) == CPU else chosen.max_abs
        for first, again in ((made[0], made[3]), (made[1], made[2])):
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
        found = runner.run(feeds)
        return {name: np.array(found[name]) for name in found}
    except FrameDropped:
        return {}


def _same(one: np.ndarray, other: np.ndarray, allowed: float) -> bool:
    return one.tobytes() == other.tobytes() or (allowed > 0 and _difference(one, other) <= allowed)


def _difference(got: np.ndarray, wanted: np.ndarray) -> float:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return float("inf")
    # A NaN in either makes the largest difference NaN, which no limit admits.
    return float(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max())


def _array(members: Mapping[str, bytes], name: str) -> np.ndarray:
    return np.load(io.BytesIO(members[name]), allow_pickle=False)
