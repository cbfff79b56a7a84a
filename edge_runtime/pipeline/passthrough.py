"""Detects a model that passes frames through unchanged: on opening by golden vectors, later by 30 frames in a row.

Never by a single frame: it may happen to be a fixed point of the model, and dropping it would reveal that.
"""

from typing import Mapping

import numpy as np

from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.lut import gather
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.pipeline import preprocess

RUN = 30  # unchanged frames in a row that stop everything


class PassthroughCheck(object):
    """Compares outputs with those of the identity, and counts how many in a row were equal.

    A sample of an integer type counts as unchanged when all values equal the identity's; one of a float type when all
    are within half a step of 1/255 of its range, so that rounding does not hide it. A constant sample (a blank picture)
    proves nothing. Where the manifest has ``identity_allowed``, or no output of kind frame, nothing is checked.
    """

    def __init__(self, manifest: Manifest) -> None:
        source = manifest.input
        frames = [output.name for output in manifest.outputs if output.kind == "frame"]
        self._name = None if manifest.perturber.identity_allowed or not frames else frames[0]
        self._in_a_row = 0
        if self._name is None:
            return
        unit = preprocess.to_unit(source.dtype, source.low, source.high)
        raw = preprocess.to_raw(source.dtype, source.low, source.high)
        self._same = lambda data: raw(unit(data))
        if source.dtype == "uint8" and not (np.ndim(source.low) or np.ndim(source.high)):
            self._same = gather(self._same(np.arange(256, dtype=np.uint8)))
        span = np.asarray(source.high, np.float64) - np.asarray(source.low, np.float64)
        self._slack = 0.0 if np.dtype(source.dtype).kind in "iu" else span / 510

    def unchanged(self, data: np.ndarray, out: np.ndarray) -> bool:
        """Whether ``out`` is the identity's output for the sample ``data``, and ``data`` is not constant."""
        if data.ndim == 3:
            # One row is nearly always enough, and costs little.
            row = slice(len(data) // 2, len(data) // 2 + 1)
            if not self._equal(self._same(data[row]), out[row]):
                return False
        same = self._same(data)
        return self._equal(same, out) and bool(same.min() != same.max())

    def _equal(self, same: np.ndarray, out: np.ndarray) -> bool:
        return same.shape == out.shape and bool(self._close(same, out).all())

    def _close(self, same: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Which values are the identity's."""
        if np.ndim(self._slack) or self._slack:
            return np.asarray(np.abs(same.astype(np.float64) - out) <= self._slack)
        return np.asarray(same == out)

    def check_golden(self, x: np.ndarray, outputs: Mapping[str, np.ndarray]) -> None:
        """Check golden inputs (n, ...) and outputs; raises ``PrivacyStop`` if one is unchanged or all are constant."""
        if self._name is None:
            return
        if any(self.unchanged(data, out) for data, out in zip(x, outputs[self._name])):
            raise PrivacyStop(
                "a golden vector came out as it went in: this model lets raw data through, and its manifest does not "
                "allow that. Do not use the bundle; tell its maker."
            )
        if all(data.min() == data.max() for data in x):
            raise PrivacyStop(
                "every golden vector is constant, so the self-test cannot tell whether raw data passes through. "
                "Do not use the bundle; tell its maker."
            )

    def watch(self, frame: RawFrame, perturbed: PerturbedFrame) -> None:
        """Check one frame before it is emitted; raises ``PrivacyStop`` from the 30th unchanged one in a row."""
        if self._name is not None and self._in_a_row < RUN:
            self._count(frame._data, perturbed.outputs[self._name])
        self._stop_at_run()

    def _stop_at_run(self) -> None:
        # Raised here, where no array is in scope.
        if self._in_a_row >= RUN:
            raise PrivacyStop(
                "{} frames in a row came out as they went in: this model lets raw data through here. Stopped; do not "
                "use the bundle and tell its maker.".format(RUN)
            )

    def _count(self, data: np.ndarray, out: np.ndarray) -> None:
        if self.unchanged(data, out):
            self._in_a_row += 1
        elif self._in_a_row and data.min() != data.max():
            self._in_a_row = 0
