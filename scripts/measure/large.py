"""What data larger than memory cost: 2,000,000 pictures in one .npz and a folder of 200,000, next to 20,000 in memory.

Made-up pictures of 64 x 64, one byte: y is a bright band, z a bright edge. Each step is a process of its own, whose
peak is that of its resident memory. Training is timed from the command to the first step of D_y, and then per sample,
in processor seconds of all threads: large and small take turns in one process after another, a few turns each. The
whole way (train, export, audit) goes over the large data with a D_y so small that reading is most of the work.
Records docs/results/large.json; the data, about 10 GB below --work, are removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from scripts import record

RESULT = Path("docs/results/large.json")
SIDE, BATCH, SMALL, SEED = 64, 128, 20_000, 0
WARM, STEPS, TURNS = 4, 24, 3  # an epoch of the small data has 29
TINY = """
import keras

def build(spec):
    x = keras.Input(spec.shape)
    flat = keras.layers.Flatten()(keras.layers.AveragePooling2D(16)(x))
    return keras.Model(x, keras.layers.Dense(spec.classes)(flat))
"""


def pictures(rng: np.random.Generator, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x (n, 64, 64) of labels y, 0 to 3, and z, 0 or 1."""
    x = rng.integers(0, 64, (len(y), SIDE, SIDE), np.uint8)
    for one, band, edge in zip(x, y, z, strict=True):
        one[16 * band : 16 * band + 16] += 90
        one[:, :16] += 60 * int(edge)
    return x


def write_npz(path: Path, rows: int) -> Path:
    """x, y and z as numpy.savez writes them, a block at a time."""
    rng = np.random.default_rng(SEED)
    y, z = rng.integers(0, 4, rows), rng.integers(0, 2, rows)
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in (("y", y), ("z", z)):
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values)
        with archive.open("x.npy", "w", force_zip64=True) as member:
            facts = {"descr": "|u1", "fortran_order": False, "shape": (rows, SIDE, SIDE)}
            np.lib.format.write_array_header_1_0(member, facts)
            for at in range(0, rows, 4096):
                member.write(pictures(rng, y[at : at + 4096], z[at : at + 4096]).tobytes())
    return path


