"""Log latency as a Gaussian process of few, named effects: a mixed linear model with partial pooling over boards.

    log ms = mean + slope * log MACs + effects of runtime, board, precision, threads, network + noise

Every effect has a normal prior around 0 whose spread is fitted by maximal posterior (weak half-normal priors), so a
board with few rows leans on the others and one with many on itself. What is left over has a spread of its own for each
kind of runtime: networks differ far more on an Edge TPU than on a processor; odd networks count less (t effects, fitted
by EM). Ranges are Student's t, its degrees of freedom one less than the board has networks. Numbers in, numbers out;
nothing is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from devices.calibration import Row

# What counts as one kind, where it comes to how much networks of the same size differ.
KINDS = {"edgetpu": "edgetpu", "tensorrt": "gpu", "tf-trt": "gpu", "myriad": "vpu"}
# An Edge TPU holds 8 MB of weights; what is beyond travels at every frame (coral.ai, "Edge TPU Compiler").
_ON_CHIP_BYTES = 8e6  # a byte a weight, in int8


def kind(row: Row) -> str:
    """edgetpu, gpu, vpu or cpu."""
    return KINDS.get(row.runtime, "cpu")


def _log_macs(row: Row) -> float:
    return float(np.log(row.macs / 1e9))


def _log_parameters(row: Row) -> float:
    return float(np.log(row.parameters / 5e6))


def _depthwise(row: Row) -> float:
    # Whether it is built of depthwise convolutions; their share of the MACs is always small, and not of the time.
    return float(row.depthwise_macs > 0.005 * row.macs)


def _spill(row: Row) -> float:
    """How far the weights outgrow an Edge TPU's memory, as a logarithm; 0 elsewhere."""
    over = max(row.parameters - _ON_CHIP_BYTES, 0.0) if kind(row) == "edgetpu" else 0.0
    return float(np.log1p(over / _ON_CHIP_BYTES))


def _threads(row: Row) -> float:
    return float(np.log(row.threads / 4)) if row.threads else 0.0


def _transfer(row: Row) -> float:
    return float(np.log(row.input_values / 150528))


def _detector(row: Row) -> float:
    return float(row.detector)


def _one(_row: Row) -> float:
    return 1.0


Feature = Callable[[Row], float]
Key = Callable[[Row], object]


@dataclass(frozen=True)
class Effect:
    """One effect: ``feature`` times a coefficient of its own for each ``key``; ``spread`` is the prior's scale."""

    name: str
    feature: Feature
    key: Key
    spread: float


def _all(_row: Row) -> str:
    return ""


def _model(row: Row) -> str:
    return row.model


EFFECTS = (
    Effect("runtime", _one, lambda r: r.runtime, 1.5),
    Effect("board", _one, lambda r: r.group, 0.7),
    Effect("precision", _one, lambda r: (r.runtime, r.precision), 0.5),
    Effect("precision there", _one, lambda r: (r.group, r.precision), 0.2),
    Effect("usb 2", lambda r: float(r.usb == "2"), lambda r: r.runtime, 0.5),
    Effect("MACs, runtime", _log_macs, lambda r: r.runtime, 0.2),
    Effect("MACs, board", _log_macs, lambda r: r.group, 0.1),
    Effect("depthwise", _depthwise, lambda r: r.runtime, 0.5),
    Effect("parameters", _log_parameters, lambda r: r.runtime, 0.2),
    Effect("weights beyond the chip", _spill, _all, 1.0),
    Effect("detector", _detector, lambda r: r.runtime, 0.5),
    Effect("threads", _threads, _all, 0.7),
    Effect("transfers", _transfer, lambda r: r.runtime, 0.2),
    Effect("network", _one, _model, 0.2),
    *(
        Effect(f"network on {name}", lambda r, name=name: float(kind(r) == name), _model, 0.3)  # type: ignore[misc]
        for name in ("cpu", "gpu", "vpu", "edgetpu")
    ),
    Effect("network there", _one, lambda r: (r.model, r.group), 0.1),
    Effect("noise", _one, id, 0.1),
)
# The common line before anything is known: time goes nearly with MACs, and a board's scale is anybody's guess.
# A network's own effect is one of a t distribution: the odd one does not widen or shift what is said of others.
_FREEDOM, _ROUNDS = 4.0, 3
_SLOPE, _SLOPE_SPREAD, _MEAN_SPREAD = 0.8, 0.2, 3.0


