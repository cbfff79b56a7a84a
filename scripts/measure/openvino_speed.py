"""Generators as onnx-int8 on OpenVINO's CPU plugin: our bench next to OpenVINO's own benchmark_app, in turns.

Two untrained networks of 180 x 180 frames: near the 96.4 M multiply-adds of the paper's, and a deeper one. On one
thread; the figure is the median over the turns of the quotient of their medians. benchmark_app counts what OpenVINO
says that a request took, ours is a whole call: with the copy of the input, and Python. ``call_over_request`` is the
median quotient of these two within our own calls. Run it by .venvs/nncf/bin/python (scripts/environments/vendors),
which has both. Exit code 3 where a quotient is further than 3 % from 1, or the machine was busy.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.cli import bench_command
from edgeveil.trainer.export import golden
from edgeveil.trainer.export.converters.nncf import Nncf
from scripts import record

OUT = record.RESULTS / "bench" / "openvino.json"
SHAPE, CALIBRATION = (180, 180, 1), 64
NETWORKS: dict[str, dict[str, int]] = {
    "paper's size": {"width": 40, "halvings": 2, "blocks": 2},
    "ours": {"width": 32, "halvings": 2, "blocks": 4},
}
ROUNDS, MOST = 5, 0.03  # of bench in a turn; what a quotient may be from 1
HOW = "-api sync -nireq 1 -hint none -nstreams 1 -nthreads 1 -infer_precision f32 -ip f32 -op f32 -inference_only 0"

CALLS = """
import json, sys, time
import numpy as np
from edgeveil.edge_runtime.backends import open_backend
file, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
runner = open_backend("onnx", open(file["path"], "rb").read(), file["entry"], backend="openvino")
call, rows, end = runner.bare_call(np.random.RandomState(0)), [], time.perf_counter() + seconds
while time.perf_counter() < end:
    begun = time.perf_counter()
    call()
    rows.append(1e3 * (time.perf_counter() - begun) / runner._request.latency)
print(np.median(rows))
"""


def network(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """A generator with drawn weights, and rows (n, ...) of its input in [0, 1]."""
    from edgeveil.models.generators import conv_generator

    rng = np.random.default_rng(0)
    model = conv_generator(SHAPE, **NETWORKS[name])
    change = model.get_layer("change")  # which begins near 0: a generator begins as the identity
    kernel, bias = change.get_weights()
    change.set_weights([rng.normal(0, 1 / np.sqrt(kernel.size), kernel.shape).astype(np.float32), bias])
    rows = np.resize(np.clip(golden._images(SHAPE, rng), 0, 1), (CALIBRATION, *SHAPE)).astype(np.float32)
    rows[0], rows[1] = 0, 1
    return model, {model.inputs[0].name: rows}


def theirs_ms(path: Path, seconds: float) -> float:
    """The median of benchmark_app (ms). Raises ``DeviceFailed`` where it gives none."""
    app = Path(sys.executable).with_name("benchmark_app")
    words = [str(app), "-m", str(path), *HOW.split(), "-t", str(max(1, round(seconds)))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(r"Median:\s+([\d.]+) ms", done.stdout)
    if done.returncode or found is None:
        raise DeviceFailed(f"benchmark_app ended with code {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
    return float(found[1])


def ours_ms(file: dict[str, Any], seconds: float) -> float:
    """The median of ``edgeveil bench --against`` on OpenVINO alone (ms): its own rounds, in a process of its own."""
    spec = {"files": [file], "rounds": ROUNDS, "seconds": seconds / ROUNDS, "threads": 1, "backends": ["openvino"]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(spec))
        words = [sys.executable, "-m", "edgeveil.devices.compare", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceFailed(f"bench ended with code {done.returncode}: {done.stderr[-300:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["rows"][0]["p50_ms"])


def call_over_request(file: dict[str, Any], seconds: float) -> float:
    """The median over our calls of their time over the time that OpenVINO reports of them, as benchmark_app has it."""
    words = [sys.executable, "-c", CALLS, json.dumps(file), str(seconds)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceFailed(f"the calls ended with code {done.returncode}: {done.stderr[-300:]}")
    return float(done.stdout)


def measured(name: str, folder: Path, turns: int, seconds: float) -> dict[str, Any]:
    """One network: its file, and the medians of each turn."""
    model, calibration = network(name)
    path = folder / f"{name.replace(' ', '-')}.onnx"
    path.write_bytes(Nncf(13).convert(model, ["int8"], calibration)["int8"])
    file = bench_command.model_file(path)
    pairs = []
    for turn in range(turns):
        ways = [lambda: ours_ms(file, seconds), lambda: theirs_ms(path, seconds)]
        first = turn % 2  # each goes first in every second turn
        pair = {first: ways[first](), 1 - first: ways[1 - first]()}
        pairs.append((pair[0], pair[1]))
    ours, theirs = np.transpose(pairs)
    quotient = median(ours / theirs)
    print(
        f"{name}: ours {median(ours):.2f} ms, benchmark_app {median(theirs):.2f} ms, quotient {quotient:.3f}",
        flush=True,
    )
    inner = median([call_over_request(file, seconds) for _ in range(3)])
    print(f"{name}: a call takes {inner:.3f} of what OpenVINO reports of it", flush=True)
    facts = {"network": name, "call_over_request": inner, "macs": file["macs"], "bytes": path.stat().st_size}
    return {**facts, "ours_ms": ours.tolist(), "benchmark_app_ms": theirs.tolist(), "quotient": quotient}


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, out=OUT, timing=True)
    script.add_argument("--turns", type=int, default=7)
    script.add_argument("--seconds", type=float, default=5.0)
    options = script.parse_args()
    watch = record.watch(options)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(name, Path(folder), options.turns, options.seconds) for name in NETWORKS]
    return record.end_turns(script, options, watch, rows, MOST)


if __name__ == "__main__":
    record.run(main)
