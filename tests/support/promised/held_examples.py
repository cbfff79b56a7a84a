"""A bundle whose answer is kept: the first report of a track or period leaves again with every frame of it."""

from __future__ import annotations

from typing import Any

from tests.support import bundles
from tests.support.promised import local_examples

STREAMS: dict[str, dict[str, Any]] = {
    "track": {"hold": "track", "votes": 1, "period_s": None, "acknowledged": None},
    "period": {"hold": "period", "votes": None, "period_s": 86400, "acknowledged": None},
}
HOLD = {"stage": "hold", "op": "first", "input": "report", "output": "kept"}


def parts(op: str, stream: str, d: int = 4, *, again: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """As ``local_examples.document`` at epsilon 1, its report held; ``again``: with instantaneous bits on top."""
    document, tables = local_examples.document(op, 1.0, d)
    return _held(document, stream, d, again=again), tables


def example(op: str, stream: str, d: int = 4, *, again: bool = False) -> tuple[bundles.Manifest, bundles.Members]:
    """As ``local_examples.example``."""
    manifest, members = local_examples.example(op, 1.0, d)
    held = _held(manifest, stream, d, again=again)
    rows = 4
    draws = local_examples.recorded(held["stages"], rows)
    x = local_examples.recorded_input(members)
    members |= {f"golden/draws.{name}.npy": bundles.npy(values) for name, values in draws.items()}
    tables = {name: local_examples.channel(d, 1.0) for name in held["tables"]}
    out = local_examples.pipeline(held, tables).run(x, draws)["report"]
    members["golden/numpy.report.npy"] = bundles.npy(out)
    held["golden"]["draws"] = {name: f"golden/draws.{name}.npy" for name in draws}
    return held, members


def _held(document: dict[str, Any], stream: str, d: int, *, again: bool) -> dict[str, Any]:
    document["stream"] = dict(STREAMS[stream])
    document["stages"] = [*document["stages"], dict(HOLD)]
    tensor = "kept"
    if again:
        coins = {"ones": local_examples.COIN * 3 // 4, "zeros": local_examples.COIN // 4}
        draws = [local_examples.draw(name, "coin", [d], numerator=n) for name, n in coins.items()]
        *_, stage = local_examples.mechanism("rappor-again", "kept", draws)
        document["stages"] += [*draws, {**stage, "output": "again"}]
        tensor = "again"
    document["outputs"] = [{**document["outputs"][0], "tensor": tensor}]
    return document