@dataclass(frozen=True)
class Prediction:
    """Log milliseconds: middle, spread, degrees of freedom of its t, and what each row weighs in the middle."""

    middle: float
    spread: float
    freedom: float
    weights: np.ndarray

    def range_ms(self, share: float) -> tuple[float, float]:
        """Lower and upper milliseconds that hold ``share`` of what may come."""
        from scipy.stats import t

        reach = float(t.ppf((1 + share) / 2, self.freedom)) * self.spread
        return float(np.exp(self.middle - reach)), float(np.exp(self.middle + reach))


class Regression:
    """Fitted to rows once; ``predict`` for any network and board."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self._x = np.array([_log_macs(r) for r in rows])
        self._y = np.log([r.latency_ms for r in rows]) - _SLOPE * self._x
        self._parts = np.stack([_covariance(effect, rows, rows) for effect in EFFECTS])
        self._fixed = _MEAN_SPREAD**2 + _SLOPE_SPREAD**2 * np.outer(self._x, self._x)
        self._spreads, self._inverse = self._fit()
        for _ in range(_ROUNDS):
            self._parts = self._parts * self._odd()
            self._spreads, self._inverse = self._fit()

    def _odd(self) -> np.ndarray:
        """How much wider each network's own effects are to be, for it to be one of a t distribution (EM's E-step)."""
        names = [row.model for row in self.rows]
        mine = np.array([effect.key is _model for effect in EFFECTS])
        own = np.tensordot((self._spreads**2) * mine, self._parts, 1)
        effect = own @ (self._inverse @ self._y)
        left = own - own @ self._inverse @ own
        factor = {}
        for name in set(names):
            at = names.index(name)
            z2 = (effect[at] ** 2 + left[at, at]) / own[at, at]
            factor[name] = (_FREEDOM + z2) / (_FREEDOM + 1)
        scale = np.sqrt([factor[name] for name in names])
        parts = np.ones_like(self._parts)
        parts[mine] = np.outer(scale, scale)
        return parts

    def _fit(self) -> tuple[np.ndarray, np.ndarray]:
        from scipy.optimize import minimize

        scales = np.array([effect.spread for effect in EFFECTS])

        def loss(log_spreads: np.ndarray) -> tuple[float, np.ndarray]:
            variances = np.exp(2 * log_spreads)
            k = self._fixed + np.tensordot(variances, self._parts, 1)
            inverse = np.linalg.inv(k)
            a = inverse @ self._y
            value = 0.5 * self._y @ a + 0.5 * np.linalg.slogdet(k)[1]
            # Half-normal on each spread, in the logarithm's own measure.
            ratio = variances / scales**2
            value += float(np.sum(0.5 * ratio - log_spreads))
            inner = np.einsum("i,qij,j->q", a, self._parts, a) - np.einsum("ij,qij->q", inverse, self._parts)
            return value, -variances * inner + ratio - 1

        found = minimize(loss, np.log(scales), jac=True, method="L-BFGS-B", bounds=[(-5, 2)] * len(scales))
        spreads = np.exp(found.x)
        return spreads, np.linalg.inv(self._fixed + np.tensordot(spreads**2, self._parts, 1))

    def predict(self, row: Row) -> Prediction:
        """For a network on a board, ``row.latency_ms`` aside."""
        x = _log_macs(row)
        parts = np.stack([_covariance(effect, [row], self.rows)[0] for effect in EFFECTS])
        across = _MEAN_SPREAD**2 + _SLOPE_SPREAD**2 * x * self._x + self._spreads**2 @ parts
        weights = self._inverse @ across
        own = np.array([_covariance(effect, [row], [row])[0, 0] for effect in EFFECTS])
        prior = _MEAN_SPREAD**2 + _SLOPE_SPREAD**2 * x * x + self._spreads**2 @ own
        variance = max(float(prior - weights @ across), 1e-6)
        networks = {r.model for r in self.rows if r.group == row.group}
        middle = float(weights @ self._y + _SLOPE * x)
        return Prediction(middle, float(np.sqrt(variance)), max(len(networks) - 1.0, 2.0), weights)

    def spreads(self) -> dict[str, float]:
        """The fitted spread of every effect, as a factor of latency's logarithm."""
        return {effect.name: round(float(s), 3) for effect, s in zip(EFFECTS, self._spreads, strict=True)}


def _covariance(effect: Effect, left: Sequence[Row], right: Sequence[Row]) -> np.ndarray:
    a, b = (np.array([effect.feature(r) for r in rows]) for rows in (left, right))
    keys = [[effect.key(r) for r in rows] for rows in (left, right)]
    same = np.array([[k == other for other in keys[1]] for k in keys[0]], float)
    return np.outer(a, b) * same
