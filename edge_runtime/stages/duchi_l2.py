"""The mechanism of Duchi, Jordan and Wainwright for vectors of the ball: a direction that hardly tells on which side
of it the vector lies (2018, section 4.2.3, for the l2 ball).

It is exactly private in floating point too, whatever the law p of the random direction z. Let s be the sign that v was
rounded with. A report r comes of z = r kept, or of z = -r turned. ``<z, s v>`` of -z is the negative of that of z, to
the last bit, for every product and every partial sum is. So, where it is not 0, both happen exactly when the coin T is
"``<r, s v>`` is positive", and P(r) = (p(r) + p(-r)) P(T = that): the factor before it does not hang on v. Where it is
0, r is kept if T and turned if not: p(r) P(T) + p(-r) P(not T), which lies between. So no two v, with either sign, give
r probabilities whose ratio is beyond that of the coin; only the bias hangs on p.
"""

import functools
import math
from typing import Any, Callable, Mapping, Sequence

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.util.validate import real


def report(u: np.ndarray, direction: np.ndarray, rounding: np.ndarray, coin: np.ndarray, radius: float) -> np.ndarray:
    """u float32 (n, d) of [0, 1] in, vectors of length 1 out, float32 (n, d).

    2u - 1 is in the ball of ``radius``, or is shortened to its rim. ``direction`` uint32 (n, d), one more where d is
    odd, ``rounding`` uint32 (n, 1), ``coin`` bool (n,).
    """
    w = (u * np.float32(2) - np.float32(1)) / np.float32(radius)
    size = np.minimum(np.sqrt(_dot(w, w)), np.float32(1)).astype(np.float64)
    # Only the direction of w counts from here on, and its length decides the sign s.
    minus = rounding[:, 0] >= (0.5 + 0.5 * size) * 2.0**32
    z = _sphere(direction)[:, : u.shape[1]]
    z /= np.sqrt(_dot(z, z))[:, None]
    side = _dot(z, w)
    agrees = np.where(minus, -side, side) >= 0
    z *= np.where(agrees == coin, np.float32(1), np.float32(-1))[:, None]
    return z


def _dot(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The products of rows, float32 (n,)."""
    return np.einsum("nd,nd->n", one, other)


def _sphere(words: np.ndarray) -> np.ndarray:
    """Gaussian numbers of words uint32 (n, even), float32, by Box and Muller: two words make two numbers."""
    half = words.shape[1] // 2
    # The middles of 2**23 equal parts of [0, 1]: never 0 or 1, so that no vector is 0.
    unit = ((words >> np.uint32(9)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23)
    length = np.sqrt(np.float32(-2) * np.log(unit[:, :half]))
    angle = unit[:, half:] * np.float32(2 * np.pi)
    return np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)


def ball_bound(d: int, alpha: float) -> float:
    """B: a report on the unit sphere times B is unbiased."""
    log_ratio = math.lgamma((d + 1) / 2) - math.lgamma(d / 2 + 1)
    return math.sqrt(math.pi) / 2 * d * math.exp(log_ratio) / math.tanh(alpha / 2)


class DuchiBall(mech.Mechanism):
    """Directions: of length 1 as far as float32 has it."""

    name = "mechanism duchi-l2"
    mechanism = "duchi-l2"
    fields = {"radius": real(1e-6, 1e6)}

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        d = mech.places(size, at)
        mech.expect(noise, at, ("words", [d + d % 2]), ("words", [1]), ("coin", []))
        return [d], "float32"

    def function(self, stage: Any, context: Any) -> Callable[..., np.ndarray]:
        """As ``Mechanism``."""
        return functools.partial(report, radius=stage.radius)

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``; ``radius`` is the length of the longest vector, in half ranges."""
        radius, truth = asked.get("radius", 1.0), mech.likely(mech.odds(alpha))
        noise = (
            mech.draw("direction", "words", [size + size % 2]),
            mech.draw("rounding", "words", [1]),
            mech.draw("truth", "coin", [], numerator=truth),
        )
        bound = radius * ball_bound(size, alpha) * math.tanh(alpha / 2) / mech.excess(truth)
        stages = mech.stages_of("duchi-l2", input_, noise, radius=radius)
        return mech.Design("duchi-l2", stages, (size,), "float32", bound * np.eye(size), np.zeros(size))

    def variance(self, size: int, alpha: float) -> float:
        """As ``Mechanism``."""
        return ball_bound(size, alpha) ** 2 / size

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> mech.Worth:
        """As ``Mechanism``; what is not finite has no length of 1."""

        def one_long(reports: np.ndarray) -> np.ndarray:
            return np.abs(np.linalg.norm(reports.astype(np.float64), axis=1) - 1.0) <= 1e-5

        return mech.Worth(table, one_long, 2 * np.linalg.norm(mech.weights(table), axis=0))
