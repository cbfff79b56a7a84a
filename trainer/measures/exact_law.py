"""The exact law of a shipped mechanism: its stage is run on every value of its draws, and the odds are counted.

Draws have known integer weights, so the probability of every report is a fraction. Inputs of duchi-linf are the corners
of the cube: in between a report's law is a mixture of theirs, so its odds lie within. Words round a value to an end of
its range; at a corner every word rounds alike, and the smallest and the largest are run. hybrid's inputs are a grid,
since its window moves.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest.count import COIN
from edgeveil.edge_runtime.manifest.manifest import parse_stage
from edgeveil.edge_runtime.manifest.spending import charged
from edgeveil.edge_runtime.pipeline.mechanisms.compiled_ops import compile_mechanism

MOST_DRAWS = 2**21  # runs of a stage, over all inputs
GRID = (0.0, 0.25, 0.5, 1.0)  # of hybrid's inputs, along each axis
ENUMERATED = ("duchi-linf", "hybrid", "oue", "rappor", "hrr")
Stage = Mapping[str, Any]
Law = dict[bytes, Fraction]
Weighted = tuple[np.ndarray, list[int]]  # all values (n, ...) of one draw, and the integer weight of each


@dataclass(frozen=True)
class Found:
    """The largest log-ratio over ``draws`` runs, or why it was ``not_run``."""

    epsilon: float = math.nan
    draws: int = 0
    not_run: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As an audit has it."""
        return {"not_run": self.not_run} if self.not_run else {"epsilon": self.epsilon, "draws": self.draws}


def log_ratio(laws: Sequence[Law]) -> float:
    """The largest |log| of the odds of one report under two inputs; infinite where one of them never gives it."""
    worst = Fraction(1)
    for report in set().union(*laws):
        of = [law.get(report, Fraction(0)) for law in laws]
        if not min(of):
            return math.inf
        worst = max(worst, max(of) / min(of))
    return math.log(worst.numerator) - math.log(worst.denominator)


def largest_ratio(stages: Sequence[Stage], outputs: Sequence[Stage], tables: Mapping[str, np.ndarray]) -> Found:
    """The log-ratio of what ``outputs`` spend in all, by running the stages that charge for it."""
    total, draws = 0.0, 0
    for stage in charged(stages, outputs):
        name = stage.get("op", stage.get("distribution", "laplace"))
        if stage["stage"] == "draw":
            laws, runs = channel_laws(tables[stage["table"]]), tables[stage["table"]].size
        elif name in ENUMERATED:
            noise = [next(one for one in stages if one.get("output") == read) for read in stage["noise"]]
            if runs_of(stage, noise) > MOST_DRAWS:
                return Found(not_run=f"more than {MOST_DRAWS:,} values of its draws")
            laws, runs = laws_of(stage, noise)
        else:
            return Found(not_run=f"the draws of {name} cannot be run one by one")
        total, draws = total + log_ratio(laws), draws + runs
    return Found(total, draws)


def channel_laws(table: np.ndarray) -> list[Law]:
    """The laws of a channel's rows: its integers are the weights of its draws."""
    total = int(table[0].sum(dtype=np.uint64))
    return [{str(column).encode(): Fraction(int(n), total) for column, n in enumerate(row) if n} for row in table]


def runs_of(stage: Stage, noise: Sequence[Stage]) -> int:
    """How many runs of a mechanism's stage see every value of its draws for every input."""
    return math.prod(_size(stage, one) for one in noise) * _inputs_size(stage, noise)


def laws_of(stage: Stage, noise: Sequence[Stage]) -> tuple[list[Law], int]:
    """The law of the report for every input, and how many times the stage was run."""
    weighted = [_values(stage, one) for one in noise]
    chosen = np.stack([place.reshape(-1) for place in np.indices([len(weights) for _, weights in weighted])], axis=1)
    flow = {one["output"]: weighted[at][0][chosen[:, at]] for at, one in enumerate(noise)}
    run = shipped(stage, noise)
    inputs, laws = _inputs(stage, noise), []
    for value in inputs:
        here: dict[str, Any] = {**flow, stage["input"]: np.repeat(value[None], len(chosen), axis=0)}
        run(here)
        laws.append(_law(here[stage["output"]], [weights for _, weights in weighted], chosen))
    return laws, len(inputs) * len(chosen)


