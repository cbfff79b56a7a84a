"""Latency as a sum of terms (``latency.terms``) whose costs similar boards share: partial pooling.

    log ms = log(sum of terms) + effects of runtime, board, precision, threads, network + noise

The logarithm of each term's cost is usual + kind + runtime + board, and every effect has a normal prior around 0 whose
spread is fitted by maximal posterior (weak half-normal priors): a board with few rows leans on the others, one with
many on itself. The sum is made linear around the fit (Gauss and Newton), where each cost counts by its term's share of
the row. The residual has its own spread for each kind of runtime: networks differ far more on an Edge TPU than on
a processor. Unusual networks count less (t effects, by EM). Ranges are Student's t, its degrees of freedom one less
than the board has networks. Nothing is read from disk here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from edgeveil.devices.latency import terms
from edgeveil.devices.latency.calibration import Row
from edgeveil.devices.latency.terms import KINDS, TERMS, kind

Feature = Callable[[Row], float]
Key = Callable[[Row], object]


@dataclass(frozen=True)
class Effect:
    """``feature`` times a coefficient of its own for each ``key``; ``spread`` is the prior's scale."""

    name: str
    feature: Feature
    key: Key
    spread: float


def _one(_row: Row) -> float:
    return 1.0


def _on(name: str, row: Row) -> float:
    return float(kind(row) == name)


def _model(row: Row) -> str:
    return row.model


def _threads(row: Row) -> float:
    return float(np.log(row.threads / 4)) if row.threads else 0.0


EFFECTS = (
    Effect("runtime", _one, lambda r: r.runtime, 0.7),
    Effect("board", _one, lambda r: r.group, 0.5),
    Effect("precision", _one, lambda r: (r.runtime, r.precision), 0.4),
    Effect("precision there", _one, lambda r: (r.group, r.precision), 0.2),
    Effect("usb 2", lambda r: float(r.usb == "2"), lambda r: r.runtime, 0.5),
    Effect("threads", _threads, lambda _: "", 0.7),
    Effect("network", _one, _model, 0.2),
    *(Effect(f"network on {name}", partial(_on, name), _model, 0.3) for name in ("cpu", "gpu", "vpu", "edgetpu")),
    Effect("network there", _one, lambda r: (r.model, r.group), 0.1),
    Effect("noise", _one, id, 0.1),
)
COST_KEYS: tuple[tuple[str, Key], ...] = (
    ("kind", kind),
    ("runtime", lambda r: r.runtime),
    ("board", lambda r: r.group),
)
CALIBRATED = 0.8  # the share that calibrated ranges must contain
# Chosen among nine by leaving networks out (docs/results/bench/estimator.json): "stiffer boards, calibrated by kind".
COSTS = (0.6, 0.3, 0.15)  # the priors' scales of kind, runtime and board in the logarithm of a term's cost
FREEDOM = 4.0  # of the t distribution of networks' own effects: the smaller, the less an unusual network counts
_ROUNDS, _STEPS, _STEP = 6, 5, 0.7
_JITTER = 1e-8
_ALIKE = 20.0  # the weight, in networks, of the assumption that all kinds of chips need the same factor


@dataclass(frozen=True)
class Prediction:
    """Log milliseconds: middle, spread, degrees of freedom of its t, and what each row weighs in the middle."""

    middle: float
    spread: float
    freedom: float
    weights: np.ndarray

    def range_ms(self, share: float) -> tuple[float, float]:
        """Lower and upper milliseconds that contain the value with probability ``share``."""
        from scipy.stats import t

        reach = float(t.ppf((1 + share) / 2, self.freedom)) * self.spread
        return float(np.exp(self.middle - reach)), float(np.exp(self.middle + reach))


