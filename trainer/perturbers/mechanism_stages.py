"""The draws, the stage and the decoder of each local mechanism, in the integers that ship.

docs/reference/bundle-format.md (Mechanisms) has the arithmetic of the stages. Every integer here is rounded to the side
that costs less than alpha, never more; what that changes of a mean is told by the decoder, which has the very integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.count import COIN, LARGEST_SCALE, MOST_PLACES
from edgeveil.trainer.measures.local_error import FEWEST, PER_COORDINATE, ball_bound, cube_bound
from edgeveil.trainer.perturbers.randomised_response import channel_of

REPORT = "report"  # the value that leaves
POSITIONS = 2**20  # of hybrid's piecewise mechanism, window and the rest together
LEVELS, SATURATES, SCALES = 4096, 2**24, 40  # of the Laplace grid: beyond so many scales nothing is lost
_EXACT = Context(prec=60)

Stage = dict[str, Any]


@dataclass(frozen=True)
class Mechanism:
    """``stages`` from the value ``input`` to ``REPORT``, which has this shape and dtype for one sample.

    ``slope`` (places of the report, values) and ``offset`` (values,) make v~ of it, in half ranges from the middle, or
    the shares of the categories; None for an index, of which ``tables`` has the channel where there is one.
    """

    name: str
    stages: tuple[Stage, ...]
    shape: tuple[int, ...]
    dtype: str
    slope: np.ndarray | None = None
    offset: np.ndarray | None = None
    tables: Mapping[str, np.ndarray] | None = None

    def decoder(self, of_each: np.ndarray, middle: np.ndarray | float = 0.0) -> np.ndarray | None:
        """The table float32 (places + 1, features) from [report, 1] to x~: v~ times ``of_each`` (values, features), and
        ``middle``; None for an index."""
        if self.slope is None or self.offset is None:
            return None
        return np.vstack([self.slope @ of_each, self.offset @ of_each + middle]).astype(np.float32)


def odds(alpha: float) -> Decimal:
    """e^alpha to 60 digits."""
    return _EXACT.exp(Decimal(alpha))


def likely(ratio: Decimal) -> int:
    """The numerator of a coin of at most these odds."""
    return int((COIN * _EXACT.divide(ratio, ratio + 1)).to_integral_value(ROUND_FLOOR))


def unlikely(ratio: Decimal) -> int:
    """The numerator of a coin of at least 1 to these odds."""
    return int((COIN * _EXACT.divide(Decimal(1), ratio + 1)).to_integral_value(ROUND_CEILING))


def excess(numerator: int) -> float:
    """2P - 1 of a coin."""
    return float(Fraction(2 * numerator - COIN, COIN))


def draw(output: str, distribution: str, shape: list[int], **more: int) -> Stage:
    """A draw stage."""
    return {"stage": "draw", "distribution": distribution, "output": output, "shape": shape, **more}


def _stage(op: str, input_: str, noise: tuple[Stage, ...], **more: Any) -> tuple[Stage, ...]:
    names = [one["output"] for one in noise]
    return (*noise, {"stage": "mechanism", "op": op, "input": input_, "noise": names, "output": REPORT, **more})


def of_vector(name: str, input_: str, d: int, alpha: float, *, radius: float = 1.0) -> Mechanism:
    """A mechanism for ``input_``, u of d values in the unit cube. ``radius`` is that of duchi-l2, in half ranges.

    Raises ``BadInput`` for more than 4096 values.
    """
    if d > MOST_PLACES:
        raise BadInput(f"{name} takes at most {MOST_PLACES} values, and a reading has {d}: report fewer of them.")
    return _VECTORS[name](input_, d, alpha, radius)


def _duchi_linf(input_: str, d: int, alpha: float, _radius: float) -> Mechanism:
    places, kept = d + 1 - d % 2, likely(odds(alpha))
    noise = (
        draw("rounding", "words", [(d + 1) // 2]),
        draw("fair", "words", [(places + 31) // 32]),
        draw("truth", "coin", [], numerator=kept),
    )
    # cube_bound divides by (e^alpha - 1) / (e^alpha + 1); the shipped coin has its own.
    bound = cube_bound(d, alpha) * math.tanh(alpha / 2) / excess(kept)
    stages = _stage("duchi-linf", input_, noise, places=places)
    return Mechanism("duchi-linf", stages, (d,), "int8", bound * np.eye(d), np.zeros(d))


def _duchi_l2(input_: str, d: int, alpha: float, radius: float) -> Mechanism:
    kept = likely(odds(alpha))
    noise = (
        draw("direction", "words", [d + d % 2]),
        draw("rounding", "words", [1]),
        draw("truth", "coin", [], numerator=kept),
    )
    bound = radius * ball_bound(d, alpha) * math.tanh(alpha / 2) / excess(kept)
    stages = _stage("duchi-l2", input_, noise, radius=radius)
    return Mechanism("duchi-l2", stages, (d,), "float32", bound * np.eye(d), np.zeros(d))


def _laplace(input_: str, d: int, alpha: float, _radius: float) -> Mechanism:
    levels = max(1, min(LEVELS, int(SATURATES * alpha / (SCALES * d))))
    scale = Fraction(levels * d) / Fraction(alpha)
    denominator = max(1, min(1024, LARGEST_SCALE // math.ceil(scale)))
    numerator = math.ceil(scale * denominator)
    noise = (draw("noise", "laplace", [d], numerator=numerator, denominator=denominator),)
    stages = _stage("laplace", input_, noise, levels=levels)
    return Mechanism("laplace", stages, (d,), "int32", 2.0 / levels * np.eye(d), -np.ones(d))


def _hybrid(input_: str, d: int, alpha: float, _radius: float) -> Mechanism:
    return hybrid(input_, d, alpha)


def hybrid(input_: str, d: int, alpha: float, *, positions: int = POSITIONS) -> Mechanism:
    """Wang et al., ICDE 2019: k of the d values, each by the piecewise mechanism or by Duchi's in one dimension.

    ``positions`` of the piecewise mechanism; few make every value of its draws enumerable.
    """
    k = max(1, min(d, math.floor(alpha / PER_COORDINATE)))
    one, of_one = alpha / k, _EXACT.exp(_EXACT.divide(Decimal(alpha), Decimal(k)))
    kept = likely(of_one)
    noise = [
        draw("chosen", "subset", [k], of=d),
        draw("rounding", "words", [k]),
        draw("truth", "coin", [k], numerator=kept),
    ]
    inner = 0.0
    if one > FEWEST:
        half = math.exp(one / 2)
        window = max(1, math.ceil(positions / (1 + half)))
        rest = max(1, math.floor(window * half))
        inside = likely(_EXACT.divide(of_one * window, Decimal(rest)))
        noise += [
            draw("piecewise", "coin", [k], numerator=int(COIN * (1 - 1 / half))),
            draw("inside", "coin", [k], numerator=inside),
            draw("window", "integer", [k], bound=window),
            draw("beyond", "integer", [k], bound=rest),
        ]
        inner = float(1 / (Fraction(inside, COIN) * (window + rest) - window))
    slope = d / k * np.vstack([inner * np.eye(d), np.eye(d) / excess(kept)])
    return Mechanism("hybrid", _stage("hybrid", input_, tuple(noise)), (2 * d,), "int32", slope, np.zeros(d))


_VECTORS = {"duchi-linf": _duchi_linf, "duchi-l2": _duchi_l2, "laplace": _laplace, "hybrid": _hybrid}


def automatic(k: int, alpha: float) -> str:
    """The one of smaller error: randomised response for few categories (Wang et al., USENIX Security 2017)."""
    return "k-rr" if k < 3 * math.exp(alpha) + 2 else "oue"


def check_categories(name: str, k: int) -> None:
    """Raise ``BadInput`` unless a mechanism takes so many categories."""
    if not 2 <= k <= MOST_PLACES:
        raise BadInput(f"{name} takes 2 to {MOST_PLACES} categories; got {k}. Report something else, or merge them.")


def of_category(name: str, input_: str, k: int, alpha: float) -> Mechanism:
    """A mechanism for ``input_``, an index below k. Raises ``BadInput`` for fewer than 2 or more than 4096."""
    name = automatic(k, alpha) if name == "auto" else name
    check_categories(name, k)
    if name == "k-rr":
        channel = {"stage": "draw", "distribution": "channel", "input": input_, "table": "response", "output": REPORT}
        return Mechanism(name, (channel,), (), "int64", tables={"response": channel_of(k, alpha)})
    if name == "oue":
        return unary(name, input_, k, COIN // 2, unlikely(odds(alpha)))
    rows = 1 << (k - 1).bit_length()
    noise = (draw("row", "integer", [], bound=rows), draw("truth", "coin", [], numerator=likely(odds(alpha))))
    return Mechanism(name, _stage(name, input_, noise), (), "int64")


def unary(name: str, input_: str, k: int, own: int, other: int) -> Mechanism:
    """Noisy bits: a 1 at the category's place by the coin ``own``, elsewhere by ``other``; both are numerators."""
    noise = (draw("own", "coin", [], numerator=own), draw("others", "coin", [k], numerator=other))
    law = of_bits(k, Fraction(own, COIN), Fraction(other, COIN))
    return Mechanism(name, _stage(name, input_, noise), (k,), "int8", *law)


def of_bits(k: int, p: Fraction, q: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """Slope and offset of bits that are 1 with probability ``p`` at the category's place and ``q`` elsewhere."""
    return np.eye(k) * float(1 / (p - q)), np.full(k, float(-q / (p - q)))
