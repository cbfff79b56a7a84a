"""Golden vectors: synthetic samples, the output of each artefact, and the tolerance of other kernels.

They contain no real data: every sample is computed by a formula. Outputs are recorded with the reference kernels where
a backend has them (the same bytes on every machine). The board's self-test runs the production kernels and allows the
tolerance. A vector is kept only where that test is fair: where no label is a near tie, and where the output differs
from the input by more than the tolerance. Samples of so few levels that any tolerance would accept everything (WiFi:
seen or not) have tolerance 0; of these, vectors are kept where no value is a near tie between two levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages import kind_of, reads_and_writes
from edgeveil.trainer.export.runners import RecordedRun, from_unit, recorded_draws
from edgeveil.trainer.runs.fitted import HIDES_NOTHING, FittedPerturber, constant, unchanged

SEED = 20211109
KEPT = 8
# For kernels of other processors and versions: three steps of int8 were the most ever measured.
FLOOR = {"int8": 3 / 255, "int16x8": 1e-3, "float16": 1e-3, "float32": 1e-4}
LOOSE = 0.1  # of the range
FEW = 2  # steps of the range: for samples this coarse, one step of tolerance would accept everything
TIMES = 2.0  # the tolerance is this many times what was measured, or the floor


@dataclass(frozen=True)
class Golden:
    """Samples x (n, ...), the draws recorded with them, and which of the candidates they are."""

    x: np.ndarray
    draws: Mapping[str, np.ndarray]
    rows: np.ndarray


@dataclass(frozen=True)
class Tolerance:
    """The measured difference of production from reference kernels, and the allowed one; both in units of x'."""

    measured: float
    allowed: float
    loose: bool = False  # the difference is so large here that the board's self-test proves little

    def facts(self) -> dict[str, Any]:
        """Its record in export.json."""
        rule = f"{TIMES:g} x measured, or three steps of int8, 1e-3 (float16), 1e-4 (float32) of the range"
        margin = rule + f"; at least 1 for whole numbers, 0 where these are {FEW + 1} or fewer"
        return {"measured": self.measured, "allowed": self.allowed, "loose": self.loose, "margin": margin}


def candidates(fitted: FittedPerturber) -> Golden:
    """All synthetic samples for the perturber, 24 images, 48 vectors (816 of few levels: most are near ties), or 40
    series, and draws; always the same.
    """
    rng = np.random.default_rng(SEED)
    u = {"image": _images, "vector": _vectors, "series": _series}[fitted.input.kind](fitted.input.shape, rng)
    if fitted.input.kind == "vector" and _few_levels(fitted):
        u = np.concatenate([u, _sparse(fitted.input.shape[0], rng, (0.002, 0.005, 0.01, 0.02, 0.03, 0.05), 128)])
    x = from_unit(fitted.input, np.clip(u, 0, 1).astype(np.float32))
    return Golden(x, recorded_draws(fitted, len(x), rng), np.arange(len(x)))


def tolerance(
    fitted: FittedPerturber, precision: str, pairs: Sequence[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]]
) -> Tolerance:
    """The tolerance from outputs of production and of reference kernels on the same samples, batch by batch.

    Rows whose labels differ do not count: they read other rows of a table, which is no measure of arithmetic.
    """
    measured = 0.0
    for one, other in pairs:
        same = _same_labels(fitted, one, other)
        for output in fitted.outputs:
            if not _is_exact(output):
                a, b = one[output["name"]][same], other[output["name"]][same]
                measured = max(measured, float(np.abs(a.astype(np.float64) - b).max(initial=0)))
    if not _computed(fitted):
        return Tolerance(measured, TIMES * measured)
    if fitted.input.low is None:
        span = max(float(np.abs(one[o["name"]]).max(initial=0)) for one, _ in pairs for o in fitted.outputs)
    else:
        span = float(np.max(fitted.input.span))
    allowed = max(TIMES * measured, FLOOR[precision] * span)
    loose = measured > LOOSE * span
    if _few_levels(fitted):
        return Tolerance(measured, 0.0)
    if np.dtype(fitted.input.dtype).kind in "iu" or any("decoder" in output for output in fitted.outputs):
        # A value between two integers may be rounded either way.
        allowed, loose = float(np.ceil(max(allowed, 1.0))), loose and measured > 1
    return Tolerance(measured, allowed, loose)