def shipped(stage: Stage, noise: Sequence[Stage]) -> Callable[[Any], None]:
    """The board's own function of the flow for a mechanism and its draws."""
    drawn = {one["output"]: parse_stage(one) for one in noise}
    return compile_mechanism(parse_stage(stage), SimpleNamespace(drawn=drawn))


def _law(reports: np.ndarray, weights: Sequence[Sequence[int]], chosen: np.ndarray) -> Law:
    """Probabilities of the different ``reports`` (n, ...), from the integer weights of the values of each draw.

    Runs of one report and the same weights are counted first, so that large integers are multiplied a few times only.
    """
    found, which = np.unique(reports.reshape(len(reports), -1), axis=0, return_inverse=True)
    kinds = [sorted(set(of)) for of in weights]
    numbers = [np.array([kind.index(one) for one in of]) for kind, of in zip(kinds, weights, strict=True)]
    columns = [which.reshape(-1), *(of[chosen[:, at]] for at, of in enumerate(numbers))]
    alike, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    sums: dict[bytes, int] = defaultdict(int)
    for (report, *combination), count in zip(alike.tolist(), counts.tolist(), strict=True):
        sums[found[report].tobytes()] += count * math.prod(kinds[at][one] for at, one in enumerate(combination))
    total = math.prod(sum(of) for of in weights)
    return {report: Fraction(weight, total) for report, weight in sums.items()}


def _values_of_vector(stage: Stage, noise: Sequence[Stage]) -> int:
    if stage["op"] == "hybrid":
        return int(noise[0]["of"])
    odd = int(stage["places"])
    return odd if noise[0]["shape"] == [(odd + 1) // 2] else odd - 1


def _inputs_size(stage: Stage, noise: Sequence[Stage]) -> int:
    op = stage["op"]
    if op in ("oue", "rappor"):
        return int(noise[1]["shape"][0])
    if op == "hrr":
        return int(noise[0]["bound"])
    return int((len(GRID) if op == "hybrid" else 2) ** _values_of_vector(stage, noise))


def _inputs(stage: Stage, noise: Sequence[Stage]) -> np.ndarray:
    """Corners of the unit cube, or a grid in it, float32 (n, d); or every category int64 (n,)."""
    if stage["op"] in ("oue", "rappor", "hrr"):
        return np.arange(_inputs_size(stage, noise), dtype=np.int64)
    along = GRID if stage["op"] == "hybrid" else (0.0, 1.0)
    return np.array(list(itertools.product(along, repeat=_values_of_vector(stage, noise))), np.float32)


def _size(stage: Stage, draw: Stage) -> int:
    """How many values a draw has, as ``_values`` lists them."""
    places = math.prod(draw["shape"])
    if draw["distribution"] == "subset":
        return math.comb(draw["of"], places)
    if draw["distribution"] == "words":
        return int(2 ** stage["places"]) if draw["output"] == _fair(stage) else 2
    return int((2 if draw["distribution"] == "coin" else draw["bound"]) ** places)


def _fair(stage: Stage) -> str | None:
    """The draw of duchi-linf whose every bit counts."""
    return stage["noise"][1] if stage["op"] == "duchi-linf" else None


def _values(stage: Stage, draw: Stage) -> Weighted:
    """Every value of a draw; of words that round, the smallest and the largest."""
    shape, kind = tuple(draw["shape"]), draw["distribution"]
    places = math.prod(shape)
    if kind == "words":
        if draw["output"] == _fair(stage):
            return np.arange(2 ** stage["places"], dtype=np.uint32)[:, None], [1] * 2 ** stage["places"]
        return np.stack([np.zeros(shape, np.uint32), np.full(shape, 2**32 - 1, np.uint32)]), [1, 1]
    if kind == "subset":
        chosen = np.array(list(itertools.combinations(range(draw["of"]), places)), np.int64)
        return chosen, [1] * len(chosen)
    if kind == "integer":
        values = np.array(list(itertools.product(range(draw["bound"]), repeat=places)), np.int64)
        return values.reshape(-1, *shape), [1] * len(values)
    p = draw["numerator"]
    sides = list(itertools.product((False, True), repeat=places))
    return np.array(sides).reshape(-1, *shape), [math.prod(p if side else COIN - p for side in one) for one in sides]
