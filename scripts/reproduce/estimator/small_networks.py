"""Small networks: what `edgeveil estimate` says of those far below the table, against what could be measured.

Three checks, none of them on a real board with a small network, because nobody published one:

left_out: on the published boards each of the smaller half of the networks from the larger ones alone, the regression
fitted without it and without all that are no larger, on any board.
workstation: networks that were timed on this machine (the record of papers/tables_3_4.py), those of 290 M MACs or more
as the table, and the recipes' generators of 0.3 to 37 M as the question.
shape: convolutions of 0.01 to 40 M MACs timed here and in an emulated arm64 userland, where times say nothing of a
board's speed: whether they lie on a line, overhead + MACs / rate, and how far off the smaller half is from the larger.

Takes a minute, and with --userland five. Records docs/results/bench/small-networks.json and writes its table in
docs/results/estimator.md.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices import profiles
from edgeveil.devices.flashing.wheels import collect
from edgeveil.devices.latency.calibration import Row, precision_of, published
from edgeveil.devices.latency.overhead import Point, left_out, line, overhead, points
from edgeveil.devices.latency.regression import Regression
from edgeveil.edge_runtime import machine
from edgeveil.trainer.report.bench import write_guide
from scripts.reproduce import record
from scripts.reproduce.runtime.open_cost import INTERPRETER, userland
from scripts.reproduce.runtime.peer_networks import PEERS, write_artefacts

RESULT = Path("docs/results/bench/small-networks.json")
GUIDE = Path("docs/results/estimator.md")
TABLES = Path("docs/results/bench/tables-3-4.json")
MOST_MACS = 1e8  # of a small network
PRECISIONS = {"fp32": "float32", "int8": "int8"}
SIZES = ((8, 4), (16, 4), (16, 8), (16, 16), (32, 8), (32, 16), (32, 32), (64, 16), (64, 32))  # side, channels
# Runs where it is measured. Rounds in turns; of each the median, and the median of those.
MEASURE = """
import json, sys, time
asked = json.load(sys.stdin)
sys.path.insert(0, asked["path"])
import numpy as np
from ai_edge_litert.interpreter import Interpreter
opened = {}
for name, file in asked["files"].items():
    one = opened[name] = Interpreter(model_path=file, num_threads=1)
    one.allocate_tensors()
    for tensor in one.get_input_details():
        one.set_tensor(tensor["index"], np.zeros(tensor["shape"], tensor["dtype"]))
found = {name: [] for name in opened}
for turn in range(asked["turns"]):
    for name, one in opened.items():
        taken = []
        for _ in range(asked["times"]):
            began = time.perf_counter()
            one.invoke()
            taken.append((time.perf_counter() - began) * 1e3)
        found[name].append(float(np.median(taken)))
print(json.dumps({name: float(np.median(each)) for name, each in found.items()}))
"""


def summary(ratios: Sequence[float]) -> dict[str, Any]:
    """Of predicted / measured times: how far off, and how often the network was faster than was said."""
    logs = np.abs(np.log(ratios))
    return {
        "checks": len(ratios),
        "median_error": round(float(np.exp(np.median(logs))), 2),
        "worst_error": round(float(np.exp(logs.max())), 2),
        "faster_than_said": int(np.sum(np.array(ratios) > 1)),
    }


def strictly_left_out(rows: list[Row]) -> Iterable[dict[str, Any]]:
    """The published networks, the smaller half on each board."""
    whole = Regression(rows)
    fitted: dict[tuple[str, float], Regression] = {}
    for group in sorted({row.group for row in rows}):
        for row, _, far in left_out(group, whole):
            key = (row.model, row.macs)
            if key not in fitted:
                fitted[key] = Regression([one for one in rows if one.model != row.model and one.macs > row.macs])
            fixed, slope = line(points(row, fitted[key]))
            ratio = (fixed + slope * row.macs / 1e9) / row.latency_ms
            facts = {"board": group, "network": row.model, "precision": row.precision, "macs": row.macs}
            yield facts | {"far": round(far, 2), "ratio": ratio}


def workstation(rows: list[Row], tables: Path) -> Iterable[dict[str, Any]]:
    """The recipes' generators from known networks that are hundreds of times larger, on each interpreter here."""
    document = record.recorded(tables)
    cost = {one["network"]: one for one in document["costs"]}
    times: dict[tuple[str, str, str], list[float]] = {}
    for group in document["groups"].values():
        for one in group["rows"]:
            times.setdefault((one["backend"], one["artefact"], one["name"]), []).append(one["p50_ms"])
    keys = ("macs", "depthwise_macs", "parameters", "input_values")
    mine = [
        Row(f"{artefact.partition('-')[0]} here/{backend}", precision_of(artefact), name, "", float(np.median(ms)),
            *(float(cost[name][key]) for key in keys), 1.0, "", "counted")
        for (backend, artefact, name), ms in times.items()
    ]  # fmt: skip
    model = Regression([*rows, *(row for row in mine if row.model in PEERS)])
    for row in mine:
        if row.macs < MOST_MACS:
            said = overhead(row, model)
            facts = {"backend": row.group, "network": row.model, "precision": row.precision, "macs": row.macs}
            yield facts | {"ms": row.latency_ms, "ratio": None if said is None else 1000 / said.fps / row.latency_ms}