def choose(
    fitted: FittedPerturber,
    golden: Golden,
    runs: Sequence[Mapping[str, np.ndarray]],
    flows: Sequence[Mapping[str, np.ndarray]],
    allowed: float,
    loose: Sequence[str] = (),
) -> Golden:
    """The candidates that are a fair test on every board, at most ``KEPT``.

    ``runs`` are the outputs for all candidates, first on Keras, then of every artefact on both kinds of kernels;
    ``flows`` are their ``contested`` values, in the same order. ``loose`` names the artefacts whose kernels differ much
    here (``Tolerance.loose``). Raises ``BadInput`` where most outputs equal their inputs (that perturber changes
    nothing), or differ by less than the tolerance.
    """
    fair = np.ones(len(golden.x), bool)
    for outputs in runs[1:]:
        fair &= _same_labels(fitted, runs[0], outputs)
    for stage in fitted.stages:
        if not kind_of(stage).decides or stage["input"] not in flows[0]:
            continue
        group = _group(fitted, stage.get("group"), runs[0], flows[0])
        values, *others = (_competing(stage, flow[stage["input"]], group) for flow in flows)
        off = [np.abs(other - values).max(axis=1) for other in others]
        error = np.max(off, axis=0) if off else np.zeros(len(values))
        best = np.sort(values, axis=1)[:, -2:]
        # A sample unlike any in training may be outside the int8 range; it is no measure of the others.
        # Codes are closer together than classes; that every artefact gives the same was checked above.
        times = 1 if "group" in stage else 4
        fair &= best[:, 1] - best[:, 0] > times * np.maximum(error, np.quantile(error, 0.25))
    if _few_levels(fitted):
        fair &= _decided(fitted, runs, flows)
    if not fair.any():
        raise BadInput(
            "Every synthetic sample is a near tie, between two labels or between two levels of the output, which other "
            "kernels may break the other way. Train the networks longer."
        )
    through = np.zeros(len(golden.x), bool)
    if any(output["kind"] == "frame" for output in fitted.outputs) and not fitted.identity_allowed:
        as_it_was = np.zeros(len(golden.x), bool)
        for outputs in runs:
            through |= unchanged(fitted.input, golden.x, outputs["frame"], allowed)
            as_it_was |= unchanged(fitted.input, golden.x, outputs["frame"])
        telling = ~constant(golden.x)
        if through.sum() * 2 > telling.sum():
            far_apart = loose if as_it_was.sum() * 2 <= telling.sum() else ()
            raise BadInput(_hidden_too_little(through.sum(), telling.sum(), far_apart))
        fair &= ~through
        if not (fair & telling).any():
            raise BadInput(f"No synthetic sample is changed clearly enough to test a board. {HIDES_NOTHING}")
    rows = np.flatnonzero(fair)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(KEPT, len(rows))).round().astype(int))]
    return Golden(golden.x[rows], {name: values[rows] for name, values in golden.draws.items()}, rows)


def contested(fitted: FittedPerturber, running: RecordedRun) -> dict[str, np.ndarray]:
    """The values of the last run, computed by a model, that stages decide by or round."""
    by_tensor = {}
    for stage in fitted.stages:
        kind = kind_of(stage)
        if (kind.decides or kind.rounds) and (value := running.flow(stage["input"])) is not None:
            by_tensor[stage["input"]] = value
    return by_tensor


def _hidden_too_little(through: int, telling: int, loose: Sequence[str]) -> str:
    if loose:
        return (
            f"{through} of {telling} synthetic samples change by less than the tolerance: on this processor the "
            f"production and the reference kernels of {', '.join(loose)} differ by more than {LOOSE:.0%} of the range, "
            "and a self-test with that tolerance would accept raw samples. Export for boards that take other "
            "artefacts, or on another processor."
        )
    return (
        f"{through} of {telling} synthetic samples come out unchanged, or change by less than the tolerance: this "
        f"perturber hides too little to be shipped. {HIDES_NOTHING}"
    )


def _few_levels(fitted: FittedPerturber) -> bool:
    spec = fitted.input
    whole = np.dtype(spec.dtype).kind in "iu" and spec.low is not None
    is_computed = _computed(fitted) and not any("decoder" in output for output in fitted.outputs)
    return whole and is_computed and float(np.max(spec.span)) <= FEW


def _decided(
    fitted: FittedPerturber, runs: Sequence[Mapping[str, np.ndarray]], flows: Sequence[Mapping[str, np.ndarray]]
) -> np.ndarray:
    """Rows on which both kinds of kernels of every artefact agree, with no value near a rounding boundary."""
    decided = np.ones(len(next(iter(runs[0].values()))), bool)
    for fast, plain in zip(runs[1::2], runs[2::2], strict=True):
        for name in fast:
            decided &= (fast[name] == plain[name]).reshape(len(decided), -1).all(axis=1)
    rounded = [stage["input"] for stage in fitted.stages if kind_of(stage).rounds]
    for flow in flows[1:]:
        for value in (flow[name] for name in rounded if name in flow):
            steps = value.astype(np.float64) * fitted.input.span
            near = np.abs(steps - np.floor(steps) - 0.5) < FLOOR["int8"] * fitted.input.span
            decided &= ~near.reshape(len(decided), -1).any(axis=1)
    return decided


def _competing(stage: Mapping[str, Any], values: np.ndarray, group: np.ndarray | None) -> np.ndarray:
    """The numbers (n, k) among which an argmax stage picks: all of them, or those of each sample's ``group`` (n,)."""
    flat = values.reshape(len(values), -1)
    if group is None:
        return flat
    return flat.reshape(len(flat), stage["groups"], -1)[np.arange(len(flat)), group]


