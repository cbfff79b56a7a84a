"""Several artefacts and interpreters timed in turns, in one process: ratios that survive a noisy machine.

    python -m edgeveil.devices.timing.compare spec.json > result.json

Runs in the ``bench`` environment, which has all four interpreters, and needs only numpy and them: the files to time
were prepared before (``trainer/benchmark.py``). In every round each contender has one short series, in a
new random order; ratios are taken within rounds, and their interval is a bootstrap over rounds.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.timing.idle import Use, Watch
from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.backends import available, open_backend
from edgeveil.edge_runtime.errors import EdgeVeilError

# tflite_runtime first: it does not start once another library of TensorFlow's has been loaded.
ORDER = ("tflite-runtime", "ai-edge-litert", "onnxruntime", "openvino")


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
