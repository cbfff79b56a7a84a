"""What mechanism operations share: a report of one value, made of draws that are used up.

A mechanism is deterministic: all its randomness comes from the draw stages under ``noise``, in the order that it takes
them. docs/reference/bundle-format.md has the arithmetic. No float rounds a promise: probabilities are ratios of the
integers that ship, and their logarithms have 50 digits.
"""

import itertools
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.stages.base import Entry, Kind, Run, Value
from edgeveil.edge_runtime.stages.draw import COIN, MOST_PLACES
from edgeveil.edge_runtime.util.validate import refuse

REPORT = "report"  # the value that leaves
ANSWER = "answer"  # the value that is held, where what is held of it leaves
_DIGITS = Context(prec=50, rounding=ROUND_CEILING)
_EXACT = Context(prec=60)

Report = Tuple[List[int], str]  # shape of one, dtype


class Design(NamedTuple):
    """A mechanism in the integers that ship: ``stages`` from its input to ``REPORT``, of this shape and dtype.

    Every integer is rounded to the side that costs less than alpha. ``slope`` (places of the report, values) and
    ``offset`` (values,) make v~ of a report, in half ranges from the middle, or the shares of the categories; None for
    an index, of which ``tables`` has the channel where there is one.
    """

    name: str
    stages: Tuple[Dict[str, Any], ...]
    shape: Tuple[int, ...]
    dtype: str
    slope: Optional[np.ndarray] = None
    offset: Optional[np.ndarray] = None
    tables: Optional[Mapping[str, np.ndarray]] = None

    def decoder(self, of_each: np.ndarray, middle: Any = 0.0) -> Optional[np.ndarray]:
        """The table float32 (places + 1, features) from [report, 1] to x~: v~ times ``of_each`` (values, features), and
        ``middle``; None for an index."""
        if self.slope is None or self.offset is None:
            return None
        return np.vstack([self.slope.dot(of_each), self.offset.dot(of_each) + middle]).astype(np.float32)


class Worth(NamedTuple):
    """What a report is worth to a collector: [report, 1] times ``table`` (places + 1, width), or with ``made`` None the
    row of ``table`` (R, width) whose number it is.

    ``made`` gives the mask (n,) of the reports that the mechanism can make, ``spread`` (width,) the most by which two
    of them differ.
    """

    table: np.ndarray
    made: Optional[Callable[[np.ndarray], np.ndarray]] = None
    spread: Optional[np.ndarray] = None


class Mechanism(Kind):
    """A mechanism operation. ``noise`` has the draw stages that it takes, as JSON.

    ``mechanism``: its name in a recipe, "" where a recipe does not name it. ``of``: what a collector estimates, a
    ``mean`` or a ``share``. ``answer``: its function, where that needs nothing else of the stage. ``automatic``: a
    recipe's "auto" may choose it. ``once``: a recipe says the epsilon of one answer. ``lots``: the kind of the draws.
    ``fair``: the place of the draw whose every bit counts. ``most``: so many categories, or places, at most.
    """

    chooses = "op"
    reads = {"input": "unit"}
    writes: Tuple[str, ...] = ("noise", "output")
    charges = True
    reports = True
    mechanism = ""
    of = "mean"
    automatic = False
    once = False
    lots = "lots"
    fair: Optional[int] = None
    most = MOST_PLACES
    answer: Callable[..., np.ndarray]

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        if taken[0].kind == "unit" and flow.input["low"] is None:
            refuse("wrong-value", at, "an input without a range has no bounds to keep a promise within")
        noise = []
        for number, name in enumerate(stage["noise"]):
            noise.append(flow.use(name, "{}.noise[{}]".format(at, number), self.lots))
        return Value(REPORT, *self.report(stage, at, taken[0].shape, noise))

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> Report:
        """Shape and dtype of the report of an input of shape ``size``. Raises ``BundleRefused``."""
        raise NotImplementedError

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``; ``context.drawn`` has the draw stages by output."""
        function = self.function(stage, context)
        source, noise, target = stage.input, stage.noise, stage.output

        def run(flow: Flow) -> None:
            flow[target] = function(flow[source], *[flow[name] for name in noise])

        return run

    def function(self, stage: Any, context: Any) -> Callable[..., np.ndarray]:
        """The function from the input (n, ...) and the draws to the reports (n, ...)."""
        return self.answer

    def epsilon(self, stage: Entry, noise: Sequence[Entry], table: Any) -> Decimal:
        """What one report costs, never below it; where only the last draw, a coin, decides, by that."""
        return log(odds_of(noise[-1]))

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> Design:
        """The mechanism for the value ``input_`` of ``size`` values or categories, at most ``alpha``. ``asked`` has
        ``radius`` and ``once`` of a recipe, and a ``seed`` of what is public."""
        raise NotImplementedError

    def variance(self, size: int, alpha: float) -> float:
        """The largest variance of one report's estimate of one value, in squared half ranges; of a share near 0."""
        raise NotImplementedError

    def estimate(
        self, stage: Entry, stages: Sequence[Entry], size: int, alpha: float, tables: Any
    ) -> Tuple[int, float]:
        """How many values are estimated, and the variance of each; ``size`` is the number of values of a reading."""
        return size, self.variance(size, alpha)

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> Any:
        """What its report is worth, ``Worth`` or of a sketch ``cms.Sketched``. ``made`` has the stages by output,
        ``table`` is the bundle's decoder or channel."""
        raise NotImplementedError

    def inputs(self, stage: Entry, noise: Sequence[Entry]) -> Any:
        """Shape of all inputs whose laws bound those of others, and a function that lists them; None: it cannot be
        enumerated."""
        return None