class Regression:
    """Fitted to rows once; ``predict`` for any network and board.

    Ranges are stretched until they contain the stated share of the known networks, each left out in turn.
    """

    def __init__(
        self, rows: Sequence[Row], *, costs: tuple[float, float, float] = COSTS, freedom: float = FREEDOM
    ) -> None:
        self.rows = list(rows)
        self._mine = np.array([effect.key is _model for effect in EFFECTS])
        self._y = np.log([r.latency_ms for r in rows])
        self._logs = terms.logarithms(rows)
        self._alike = np.stack([_same(key, rows, rows) for _, key in COST_KEYS])
        self._flat = np.stack([_covariance(effect, rows, rows) for effect in EFFECTS])
        cost_scales = np.repeat(np.array(costs), len(TERMS))
        self._scales = np.concatenate([cost_scales, [effect.spread for effect in EFFECTS]])
        self.spreads = 0.7 * self._scales
        self._odd = np.ones(len(rows))  # how much wider each network's own effects are
        self._costs = np.zeros_like(self._logs)  # of each row's board, as logarithms of factors of the usual ones
        # Matrices of a few hundred rows: more threads only wait for each other.
        with threadpool_limits(limits=1):
            for turn in range(_ROUNDS):
                self._linearise()
                self.spreads = self._fit()
                if turn >= _ROUNDS // 3:
                    self._widen(freedom)
            self._linearise()
            self.stretch = self._stretched(CALIBRATED)

    def _parts(self) -> np.ndarray:
        """What each effect adds to the covariance of rows, at a spread of 1: (effects, rows, rows)."""
        by_share = self._shares.T[:, :, None] * self._shares.T[:, None, :]
        costs = (self._alike[:, None] * by_share[None]).reshape(-1, len(self.rows), len(self.rows))
        flat = self._flat.copy()
        flat[self._mine] *= np.outer(self._odd, self._odd)
        return np.concatenate([costs, flat])

    def _linearise(self) -> None:
        """Move the costs to the solution of the linear model around them, repeatedly."""
        for step in range(_STEPS + 1):
            self._shares, total = terms.shares(self._logs + self._costs)
            self._target = self._y - total + (self._shares * self._costs).sum(axis=1)
            self._inverse = np.linalg.inv(self._covariance_of(self._parts()))
            self._pull = self._inverse @ self._target
            if step == _STEPS:
                break
            move = self._costs_like(self._alike) - self._costs
            self._costs = self._costs + _STEP * np.clip(move, -1, 1)

    def _costs_like(self, alike: np.ndarray) -> np.ndarray:
        """Posterior means of the terms' log costs, (n, terms), from ``alike`` (3, n, rows)."""
        variances = self.spreads[: 3 * len(TERMS)].reshape(3, len(TERMS)) ** 2
        return np.einsum("ck,cnr,rk,r->nk", variances, alike, self._shares, self._pull)

    def _covariance_of(self, parts: np.ndarray) -> np.ndarray:
        return np.tensordot(self.spreads**2, parts, 1) + _JITTER * np.eye(len(self.rows))

    def _widen(self, freedom: float) -> None:
        """Give each network's own effects a t distribution (EM's E-step)."""
        names = [row.model for row in self.rows]
        parts = self._parts()
        mine = np.concatenate([np.zeros(3 * len(TERMS)), self._mine])
        own = np.tensordot(self.spreads**2 * mine, parts, 1)
        inverse = np.linalg.inv(self._covariance_of(parts))
        effect = own @ (inverse @ self._target)
        left = own - own @ inverse @ own
        for name in set(names):
            at = names.index(name)
            z2 = (effect[at] ** 2 + left[at, at]) / own[at, at]
            here = np.array([other == name for other in names])
            self._odd[here] *= np.sqrt((freedom + z2) / (freedom + 1))

    def _fit(self) -> np.ndarray:
        from scipy.optimize import minimize

        parts = self._parts()
        y = self._target

        def loss(log_spreads: np.ndarray) -> tuple[float, np.ndarray]:
            variances = np.exp(2 * log_spreads)
            k = np.tensordot(variances, parts, 1) + _JITTER * np.eye(len(y))
            inverse = np.linalg.inv(k)
            a = inverse @ y
            value = 0.5 * y @ a + 0.5 * np.linalg.slogdet(k)[1]
            # Half-normal on each spread, in the logarithm's own measure.
            ratio = variances / self._scales**2
            value += float(np.sum(0.5 * ratio - log_spreads))
            inner = np.einsum("i,qij,j->q", a, parts, a, optimize=True) - np.einsum("ij,qij->q", inverse, parts)
            return value, -variances * inner + ratio - 1

        bounds = [(-5, 2)] * len(self._scales)
        found = minimize(
            loss, np.log(self.spreads), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60}
        )
        return np.exp(found.x)

    def predict(self, row: Row) -> Prediction:
        """The prediction for a network on a board; ``row.latency_ms`` is not used."""
        alike = np.stack([_same(key, [row], self.rows) for _, key in COST_KEYS])
        costs = self._costs_like(alike)
        share, total = terms.shares(terms.logarithms([row]) + costs)
        variances = self.spreads[: 3 * len(TERMS)].reshape(3, len(TERMS)) ** 2
        across = np.einsum("ck,cr,k,rk->r", variances, alike[:, 0], share[0], self._shares)
        prior = float(np.sum(variances * share**2))
        for effect, mine, spread in zip(EFFECTS, self._mine, self.spreads[3 * len(TERMS) :], strict=True):
            shared = _covariance(effect, [row], self.rows)[0]
            across += spread**2 * (shared * self._odd if mine else shared)
            prior += spread**2 * effect.feature(row) ** 2
        weights = self._inverse @ across
        middle = float(total[0] - (share * costs).sum() + across @ self._pull)
        variance = max(prior - float(weights @ across), 1e-6)
        return Prediction(middle, self.stretch[kind(row)] * float(np.sqrt(variance)), self._freedom(row), weights)

    def _freedom(self, row: Row) -> float:
        return max(len({r.model for r in self.rows if r.group == row.group}) - 1.0, 2.0)

    def left_out(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each network its rows, how far the linear model without them is off, and the spread it then has.

        All other spreads stay as fitted: nothing is fitted again.
        """
        names = np.array([row.model for row in self.rows])
        own = np.tensordot((self.spreads[3 * len(TERMS) :] ** 2)[self._mine], self._flat[self._mine], 1)
        found = []
        for name in sorted(set(names)):
            at = np.flatnonzero(names == name)
            within = np.linalg.inv(self._inverse[np.ix_(at, at)])
            off = within @ self._pull[at]
            # For a new network it would be unknown that it is unusual.
            variance = np.diag(within) - (self._odd[at] ** 2 - 1) * np.diag(own)[at]
            found.append((at, np.abs(off), np.sqrt(np.maximum(variance, 1e-6))))
        return found

    def reach(self, at: np.ndarray, share: float) -> np.ndarray:
        """Half the width of a range of ``share``, in spreads, for the rows ``at``, left out."""
        from scipy.stats import t

        return t.ppf((1 + share) / 2, [max(self._freedom(self.rows[i]) - 1, 2.0) for i in at])

    def ratios(self, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of every row, left out: its error in reaches, its weight, and the kind of its chip.

        A network has weight 1 on each board.
        """
        ratios, weights, kinds = [], [], []
        for at, off, spread in self.left_out():
            groups = [self.rows[i].group for i in at]
            ratios += (off / (spread * self.reach(at, share))).tolist()
            weights += [1 / groups.count(group) for group in groups]
            kinds += [kind(self.rows[i]) for i in at]
        return np.array(ratios), np.array(weights), np.array(kinds)

    def _stretched(self, share: float) -> dict[str, float]:
        """The factor by which ranges must be wider to contain ``share``, for each kind of chip.

        Each factor is shrunk towards that of all kinds with the weight of ``_ALIKE`` networks.
        """
        ratios, weights, kinds = self.ratios(share)
        everywhere = quantile(ratios, weights, share)
        found = {}
        for name in sorted({*KINDS.values(), "cpu"}):
            here = kinds == name
            count = float(np.sum(weights[here]))
            own = quantile(ratios[here], weights[here], share) if count > 0 else everywhere
            found[name] = float(np.exp((count * np.log(own) + _ALIKE * np.log(everywhere)) / (count + _ALIKE)))
        return found


def quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The weighted conformal quantile, for one more value."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / (np.sum(weights) + 1)
    return float(values[order][min(int(np.searchsorted(below, share)), len(order) - 1)])


def _same(key: Key, left: Sequence[Row], right: Sequence[Row]) -> np.ndarray:
    there = [key(row) for row in right]
    return np.array([[key(row) == other for other in there] for row in left], float)


def _covariance(effect: Effect, left: Sequence[Row], right: Sequence[Row]) -> np.ndarray:
    a, b = (np.array([effect.feature(row) for row in rows]) for rows in (left, right))
    return np.outer(a, b) * _same(effect.key, left, right)
