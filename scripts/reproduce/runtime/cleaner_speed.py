"""How fast a cleaner is: beside the two matrix products alone, which it cannot beat, and the paper's loop over vectors.

The exported files run beside them on every backend that is installed, by the edge runtime's own code. Records
docs/results/predictors/cleaner-speed.json and writes the table of docs/results/linear-cleaners.md. One core;
all of them take turns and each one's best time counts, so that other work on the machine falls on all of them.
"""

import os

# Before numpy loads its BLAS.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.linear.cleaner import BLOCK, Cleaner, algorithm1
from scripts.reproduce import record
from scripts.reproduce.pages.predictors_page import write_tables

RESULTS = Path("docs/results/predictors")
GUIDE = Path("docs/results/linear-cleaners.md")
SHAPES = ((294, 5), (294, 1), (16, 13))  # features and wanted labels of scene and wq
BATCHES = (1, 256, BLOCK)
ROWS = 1 << 16  # more than any cache holds: vectors are read from memory and written back
CLAIM = (294, 5, "float32", BLOCK)  # where the limits below must hold
LEAST_SHARE, LEAST_RATE = 0.5, 1e6


def products(cleaner: Cleaner, x: np.ndarray, out: np.ndarray) -> None:
    """The two products alone: what any cleaner of this rank has to pay."""
    np.matmul(x @ cleaner.encoder, cleaner.decoder.T, out=out)


def literal(cleaner: Cleaner, x: np.ndarray, out: np.ndarray) -> None:
    """Steps 4 to 7 of Algorithm 1 as printed, vector by vector and direction by direction."""
    for row, target in zip(x, out, strict=True):
        a = cleaner.encoder.T @ row
        spent, kept = 0.0, a.copy()
        for i in range(len(a)):
            delta = a[i] * a[i]
            if spent + delta >= cleaner.eps:
                kept[i] -= np.sqrt((cleaner.eps - spent) / delta) * a[i]
                break
            kept[i] = 0
            spent += delta
        target[:] = cleaner.decoder @ kept


def cleaning(cleaner: Cleaner, x: np.ndarray, out: np.ndarray) -> None:
    """What EdgeVeil does."""
    cleaner.clean(x, out)


Way = Callable[[Cleaner, np.ndarray, np.ndarray], None]
WAYS: dict[str, Way] = {
    "two products alone": products,
    "cleaner": cleaning,
    "the paper's loop": literal,
}


def exported(cleaner: Cleaner) -> dict[int, dict[str, Way]]:
    """The same cleaner as exported files, float32, on every backend here: by vectors at a time, then by name."""
    from edgeveil.edge_runtime.backends import available, open_backend
    from edgeveil.models.cleaners import linear_cleaner
    from edgeveil.trainer.export.convert import to_onnx, to_tflite
    from edgeveil.trainer.export.manifest_entry import artefact_entry
    from edgeveil.trainer.graphs import numpy_arrays
    from edgeveil.trainer.graphs.read import read

    network = linear_cleaner(cleaner.encoder, cleaner.decoder, cleaner.eps)
    found: dict[int, dict[str, Way]] = {1: {}, 256: {}}
    for batch, ways in found.items():
        files = {
            "tflite": to_tflite.convert(network, ["float32"], batch=batch)["float32"],
            "onnx": to_onnx.convert(network, ["float32"], batch=batch)["float32"],
            "numpy": numpy_arrays.convert(network),
        }
        for name, data in files.items():
            ends = {"inputs": ["features"], "outputs": ["output", "code"]}
            graph = read(data, name)
            entry = artefact_entry(data, graph, file="artefacts/x", precision="float32", max_abs=0.0, **ends)
            for backend in available(name):
                ways[f"exported {name} on {backend}"] = _way(open_backend(name, data, entry, backend=backend))
    return found


def _way(backend: Any) -> Way:
    def way(_: Cleaner, x: np.ndarray, out: np.ndarray) -> None:
        out[:] = backend.run({"features": x})["output"]

    return way


def measured(features: int, rank: int, dtype: type, repeats: int) -> list[dict[str, Any]]:
    """Vectors per second of each way at each batch size."""
    rng = np.random.default_rng(0)
    a_d, a_c = rng.normal(size=(features, rank)) / np.sqrt(features), rng.normal(size=(features, 3))
    cleaner = algorithm1(a_d, a_c, eps=0.01 * rank).astype(dtype)
    x = rng.normal(size=(ROWS, features)).astype(dtype)
    out, check = np.empty_like(x), np.empty_like(x[:256])
    literal(cleaner, x[:256], check)
    np.testing.assert_allclose(cleaner.clean(x[:256]), check, atol=1e-4)
    rows = []
    graphs = exported(cleaner) if dtype is np.float32 else {}
    for batch in BATCHES:
        ways = {**WAYS, **graphs.get(batch, {})}
        for name, way in ways.items():
            out[:batch] = 0
            way(cleaner, x[:batch], out[:batch])
            if name != "two products alone":
                np.testing.assert_allclose(out[:batch][:256], check[: min(batch, 256)], atol=1e-4, err_msg=name)
        best = dict.fromkeys(ways, np.inf)
        for _ in range(repeats):
            for name, way in ways.items():
                # A call per vector takes a hundred times as long as one of a large batch: fewer will do.
                count = ROWS if batch > 1 and name != "the paper's loop" else 2048
                started = time.perf_counter()
                for start in range(0, count, batch):
                    way(cleaner, x[start : start + batch], out[start : start + batch])
                best[name] = min(best[name], (time.perf_counter() - started) / count)
        for name, seconds in best.items():
            if batch == 1 or name != "the paper's loop":
                rows.append(
                    {
                        "features": features,
                        "rank": rank,
                        "dtype": np.dtype(dtype).name,
                        "what": name,
                        "batch": batch,
                        "vectors_per_s": float(f"{1 / seconds:.4g}"),
                        "of_limit": None
                        if name == "two products alone"
                        else float(f"{best['two products alone'] / seconds:.3f}"),
                    }
                )
    return rows


def main() -> int:
    """Measure, record, and say whether the claim holds: exit code 3 where it does not."""
    script = record.Script(__file__, __doc__)
    script.add_argument("--repeats", type=int, default=15)
    options = script.parse_args()
    rows = []
    for features, rank in SHAPES:
        for dtype in (np.float32, np.float64):
            rows += measured(features, rank, dtype, options.repeats)
            print(f"{features} features, rank {rank}, {np.dtype(dtype).name}", file=sys.stderr)
    document = {
        "what": "speed of linear cleaners, one thread",
        "rows_streamed": ROWS,
        "repeats": options.repeats,
        "of_limit": "vectors per second as a share of the two products alone at the same batch size",
        **record.here(),
        "rows": rows,
    }
    record.write(RESULTS / "cleaner-speed.json", script.made_by(options), document)
    write_tables(RESULTS, GUIDE)
    claim = next(
        row
        for row in rows
        if (row["features"], row["rank"], row["dtype"], row["batch"]) == CLAIM and row["what"] == "cleaner"
    )
    print(f"{claim['vectors_per_s']:.3g} vectors/s, {claim['of_limit']:.2f} of the limit", file=sys.stderr)
    return 0 if claim["of_limit"] >= LEAST_SHARE and claim["vectors_per_s"] >= LEAST_RATE else 3


if __name__ == "__main__":
    record.run(main)