def places(size: Any, at: str) -> int:
    """The number of values of a vector. Raises ``BundleRefused``."""
    if size is None or len(size) != 1 or size[0] > MOST_PLACES:
        refuse("wrong-value", at + ".input", "expected a vector of at most {} values".format(MOST_PLACES))
    return int(size[0])


def expect(noise: Sequence[Entry], at: str, *wanted: Tuple[str, List[int]]) -> None:
    """The draws must be of these distributions and shapes, in this order. Raises ``BundleRefused``."""
    if [(stage["distribution"], stage["shape"]) for stage in noise] != list(wanted):
        listed = ", ".join("{} {}".format(*one) for one in wanted)
        refuse("wrong-value", at + ".noise", "expected draws of {}".format(listed))


def log(ratio: Fraction) -> Decimal:
    """|ln(ratio)|, never below it."""
    ratio = max(ratio, 1 / ratio)
    return _DIGITS.next_plus(_DIGITS.ln(above(ratio)))


def above(ratio: Fraction) -> Decimal:
    """The ratio to 50 digits, never below it."""
    return _DIGITS.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))


def times(cost: Decimal, count: int) -> Decimal:
    """The cost of so many of them, never below it."""
    return _DIGITS.multiply(cost, Decimal(count))


def plus(one: Decimal, other: Decimal) -> Decimal:
    """The cost of both, never below it."""
    return _DIGITS.add(one, other)


def odds_of(draw: Entry) -> Fraction:
    """P / (1 - P) of a coin."""
    return Fraction(draw["numerator"], COIN - draw["numerator"])


def chance(draw: Entry) -> float:
    """P of a coin."""
    return float(draw["numerator"] / COIN)


def odds(alpha: float, parts: int = 1) -> Decimal:
    """e^(alpha / parts) to 60 digits."""
    return _EXACT.exp(_EXACT.divide(Decimal(alpha), Decimal(parts)))


def share(one: Decimal, other: Decimal) -> Decimal:
    """one / other to 60 digits."""
    return _EXACT.divide(one, other)


def likely(ratio: Decimal) -> int:
    """The numerator of a coin of at most these odds."""
    return int((COIN * _EXACT.divide(ratio, ratio + 1)).to_integral_value(ROUND_FLOOR))


def unlikely(ratio: Decimal) -> int:
    """The numerator of a coin of at least 1 to these odds."""
    return int((COIN * _EXACT.divide(Decimal(1), ratio + 1)).to_integral_value(ROUND_CEILING))


def excess(numerator: int) -> float:
    """2P - 1 of a coin."""
    return float(Fraction(2 * numerator - COIN, COIN))


def draw(output: str, distribution: str, shape: List[int], **more: int) -> Dict[str, Any]:
    """A draw stage."""
    return dict({"stage": "draw", "distribution": distribution, "output": output, "shape": shape}, **more)


def stages_of(op: str, input_: str, noise: Sequence[Dict[str, Any]], **more: Any) -> Tuple[Dict[str, Any], ...]:
    """The draws and the mechanism that takes them."""
    names = [one["output"] for one in noise]
    entry = {"stage": "mechanism", "op": op, "input": input_, "noise": names, "output": REPORT}
    return tuple(noise) + (dict(entry, **more),)


def held(made: Design, output: str = REPORT) -> Design:
    """The report of the first frame of each track or period, for all of its frames."""
    last = dict(made.stages[-1], output=ANSWER)
    hold = {"stage": "hold", "op": "first", "input": ANSWER, "output": output}
    return made._replace(stages=made.stages[:-1] + (last, hold))


def weights(table: np.ndarray) -> np.ndarray:
    """The sizes of a decoder's factors, (places, width)."""
    return np.abs(table[:-1].reshape(len(table) - 1, -1).astype(np.float64))


def grid(along: Sequence[float], d: int) -> Any:
    """All vectors of these values, for ``Mechanism.inputs``."""
    return len(along) ** d, lambda: np.array(list(itertools.product(along, repeat=d)), np.float32)


def categories(k: int) -> Any:
    """All categories, for ``Mechanism.inputs``."""
    return k, lambda: np.arange(k, dtype=np.int64)
