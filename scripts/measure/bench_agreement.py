"""What bench says of a frame, next to a loop of one's own over the same file: in turns, each in its own process.

``edgeveil-edge bench`` of the bundle of camera_to_broker.py (180 x 180, int8), and the rounds of ``edgeveil bench
--against`` for MobileNetV2 (224 x 224, drawn weights), on each interpreter of .venvs/bench
(scripts/environments/bench), or of this environment without it. A loop of one's own is what an interpreter's
documentation shows: random values in, a call, the result out, on one thread. A quotient is the median over the turns.
Exit code 3 where one is further than 10 % from 1, or the machine was busy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.compare import ratio
from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.cli import bench_command
from edgeveil.trainer.export.converters.converter import CONVERTERS
from scripts import record
from scripts.measure import camera_to_broker

OUT = record.RESULTS / "bench" / "agreement.json"
ROUNDS, MOST, SHOWN = 5, 0.1, (50, 90, 99)  # of bench in a turn; what a quotient may be from 1; percentiles
LITERT = """
from {package}.interpreter import Interpreter
net = Interpreter(model_path=path, num_threads=1)
net.allocate_tensors()
(into,), (out,) = net.get_input_details(), net.get_output_details()
frame = drawn(into["shape"], into["dtype"])
def call():
    net.set_tensor(into["index"], frame)
    net.invoke()
    return net.get_tensor(out["index"])
"""
OWN = {
    "ai-edge-litert": LITERT.format(package="ai_edge_litert"),
    "tflite-runtime": LITERT.format(package="tflite_runtime"),
    "onnxruntime": """
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
net = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
(into,) = net.get_inputs()
frame = drawn(into.shape, np.float32)
def call():
    return net.run(None, {into.name: frame})[0]
""",
    "openvino": """
import openvino
exact = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
net = openvino.Core().compile_model(path, "CPU", exact)
frame = drawn(list(net.input(0).shape), net.input(0).element_type.to_dtype())
def call():
    return net([frame])[net.output(0)]
""",
}
LOOP = """
import json, sys, time
import numpy as np
path, seconds = sys.argv[1], float(sys.argv[2])
def drawn(shape, dtype):
    values = np.random.default_rng(0).random(tuple(shape))
    return (values * 255 - 128).astype(dtype) if np.dtype(dtype).kind == "i" else values.astype(dtype)
{own}
until, took = time.perf_counter() + seconds / 4, []
while time.perf_counter() < until:
    call()
until = time.perf_counter() + seconds
while time.perf_counter() < until:
    before = time.perf_counter()
    call()
    took.append(time.perf_counter() - before)
print(json.dumps((np.percentile(took, (50, 90, 99)) * 1e3).tolist()))
"""


class Bench:
    """Runs Python in the environment of the interpreters."""

    def __init__(self, folder: Path) -> None:
        python = record.ROOT / ".venvs" / "bench" / "bin" / "python"
        self.python = python if python.exists() else Path(sys.executable)
        folder.mkdir()
        self.environment = {**os.environ, "PYTHONPATH": str(bench_command.link_packages(folder))}
        self.environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def answer(self, *words: Any, codes: tuple[int, ...] = (0,)) -> Any:
        """The JSON that a command prints last. Raises ``DeviceFailed`` for one that fails."""
        command = [str(self.python), *map(str, words)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, cwd="/")
        if done.returncode not in codes:
            raise DeviceFailed(f"it ended with code {done.returncode}: {done.stderr[-400:]}")
        return json.loads(done.stdout[done.stdout.index("{") :] if "{" in done.stdout else done.stdout)

    def own(self, backend: str, path: Path, seconds: float) -> list[float]:
        """p50, p90 and p99 (ms) of one's own loop."""
        return self.answer("-c", LOOP.replace("{own}", OWN[backend]), path, seconds)

    def against(self, file: dict[str, Any], seconds: float, folder: Path) -> dict[str, float]:
        """p50 (ms) of each interpreter that takes the file, by ``edgeveil bench --against``'s rounds."""
        spec = {"files": [file], "rounds": ROUNDS, "seconds": seconds / ROUNDS, "threads": 1, "backends": list(OWN)}
        (folder / "spec.json").write_text(json.dumps(spec))
        rows = self.answer("-m", "edgeveil.devices.compare", folder / "spec.json")["rows"]
        return {row["backend"]: row["p50_ms"] for row in rows if "p50_ms" in row}


