"""Bundles whose reports a collector reads, and what boards make of them: ``local_examples`` with decoder tables."""

from __future__ import annotations

import contextlib
import io
import math
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.cli.main import main as edge
from edgeveil.edge_runtime.ext.ledger.book import create
from tests.support import bundles
from tests.support.promised import local_examples

LOW, HIGH = 0.0, 16.0  # of local_examples' input
_VECTORS = ("duchi-linf", "duchi-l2", "laplace", "hybrid")


def decoder(op: str, manifest: bundles.Manifest) -> np.ndarray:
    """[report, 1] @ table, float32 (places + 1, d), by the formulas of docs/reference/bundle-format.md."""
    draws = {stage["output"]: stage for stage in manifest["stages"] if stage["stage"] == "draw"}
    stage = manifest["stages"][-1]
    noise = [draws[name] for name in stage["noise"]]
    d, half, centre = manifest["input"]["shape"][0], (HIGH - LOW) / 2, (HIGH + LOW) / 2

    def margin(draw: dict) -> float:
        return 2 * draw["numerator"] / local_examples.COIN - 1

    if op == "laplace":
        return np.vstack([np.eye(d) * (HIGH - LOW) / stage["levels"], np.full(d, LOW)]).astype(np.float32)
    if op == "duchi-linf":
        odd = stage["places"]
        factors = [2 ** (odd - 1) / math.comb(odd - 1, (odd - 1) // 2) / margin(noise[2])]
    elif op == "duchi-l2":
        gammas = math.gamma((d + 1) / 2) / math.gamma(d / 2 + 1)
        factors = [stage["radius"] * math.sqrt(math.pi) / 2 * d * gammas / margin(noise[2])]
    else:
        k, scale, a = noise[0]["shape"][0], d / noise[0]["shape"][0], 0.0
        assert k
        if len(noise) > 3:
            inside, (window, rest) = noise[4]["numerator"] / local_examples.COIN, (draw["bound"] for draw in noise[5:])
            a = 1 / (inside * (window + rest) - window)
        factors = [scale * a, scale / margin(noise[2])]
    return np.vstack([*(np.eye(d) * half * factor for factor in factors), np.full(d, centre)]).astype(np.float32)


def example(op: str, alpha: float = 1.0, d: int = 4, unit: str = "release") -> tuple[bundles.Manifest, bundles.Members]:
    """A manifest whose one output is a report of ``op``, and its members."""
    manifest, members = local_examples.example(op, alpha, d)
    manifest["spending"] |= {"unit": unit, "most_micro_epsilon": 10**15}  # what a collector sees knows no limit
    if op in _VECTORS:
        table = decoder(op, manifest)
        members["tables/decoder.npy"] = bundles.npy(table)
        entry = {"file": "tables/decoder.npy", "shape": list(table.shape), "dtype": "float32"}
        manifest["tables"] = {**manifest["tables"], "decoder": entry}
        manifest["outputs"][0]["decoder"] = "decoder"
    return manifest, members


def made(folder: Path, op: str, alpha: float = 1.0, d: int = 4, unit: str = "release") -> bundles.Made:
    """That bundle on the disk."""
    return bundles.make_bundle(folder, example=example(op, alpha, d, unit))


def opened(bundle: bundles.Made) -> Bundle:
    return read_bundle(bundle.path, open_trust(bundle.trust))


def run(bundle: bundles.Made, x: np.ndarray, sink: str) -> None:
    """What ``edgeveil-edge run`` makes of samples uint8 (n, d)."""
    source = bundle.path.parent / "x.npz"
    np.savez(source, x=x)
    ledger = bundle.path.parent / "ledger"
    if not ledger.exists():
        create(str(ledger))
    words = ["run", str(bundle.path), "--trust", str(bundle.trust), "--source", f"npz:{source}", "--sink", sink]
    words += ["--ledger", str(ledger)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert edge(words) == 0
