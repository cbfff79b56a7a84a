"""What the harness itself costs: its median beside a bare loop's, and beside OpenVINO's own benchmark_app.

The bare loop times five calls of the same interpreter with two looks at the clock and nothing else; the harness is
``edge_runtime.series``. Both take turns in one process of the ``bench`` environment, for each interpreter; the ratio is
the median over turns. benchmark_app (synchronous, one thread, float32, latency hint) is a process of its own and takes
turns with the harness on the same ONNX file. The network is the 180 x 180 generator. Exit code 3 where the harness is
more than 3 % off the bare loop, or more than 10 % off benchmark_app. Records docs/results/bench/overhead.json.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime import machine, series
from edge_runtime.backends import open_backend
from edge_runtime.files import write_atomic

RESULT = Path("docs/results/bench/overhead.json")
BARE, APP = 0.03, 0.10
BLOCK = 5


def bare_ms(call: Any, seconds: float) -> float:
    """The median over blocks of calls, in milliseconds a call."""
    blocks = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(BLOCK):
            call()
        blocks.append((time.perf_counter() - start) / BLOCK)
    return statistics.median(blocks) * 1e3


def harness_ms(call: Any, seconds: float) -> float:
    """The same by the harness."""
    times = series.take(lambda _turn: call(), series.Floors(1, seconds), time.perf_counter)
    return series.figures(times)["p50"]


def app_ms(path: str, seconds: float) -> float:
    """What benchmark_app says its median is."""
    command = [str(Path(sys.executable).parent / "benchmark_app"), "-m", path, "-d", "CPU", "-api", "sync"]
    command += ["-hint", "none", "-nstreams", "1", "-nthreads", "1", "-infer_precision", "f32", "-t"]
    done = subprocess.run([*command, str(max(1, round(seconds)))], capture_output=True, text=True, check=False)
    found = re.search(r"Median:\s+([\d.]+) ms", done.stdout)
    if done.returncode or found is None:
        raise SystemExit(f"benchmark_app ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
    return float(found[1])


def inside(spec: dict[str, Any]) -> dict[str, Any]:
    """In the bench environment: every interpreter that opens the files, then benchmark_app."""
    from devices.side_by_side import contenders

    opened, refused = contenders({**spec, "threads": 1})
    rows = []
    for one in opened:
        call = one["call"]
        harness_ms(call, spec["seconds"])
        pairs = [(bare_ms(call, spec["seconds"]), harness_ms(call, spec["seconds"])) for _ in range(spec["turns"])]
        ratios = [h / b for b, h in pairs]
        rows.append({k: one[k] for k in ("artefact", "backend", "version")} | _row(pairs, ratios, "bare_ms"))
    path = next(file for file in spec["files"] if file["artefact"] == "onnx-float32")
    data = Path(path["path"]).read_bytes()
    runner = open_backend("onnx", data, path["entry"], backend="openvino", threads=1)
    call = runner.bare_call(np.random.RandomState(0))
    harness_ms(call, 0.5)
    pairs = [(app_ms(path["path"], 2.0), harness_ms(call, 2.0)) for _ in range(spec["turns"])]
    app = {"artefact": "onnx-float32", "backend": "openvino", "version": runner.info()["version"]}
    app |= _row(pairs, [h / a for a, h in pairs], "benchmark_app_ms")
    return {"bare": rows, "benchmark_app": app, "refused": refused, "machine": machine.facts()}


def _row(pairs: list[tuple[float, float]], ratios: list[float], name: str) -> dict[str, Any]:
    other, harness = (statistics.median(values) for values in zip(*pairs, strict=True))
    return {name: round(other, 5), "harness_ms": round(harness, 5), "ratio": round(statistics.median(ratios), 4)} | {
        "ratios": [round(r, 4) for r in ratios]
    }


def main() -> int:
    """Prepare here, measure in the bench environment, record."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="Example: scripts/bench_overhead.py")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(inside(json.loads(options.inside.read_text()))))
        return 0
    import os

    import reproduce_tables_3_4 as tables

    from trainer import side_by_side

    files = tables.prepared("depth-180", options.work)
    spec = options.work / "overhead-spec.json"
    spec.write_text(json.dumps({"files": files, "turns": options.turns, "seconds": options.seconds}))
    root = Path(__file__).resolve().parent.parent
    environment = dict(os.environ, PYTHONPATH=str(root), OMP_NUM_THREADS="1")
    command = [str(side_by_side.bench_python()), __file__, "--inside", str(spec)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return 4
    document = json.loads(done.stdout.splitlines()[-1])
    load = machine.load()
    document |= {"what": __doc__.splitlines()[0], "turns": options.turns, "load": load, "limits": [BARE, APP]}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.out, (json.dumps(document, indent=1) + "\n").encode())
    for row in [*document["bare"], document["benchmark_app"]]:
        print("{artefact} {backend} {version}: harness {ratio} x".format(**row))
    off = [abs(row["ratio"] - 1) > BARE for row in document["bare"]]
    return 3 if any(off) or abs(document["benchmark_app"]["ratio"] - 1) > APP else 0


if __name__ == "__main__":
    sys.exit(main())
