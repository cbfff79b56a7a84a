"""Networks far smaller than any that was measured: milliseconds = overhead + MACs / rate, fitted for one board.

On a small network a runtime spends its time around the MACs, so that a rate alone promises far too much. Both numbers
come from the published networks of that board and runtime, which are hundreds of times larger: the answer is an
extrapolation. How far off it was is found on the smaller half of those networks, each predicted from the larger ones
alone. What large networks spend beside their MACs all counts as overhead: of a small one the answer is likely too slow
(docs/results/bench/small-networks.json).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgeveil.devices.latency.calibration import Row
from edgeveil.devices.latency.regression import Regression

LEAST_NETWORKS = 3  # two for the two numbers, and one to leave out


@dataclass(frozen=True)
class Point:
    """One network in one size: its MACs, and its milliseconds on the board."""

    model: str
    macs: float
    ms: float


@dataclass(frozen=True)
class Error:
    """The factor by which the answer was off, either way, on ``networks`` that were left out.

    ``far`` is how many times the farthest of them lay below the networks that its answer came from.
    """

    median: float
    worst: float
    networks: int
    far: float


@dataclass(frozen=True)
class Overhead:
    """The answer for one network: ``fps`` is 1000 / (``overhead_ms`` + ``ms_per_gmac`` * GMACs)."""

    overhead_ms: float
    ms_per_gmac: float
    networks: int
    fps: float
    error: Error


def overhead(row: Row, model: Regression) -> Overhead | None:
    """The answer for ``row``'s network; ``row.latency_ms`` is not used.

    None where the board has fewer than three networks, or where those show no overhead: the line through them then
    begins at 0 ms and says nothing of a small network.
    """
    found = points(row, model)
    networks = len({point.model for point in found})
    if networks < LEAST_NETWORKS:
        return None
    fixed, slope = line(found)
    off = error(row.group, model)
    if fixed <= 0 or off is None:
        return None
    return Overhead(fixed, slope, networks, 1000 / (fixed + slope * row.macs / 1e9), off)


def points(row: Row, model: Regression) -> list[Point]:
    """The networks measured on ``row``'s board, with the milliseconds that they would take there as ``row`` runs.

    As ``row`` runs: its precision and threads, its share of depthwise MACs, and boxes to decode only if it has them.
    The factor from what was measured is the regression's; rows of one network in one size count once, by their
    geometric mean.
    """
    share = row.depthwise_macs / row.macs
    alike: dict[tuple[str, float], list[float]] = {}
    for other in model.rows:
        if other.group == row.group:
            same = replace(other, precision=row.precision, threads=row.threads, usb=row.usb, detector=row.detector)
            same = replace(same, depthwise_macs=share * other.macs)
            # Of copies: the regression knows a row's own noise, and the measured time has it already.
            factor = model.predict(same).middle - model.predict(replace(other)).middle
            alike.setdefault((other.model, other.macs), []).append(np.log(other.latency_ms) + factor)
    return [Point(name, macs, float(np.exp(np.mean(logs)))) for (name, macs), logs in sorted(alike.items())]


def line(found: Sequence[Point]) -> tuple[float, float]:
    """Overhead in ms and ms per GMAC, neither below 0, with the least sum of squared relative errors."""
    from scipy.optimize import nnls

    ms = np.array([point.ms for point in found])
    gmacs = np.array([point.macs for point in found]) / 1e9
    fixed, slope = nnls(np.stack([1 / ms, gmacs / ms], axis=1), np.ones(len(ms)))[0]
    return float(fixed), float(slope)


def error(group: str, model: Regression) -> Error | None:
    """How far off the line was on a board: the smaller half of its networks, each from those that are larger alone.

    Every row counts, with the settings that it was measured with. None where no network has two larger ones.
    """
    offs = left_out(group, model)
    if not offs:
        return None
    factors = [abs(np.log(ratio)) for _, ratio, _ in offs]
    networks = len({row.model for row, _, _ in offs})
    return Error(
        float(np.exp(np.median(factors))), float(np.exp(max(factors))), networks, max(far for _, _, far in offs)
    )


def left_out(group: str, model: Regression) -> list[tuple[Row, float, float]]:
    """(row, predicted / measured ms, how many times it lay below the others) of a board's smaller networks."""
    smallest: dict[str, float] = {}
    for row in model.rows:
        if row.group == group:
            smallest[row.model] = min(row.macs, smallest.get(row.model, row.macs))
    names = sorted(smallest, key=lambda name: smallest[name])
    found = []
    for row in model.rows:
        if row.group == group and row.model in names[: len(names) // 2] and row.macs == smallest[row.model]:
            larger = [one for one in points(row, model) if one.macs > row.macs and one.model != row.model]
            if len({one.model for one in larger}) >= LEAST_NETWORKS - 1:
                fixed, slope = line(larger)
                far = min(one.macs for one in larger) / row.macs
                found.append((row, (fixed + slope * row.macs / 1e9) / row.latency_ms, far))
    return found
