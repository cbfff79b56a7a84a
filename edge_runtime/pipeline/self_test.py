"""The golden self-test: before the first frame, compares the outputs of the kernels that will run with recorded ones.

Kernels have been wrong on one processor or in one version; they report no error and return numbers.
"""

import io
from typing import Mapping

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.pipeline.capacity import refuse_capacity
from edgeveil.edge_runtime.pipeline.passthrough import PassthroughCheck
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.pipeline.reconstruction import refuse_reconstruction

ROUNDING = 1e-5  # of a report of real numbers, of length 1: logarithms and sines differ in their last bits


def self_test(pipeline: Pipeline, manifest: Manifest, members: Mapping[str, bytes], artefact: str) -> float:
    """Run the golden inputs through ``pipeline`` and compare with the outputs recorded for ``artefact``.

    Frames may differ by ``tolerance.max_abs`` of the artefact (in units of x'), quantised codes with a decoder too (in
    steps); labels and other codes of an integer type must be the same. Returns the largest difference. Raises
    ``DeviceFailed`` if it is larger. Raises ``PrivacyStop`` if a frame comes out unchanged, or x under another name
    (``pipeline.capacity``, ``pipeline.reconstruction``), and the manifest does not allow that.
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
    PassthroughCheck(manifest).check_golden(x, out)
    if not manifest.perturber.identity_allowed:
        refuse_capacity(manifest, artefact, out)
        refuse_reconstruction(pipeline.run, manifest.input, x, out)
    return worst


def _difference(got: np.ndarray, wanted: np.ndarray) -> float:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return float("inf")
    # A NaN in either makes the largest difference NaN, which no limit admits.
    return float(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max())


def _array(members: Mapping[str, bytes], name: str) -> np.ndarray:
    return np.load(io.BytesIO(members[name]), allow_pickle=False)