def of_bundle(bench: Bench, folder: Path, turns: int, seconds: float) -> dict[str, Any]:
    """``edgeveil-edge bench`` of a bundle, and a loop over its artefact."""
    place = folder / "bundle"
    place.mkdir()
    camera_to_broker.bundle(place, camera_to_broker.CASES["1"])
    words = ["-m", "edgeveil.edge_runtime", "bench", place / "test.veil", "--trust", place / "trust"]
    words += ["--json", "--min-seconds", seconds]
    ours, theirs, whole, loops = [], [], [], []
    for _ in range(turns):
        document = bench.answer(*words, codes=(0, 3))
        ours.append([document["interpreter_ms"][f"p{p}"] for p in SHOWN])
        whole.append([document["latency_ms"][f"p{p}"] for p in SHOWN])
        loops.append(document["whole_loop"])
        theirs.append(bench.own("ai-edge-litert", place / "model.tflite", seconds))
    facts = {"network": "180 x 180", "artefact": "tflite-int8", "backend": "ai-edge-litert"}
    more = {"perturber_ms": np.median(whole, axis=0).round(3).tolist(), "whole_loop": loops}
    return {**facts, "bench": "edgeveil-edge bench", **compared(ours, theirs), **more}


def compared(ours: list[list[float]], theirs: list[list[float]]) -> dict[str, Any]:
    """The turns' medians of each percentile, and the median quotient of the p50s with its 95 % interval."""
    first = [[one[0] for one in side] for side in (ours, theirs)]
    quotient, low, high = (round(one, 3) for one in ratio(*first, np.random.default_rng(0)))
    bench_ms, own_ms = (np.median(side, axis=0).round(3).tolist() for side in (ours, theirs))
    facts = {"bench_ms": bench_ms, "own_ms": own_ms, "quotient": quotient, "interval": [low, high]}
    return {**facts, "turns": {"bench": ours, "own": theirs}}


def of_files(bench: Bench, folder: Path, turns: int, seconds: float) -> list[dict[str, Any]]:
    """MobileNetV2 in each format and precision, on each interpreter that takes it."""
    import keras

    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(weights=None)
    calibration = {model.inputs[0].name: np.random.default_rng(0).random((8, 224, 224, 3), np.float32)}
    found = []
    for converter, precision in (("tf.lite", "float32"), ("tf.lite", "int8"), ("tf2onnx", "float32")):
        kind = CONVERTERS.kinds()[converter]
        path = folder / f"mobilenetv2-{precision}.{kind.facts['format']}"
        path.write_bytes(kind.load()(13).convert(model, [precision], calibration)[precision])
        file = bench_command.model_file(path)
        ours: dict[str, list[list[float]]] = {}
        theirs: dict[str, list[list[float]]] = {}
        for _ in range(turns):
            for backend, p50_ms in bench.against(file, seconds, folder).items():
                ours.setdefault(backend, []).append([p50_ms])
                theirs.setdefault(backend, []).append(bench.own(backend, path, seconds))
        facts = {"network": "MobileNetV2", "artefact": file["artefact"], "bench": "edgeveil bench --against"}
        found += [{**facts, "backend": one, **compared(ours[one], theirs[one])} for one in ours]
    return found


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--turns 1 --seconds 1 --anyway", out=OUT, timing=True)
    script.add_argument("--turns", type=int, default=15)
    script.add_argument("--seconds", type=float, default=1.0)
    options = script.parse_args()
    watch = record.watch(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder / "packages")
        rows = [of_bundle(bench, folder, options.turns, options.seconds)]
        rows += of_files(bench, folder, options.turns, options.seconds)
    for row in rows:
        print(
            row["network"],
            row["artefact"],
            row["backend"],
            row["bench_ms"],
            row["own_ms"],
            row["quotient"],
            row["interval"],
        )
    return record.end_turns(script, options, watch, rows, MOST)


if __name__ == "__main__":
    record.run(main)
