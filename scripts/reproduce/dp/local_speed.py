"""The speed of local privacy on a board: mechanisms, a stream of lines with a ledger, a charge of the ledger.

Mechanisms: vectors a second through the whole pipeline, 4,096 at a time, one core. The stream: csv:- to csv:- of 11
values by duchi-linf, charged to a ledger, beside the same source and sink with nothing between, at two lengths: memory
that grows with the stream would show. The ledger: one charge, on this machine's disk, for one release, for as many as a
service reserves ahead, and for as many as a file's block; in turns with it, what the disk alone costs: as many bytes
written, synced and renamed, and the folder synced. Records docs/results/dp/local-speed.json.
"""

import os

# Before numpy loads its BLAS, here and in the processes that are started.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.edge_runtime.ledger.book import Limit
from edgeveil.edge_runtime.ledger.ledger_file import Ledger, create
from edgeveil.edge_runtime.ledger.payer import AHEAD
from edgeveil.edge_runtime.sources.text import READ
from scripts.reproduce import record
from scripts.reproduce.runtime import csv_stream
from tests.support import bundles
from tests.support.promised import collector_bundles, local_examples

RECORD = Path("docs/results/dp/local-speed.json")
BATCH, SECONDS, PLACES = 4096, 1.0, 11
MECHANISMS = (("duchi-linf", 11), ("duchi-linf", 520), ("duchi-l2", 11), ("hybrid", 11), ("laplace", 11))
GOALS = {("duchi-linf", 11): 1e6, ("duchi-linf", 520): 3e4, ("duchi-l2", 11): 3e5}  # vectors a second
CHARGES = 200
RELEASE_GOAL_US = 5  # of as many as a service reserves ahead
BLOCK = READ // 28  # lines of 11 such values in one read
# The runtime's own source and sink, and what goes between them is handed on as it is.
ALONE = """
import sys
import numpy as np
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Input, Output
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.sources import open_source
shape = (int(sys.argv[1]),)
source = open_source("csv:-", Input("x", "vector", shape, "uint8", 0.0, 16.0))
sink = open_sink("csv:-", [Output("report", "code", "x", shape, "int8", None)])
while True:
    block = source.next_block()
    if block is None:
        break
    for frame in block:
        sink.write(PerturbedFrame(frame.index, {"report": frame._data.astype(np.int8)}, _PIPELINE))
    sink.flush()
sink.close()
"""


def mechanisms() -> list[dict[str, Any]]:
    """Vectors a second of each, by the wall clock and by the processor's."""
    rows = []
    for op, d in MECHANISMS:
        pipeline = local_examples.pipeline(*local_examples.document(op, 1.0, d))
        x = np.random.default_rng(0).integers(0, 17, (BATCH, d)).astype(np.uint8)
        pipeline.run(x)
        wall, processor, runs = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - wall < SECONDS:
            pipeline.run(x)
            runs += 1
        took, used = time.perf_counter() - wall, time.process_time() - processor
        rows.append(
            {
                "op": op,
                "values": d,
                "vectors_per_s": round(runs * BATCH / took),
                "vectors_per_processor_s": round(runs * BATCH / used),
                "goal": GOALS.get((op, d)),
            }
        )
    return rows


def stream(folder: Path, lines: int, repeats: int) -> list[dict[str, Any]]:
    """Lines a second with the mechanism and the ledger, and without."""
    manifest, members = collector_bundles.example("duchi-linf", 1.0, PLACES)
    manifest["spending"]["most_micro_epsilon"] = 10**15
    bundle = bundles.make_bundle(folder, example=(manifest, members))
    create(str(folder / "ledger"))
    run = [sys.executable, "-m", "edgeveil.edge_runtime", "run", str(bundle.path), "--trust", str(bundle.trust)]
    ways = {
        "parsing and printing alone": [sys.executable, "-c", ALONE, str(PLACES)],
        "duchi-linf with a ledger": [*run, "--source", "csv:-", "--sink", "csv:-", "--ledger", str(folder / "ledger")],
    }
    x = np.random.default_rng(1).integers(0, 17, (csv_stream.DIFFERENT, PLACES))
    text = "".join(",".join(map(str, row)) + "\n" for row in x).encode()
    return csv_stream.measured(ways, text, lines, repeats)


def charges(folder: Path) -> list[dict[str, Any]]:
    """Microseconds of a charge, of what the disk alone costs, and of each release that a charge pays for."""
    create(str(folder / "charged"))
    ledger, rows = Ledger(str(folder / "charged")), []
    for releases in (1, AHEAD, BLOCK):
        took = np.empty((CHARGES, 2))
        for turn in took:
            started = time.perf_counter()
            paid = ledger.charge({None: releases}, 1, [Limit(10**15, None)]).paid[None]
            charged = time.perf_counter()
            _written((folder / "charged").stat().st_size, folder)
            turn[:] = charged - started, time.perf_counter() - charged
            if paid != releases:
                raise LimitNotMet(f"{releases} releases were to be paid for; got {paid}")
        charge, disk = (round(1e6 * float(one), 1) for one in np.median(took, axis=0))
        goal = {"goal_us": RELEASE_GOAL_US, "least_us": round(disk / releases, 3)} if releases == AHEAD else {}
        rows.append(
            {
                "releases": releases,
                "charge_us": charge,
                "disk_us": disk,
                "release_us": round(charge / releases, 3),
                **goal,
            }
        )
    return rows


def _written(size: int, folder: Path) -> None:
    """What a charge asks of the disk, and nothing else: a file of ``size`` bytes, replaced and lasting."""
    new = folder / "bare.tmp"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    os.write(handle, b"0" * size)
    os.fsync(handle)
    os.close(handle)
    new.rename(folder / "bare")
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, out=RECORD, timing=True)
    script.add_argument("--lines", type=int, default=1_003_520)
    script.add_argument("--repeats", type=int, default=2)
    asked = script.parse_args()
    watch = record.watch(asked)
    with tempfile.TemporaryDirectory() as name:
        document = {
            "mechanisms": mechanisms(),
            "stream": stream(Path(name), asked.lines, asked.repeats),
            "ledger": charges(Path(name)),
        }
    document |= {"machine_use": record.verdict(watch.use()), **record.here()}
    record.write(asked.out, script.made_by(asked), document)
    return 0


if __name__ == "__main__":
    record.run(main)
