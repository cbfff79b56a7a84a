"""What may become of a column: the actions of a plan, and the keys that each has."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.datasets.columns import Cells
from edgeveil.trainer.ext.publish.frequency import Distance
from edgeveil.trainer.ext.publish.levels import Hierarchy, as_number
from edgeveil.trainer.ext.publish.master_key import Step
from edgeveil.trainer.recipe.messages import nearest


class PlanTable(BaseModel):
    """A table of a plan: no key but its own, and no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Column(PlanTable):
    """``type`` and ``values`` are what the draft saw; they ask for nothing. A cell of ``missing`` is an empty one."""

    type: str = ""
    values: int = 0
    missing: list[str] = []


class Drop(_Column):
    """Not published. ``normalise`` is for the column that says whose a row is."""

    action: Literal["drop"]
    normalise: list[Step] = []


class Keep(_Column):
    """Published as it is, for a reason that the publication states."""

    action: Literal["keep"]
    reason: str = Field(min_length=1)


class Pseudonym(_Column):
    """``vault`` for people, whom it can forget; ``stateless`` for devices and rooms. ``field`` names what it
    identifies, the same in every table; left out, the column's name."""

    action: Literal["pseudonym"]
    mode: Literal["vault", "stateless"]
    normalise: list[Step]
    epoch: int = Field(ge=1)
    field: str | None = Field(default=None, min_length=1)


class Quasi(_Column):
    """What others may know of a person: generalised along its hierarchy; ``weight`` is its share in the loss."""

    action: Literal["quasi"]
    hierarchy: Hierarchy
    weight: float = Field(default=1.0, gt=0)


class Sensitive(_Column):
    """Published as it is; ``distinct_l``, ``entropy_l`` and ``t`` say how little a class may tell of it. l takes all
    spellings of a value for one, and empty cells for one only with ``count_missing``."""

    action: Literal["sensitive"]
    distinct_l: int | None = Field(default=None, ge=2)
    entropy_l: float | None = Field(default=None, gt=1)
    t: float | None = Field(default=None, ge=0, lt=1)
    distance: Distance = "equal"
    hierarchy: Hierarchy | None = None
    count_missing: bool = False

    @model_validator(mode="after")
    def _asked(self) -> Sensitive:
        if self.distinct_l is None and self.entropy_l is None and self.t is None:
            raise ValueError("`distinct_l`, `entropy_l` or `t`: what a class may tell of it")
        if self.distance != "equal" and (self.t is None or self.hierarchy is None):
            raise ValueError("`t` and `hierarchy`, which order the values, next to `distance`")
        return self


class Target(_Column):
    """What the data are for, published as it is."""

    action: Literal["target"]


Column = Drop | Keep | Pseudonym | Quasi | Sensitive | Target
ACTIONS: Mapping[str, type[Column]] = {one.__name__.lower(): one for one in get_args(Column)}


# The attack that a plan asks for.


class Attack(PlanTable):
    """``sensitive``, a column that is dropped, is z; ``target``, one that is published, is y, which attackers know.

    ``points`` over chance and ``bits`` are what attacks may learn, by the upper ends of their intervals.
    """

    sensitive: str
    target: str | None = None
    points: float = Field(gt=0, le=100)
    bits: float = Field(gt=0)
    budget: Literal["quick", "thorough"] = "quick"


# The statistics that a plan asks for. What a result can be is written in the plan, for bins and bounds that were taken
# from the table would tell of it.


Exact = Annotated[float, Field(ge=-(2.0**53), le=2.0**53)]


class _Statistic(PlanTable):
    """``rows_each``: of each person so many rows count, the first ones; ``where``: rows with these values alone."""

    epsilon: float = Field(ge=1e-6, le=1e6)
    rows_each: int = Field(default=1, ge=1, le=10_000)
    where: dict[str, str] = Field(default_factory=dict)


class Count(_Statistic):
    """How many rows; with ``rows_each`` = 1, how many people."""

    kind: Literal["count"]


