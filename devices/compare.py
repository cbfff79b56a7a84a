"""Whether anything else runs on this machine during a measurement, from the system's accounting of its cores.

The load average changes too slowly for a series of a minute, and does not show other guests on the same hardware.
``/proc/stat`` counts every tick of every core, those that the hypervisor gave to others (steal) among them.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.backends import available, open_backend
from edgeveil.edge_runtime.bench.protocol import LEAST_CPU
from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.edge_runtime.kinds import backends

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
        causes = []
        if self.others is not None and self.others > MOST_OTHERS:
            causes.append(
                f"busy: others used {self.others:.2f} cores while timing, and {MOST_OTHERS:g} are the most; "
                "end what else runs"
            )
        if alone and self.own < LEAST_CPU:
            causes.append(f"busy: this process had {self.own:.0%} of a core; end what else runs")
        return causes


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


# Several artefacts and interpreters timed in turns in one process (python -m edgeveil.devices.compare SPEC >
# RESULT): each contender has one short series in every round, in a new random order; ratios are taken within rounds.
# It needs numpy and the interpreters of the ``bench`` environment; ``trainer/cli/bench_command.py`` prepares the files.


# Those first that do not start once another library has been loaded; none that runs compiled files alone.
ORDER = tuple(
    kind.name
    for kind in sorted(backends(), key=lambda kind: not kind.facts.get("first"))
    if {"tflite", "onnx"} & set(kind.facts["formats"])
)


def contenders(spec: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every file on every installed backend: those that opened, with a ``call``; and the others, with the reason."""
    opened, refused = [], []
    rows = [
        (ORDER.index(backend), file, backend)
        for file in spec["files"]
        for backend in ORDER
        if backend in available(file["format"]) and backend in spec.get("backends", ORDER)
    ]
    for _, file, backend in sorted(rows, key=lambda row: row[0]):
        facts = {"name": file["name"], "artefact": file["artefact"], "backend": backend, "macs": file["macs"]}
        data = Path(file["path"]).read_bytes()
        try:
            runner = open_backend(file["format"], data, file["entry"], backend=backend, threads=spec["threads"])
            call = runner.bare_call(np.random.RandomState(0))
            call()
        except EdgeVeilError as error:
            refused.append({**facts, "refused": str(error)})
            continue
        opened.append({**facts, "version": runner.info()["version"], "call": call, "ms": []})
    for file in spec["files"]:
        missing = [b for b in ORDER if b in file["backends"] and b not in available(file["format"])]
        facts = {"name": file["name"], "artefact": file["artefact"], "macs": file["macs"]}
        refused += [{**facts, "backend": backend, "refused": "not installed here"} for backend in missing]
    return opened, refused


def measure(opened: list[dict[str, Any]], *, rounds: int, seconds: float, rng: random.Random) -> None:
    """Append the median milliseconds of each contender's short series to its ``ms``, round after round."""
    for one in opened:
        _median_ms(one["call"], seconds)
    for _ in range(rounds):
        for one in rng.sample(opened, len(opened)):
            one["ms"].append(_median_ms(one["call"], seconds))


def _median_ms(call: Callable[[], Any], seconds: float) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or (time.perf_counter() < end and len(times) < 10_000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def ratio(ms: list[float], base: list[float], rng: np.random.Generator) -> tuple[float, float, float]:
    """Median over rounds of ``ms / base``, and its 95 % bootstrap interval."""
    each = np.asarray(ms) / np.asarray(base)
    draws = np.median(each[rng.integers(0, len(each), (2000, len(each)))], axis=1)
    low, high = np.percentile(draws, [2.5, 97.5]).tolist()
    return float(np.median(each)), low, high


def document(
    spec: dict[str, Any], opened: list[dict[str, Any]], refused: list[dict[str, Any]], use: Use
) -> dict[str, Any]:
    """The result: one row a contender, its ratio to the first of the spec on the same backend, or on its own.

    INVALID, with reasons, if the machine was busy: that falsifies milliseconds, but not ratios within rounds.
    """
    rng = np.random.default_rng(0)
    first = spec["files"][0]["name"]
    rows = []
    for one in opened:
        base = next(
            (o for o in opened if (o["name"], o["artefact"], o["backend"]) == (first, one["artefact"], one["backend"])),
            next((o for o in opened if o["name"] == first), None),
        )
        row = {key: one[key] for key in ("name", "artefact", "backend", "version", "macs")}
        row |= {"p50_ms": float(np.median(one["ms"])), "min_ms": min(one["ms"]), "round_ms": one["ms"]}
        row["fps"] = 1000 / row["p50_ms"]
        if base is not None:
            middle, low, high = ratio(one["ms"], base["ms"], rng)
            row["ratio"] = {"to": f"{base['name']} {base['artefact']} {base['backend']}", "median": middle}
            row["ratio"] |= {"low": low, "high": high}
        rows.append(row)
    reasons = use.reasons(alone=spec["threads"] == 1)
    return {
        "schema": 1,
        "kind": "side-by-side",
        "what": "interpreters alone, in turns in one process; ratios within rounds, 95 % bootstrap over rounds",
        "rounds": spec["rounds"],
        "seconds": spec["seconds"],
        "threads": spec["threads"],
        "rows": rows,
        "refused": refused,
        "machine": machine.facts(),
        "load": machine.load(),
        "use": use.document(),
        "verdict": "INVALID" if reasons else "VALID",
        "reasons": reasons,
    }


def main() -> int:
    """Time what the spec names and print the result."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    opened, refused = contenders(spec)
    watch = Watch()
    measure(opened, rounds=spec["rounds"], seconds=spec["seconds"], rng=random.Random(0))  # noqa: S311  an order
    sys.stdout.write(json.dumps(document(spec, opened, refused, watch.use()), allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