def write_folder(folder: Path, rows: int) -> Path:
    """A folder for each class of y, and labels.csv with z."""
    import cv2

    rng, lines = np.random.default_rng(SEED), ["file,z"]
    for at in range(0, rows, 4096):
        count = min(4096, rows - at)
        y, z = rng.integers(0, 4, count), rng.integers(0, 2, count)
        for number, (x, band, edge) in enumerate(zip(pictures(rng, y, z), y, z, strict=True), at):
            name = f"{band}/{number:07}.png"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(folder / name), x, [cv2.IMWRITE_PNG_COMPRESSION, 1])
            lines.append(f"{name},{edge}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def recipe(source: str, *, tiny: Path | None = None) -> Any:
    """Label-only for such pictures: D_y is the network ``small``, or a function of ``tiny``."""
    from edgeveil.trainer.recipe.schema import Recipe

    kind, _, place = source.partition(":")
    data: dict[str, Any] = {"source": source, "target": "y", "sensitive": "z", "low": 0.0, "high": 255.0}
    if kind == "images":
        data |= {"labels": f"{place}/labels.csv", "columns": {"sensitive": "z"}}
    table = {
        "name": "large",
        "data": data,
        "prior": {"kind": "counted"},
        "classifiers": {"architecture": "small" if tiny is None else f"{tiny}:build"},
        "perturber": {"kind": "label-only"},
        "budget": {"classifier_epochs": 1, "epochs": 1, "batch": BATCH},
        "limits": {"target_accuracy": 0.5},
    }
    return Recipe.check(table)


class Enough(Exception):
    """So many steps were timed."""


def begin(source: str, out: Path) -> dict[str, Any]:
    """Begin to train as ``edgeveil train`` does, up to some steps of D_y: when the first ended, what others cost."""
    from edgeveil.trainer.networks.feeding import Feed
    from edgeveil.trainer.train import train

    began, found, real = time.monotonic(), dict[str, Any](), Feed.batches

    def counted(feed: Feed, order: np.ndarray) -> Any:
        # The step of a batch is over when the next one is asked for: its loss was read.
        for number, given in enumerate(real(feed, order)):
            if number == 1:
                found["first_step_s"], found["first_step_cpu_s"] = time.monotonic() - began, time.process_time()
            if number == WARM:
                at = time.monotonic(), time.process_time()
            if number == WARM + STEPS:
                spent = STEPS * BATCH / 1e3
                found["wall_ms"] = (time.monotonic() - at[0]) / spent
                found["cpu_ms"] = (time.process_time() - at[1]) / spent
                raise Enough
            yield given

    Feed.batches = counted  # type: ignore[method-assign, assignment]
    with contextlib.suppress(Enough):
        train(recipe(source), out)
    return found


def whole_way(source: str, out: Path) -> dict[str, Any]:
    """Train, export and audit, with seconds and the peak after each."""
    from edgeveil.trainer.audit.audit import audit
    from edgeveil.trainer.export.export import export
    from edgeveil.trainer.train import train

    tiny = out.with_name("tiny.py")
    tiny.write_text(TINY)
    began, found = time.monotonic(), dict[str, Any]()

    def done(name: str) -> None:
        found[name] = {"after_s": time.monotonic() - began, "cpu_s": time.process_time(), "peak_gb": peak_gb()}

    run = train(recipe(source, tiny=tiny), out)
    done("train")
    folder = export(run.folder, ["raspberry-pi-cpu"], out.with_name("export"))
    done("export")
    document = audit(folder.folder, artefact="tflite-int8")
    done("audit")
    kept = run.facts["validation"]
    return {**found, "rows": document["data"]["rows"], "sampled_from": document["data"].get("sampled_from"), "y": kept}


def peak_gb() -> float:
    """The peak of this process's resident memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


STEPS_OF = {"begin": begin, "whole_way": whole_way}


def step(name: str, source: str, work: Path) -> dict[str, Any]:
    """A step in a process of its own; ``inspect`` is the command. Its results and peak. Raises where it failed."""
    out = work / "run"
    for folder in (out, work / "export"):
        shutil.rmtree(folder, ignore_errors=True)
    words = [sys.executable, "-m", "scripts.measure.large", "--step", name, "--source", source, "--work", str(work)]
    if name == "inspect":
        start = "from edgeveil.trainer.cli import start; start()"
        words = [sys.executable, "-c", start, "data", "inspect", source]
        words += ["--sensitive", "z"] if source.startswith("images:") else []
    began, load = time.monotonic(), os.getloadavg()[0]
    environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    said = process.stdout.read() if process.stdout else ""
    _, status, used = os.wait4(process.pid, 0)
    for folder in (out, work / "export"):
        shutil.rmtree(folder, ignore_errors=True)
    if status:
        raise BadInput(f"{name} of {source} ended with {os.waitstatus_to_exitcode(status)}; the reason is above.")
    found = json.loads(said.splitlines()[-1]) if name in STEPS_OF else {}
    return {
        "step": name,
        "source": source.partition(":")[0],
        "wall_s": time.monotonic() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_gb": used.ru_maxrss * 1024 / 1e9,
        "load": load,
        **found,
    }


def measure(work: Path, rows: int, count: int) -> dict[str, Any]:
    """All steps. What was made goes at the end."""
    work.mkdir(parents=True, exist_ok=True)
    large, small, folder = work / "large.npz", work / "small.npz", work / "pictures"
    made = []
    for path, write, size in ((large, write_npz, rows), (small, write_npz, SMALL), (folder, write_folder, count)):
        if not path.exists():
            made.append(path)
            write(path, size)

    def kept(name: str, source: str, turn: int = 0) -> dict[str, Any]:
        """A step's results; those of a measurement that was cut short are taken."""
        file = work / f"{name}-{source.replace('/', '-').replace(':', '-')}-{turn}.json"
        return record.kept(file, lambda: step(name, source, work))

    pictured = [kept(name, f"images:{folder}", turn) for turn, name in enumerate(("begin", "begin", "inspect"))]
    steps = [kept("inspect", f"npz:{large}"), *pictured]
    turns: dict[str, list[dict[str, Any]]] = {"large": [], "small": []}
    for turn in range(TURNS):
        for name, path in (("large", large), ("small", small)):
            turns[name].append(kept("begin", f"npz:{path}", turn))
    steps.append(kept("whole_way", f"npz:{large}"))
    per_sample = {name: statistics.median(one["cpu_ms"] for one in every) for name, every in turns.items()}
    for path in (*made, work / "cache", work / "tiny.py", *work.glob("*.json")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return {
        "seed": SEED,
        "rows": {"large": rows, "small": SMALL, "pictures": count},
        "bytes": {"large": rows * SIDE**2, "pictures": count * SIDE**2},
        "steps": steps,
        "turns": turns,
        "cpu_ms_a_sample": per_sample,
        "ratio": per_sample["large"] / per_sample["small"],
        "most_gb": max(one["peak_gb"] for one in (*steps, *turns["large"])),
    }


def main() -> None:
    """The command line."""
    script = record.Script(__file__, __doc__, "--work /var/tmp/large", out=RESULT)
    script.add_argument("--work", type=Path, required=True, help="folder for the data, with 12 GB free")
    script.add_argument("--rows", type=int, default=2_000_000)
    script.add_argument("--pictures", type=int, default=200_000)
    script.add_argument("--step", choices=STEPS_OF, help="one step, in this process")
    script.add_argument("--source", help="of --step")
    asked = script.parse_args()
    if asked.step:
        print(json.dumps(STEPS_OF[asked.step](asked.source, asked.work / "run")))
        return
    record.write(asked.out, script.made_by(asked), {**record.here(), **measure(asked.work, asked.rows, asked.pictures)})


if __name__ == "__main__":
    record.run(main)
