"""Whether anything else runs on this machine during a measurement, from the system's accounting of its cores.

The load average changes too slowly for a series of a minute, and does not show other guests on the same hardware.
``/proc/stat`` counts every tick of every core, those that the hypervisor gave to others (steal) among them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.bench.protocol import LEAST_CPU, MOST_LOAD

MOST_OTHERS = 0.25  # cores; a second program at full speed is 1
_BUSY = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal: proc(5)
_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Use:
    """Cores in use on average over ``seconds``: by this process with its ended children, and by all others.

    ``others`` is None where the system does not report it.
    """

    seconds: float
    own: float
    others: float | None

    def document(self) -> dict[str, Any]:
        """For a record; ``others`` of a machine that does not say is "not measured"."""
        others = "not measured" if self.others is None else round(self.others, 3)
        return {"seconds": round(self.seconds, 2), "own_cores": round(self.own, 3), "other_cores": others}

    def reasons(self, *, alone: bool = False) -> list[str]:
        """Why a measurement in this time must not be quoted. ``alone``: this process timed itself, on one thread."""
        found = []
        if self.others is not None and self.others > MOST_OTHERS:
            found.append(
                f"busy: others used {self.others:.2f} cores while timing, and {MOST_OTHERS:g} are the most; "
                "end what else runs"
            )
        if alone and self.own < LEAST_CPU:
            found.append(f"busy: this process had {self.own:.0%} of a core; end what else runs")
        return found


class Watch:
    """Measures the use of the cores since it was created."""

    def __init__(self, stat: Path = _STAT, clock: Callable[[], float] = time.perf_counter) -> None:
        self._stat, self._clock = stat, clock
        self._began = self._look()

    def _look(self) -> tuple[float, float, float | None]:
        own = sum(os.times()[:4])
        try:
            fields = self._stat.read_text().split("\n", 1)[0].split()[1:]
            every = sum(int(fields[i]) for i in _BUSY) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return self._clock(), own, None
        return self._clock(), own, every

    def use(self) -> Use:
        """Cores in use since the beginning."""
        (at, own, every), (began, own_before, every_before) = self._look(), self._began
        seconds = max(at - began, 1e-9)
        mine = (own - own_before) / seconds
        if every is None or every_before is None:
            return Use(seconds, mine, None)
        return Use(seconds, mine, max((every - every_before) / seconds - mine, 0.0))


def wait(
    most_s: float = 180.0,
    *,
    look_s: float = 2.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    load: Callable[[], float | None] = machine.load,
    watch: Callable[[], Watch] = Watch,
) -> str | None:
    """Wait until nothing else runs and the load is low, ``most_s`` at most. Returns None, or the remaining problem.

    Prints on stderr that it waits.
    """
    end, reported = clock() + most_s, False
    while True:
        looking = watch()
        sleep(look_s)
        others, runnable = looking.use().others, load()
        problem = None
        if others is not None and others > MOST_OTHERS:
            problem = f"others use {others:.2f} cores of this machine ({MOST_OTHERS:g} at most were expected)"
        elif runnable is not None and runnable > MOST_LOAD * (os.cpu_count() or 1):
            problem = f"the load of this machine is {runnable:.1f} ({MOST_LOAD:g} a core at most were expected)"
        if problem is None or clock() >= end:
            return problem
        if not reported:
            print(f"waiting for up to {most_s:.0f} s: {problem}", file=sys.stderr)
            reported = True


def begin(*, anyway: bool) -> None:
    """Wait before a measurement; exit with code 3 if the machine stays busy, unless ``anyway``."""
    problem = None if anyway else wait()
    if problem:
        print(f"error: {problem}; end what else runs, or use --anyway", file=sys.stderr)
        raise SystemExit(3)
