"""Estimated frames per second on a board: a range, the rows that carried it, or a refusal. Pure functions.

Two methods. ``estimate`` is ours (``latency.regression``; far below what was measured ``latency.overhead``).
``by_reference`` is that of the paper's Table 4: a straight line from latencies on one reference machine to those on the
board, through the networks that were measured on both.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from edgeveil.devices.latency.calibration import Row, precision_of
from edgeveil.devices.latency.overhead import Overhead, overhead
from edgeveil.devices.latency.regression import Regression
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.errors import BadInput

SHARE = 0.8  # the probability that the value lies inside the range
FARTHEST = 4.0  # times outside the MACs that the board's rows span: nothing shows that the line continues beyond
LEAST_NETWORKS = 3


@dataclass(frozen=True)
class Network:
    """What an estimate needs of an artefact: its cost, and the number of input values of a frame."""

    name: str
    macs: float
    depthwise_macs: float
    parameters: float
    input_values: float

    def on(self, group: str, precision: str, threads: float) -> Row:
        """As a row without a latency."""
        cost = (self.macs, self.depthwise_macs, self.parameters, self.input_values)
        return Row(group, precision, self.name, "", float("nan"), *cost, threads, "", "counted")


@dataclass(frozen=True)
class Estimate:
    """Frames a second with ``SHARE`` probability between ``fps_low`` and ``fps_high``; or why there is no estimate.

    ``fps`` is None where the profile allows a range alone. ``far`` is the factor by which the network is outside the
    MACs of the board's rows, 1 inside. ``carried_by`` are the rows with the largest weights. Where a range is
    ``refused``, ``fps_at_least`` may still be known from a costlier network, which ``because`` names (``at_least``);
    and for a network far below those measured there, ``by_overhead`` is an extrapolation with its error.
    """

    group: str
    artefact: str
    precision: str
    fps_low: float | None = None
    fps_high: float | None = None
    fps: float | None = None
    far: float | None = None
    rows: int = 0
    networks: int = 0
    macs_range: tuple[float, float] | None = None
    carried_by: tuple[tuple[str, float], ...] = ()
    refused: str | None = None
    fps_at_least: float | None = None
    because: str | None = None
    by_overhead: Overhead | None = None

    def document(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


def estimate(
    network: Network, group: str, precision: str, model: Regression, *, artefact: str = "", range_only: bool = False
) -> Estimate:
    """The estimate for ``network`` on ``group`` at ``precision``, from a fitted ``model``."""
    there = [row for row in model.rows if row.group == group]
    networks = len({row.model for row in there})
    # The runtime uses one thread by default.
    row = network.on(group, precision, 1.0 if any(row.threads for row in there) else 0.0)
    blank = Estimate(group, artefact, precision, rows=len(there), networks=networks)
    bound = at_least(row, model)
    if bound is not None:
        blank = replace(blank, fps_at_least=bound[0], because=bound[1])
    if networks < LEAST_NETWORKS:
        return replace(
            blank,
            refused=f"{LEAST_NETWORKS} networks measured there were expected; the table has {networks}",
        )
    low, high = min(row.macs for row in there), max(row.macs for row in there)
    far = max(low / network.macs, network.macs / high, 1.0)
    blank = replace(blank, far=far, macs_range=(low, high))
    if far > FARTHEST:
        below = network.macs < low
        return replace(
            blank,
            refused=f"{network.macs / 1e6:.3g} M MACs lie {far:.3g} times {'below' if below else 'above'} the "
            f"{low / 1e6:.3g} to {high / 1e6:.3g} M that were measured there, and {FARTHEST:g} times are the most",
            by_overhead=overhead(row, model) if below and not range_only else None,
        )
    found = model.predict(row)
    fast, slow = found.range_ms(SHARE)
    return replace(
        blank,
        fps_at_least=None,
        because=None,
        fps_low=1000 / slow,
        fps_high=1000 / fast,
        fps=None if range_only else 1000 / float(np.exp(found.middle)),
        carried_by=_carriers(model, found.weights),
    )


@functools.lru_cache(maxsize=2)
def _fitted(rows: tuple[Row, ...]) -> Regression:
    # A second or more, and the same for every profile and network.
    return Regression(rows)


def at_least(row: Row, model: Regression) -> tuple[float, str] | None:
    """Frames a second that ``row``'s network reaches with 9 in 10, because a network measured there costs more.

    It costs more in MACs, depthwise MACs, parameters and input. This network then takes no longer, if its operations
    run on the same unit; so the slow end of the other network's range is a bound, however much smaller this one is.
    Returns the tightest bound and the row that it is based on, or None.
    """
    found: tuple[float, Row] | None = None
    for other in model.rows:
        if other.group != row.group or not _costs_more(other, row):
            continue
        alike = replace(other, precision=row.precision, threads=row.threads, usb=row.usb)
        slow = model.predict(alike).range_ms(SHARE)[1]
        if found is None or slow < found[0]:
            found = slow, other
    if found is None:
        return None
    slow, other = found
    return 1000 / slow, f"it costs less in every respect than {other.describe()}"


def _costs_more(other: Row, row: Row) -> bool:
    return all(
        getattr(other, name) >= getattr(row, name) for name in ("macs", "depthwise_macs", "parameters", "input_values")
    )


def for_profile(
    networks: dict[str, Network], profile: Profile, rows: Sequence[Row], own: Sequence[Row] = ()
) -> list[Estimate]:
    """An estimate, or a refusal, for each artefact and each board of a profile, and for each board of your own rows.

    ``networks`` is by artefact name. Raises ``BadInput`` if the profile has no rows, or the bundle no
    artefact for it.
    """
    places = [(c.group, c.artefact, c.precision, bool(c.range_only)) for c in profile.calibration]
    places += [
        (group, artefact, precision_of(artefact), False)
        for group in dict.fromkeys(row.group for row in own)
        for artefact in profile.artefacts
    ]
    places = [place for place in places if place[1] in networks]
    if not profile.calibration and not own:
        raise BadInput(
            f"Nothing measured on {profile.title} is in the table. Give results of edgeveil-edge bench --json from one "
            "with --measured."
        )
    if not places:
        raise BadInput(
            f"The profile {profile.name} runs {', '.join(profile.artefacts)}; here are {', '.join(networks)}. "
            f"Export the run with --for {profile.name}."
        )
    model = _fitted((*rows, *own))
    # Many small products: more threads only wait for each other, for a minute on a busy machine.
    with threadpool_limits(limits=1):
        return [
            estimate(networks[artefact], group, precision, model, artefact=artefact, range_only=range_only)
            for group, artefact, precision, range_only in places
        ]


def by_reference(
    pairs: Sequence[tuple[float, float]], reference_ms: float, share: float = SHARE
) -> tuple[float, float, float] | None:
    """Milliseconds on the board (lower, middle, upper) from ``reference_ms`` on the reference machine, as in Table 4.

    ``pairs`` are (reference, board) milliseconds of other networks: ordinary least squares with its t range for a new
    point. None with fewer than three pairs. The lower end can lie below 0.
    """
    from scipy.stats import t

    if len(pairs) < 3:
        return None
    x, y = np.array(pairs, float).T
    centre, n = x.mean(), len(x)
    sxx = float(np.sum((x - centre) ** 2))
    if sxx == 0:
        return None
    slope = float(np.sum((x - centre) * (y - y.mean())) / sxx)
    middle = float(y.mean() + slope * (reference_ms - centre))
    residual = y - y.mean() - slope * (x - centre)
    spread = float(np.sqrt(np.sum(residual**2) / (n - 2) * (1 + 1 / n + (reference_ms - centre) ** 2 / sxx)))
    reach = float(t.ppf((1 + share) / 2, n - 2)) * spread
    return middle - reach, middle, middle + reach


def line_for(rows: Sequence[Row], reference: str, reference_ms: float, group: str, precision: str) -> dict[str, Any]:
    """Table 4's answer in frames a second, from the networks that were measured on ``reference`` and on ``group``.

    Of several rows of a network the first counts. ``fps_high`` is None where the line reaches down to 0 ms. Raises
    ``BadInput`` for a reference that the table does not have.
    """
    there = {(r.model, r.input): r.latency_ms for r in reversed(rows) if r.group == reference}
    if not there:
        names = ", ".join(sorted({r.group for r in rows}))
        raise BadInput(f"A reference machine of the table was expected ({names}); got {reference!r}.")
    here = {(r.model, r.input): r.latency_ms for r in reversed(rows) if (r.group, r.precision) == (group, precision)}
    pairs = [(there[key], ms) for key, ms in here.items() if key in there]
    found = by_reference(pairs, reference_ms)
    if found is None:
        return {"refused": f"3 networks measured on both were expected; the table has {len(pairs)}"}
    low, middle, high = found
    if high <= 0:
        return {"refused": "the line lies below 0 ms there"}
    ends = {"fps_low": 1000 / high, "fps": 1000 / middle if middle > 0 else None}
    return ends | {"fps_high": 1000 / low if low > 0 else None, "networks": len(pairs)}


def _carriers(model: Regression, weights: np.ndarray, count: int = 5) -> tuple[tuple[str, float], ...]:
    order = np.argsort(-np.abs(weights))[:count]
    return tuple((model.rows[i].describe(), round(float(weights[i]), 3)) for i in order)
