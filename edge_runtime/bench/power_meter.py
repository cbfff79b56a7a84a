"""Energy from an external meter: a CSV of seconds since 1970 and watts, with a header, taken on the same clock."""

import csv
import math
from typing import Dict, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput

COLUMNS = ("time_s", "watts")
MOST_GAP_S = 2.0  # between two samples; within less, a run can change its power


def energy(path: str, begin_s: float, end_s: float) -> Dict[str, float]:
    """Mean watts and joules between two times, by the trapezoidal rule.

    Raises ``BadInput`` if the file is not such a CSV, does not cover the run, runs backwards, or has a gap.
    """
    times, watts = _read(path)
    if not len(times) or times[0] > begin_s or times[-1] < end_s:
        raise BadInput("meter: expected {} to cover the whole run, from before to after; it does not".format(path))
    near = times[(times >= begin_s - MOST_GAP_S) & (times <= end_s + MOST_GAP_S)]
    gap = np.diff(near).max() if len(near) > 1 else math.inf
    if gap > MOST_GAP_S:
        raise BadInput(
            "meter: expected a sample every {:g} s in {}; it has a gap of {:.3g} s. Measure again".format(
                MOST_GAP_S, path, gap
            )
        )
    within = (times > begin_s) & (times < end_s)
    first, last = np.interp([begin_s, end_s], times, watts)
    time, power = np.r_[begin_s, times[within], end_s], np.r_[first, watts[within], last]
    joules = float((np.diff(time) * (power[1:] + power[:-1]) / 2).sum())
    return {"watts": joules / (end_s - begin_s), "joules": joules}


def _read(path: str) -> Tuple[np.ndarray, np.ndarray]:
    """Times and watts, each (n,)."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        times, watts = np.array([[float(row[name]) for row in rows] for name in COLUMNS])
    except (OSError, UnicodeDecodeError):
        raise BadInput("meter: expected a CSV file in {}; it cannot be read".format(path)) from None
    except (KeyError, TypeError, ValueError):
        raise BadInput(
            "meter: expected the columns {} with numbers in {}".format(" and ".join(COLUMNS), path)
        ) from None
    backwards = np.diff(times) < 0
    if backwards.any():
        raise BadInput(
            "meter: expected increasing times in {}; they go back at {:.3f}".format(path, times[1:][backwards][0])
        )
    if not (np.isfinite(times).all() and np.isfinite(watts).all() and (watts >= 0).all()):
        raise BadInput("meter: expected watts from 0 in {}; it holds something else".format(path))
    return times, watts
