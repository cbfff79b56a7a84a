"""The exact law of a shipped mechanism: its stage is run on every value of its draws, and the odds are counted.

Draws have known integer weights, so the probability of every report is a fraction. The inputs are those of the kind of
the stage (``Mechanism.inputs``). Words round a value to an end of its range; at a corner every word rounds alike, and
the smallest and the largest are run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Stage as ManifestStage
from edgeveil.edge_runtime.manifest.spending import charged
from edgeveil.edge_runtime.stages import kind_of

MOST_DRAWS = 2**21  # runs of a stage, over all inputs
Stage = Mapping[str, Any]
Law = dict[bytes, Fraction]


@dataclass(frozen=True)
class Found:
    """The largest log-ratio over ``draws`` runs, or why it was ``not_run``."""

    epsilon: float = math.nan
    draws: int = 0
    not_run: str = ""


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
        if "table" in stage:
            # The laws of a channel's rows: its integers are the weights of its draws.
            table, runs = tables[stage["table"]], tables[stage["table"]].size
            whole = int(table[0].sum(dtype=np.uint64))
            laws = [{str(at).encode(): Fraction(int(n), whole) for at, n in enumerate(row) if n} for row in table]
        else:
            noise = [one for read in _noise(stage) for one in stages if one.get("output") == read]
            if not hasattr(kind_of(stage), "inputs") or kind_of(stage).inputs(stage, noise) is None:
                return Found(not_run=f"the draws of {stage.get('op', 'laplace')} cannot be run one by one")
            if runs_of(stage, noise) > MOST_DRAWS:
                return Found(not_run=f"more than {MOST_DRAWS:,} values of its draws")
            laws, runs = laws_of(stage, noise)
        total, draws = total + log_ratio(laws), draws + runs
    return Found(total, draws)


def _noise(stage: Stage) -> Sequence[str]:
    noise = stage["noise"]
    return [noise] if isinstance(noise, str) else noise


def _bits(stage: Stage, place: int) -> int:
    """Of the draw at ``place``, the bits of its words that each count; 0 where words round."""
    return int(stage["places"]) if place == kind_of(stage).fair else 0


def runs_of(stage: Stage, noise: Sequence[Stage]) -> int:
    """How many runs of a mechanism's stage see every value of its draws for every input."""
    sizes = [kind_of(one).size(one, _bits(stage, place)) for place, one in enumerate(noise)]
    return int(math.prod(sizes) * kind_of(stage).inputs(stage, noise)[0])


def laws_of(stage: Stage, noise: Sequence[Stage]) -> tuple[list[Law], int]:
    """The law of the report for every input, and how many times the stage was run."""
    weighted = [kind_of(one).every(one, _bits(stage, place)) for place, one in enumerate(noise)]
    chosen = np.stack([place.reshape(-1) for place in np.indices([len(weights) for _, weights in weighted])], axis=1)
    flow = {one["output"]: weighted[at][0][chosen[:, at]] for at, one in enumerate(noise)}
    run = shipped(stage, noise)
    inputs, laws = kind_of(stage).inputs(stage, noise)[1](), []
    for value in inputs:
        here: dict[str, Any] = {**flow, stage["input"]: np.repeat(value[None], len(chosen), axis=0)}
        run(here)
        laws.append(_law(here[stage["output"]], [weights for _, weights in weighted], chosen))
    return laws, len(inputs) * len(chosen)


def shipped(stage: Stage, noise: Sequence[Stage]) -> Callable[[Any], None]:
    """The board's own function of the flow for a mechanism and its draws."""
    drawn = {one["output"]: ManifestStage(one) for one in noise}
    return kind_of(stage).compile(ManifestStage(stage), SimpleNamespace(drawn=drawn))


def _law(reports: np.ndarray, weights: Sequence[Sequence[int]], chosen: np.ndarray) -> Law:
    """Probabilities of the different ``reports`` (n, ...), from the integer weights of the values of each draw.

    Runs of one report and the same weights are counted first, so that large integers are multiplied a few times only.
    """
    distinct, which = np.unique(reports.reshape(len(reports), -1), axis=0, return_inverse=True)
    kinds = [sorted(set(of)) for of in weights]
    numbers = [np.array([kind.index(one) for one in of]) for kind, of in zip(kinds, weights, strict=True)]
    columns = [which.reshape(-1), *(of[chosen[:, at]] for at, of in enumerate(numbers))]
    alike, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    sums: dict[bytes, int] = defaultdict(int)
    for (report, *combination), count in zip(alike.tolist(), counts.tolist(), strict=True):
        sums[distinct[report].tobytes()] += count * math.prod(kinds[at][one] for at, one in enumerate(combination))
    total = math.prod(sum(of) for of in weights)
    return {report: Fraction(weight, total) for report, weight in sums.items()}
