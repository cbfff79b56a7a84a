"""What the capture loop costs: its frames per second next to those of the bare interpreter on the same artefact.

Three perturbers near the sizes of paper 001's Table 3, untrained: time does not depend on what a network has learned,
and its last layer is at random, for a generator begins as the identity. 28 x 28 and 180 x 180 pictures, vectors of 520
access points, int8 and float32. The frames are there already, so nothing is decoded; the loop runs as inside a service
(its three threads, watchdog, counters, records into a pipe that another process empties), without ticks. Bare and loop
take turns, and the ratio is the median over the turns. Two cores share caches and more, so that whatever one of them
does slows the other: in a third turn the bare interpreter runs next to a process that has nothing to do with it and
copies pictures for as long as the loop's other threads worked for a frame. Takes about 5 minutes, and begins once
the machine is quiet. Records docs/results/bench/loop.json.
"""

import os

# Before numpy loads its BLAS.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import statistics
import subprocess
import sys
import time
from operator import truediv
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.bench import loop_rate as whole_loop
from edgeveil.edge_runtime.bench import protocol
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from scripts import record

RESULT = Path("docs/results/bench/loop.json")
PRECISIONS = ("int8", "float32")
CLAIM, LEAST_RATIO = "180 x 180", 0.95
SAID = (
    "{input} {artefact}: {loop_fps} of {bare_fps} a second, {ratio}; {ratio_beside_a_stranger} of the bare "
    "interpreter beside a stranger"
)
DRAIN = "import os\nwhile os.read(0, 1 << 20): pass"
STRANGER = """
import sys, time
busy, period, picture = float(sys.argv[1]), float(sys.argv[2]), bytearray(int(sys.argv[3]))
begin = time.perf_counter()
while True:
    while time.perf_counter() - begin < busy:
        bytes(picture)
    begin = max(begin + period, time.perf_counter() - period)
    time.sleep(max(0.0, begin - time.perf_counter()))
"""


def networks() -> dict[str, tuple[Any, dict[str, Any]]]:
    """The generator and the manifest's ``input`` of each size."""
    from edgeveil.models.generators import conv_generator, mlp_generator

    def image(side: int) -> dict[str, Any]:
        return {"name": "x", "kind": "image", "shape": [side, side, 1], "dtype": "uint8", "low": 0.0, "high": 255.0}

    vector = {"name": "x", "kind": "vector", "shape": [520], "dtype": "uint8", "low": 0.0, "high": 1.0}
    return {
        "28 x 28": (conv_generator((28, 28, 1), width=64, halvings=3, blocks=4), image(28)),
        "180 x 180": (conv_generator((180, 180, 1), width=104, halvings=4, blocks=3), image(180)),
        "520 access points": (mlp_generator(520, width=512, blocks=3), vector),
    }


def untrained(model: Any, spec: dict[str, Any], precision: str) -> tuple[dict[str, Any], bytes]:
    """A manifest and its network's file: the network as TFLite between preprocess and output."""
    from edgeveil.trainer.export.artefact import artefact_entry
    from edgeveil.trainer.export.converters.tf_lite import TfLite
    from edgeveil.trainer.graphs.files import read
    from edgeveil.trainer.graphs.macs import keras_macs

    name = model.inputs[0].name
    # A generator begins as the identity, which the loop would stop for letting raw frames through. These weights also
    # make it use the whole range of x', as every trained one does.
    change = model.get_layer("change")
    rng = np.random.default_rng(1)
    kernel, bias = change.get_weights()
    change.set_weights([rng.normal(0, 2.0, kernel.shape).astype(np.float32), np.zeros_like(bias)])
    rows = np.random.default_rng(0).random((16, *spec["shape"]), np.float32)
    rows[0], rows[1] = 0, 1
    data = TfLite().convert(model, [precision], {name: rows})[precision]
    graph = read(data, "tflite")
    entry = artefact_entry(
        data, graph, file="artefacts/x", precision=precision, inputs=[name], outputs=["output"], max_abs=9
    )
    cost, artefact = keras_macs(model), f"tflite-{precision}"
    ends = {"low": spec["low"], "high": spec["high"]}
    manifest = {
        "name": "bench",
        "perturber": {"identity_allowed": False},
        "input": spec,
        "capture": None,
        "stream": None,
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", **ends},
            {"stage": "artefact", "model": "generator", "inputs": {name: "u"}, "outputs": {"output": "v"}},
            {"stage": "output", "input": "v", "output": "x_out", "dtype": spec["dtype"], **ends},
        ],
        "outputs": [
            {"name": "frame", "kind": "frame", "tensor": "x_out", "shape": spec["shape"], "dtype": spec["dtype"]}
        ],
        "models": {"generator": {"macs": cost.macs, "parameters": cost.parameters, "artefacts": {artefact: entry}}},
        "privacy": {"file": None, "speaks_of": {}},
    }
    return manifest, data


