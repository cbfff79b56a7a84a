"""The time of a frame as a sum of terms, each with a cost that differs by board.

    ms = dense MACs * a + depthwise MACs * b + weights * c + input * d + e (+ f where boxes are decoded)

The usual costs below are the start of a fit, from the known speed of such chips: a Jetson Nano's 236 GMAC/s at fp16, an
Edge TPU's 2 TMAC/s and a few hundred MB/s for the weights that its 8 MB do not hold, a Cortex-A's ten GMAC/s. A fit may
leave them by factors (``edgeveil.devices.latency.regression``); nothing here was fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgeveil.devices.latency.calibration import Row

# Kinds of chips: they share costs, and how much networks of the same size differ.
KINDS = {"edgetpu": "edgetpu", "tensorrt": "gpu", "tf-trt": "gpu", "myriad": "vpu"}
# An Edge TPU holds 8 MB of weights; the rest is sent for every frame (coral.ai, "Edge TPU Compiler").
_ON_CHIP_BYTES = 8e6
_WEIGHT_BYTES = {"int8": 1.0, "fp16": 2.0}
_LEAST = 1e-9  # instead of zero, which has no logarithm


def kind(row: Row) -> str:
    """edgetpu, gpu, vpu or cpu."""
    return KINDS.get(row.runtime, "cpu")


def _weights(row: Row) -> float:
    """Million bytes of weights that are read for a frame."""
    if kind(row) == "edgetpu":
        return max(row.parameters - _ON_CHIP_BYTES, 0.0) / 1e6
    return row.parameters * _WEIGHT_BYTES.get(row.precision, 4.0) / 1e6


def _dense(row: Row) -> float:
    """Dense GMACs; in fp32 twice as many on a GPU that does two fp16 ones at once, as the Nano's does."""
    twice = 2.0 if kind(row) == "gpu" and row.precision == "fp32" else 1.0
    return twice * (row.macs - row.depthwise_macs) / 1e9


@dataclass(frozen=True)
class Term:
    """``amount`` of a row, in units that cost ``usual[kind]`` milliseconds each."""

    name: str
    amount: Callable[[Row], float]
    usual: dict[str, float]


def _usual(edgetpu: float, gpu: float, vpu: float, cpu: float) -> dict[str, float]:
    return {"edgetpu": edgetpu, "gpu": gpu, "vpu": vpu, "cpu": cpu}


TERMS = (
    Term("dense GMACs", _dense, _usual(1.5, 5, 10, 100)),
    Term("depthwise GMACs", lambda row: row.depthwise_macs / 1e9, _usual(10, 100, 100, 200)),
    Term("weights, MB", _weights, _usual(2.5, 0.05, 0.3, 0.3)),
    # In images of 224 x 224 x 3: what goes in, and with it how large the first layers' results are.
    Term("input", lambda row: row.input_values / 150528, _usual(0.5, 3, 3, 3)),
    Term("a frame", lambda _row: 1.0, _usual(0.5, 2, 3, 2)),
    Term("decoding boxes", lambda row: float(row.detector), _usual(8, 8, 8, 8)),
)


def logarithms(rows: Sequence[Row]) -> np.ndarray:
    """Each row's terms at their usual costs, as the logarithm of milliseconds: (rows, terms)."""
    ms = [[max(term.amount(row), _LEAST) * term.usual[kind(row)] for term in TERMS] for row in rows]
    return np.log(ms)


def shares(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each term's share of its row's sum, (rows, terms), and the logarithm of the sum, (rows,)."""
    top = logs.max(axis=1, keepdims=True)
    each = np.exp(logs - top)
    total = each.sum(axis=1, keepdims=True)
    return each / total, (top + np.log(total))[:, 0]
