"""How fast lines go through a cleaner: csv:- to csv:-, a million lines, beside parsing and printing alone.

Makes a cleaner of a given size from made-up data, exports and seals it with a development key, and runs it in the edge
runtime as a process between two pipes, at two lengths of the stream: memory that grows with the stream would show.
"Parsing and printing alone" is the same source and sink code with nothing between. Records
docs/results/predictors/stream.json and writes the table of docs/results/linear-cleaners.md.
"""

import os

# Before numpy loads its BLAS, here and in the processes that are started.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import io
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed, LimitNotMet
from edgeveil.trainer.export.export import export
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.train import train
from scripts.reproduce import record
from scripts.reproduce.pages.predictors_page import write_tables

RESULTS = Path("docs/results/predictors")
GUIDE = Path("docs/results/linear-cleaners.md")
FEATURES, ROWS = 16, 600
DIFFERENT = 4096  # lines that differ; the stream repeats them
RECIPE = """
name = "stream"
[data]
source = "npz:stream.npz"
target = "y"
sensitive = "z"
wanted = 1
[prior]
kind = "counted"
[classifiers]
architecture = "linear"
[perturber]
kind = "cleaner"
[budget]
classifier_epochs = 1
epochs = 1
[limits]
target_accuracy = 0.5
"""
# The same source and sink as the runtime's, and what goes between them is handed on as it is.
ALONE = """
import sys
import numpy as np
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Input, Output
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.sources import open_source
shape = (int(sys.argv[1]),)
source = open_source("csv:-", Input("x", "vector", shape, "float32", None, None))
sink = open_sink("csv:-", [Output("frame", "frame", "x", shape, "float32", None)])
while True:
    block = source.next_block()
    if block is None:
        break
    for frame in block:
        sink.write(PerturbedFrame(frame.index, {"frame": frame._data}, _PIPELINE))
    sink.flush()
sink.close()
"""


def bundle(folder: Path) -> Path:
    """A sealed development bundle of a cleaner of made-up vectors, and the folder ``trust`` beside it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    labels = x @ rng.normal(size=(FEATURES, 3)) + rng.normal(size=(ROWS, 3))
    np.savez(folder / "stream.npz", x=x, y=labels[:, 0] > 0, z=labels[:, 1] > 0, labels=labels)
    run = train(Recipe.parse(RECIPE, folder=folder), folder / "run")
    export(run.folder, ["workstation"], folder / "export")
    keygen(folder / "trust", development=True)
    path = seal(folder / "export", folder / "trust" / "signing.key", folder / "stream.veil", allow_unaudited=True)
    (folder / "trust" / "signing.key").unlink()
    return path


def lines() -> bytes:
    """``DIFFERENT`` lines of ``FEATURES`` numbers as a sensor would print them."""
    x = np.random.default_rng(1).normal(size=(DIFFERENT, FEATURES)).astype(np.float32)
    return "".join(",".join(f"{v:.9g}" for v in row) + "\n" for row in x).encode()


def piped(command: list[str], text: bytes, count: int) -> dict[str, Any]:
    """Run a command between two pipes on ``count`` lines: seconds, lines out, and its largest memory in bytes."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    feed, result = cast(BinaryIO, process.stdin), cast(io.BufferedReader, process.stdout)

    def write() -> None:
        for _ in range(count // DIFFERENT):
            feed.write(text)
        feed.close()

    writer = threading.Thread(target=write)
    writer.start()
    out = peak = reads = 0
    while data := result.read1(1 << 20):
        out += data.count(b"\n")
        reads += 1
        if reads % 64 == 1:
            peak = _peak(process.pid) or peak
    writer.join()
    if process.wait() != 0:
        raise DeviceFailed(f"{' '.join(command)} ended with {process.returncode}")
    return {"seconds": time.perf_counter() - started, "lines": out, "peak_rss_bytes": peak}


def _peak(pid: int) -> int:
    """The most memory a process has had since it began, in bytes; 0 where it has ended.

    Not from ``wait4``: that counts what the parent had when it forked.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def measured(ways: dict[str, list[str]], text: bytes, count: int, repeats: int) -> list[dict[str, Any]]:
    """One row per way: lines a second, start and end of the process taken out, and memory at two lengths.

    ``text``: ``DIFFERENT`` lines, which the stream repeats; ``count``: lines of the longer one.
    """
    short, long = (n // DIFFERENT * DIFFERENT for n in (count // 10, count))
    best: dict[str, list[dict[str, Any]]] = {}
    for _ in range(repeats):
        for name, command in ways.items():
            pair = [piped(command, text, n) for n in (short, long)]
            if name not in best or pair[1]["seconds"] < best[name][1]["seconds"]:
                best[name] = pair
            print(f"{name}: {pair[1]['lines']} lines in {pair[1]['seconds']:.1f} s", file=sys.stderr)
    rows = []
    for name, (first, second) in best.items():
        if (first["lines"], second["lines"]) != (short, long):
            raise LimitNotMet(f"{name} lost a line")
        rows.append(
            {
                "what": name,
                "features": text[: text.index(b"\n")].count(b",") + 1,
                "lines": long,
                "lines_per_s": float(f"{(long - short) / (second['seconds'] - first['seconds']):.4g}"),
                "peak_rss_bytes": second["peak_rss_bytes"],
                "peak_rss_bytes_of_a_tenth": first["peak_rss_bytes"],
            }
        )
    limit = rows[0]["lines_per_s"]
    return [{**row, "of_limit": float(f"{row['lines_per_s'] / limit:.3f}")} for row in rows]


def main() -> int:
    """Measure, record, and say whether memory stayed: exit code 3 where it did not."""
    script = record.Script(__file__, __doc__)
    script.add_argument("--lines", type=int, default=1_003_520)
    script.add_argument("--repeats", type=int, default=2)
    options = script.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = bundle(folder)
        run = [sys.executable, "-m", "edgeveil.edge_runtime", "run", str(path), "--trust", str(folder / "trust")]
        run += ["--source", "csv:-", "--sink", "csv:-", "--artefact"]
        ways = {"parsing and printing alone": [sys.executable, "-c", ALONE, str(FEATURES)]}
        ways |= {f"cleaner, {artefact}": [*run, artefact] for artefact in ("numpy-float32", "onnx-float32-batch256")}
        rows = measured(ways, lines(), options.lines, options.repeats)
    document = {
        "what": "a stream of lines, csv:- to csv:-, one thread; the stream is written and read by another process",
        "lines_per_s": "between a tenth of the stream and the whole of it, so that start and self-test do not count",
        "repeats": options.repeats,
        **record.here(),
        "rows": rows,
    }
    record.write(RESULTS / "stream.json", script.made_by(options), document)
    write_tables(RESULTS, GUIDE)
    grown = max(row["peak_rss_bytes"] - row["peak_rss_bytes_of_a_tenth"] for row in rows)
    print(f"memory grew by {grown / 2**20:.1f} MiB from a tenth of the stream to the whole of it", file=sys.stderr)
    return 0 if grown < 8 * 2**20 else 3


if __name__ == "__main__":
    record.run(main)