def _group(
    fitted: FittedPerturber, tensor: str | None, outputs: Mapping[str, np.ndarray], flow: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """The group (n,) of each sample: a class that is sent, or a code's token; None where no model decides it."""
    sent = next((o["name"] for o in fitted.outputs if o["tensor"] == tensor), None)
    if sent is not None:
        return outputs[sent].reshape(-1).astype(np.int64)
    token = next((s for s in fitted.stages if kind_of(s).decides and "group" in s and s["output"] == tensor), None)
    before = None if token is None else _group(fitted, token["group"], outputs, flow)
    if token is None or before is None:
        return None
    logits = _competing(token, flow[token["input"]], before)
    return before * logits.shape[1] + logits.argmax(axis=1)


def _is_exact(output: Mapping[str, Any]) -> bool:
    return output["kind"] != "frame" and np.dtype(output["dtype"]).kind in "iu" and "decoder" not in output


def _same_labels(fitted: FittedPerturber, one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> np.ndarray:
    same = np.ones(len(next(iter(one.values()))), bool)
    for output in fitted.outputs:
        if _is_exact(output):
            a, b = (side[output["name"]].reshape(len(same), -1) for side in (one, other))
            same &= (a == b).all(axis=1)
    return same


def _computed(fitted: FittedPerturber) -> bool:
    """Whether any number that is sent is computed by a model, rather than read from a table."""
    computed = {name for stage in fitted.stages if "model" in stage for name in reads_and_writes(stage)[1]}
    leaving = {stage["input"] for stage in fitted.stages if kind_of(stage).rounds}
    leaving |= {output["tensor"] for output in fitted.outputs}
    return bool(computed & leaving)


def _images(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    height, width, _ = shape
    y, x = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    flat = [np.zeros_like(x), np.ones_like(x), x, y, (x + y) / 2, 1 - np.hypot(x - 0.5, y - 0.5) * 1.4]
    flat += [(np.add.outer(np.arange(height), np.arange(width)) % 2).astype(float), (np.sin(12 * x) + 1) / 2]
    flat += [rng.random((height, width)) for _ in range(4)]
    flat += [(rng.random((height, width)) < 0.15).astype(float) for _ in range(2)]
    flat += [_blobs(x, y, rng) for _ in range(6)]
    flat += [_stroke(x, y, rng) for _ in range(4)]
    # Another brightness for each channel, so that swapped channels show.
    return np.stack(flat)[..., None] * np.linspace(1.0, 0.5, shape[2])


def _blobs(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    total = np.zeros_like(x)
    for _ in range(rng.integers(2, 5)):
        across, down, radius = rng.random(), rng.random(), rng.uniform(0.05, 0.25)
        total += rng.uniform(0.5, 1) * np.exp(-((x - across) ** 2 + (y - down) ** 2) / (2 * radius**2))
    return total


def _stroke(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    angle, offset = rng.uniform(0, np.pi), rng.uniform(-0.2, 0.2)
    away = np.abs((x - 0.5) * np.sin(angle) - (y - 0.5) * np.cos(angle) + offset)
    return np.clip(1.5 - away / 0.08, 0, 1)


def _series(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Swings of some strength and speed about some rest, and a few steps and bursts: as a sensor that is moved."""
    steps, channels = shape
    t = np.linspace(0, 1, steps)[:, None]
    rows = []
    for strength in np.repeat([0.02, 0.05, 0.1, 0.2], 8):
        rest, turns, at = rng.normal(0.5, 0.05, channels), rng.uniform(0.5, 8, channels), rng.random(channels)
        rows.append(rest + strength * rng.random(channels) * np.sin(2 * np.pi * (turns * t + at)))
        rows[-1] += rng.normal(0, 0.01, (steps, channels))
    for _ in range(8):
        burst = np.exp(-(((t - rng.random()) / rng.uniform(0.03, 0.2)) ** 2))
        rows.append(0.5 + rng.uniform(-0.4, 0.4, channels) * burst + rng.normal(0, 0.01, (steps, channels)))
    return np.stack(rows)


def _vectors(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    (features,) = shape
    ramp = np.linspace(0, 1, features)
    rows = [np.zeros(features), np.ones(features), ramp, 1 - ramp, np.arange(features) % 2, np.abs(2 * ramp - 1)]
    rows += [rng.random(features) for _ in range(8)]
    rows += [(rng.random(features) < share).astype(float) for share in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)]
    rows += [(np.abs(ramp - rng.random()) < 0.15).astype(float) for _ in range(4)]
    return np.concatenate([rows, _sparse(features, rng, (0.01, 0.02, 0.04), 8)])


def _sparse(features: int, rng: np.random.Generator, shares: Sequence[float], of_each: int) -> np.ndarray:
    """Few features at some strength, like WiFi fingerprints: rows unlike any sample would be outside the int8 range."""
    rows = np.zeros((len(shares) * of_each, features))
    for row, share in zip(rows, np.repeat(shares, of_each), strict=True):
        few = rng.choice(features, max(1, round(share * features)), replace=False)
        row[few] = rng.uniform(0.1, 0.7, len(few))
    return rows