def networks(folder: Path) -> dict[str, dict[str, float]]:
    """Writes the convolutions; MACs of each precision's files by name."""
    import keras

    from edgeveil.trainer.graphs.cost import file_cost

    found: dict[str, dict[str, float]] = {name: {} for name in PRECISIONS}
    for side, channels in SIZES:
        keras.utils.set_random_seed(0)
        image = keras.Input((side, side, 1), name="image")
        x = image
        for _ in range(2):
            x = keras.layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
        network = keras.Model(image, keras.layers.Conv2D(1, 3, padding="same")(x))
        name = f"{side}-{channels}"
        write_artefacts(network, folder / name)
        for precision, spelled in PRECISIONS.items():
            file = folder / name / f"tflite-{spelled}.tflite"
            found[precision][name] = float(file_cost(file.read_bytes(), "tflite").macs)
    return found


def shape(macs: dict[str, float], ms: dict[str, float]) -> dict[str, Any]:
    """The line through all, how far they lie off it, and how far the smaller half lies off the line of the larger."""
    timed = sorted((Point(name, macs[name], ms[name]) for name in macs), key=lambda point: point.macs)
    fixed, slope = line(timed)
    larger, smaller = timed[len(timed) // 2 :], timed[: len(timed) // 2]
    end, rise = line(larger)
    off = summary([(fixed + slope * one.macs / 1e9) / one.ms for one in timed])
    below = summary([(end + rise * one.macs / 1e9) / one.ms for one in smaller])
    rows = [{"macs": point.macs, "ms": round(point.ms, 4)} for point in timed]
    return {
        "overhead_ms": round(fixed, 4),
        "ms_per_gmac": round(slope, 2),
        "off_line": off,
        "below": below,
        "rows": rows,
    }


def shapes(turns: int, emulated: bool) -> Iterable[dict[str, Any]]:
    """The convolutions here and in the userland."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        macs = networks(folder)
        files = {
            f"{size}/{precision}": folder / size / f"tflite-{PRECISIONS[precision]}.tflite"
            for precision in PRECISIONS
            for size in macs[precision]
        }
        asked = {"turns": turns, "times": 15, "path": "", "files": {key: str(path) for key, path in files.items()}}
        command = [sys.executable, "-c", MEASURE]
        done = subprocess.run(command, input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True)
        places = {machine.facts()["architecture"]: json.loads(done.stdout)}
        if emulated:
            sent = {f"/root/{key.replace('/', '-')}.tflite": path.read_bytes() for key, path in files.items()}
            wheels = collect(profiles.load("raspberry-pi-cpu"), folder / "wheels", [INTERPRETER]).archive
            sent |= {"/root/site/.keep": b"", "/root/site.zip": wheels}
            asked |= {"path": "/root/site", "files": {key: f"/root/{key.replace('/', '-')}.tflite" for key in files}}
            with userland(sent, MEASURE) as measure:
                places["aarch64, emulated"] = measure(asked)
        for place, ms in places.items():
            for precision in PRECISIONS:
                times = {size: ms[f"{size}/{precision}"] for size in macs[precision]}
                yield {"where": place, "precision": precision, **shape(macs[precision], times)}


def main() -> int:
    """Check and record."""
    script = record.Script(__file__, __doc__, "--userland", out=RESULT)
    script.add_argument("--userland", action="store_true", help="in an emulated arm64 userland, too")
    script.add_argument("--turns", type=int, default=7)
    options = script.parse_args()
    rows = published()
    found = {"left_out": list(strictly_left_out(rows)), "workstation": list(workstation(rows, TABLES))}
    document: dict[str, Any] = {"what": __doc__.splitlines()[0]}
    for name, checks in found.items():
        given = [one["ratio"] for one in checks if one["ratio"] is not None]
        document[name] = {**summary(given), "no_answer": len(checks) - len(given), "rows": checks}
        print(name, summary(given), file=sys.stderr)
    document["shape"] = list(shapes(options.turns, options.userland))
    for one in document["shape"]:
        print({key: value for key, value in one.items() if key != "rows"}, file=sys.stderr)
    document["machine"] = machine.facts()
    record.write(options.out, script.made_by(options), document)
    if options.out == RESULT:
        write_guide(RESULT.parent, GUIDE)
    return 0


if __name__ == "__main__":
    record.run(main)