class Histogram(_Statistic):
    """How many rows with each of ``values``, or between ``edges``; all others are counted together."""

    kind: Literal["histogram"]
    column: str
    values: list[str] | None = None
    edges: list[Exact] | None = None

    @model_validator(mode="after")
    def _bins(self) -> Histogram:
        if (self.values is None) == (self.edges is None):
            raise ValueError("`values` or `edges`, which the bins are made of")
        if self.values is not None and (not self.values or len(set(self.values)) < len(self.values)):
            raise ValueError("`values` to be different names, one at least")
        edges = self.edges
        if edges is not None and (len(edges) < 2 or any(a >= b for a, b in itertools.pairwise(edges))):
            raise ValueError("`edges` to be rising numbers, two at least")
        return self


class Mean(_Statistic):
    """The mean of numbers, each clipped to ``low`` and ``high``; half of ``epsilon`` is for how many they are."""

    kind: Literal["mean"]
    column: str
    low: Exact
    high: Exact

    @model_validator(mode="after")
    def _range(self) -> Mean:
        if self.low >= self.high:
            raise ValueError("`low` below `high`, to which numbers are clipped")
        return self


Statistic = Count | Histogram | Mean
KINDS: Mapping[str, type[Statistic]] = {"count": Count, "histogram": Histogram, "mean": Mean}


# Noise of OpenDP, at the smallest scale that spends no more than an epsilon.
#
# OpenDP's noise is exact and comes from the operating system; its map of each mechanism says what one person can cost.


STEPS = 2**20
OUTSIDE = 0.05  # how often a result is further off than ``within``


class Noisy(NamedTuple):
    """Values with noise of one ``scale``; 95 % of the time each is off by no more than ``within``."""

    values: list[float]
    scale: float
    within: float


class _Mechanism(NamedTuple):
    """A measurement of OpenDP with its scale."""

    run: Callable[[list[int]], Any]
    scale: float
    within: float


def geometric(counts: Sequence[int], *, most: int, epsilon: float) -> Noisy:
    """Counts that one person changes by ``most`` in all, with geometric noise: whole numbers, perhaps below 0."""
    mechanism = _of_counts(most, epsilon)
    return Noisy(mechanism.run([int(one) for one in counts]), mechanism.scale, mechanism.within)


def laplace_sum(parts: Sequence[float], *, most: float, epsilon: float) -> Noisy:
    """The sum of one number of each person, clipped to -``most`` and ``most``, with Laplace noise.

    Numbers are rounded to 2^-20 of ``most``: whole numbers add up without error, and a sum of float64 that OpenDP can
    vouch for takes noise twice as large.
    """
    mechanism, step = _of_sums(epsilon), most / STEPS
    total = mechanism.run([round(one / step) for one in parts])
    return Noisy([total * step], mechanism.scale * step, mechanism.within * step)


@cache
def _of_counts(most: int, epsilon: float) -> _Mechanism:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return _smallest(lambda scale: dp.m.make_geometric(*space, scale=scale), most, epsilon)


@cache
def _of_sums(epsilon: float) -> _Mechanism:
    dp = _opendp()
    people = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    total = people >> dp.t.then_clamp((-STEPS, STEPS)) >> dp.t.then_sum()
    return _smallest(lambda scale: total >> dp.m.then_laplace(scale), 1, epsilon)


def _smallest(make: Callable[[float], Any], distance: int, epsilon: float) -> _Mechanism:
    dp = _opendp()
    scale = dp.binary_search_param(make, d_in=distance, d_out=epsilon)
    within = max(0.0, dp.discrete_laplacian_scale_to_accuracy(scale=scale, alpha=OUTSIDE))  # -inf where none is off
    return _Mechanism(make(scale), scale, within)


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


# Statistics of the raw table, of all people in it: who is left out of the published rows depends on the others, so
# that one person more would change many of those.


Record = dict[str, Any]


def released(asked: Mapping[str, Statistic], cells: Cells, person: np.ndarray, *, unit: str) -> Record | None:
    """The ``statistics`` of a publication; None where the plan asks for none. Drawn anew at every call.

    ``person`` (rows,) numbers whose row each is, and ``unit`` says what that is: a person, or a row. Raises
    ``BadInput`` with column and row.
    """
    if not asked:
        return None
    for name, one in asked.items():
        for column in [*one.where, *([] if isinstance(one, Count) else [one.column])]:
            if column not in cells:
                raise BadInput(
                    f'The plan\'s statistic "{name}" asks for a column "{column}"{nearest(column, cells)} that the '
                    "table does not have."
                )
    return {
        "epsilon": sum(one.epsilon for one in asked.values()),
        "unit": unit,
        "released": [{"name": name, **_one(one, cells, person)} for name, one in asked.items()],
    }


