"""Generators as onnx-int8 on OpenVINO's CPU plugin: our backend next to OpenVINO's own benchmark_app, in turns.

Two untrained networks of 180 x 180 frames: near the 96.4 M multiply-adds of the paper's, and a deeper one. On one
thread, each in a process of its own; the figure is the median over the turns of the quotient of their medians, or of
another percentile, which other work on the machine disturbs less. benchmark_app counts what OpenVINO reports of a
request, ours is the whole call that bench times: with the copy of the input, and Python. ``call_over_request`` is the
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
MOST = 0.03  # what a quotient may be from 1
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
    rows.append((1e3 * (time.perf_counter() - begun), runner._request.latency))
ours, theirs = np.transpose(rows)
print(np.percentile(ours, float(sys.argv[3])), np.median(ours / theirs))
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


def theirs_ms(path: Path, seconds: float, percentile: int) -> float:
    """A percentile of benchmark_app (ms). Raises ``DeviceFailed`` where it gives none."""
    app = Path(sys.executable).with_name("benchmark_app")
    words = [str(app), "-m", str(path), *HOW.split(), "-t", str(max(1, round(seconds)))]
    words += ["-latency_percentile", str(percentile)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(r"(?:Median|percentile):\s+([\d.]+) (ms|us)", done.stdout)
    if done.returncode or found is None:
        raise DeviceFailed(f"benchmark_app ended with code {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
    return float(found[1]) / (1000 if found[2] == "us" else 1)


def ours_ms(file: dict[str, Any], seconds: float, percentile: int) -> tuple[float, float]:
    """A percentile of our calls (ms), and the median of their time over the time that OpenVINO reports of them."""
    words = [sys.executable, "-c", CALLS, json.dumps(file), str(seconds), str(percentile)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceFailed(f"the calls ended with code {done.returncode}: {done.stderr[-300:]}")
    ms, over = map(float, done.stdout.split())
    return ms, over


def measured(name: str, folder: Path, turns: int, seconds: float, percentile: int) -> dict[str, Any]:
    """One network: its file, and the figures of each turn."""
    model, calibration = network(name)
    path = folder / f"{name.replace(' ', '-')}.onnx"
    path.write_bytes(Nncf(13).convert(model, ["int8"], calibration)["int8"])
    file = bench_command.model_file(path)
    ours_ms(file, seconds, percentile)  # what a first process reads from the disk does not count
    rows = []
    for turn in range(turns):
        if turn % 2:  # each goes first in every second turn
            theirs = theirs_ms(path, seconds, percentile)
            rows.append((*ours_ms(file, seconds, percentile), theirs))
        else:
            rows.append((*ours_ms(file, seconds, percentile), theirs_ms(path, seconds, percentile)))
    ours, over, all_theirs = np.transpose(rows)
    facts = {"network": name, "macs": file["macs"], "bytes": path.stat().st_size, "call_over_request": median(over)}
    facts |= {"ours_ms": ours.tolist(), "benchmark_app_ms": all_theirs.tolist(), "quotient": median(ours / all_theirs)}
    print({key: value for key, value in facts.items() if not isinstance(value, list)}, flush=True)
    return facts


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, out=OUT, timing=True)
    script.add_argument("--turns", type=int, default=7)
    script.add_argument("--seconds", type=float, default=5.0)
    script.add_argument("--percentile", type=int, default=50)
    options = script.parse_args()
    watch = record.watch(options)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(name, Path(folder), options.turns, options.seconds, options.percentile) for name in NETWORKS]
    return record.end_turns(script, options, watch, rows, MOST)


if __name__ == "__main__":
    record.run(main)
