"""Energy from an external meter: a CSV of seconds since 1970 and watts, with a header, taken on the same clock."""

import csv
import math
from typing import Dict, List, Tuple

from edgeveil.edge_runtime.errors import BadInput

COLUMNS = ("time_s", "watts")
MOST_GAP_S = 2.0  # between two readings; a run can change what it draws within less


def energy(path: str, begin_s: float, end_s: float) -> Dict[str, float]:
    """Mean watts and joules between two times, by the trapezoidal rule.

    Raises ``BadInput`` where the file is none, does not cover the run, runs backwards, or has a gap.
    """
    readings = _read(path)
    if not readings or readings[0][0] > begin_s or readings[-1][0] < end_s:
        raise BadInput("meter: expected {} to cover the whole run, from before to after; it does not".format(path))
    inside = [(begin_s, _at(readings, begin_s))]
    inside += [reading for reading in readings if begin_s < reading[0] < end_s]
    inside.append((end_s, _at(readings, end_s)))
    joules = 0.0
    for (t0, w0), (t1, w1) in zip(inside, inside[1:]):
        joules += (t1 - t0) * (w0 + w1) / 2
    near = [r for r in readings if begin_s - MOST_GAP_S <= r[0] <= end_s + MOST_GAP_S]
    gap = max([b[0] - a[0] for a, b in zip(near, near[1:])] or [math.inf])
    if gap > MOST_GAP_S:
        raise BadInput(
            "meter: expected a reading every {:g} s in {}; it has a gap of {:.3g} s. Measure again".format(
                MOST_GAP_S, path, gap
            )
        )
    return {"watts": joules / (end_s - begin_s), "joules": joules}


def _at(readings: List[Tuple[float, float]], time_s: float) -> float:
    for (t0, w0), (t1, w1) in zip(readings, readings[1:]):
        if t0 <= time_s <= t1:
            return w0 if t1 == t0 else w0 + (w1 - w0) * (time_s - t0) / (t1 - t0)
    return readings[-1][1]


def _read(path: str) -> List[Tuple[float, float]]:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        readings = [(float(row["time_s"]), float(row["watts"])) for row in rows]
    except (OSError, UnicodeDecodeError):
        raise BadInput("meter: expected a CSV file in {}; it cannot be read".format(path)) from None
    except (KeyError, TypeError, ValueError):
        raise BadInput(
            "meter: expected the columns {} with numbers in {}".format(" and ".join(COLUMNS), path)
        ) from None
    for (t0, _), (t1, _) in zip(readings, readings[1:]):
        if t1 < t0:
            raise BadInput("meter: expected times that go on in {}; they go back at {:.3f}".format(path, t1))
    if not all(math.isfinite(w) and math.isfinite(t) and w >= 0 for t, w in readings):
        raise BadInput("meter: expected watts from 0 in {}; it holds something else".format(path))
    return readings