def drawn_once(file: Path, asked: Mapping[str, Statistic], cells: Cells, person: np.ndarray, *, unit: str) -> Any:
    """As ``released``; what a run that was broken off has drawn is read from ``file``, for twice would cost twice."""
    if not file.exists():
        write_atomic(str(file), json.dumps(released(asked, cells, person, unit=unit), allow_nan=False).encode())
    return json.loads(file.read_text())


def _one(query: Statistic, cells: Cells, person: np.ndarray) -> Record:
    rows = _rows(query, cells, person)
    record: Record = {"kind": query.kind, "epsilon": query.epsilon, "rows_each": query.rows_each, "where": query.where}
    if isinstance(query, Count):
        noisy = geometric([len(rows)], most=query.rows_each, epsilon=query.epsilon)
        return {**record, "noise": "geometric", "scale": noisy.scale, "within": noisy.within, "value": noisy.values[0]}
    record["column"] = query.column
    if isinstance(query, Histogram):
        of, counts = _counted(query, [cells[query.column][row] for row in rows])
        noisy = geometric(counts, most=query.rows_each, epsilon=query.epsilon)
        bins = [{**one, "count": count} for one, count in zip(of, noisy.values[:-1], strict=True)]
        record |= {"noise": "geometric", "scale": noisy.scale, "within": noisy.within}
        return {**record, "bins": bins, "others": noisy.values[-1]}
    return {**record, "noise": "Laplace", **_mean(query, cells[query.column], rows, person)}


def _rows(query: Statistic, cells: Cells, person: np.ndarray) -> np.ndarray:
    """The rows that count: of each person the first ones that ``where`` allows."""
    allowed = np.ones(len(person), bool)
    for column, value in query.where.items():
        allowed &= np.array([cell == value for cell in cells[column]], bool)
    rows = np.flatnonzero(allowed)
    order = rows[np.argsort(person[rows], kind="stable")]
    begins = np.searchsorted(person[order], person[order], side="left")
    return np.sort(order[np.arange(len(order)) - begins < query.rows_each])


def _counted(query: Histogram, values: Sequence[str]) -> tuple[list[Record], list[int]]:
    """What each bin is of, and how many values it has; one count more is of all that no bin takes."""
    names: list[Record]
    if query.values is not None:
        names, where = [{"value": one} for one in query.values], {name: at for at, name in enumerate(query.values)}
        places = [where.get(value, len(names)) for value in values]
    else:
        edges = query.edges or []
        names = [{"from": low, "below": high} for low, high in itertools.pairwise(edges)]
        numbers = [as_number(value) for value in values]
        bins = [-1 if one is None else int(np.searchsorted(edges, float(one), "right")) - 1 for one in numbers]
        places = [at if 0 <= at < len(names) else len(names) for at in bins]
    return names, np.bincount(np.array(places, np.int64), minlength=len(names) + 1).tolist()


def _mean(query: Mean, column: Sequence[str], rows: np.ndarray, person: np.ndarray) -> Record:
    middle, half = (query.low + query.high) / 2, (query.high - query.low) / 2
    parts: dict[int, float] = {}
    count = 0
    for row in rows.tolist():
        if not column[row]:
            continue
        number = as_number(column[row])
        if number is None:
            raise BadInput(
                f'Column "{query.column}", row {row + 1}: a number was expected, for the plan asks for their mean. '
                "Correct the cell, empty it, or name it in `missing` of the column."
            )
        clipped = min(max(float(number), query.low), query.high) - middle
        parts[int(person[row])] = parts.get(int(person[row]), 0.0) + clipped
        count += 1
    epsilon = query.epsilon / 2
    many = geometric([count], most=query.rows_each, epsilon=epsilon)
    total = laplace_sum(list(parts.values()), most=query.rows_each * half, epsilon=epsilon)
    rows_there = max(1, int(many.values[0]))
    value = min(max(middle + total.values[0] / rows_there, query.low), query.high)
    # A sum and a count that are off, each by no more than its ``within``.
    within = min((total.within + half * many.within) / rows_there, query.high - query.low)
    return {
        "low": query.low,
        "high": query.high,
        "scale": total.scale,
        "count": int(many.values[0]),
        "count_scale": many.scale,
        "within": within,
        "value": value,
    }
