"""Catches a model that lets frames through as they are: at open on golden vectors, later by a run of them.

Never frame by frame: a single frame may happen to be what the model makes of it, and to drop it would tell that.
"""

from typing import Any, Dict, Mapping

import numpy as np

from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.lut import taker
from edgeveil.edge_runtime.pipeline import preprocess

RUN = 30  # unchanged frames in a row that stop everything


class PassThrough(object):
    """What a model that does nothing would give, and how often in a row that came out.

    A reading of an integer type counts as unchanged when every value is the one that such a model gives; one of a
    float type when every value is within half a step of 1/255 of its range, so that rounding does not hide it. A
    constant reading (a blank picture) may well stay as it is and says nothing. Where the manifest says
    ``identity_allowed``, or no frame leaves, nothing is looked at.
    """

    def __init__(self, manifest: Dict[str, Any]) -> None:
        source = manifest["input"]
        frames = [output for output in manifest["outputs"] if output["kind"] == "frame"]
        self._name = None if manifest["perturber"]["identity_allowed"] or not frames else frames[0]["name"]
        self._in_a_row = 0
        if self._name is None:
            return
        unit = preprocess.to_unit(source["dtype"], source["low"], source["high"])
        raw = preprocess.to_raw(source["dtype"], source["low"], source["high"])
        self._same = lambda data: raw(unit(data))
        if source["dtype"] == "uint8" and not (np.ndim(source["low"]) or np.ndim(source["high"])):
            self._same = taker(self._same(np.arange(256, dtype=np.uint8)))
        span = np.asarray(source["high"], np.float64) - np.asarray(source["low"], np.float64)
        self._slack = 0.0 if np.dtype(source["dtype"]).kind in "iu" else span / 510

    def unchanged(self, data: np.ndarray, out: np.ndarray) -> bool:
        """Whether ``out`` is what a model that does nothing makes of the reading ``data``, and that is not constant."""
        if data.ndim == 3:
            # One row tells nearly always, and costs next to nothing.
            row = slice(len(data) // 2, len(data) // 2 + 1)
            if not self._equal(self._same(data[row]), out[row]):
                return False
        same = self._same(data)
        return self._equal(same, out) and bool(same.min() != same.max())

    def _equal(self, same: np.ndarray, out: np.ndarray) -> bool:
        if np.ndim(self._slack) or self._slack:
            return bool((np.abs(same.astype(np.float64) - out) <= self._slack).all())
        return np.array_equal(same, out)

    def check_golden(self, x: np.ndarray, outputs: Mapping[str, np.ndarray]) -> None:
        """Golden inputs (n, ...) and outputs; raises ``PrivacyStop`` where any came through, or none could show it."""
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
        """Look at one frame before it is handed out; raises ``PrivacyStop`` at the 30th in a row and ever after."""
        if self._name is not None and self._in_a_row < RUN:
            self._count(frame._data, perturbed.outputs[self._name])
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
