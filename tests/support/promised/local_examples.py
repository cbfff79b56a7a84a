"""Small bundles with a promise, one for each mechanism: runs on numpy alone, integers from epsilon in 50 digits."""

from __future__ import annotations

import copy
import io
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from tests.support import bundles

COIN = 2**62
OPS = ("duchi-linf", "duchi-l2", "laplace", "hybrid", "k-rr", "oue", "rappor", "hrr", "cms", "hcms")
SEED = 7  # of the hash functions of a sketch
Stages = list[dict[str, Any]]


def _exp(alpha: Decimal | float) -> Decimal:
    with localcontext() as digits:
        digits.prec = 60
        return Decimal(str(alpha)).exp()


def coin(alpha: float | Decimal) -> int:
    """The largest numerator whose odds are at most e^alpha."""
    with localcontext() as digits:
        digits.prec = 60
        odds = _exp(alpha)
        return int((COIN * odds / (odds + 1)).to_integral_value(ROUND_FLOOR))


def rare(alpha: float) -> int:
    """The smallest numerator of q = 1 / (e^alpha + 1)."""
    return COIN - coin(alpha)


def channel(k: int, alpha: float) -> np.ndarray:
    """k-ary randomised response in 2^-32, never above alpha; uint32 (k, k)."""
    with localcontext() as digits:
        digits.prec = 60
        other = int((2**32 / (_exp(alpha) + k - 1)).to_integral_value(ROUND_CEILING))
    table = np.full((k, k), other, np.uint32)
    np.fill_diagonal(table, 2**32 - other * (k - 1))
    return table


def draw(output: str, distribution: str, shape: list[int], **more: int) -> dict[str, Any]:
    return {"stage": "draw", "distribution": distribution, "output": output, "shape": shape, **more}


def mechanism(op: str, source: str, noise: Stages, **more: Any) -> Stages:
    """The draws and the stage that uses them up, its report called ``report``."""
    names = [stage["output"] for stage in noise]
    return [*noise, {"stage": "mechanism", "op": op, "input": source, "noise": names, "output": "report", **more}]


def window(share: float, grid: int) -> tuple[int, int, int]:
    """Of the piecewise mechanism of ``share`` epsilon: W, R, and the largest coin that keeps it."""
    inside = max(1, min(grid - 1, round(grid / (math.exp(share / 2) + 1))))
    with localcontext() as digits:
        digits.prec = 60
        odds = _exp(share) * inside / (grid - inside)
        return inside, grid - inside, int((COIN * odds / (odds + 1)).to_integral_value(ROUND_FLOOR))


