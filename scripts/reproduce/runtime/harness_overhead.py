"""What the harness itself costs: its median beside a bare loop's, and beside OpenVINO's own benchmark_app.

The bare loop calls the same interpreter with one look at the clock after each call and nothing else; the harness is
``bench.latency``. Both take turns in one process of the ``bench`` environment, for each interpreter; the ratio is
the median over turns. benchmark_app (synchronous, one stream, one thread, float32, no hint) is a process of its own and
takes turns with the harness on the same ONNX file, compiled with the same options. It times inference on inputs that
are in place already, by OpenVINO's own clock; so does the row that is judged. A second row is what our backend does for
each frame, copying inputs and outputs among it, and is shown, not judged. The network is the 180 x 180 generator.

Takes about 2 minutes, one more where the network is exported first. Begins once the machine is quiet. Exit code 3 where
it does not become so, something else ran meanwhile (INVALID), the harness is more than 3 % off the bare loop, or more
than 10 % off benchmark_app. Records docs/results/bench/harness.json.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.timing import idle
from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.bench import latency
from edgeveil.edge_runtime.errors import DeviceFailed
from scripts.reproduce import record

RESULT = Path("docs/results/bench/harness.json")
BARE, APP = 0.03, 0.10
APP_S = 2  # benchmark_app takes whole seconds


def bare_ms(call: Any, seconds: float) -> float:
    """The median milliseconds of a call."""
    looks = [time.perf_counter()]
    end = looks[0] + seconds
    while looks[-1] < end:
        call()
        looks.append(time.perf_counter())
    return statistics.median(b - a for a, b in itertools.pairwise(looks)) * 1e3


def harness_ms(call: Any, seconds: float) -> float:
    """The same by the harness."""
    times = latency.take(lambda _turn: call(), latency.Minimum(1, seconds), time.perf_counter)
    return latency.figures(times)["p50"]


def app_ms(path: str) -> float:
    """What benchmark_app says its median is."""
    command = [str(Path(sys.executable).parent / "benchmark_app"), "-m", path, "-d", "CPU", "-api", "sync"]
    command += ["-hint", "none", "-nstreams", "1", "-nthreads", "1", "-infer_precision", "f32", "-t", str(APP_S)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceFailed(f"benchmark_app did not run: {error}") from None
    # Below a millisecond it writes microseconds.
    found = re.search(r"Median:\s+([\d.]+) (ms|us)", done.stdout)
    if done.returncode or found is None:
        raise DeviceFailed(f"benchmark_app ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
    return float(found[1]) * {"ms": 1.0, "us": 1e-3}[found[2]]


def as_the_app_does(path: str) -> Callable[[], Any]:
    """Inference by the model that benchmark_app compiles: same file, same options, inputs in place."""
    import openvino

    options = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(path, "CPU", options)
    request = compiled.create_infer_request()
    rng = np.random.RandomState(0)
    request.infer(
        [rng.random_sample(tuple(port.shape)).astype(port.element_type.to_dtype()) for port in compiled.inputs]
    )
    return request.infer


def inside(spec: dict[str, Any]) -> dict[str, Any]:
    """In the bench environment: every interpreter that opens the files, then benchmark_app."""
    from edgeveil.devices.timing.compare import contenders

    opened, refused = contenders({**spec, "threads": 1})
    watch = idle.Watch()
    rows = []
    for number, one in enumerate(opened, 1):
        call = one["call"]
        harness_ms(call, spec["seconds"])
        pairs = [(bare_ms(call, spec["seconds"]), harness_ms(call, spec["seconds"])) for _ in range(spec["turns"])]
        rows.append({k: one[k] for k in ("artefact", "backend", "version")} | _row(pairs, "bare_ms"))
        print(f"{number} of {len(opened) + 1}: {one['artefact']} on {one['backend']}", file=sys.stderr)
    alone = watch.use()
    file = next(file for file in spec["files"] if file["artefact"] == "onnx-float32")
    runner = open_backend("onnx", Path(file["path"]).read_bytes(), file["entry"], backend="openvino", threads=1)
    calls = {"same": as_the_app_does(file["path"]), "backend": runner.bare_call(np.random.RandomState(0))}
    for call in calls.values():
        harness_ms(call, 0.5)
    turns = [
        (app_ms(file["path"]), *(harness_ms(call, APP_S) for call in calls.values())) for _ in range(spec["turns"])
    ]
    facts = {"artefact": "onnx-float32", "backend": "openvino", "version": runner.info()["version"]}
    found = {
        name: facts | _row([(turn[0], turn[1 + at]) for turn in turns], "benchmark_app_ms")
        for at, name in enumerate(calls)
    }
    both = watch.use()  # benchmark_app's own start is not held to a whole core
    return {
        "bare": rows,
        "benchmark_app": found["same"],
        "benchmark_app_and_copies": found["backend"],
        "refused": refused,
        "use": both.document(),
        "reasons": both.reasons() or alone.reasons(alone=True),
    }


def _row(pairs: list[tuple[float, float]], name: str) -> dict[str, Any]:
    ratios = [harness / other for other, harness in pairs]
    other, harness = (statistics.median(values) for values in zip(*pairs, strict=True))
    return {name: round(other, 5), "harness_ms": round(harness, 5), "ratio": round(statistics.median(ratios), 4)} | {
        "ratios": [round(r, 4) for r in ratios]
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The document of the bench environment's process. Raises ``DeviceFailed`` where that failed, and said so."""
    import scripts.reproduce.papers.tables_3_4 as tables
    from edgeveil.trainer import benchmark

    spec = options.work / "overhead-spec.json"
    files = tables.prepared("depth-180", options.work)
    spec.write_text(json.dumps({"files": files, "turns": options.turns, "seconds": options.seconds}))
    idle.begin(anyway=options.anyway)
    command = [str(benchmark.bench_python()), "-m", "scripts.reproduce.runtime.harness_overhead"]
    command += ["--inside", str(spec.resolve())]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PYTHONPATH=str(benchmark.link_packages(Path(folder))), OMP_NUM_THREADS="1")
        done = subprocess.run(command, cwd=record.ROOT, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise DeviceFailed(f"the process in the bench environment ended with {done.returncode}.")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Prepare here, measure in the bench environment, record."""
    script = record.Script(__file__, __doc__, out=RESULT, timing=True)
    script.add_argument("--turns", type=int, default=9)
    script.add_argument("--seconds", type=float, default=0.5)
    script.add_argument("--work", type=Path, default=Path("build/bench"))
    script.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = script.parse_args()
    if options.turns < 1 or options.seconds <= 0:
        script.error("at least 1 turn and a time above 0 s were expected")
    if options.inside:
        print(json.dumps(inside(json.loads(options.inside.read_text()))))
        return 0
    found = measure(options)
    reasons = found.pop("reasons")
    off = [row for row in found["bare"] if abs(row["ratio"] - 1) > BARE]
    off += [found["benchmark_app"]] if abs(found["benchmark_app"]["ratio"] - 1) > APP else []
    document = {
        "kind": "harness",
        "what": __doc__.splitlines()[0],
        "verdict": "INVALID" if reasons else "VALID",
        "reasons": reasons,
        "good": not off,
        "limits": {"bare": BARE, "benchmark_app": APP},
        "turns": options.turns,
        "seconds": options.seconds,
        **found,
        "load": machine.load(),
        "machine": machine.facts(),
    }
    record.write(options.out, script.made_by(options), document)
    for row in found["bare"]:
        print("{artefact} {backend} {version}: harness {ratio} x a bare loop".format(**row))
    print("benchmark_app: harness {ratio} x".format(**found["benchmark_app"]), end=", ")
    print("with copies of inputs and outputs {ratio} x".format(**found["benchmark_app_and_copies"]))
    print(document["verdict"], *reasons)
    return 3 if off or reasons else 0


if __name__ == "__main__":
    record.run(main)