def perturber(document: dict[str, Any], data: bytes) -> Perturber:
    """One that the loop can run."""
    manifest = parse(document)
    ((artefact, model_artefact),) = manifest.models["generator"].artefacts.items()
    backend = open_backend("tflite", data, model_artefact.entry, threads=1)
    pipeline = Pipeline(manifest, tables={}, runners={"generator": backend})
    return Perturber(Bundle(manifest, {}, "", "", False), pipeline, artefact, 0.0, CPU, False)


def loop_rate(made: Perturber, seconds: float) -> tuple[float, float]:
    """Frames a second and seconds of processor time a frame, from frames that are there into a pipe that is emptied."""
    cpu = time.process_time()
    measurement = whole_loop.measure(made, protocol.synthetic_frames(made.manifest.input), seconds)
    return measurement["fps"], (time.process_time() - cpu) / measurement["count"]


def bare_rate(made: Perturber, seconds: float) -> tuple[float, float]:
    """Runs of the interpreter a second and seconds of processor time a run, on random numbers, nothing around it."""
    call = made.pipeline.runners["generator"].bare_call(np.random.RandomState(0))
    started, cpu, count = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - started < seconds:
        call()
        count += 1
    return count / (time.perf_counter() - started), (time.process_time() - cpu) / count


def beside_rate(made: Perturber, seconds: float, busy_s: float, period_s: float) -> float:
    """Runs of the bare interpreter a second while a stranger works ``busy_s`` of every ``period_s`` (s)."""
    size = int(np.prod(made.manifest.input.shape))
    words = [sys.executable, "-c", STRANGER, str(busy_s), str(period_s), str(size)]
    with subprocess.Popen(words) as stranger:
        try:
            time.sleep(0.3)  # an interpreter that starts works harder than this one is to
            return bare_rate(made, seconds)[0]
        finally:
            stranger.kill()


def row(name: str, made: Perturber, turns: int, seconds: float) -> dict[str, Any]:
    """The rates, turn by turn, and what the loop adds to a frame."""
    bare_rate(made, seconds / 2)
    pairs, besides = [], []
    for _ in range(turns):
        pairs.append((bare_rate(made, seconds), loop_rate(made, seconds)))
        (_, bare_s), (rate, loop_s) = pairs[-1]
        besides.append(beside_rate(made, seconds, max(0.0, loop_s - bare_s), 1 / rate))
    bare, loop = (statistics.median(rate for rate, _ in one) for one in zip(*pairs, strict=True))
    bare_cpu, loop_cpu = (min(cpu for _, cpu in one) for one in zip(*pairs, strict=True))
    loops = [loop[0] for _, loop in pairs]
    model = made.manifest.models["generator"]
    return {
        "input": name,
        "artefact": made.artefact,
        "macs": model.macs,
        "parameters": model.parameters,
        "bare_fps": float(f"{bare:.4g}"),
        "loop_fps": float(f"{loop:.4g}"),
        "ratio": round(statistics.median(loop[0] / bare[0] for bare, loop in pairs), 3),
        "ratios": [round(loop[0] / bare[0], 3) for bare, loop in pairs],
        "beside_a_stranger_fps": float(f"{statistics.median(besides):.4g}"),
        "ratio_beside_a_stranger": round(statistics.median(map(truediv, loops, besides)), 3),
        "ratios_beside_a_stranger": [round(one, 3) for one in map(truediv, loops, besides)],
        # Of all threads together, the best turn: what other programs take from the machine is not in it.
        "bare_cpu_us": round(bare_cpu * 1e6, 1),
        "loop_cpu_us": round(loop_cpu * 1e6, 1),
        "cpu_ratio": round(bare_cpu / loop_cpu, 3),
        "overhead_cpu_us": round((loop_cpu - bare_cpu) * 1e6, 1),
    }


def main() -> int:
    """Measure and record; exit code 3 where the loop takes more than a twentieth of a 180 x 180 frame."""
    script = record.Script(__file__, __doc__, out=RESULT, timing=True)
    script.add_argument("--turns", type=int, default=7)
    script.add_argument("--seconds", type=float, default=2.0)
    options = script.parse_args()
    perturbers = {
        (name, kind): perturber(*untrained(*parts, kind)) for name, parts in networks().items() for kind in PRECISIONS
    }
    watch, rows = record.watch(options), []
    for (name, _), one in perturbers.items():
        rows.append(row(name, one, options.turns, options.seconds))
        print(SAID.format(**rows[-1]), flush=True)
    judged = record.verdict(watch.use())
    document = {
        "what": "the live loop beside the bare interpreter on TFLite, one thread; the networks are UNTRAINED",
        "turns": options.turns,
        "seconds_a_turn": options.seconds,
        **judged,
        "rows": rows,
        "least_ratio": {CLAIM: LEAST_RATIO},
        **record.here(),
    }
    record.write(options.out, script.made_by(options), document)
    print(judged["verdict"], *judged["reasons"])
    held = all(one["ratio"] >= LEAST_RATIO for one in rows if one["input"] == CLAIM)
    return 0 if held and not judged["reasons"] else 3


if __name__ == "__main__":
    record.run(main)