def stages(
    op: str,
    alpha: float,
    d: int = 4,
    *,
    grid: int = 2**16,
    radius: float = 1.0,
    sketch: tuple[int, int] = (4, 8),
    seed: int = SEED,
) -> Stages:
    """The stages after u (d) and ``label``, an index of d values; ``report`` leaves. ``sketch``: functions, places."""
    odd = d + 1 - d % 2
    words, fair = draw("rounding", "words", [(d + 1) // 2]), draw("fair", "words", [(odd + 31) // 32])
    turn = draw("turn", "coin", [], numerator=coin(alpha))
    if op == "duchi-linf":
        return mechanism(op, "u", [words, fair, turn], places=odd)
    if op == "duchi-l2":
        noise = [draw("direction", "words", [d + d % 2]), draw("rounding", "words", [1]), turn]
        return mechanism(op, "u", noise, radius=radius)
    if op == "laplace":
        scale = math.ceil(d * 256 / Decimal(str(alpha)) * 1024)
        return mechanism(op, "u", [draw("steps", "laplace", [d], numerator=scale, denominator=1024)], levels=256)
    if op == "hybrid":
        k = max(1, min(d, int(alpha / 2.5)))
        share = alpha / k
        noise = [
            draw("places", "subset", [k], of=d),
            draw("rounding", "words", [k]),
            draw("turn", "coin", [k], numerator=coin(Decimal(str(alpha)) / k)),
        ]
        if share > 0.61:
            inside, beyond, kept = window(share, grid)
            noise += [
                draw("which", "coin", [k], numerator=int(COIN * (1 - math.exp(-share / 2)))),
                draw("kept", "coin", [k], numerator=kept),
                draw("within", "integer", [k], bound=inside),
                draw("beyond", "integer", [k], bound=beyond),
            ]
        return mechanism(op, "u", noise)
    if op == "k-rr":
        return [{"stage": "draw", "distribution": "channel", "input": "label", "table": "q", "output": "report"}]
    if op == "hrr":
        rows = 1 << max(1, (d - 1).bit_length())
        return mechanism(op, "label", [draw("row", "integer", [], bound=rows), turn])
    if op in ("cms", "hcms"):
        rows, width = sketch
        kept = [draw("kept", "coin", [width], numerator=coin(Decimal(str(alpha)) / 2))]
        noise = kept if op == "cms" else [draw("entry", "integer", [], bound=width), turn]
        return mechanism(op, "label", [draw("row", "integer", [], bound=rows), *noise], categories=d, seed=seed)
    own = COIN // 2 if op == "oue" else coin(alpha / 2)
    other = rare(alpha) if op == "oue" else rare(alpha / 2)
    noise = [draw("own", "coin", [], numerator=own), draw("others", "coin", [d], numerator=other)]
    return mechanism(op, "label", noise)


def document(op: str, alpha: float, d: int = 4, **more: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The parts of a manifest that a pipeline is made of, for u of uint8 0..16, and its tables."""
    made = stages(op, alpha, d, **more)
    shape, dtype = {
        "duchi-linf": ([d], "int8"),
        "duchi-l2": ([d], "float32"),
        "laplace": ([d], "int32"),
        "hybrid": ([2 * d], "int32"),
        "oue": ([d], "int8"),
        "rappor": ([d], "int8"),
        "cms": ([4 + more.get("sketch", (4, 8))[1] // 8], "uint8"),
    }.get(op, ([], "int64"))
    before = [{"stage": "preprocess", "input": "x", "output": "u", "low": 0.0, "high": 16.0}]
    if op in ("k-rr", "oue", "rappor", "hrr", "cms", "hcms"):
        before.append({"stage": "table", "op": "argmax", "input": "u", "output": "label"})
    micro = math.ceil(alpha * 1e6 - 1e-6)
    text = {
        "input": {"name": "x", "kind": "vector", "shape": [d], "dtype": "uint8", "low": 0.0, "high": 16.0},
        "stages": before + made,
        "outputs": [{"name": "report", "kind": "code", "tensor": "report", "shape": shape, "dtype": dtype}],
        "spending": {"micro_epsilon": micro, "unit": "release", "most_micro_epsilon": 10 * micro, "period_s": None},
    }
    return text, {"q": channel(d, alpha)} if op == "k-rr" else {}


def example(op: str, alpha: float = 1.0, d: int = 4) -> tuple[bundles.Manifest, bundles.Members]:
    """A whole manifest and its members; golden draws are recorded, as those of an export are."""
    parts, tables = document(op, alpha, d)
    manifest, members = bundles.numpy_example()
    x = np.random.default_rng(3).integers(0, 17, (4, d)).astype(np.uint8)
    draws = recorded(parts["stages"], len(x))
    members = {name: data for name, data in members.items() if name.startswith("runtime/")}
    members["golden/input.npy"] = bundles.npy(x)
    for name, values in draws.items():
        members[f"golden/draws.{name}.npy"] = bundles.npy(values)
    for name, table in tables.items():
        members[f"tables/{name}.npy"] = bundles.npy(table)
    out = pipeline(parts, tables).run(x, draws)["report"]
    members["golden/numpy.report.npy"] = bundles.npy(out)
    manifest |= copy.deepcopy(parts)
    manifest["perturber"]["identity_allowed"] = True  # epsilon is what it promises, as of Laplace noise
    manifest["tables"] = {
        name: {"file": f"tables/{name}.npy", "shape": list(table.shape), "dtype": "uint32"}
        for name, table in tables.items()
    }
    manifest["golden"] = {
        "input": "golden/input.npy",
        "draws": {name: f"golden/draws.{name}.npy" for name in draws},
        "outputs": {"numpy": {"report": "golden/numpy.report.npy"}},
    }
    return manifest, members


def recorded_input(members: bundles.Members) -> np.ndarray:
    """The golden input."""
    found: np.ndarray = np.load(io.BytesIO(members["golden/input.npy"]))
    return found


def pipeline(parts: dict[str, Any], tables: dict[str, np.ndarray]) -> Pipeline:
    return Pipeline(parse(parts), tables=tables, runners={})


def recorded(made: Stages, n: int) -> dict[str, np.ndarray]:
    """Seeded values for draw stages, (n, ...): golden vectors, never noise."""
    rng = np.random.default_rng(5)
    found = {}
    for stage in made:
        if stage["stage"] != "draw":
            continue
        kind, shape = stage["distribution"], (n, *stage.get("shape", ()))
        found[stage["output"]] = {
            "words": lambda shape=shape: rng.integers(0, 2**32, shape, np.uint32),
            "coin": lambda shape=shape: rng.random(shape) < 0.5,
            "integer": lambda shape=shape, stage=stage: rng.integers(0, stage["bound"], shape),
            "subset": lambda shape=shape, stage=stage: np.sort(
                rng.permuted(np.tile(np.arange(stage["of"]), (shape[0], 1)), axis=1)[:, : shape[1]]
            ),
            "laplace": lambda shape=shape: rng.integers(-50, 51, shape),
            "channel": lambda shape=shape: rng.integers(0, 4, shape),
        }[kind]()
    return found
