"""Noisy bits of a hashed category: the count-mean sketch, for many categories.

Apple's Differential Privacy Team, "Learning with Privacy at Scale", 2017, algorithms 1 and 2. A device draws one of
``rows`` public hash functions, hashes its category to one of ``width`` places, and sends the number of the function and
``width`` bits: 1 at that place and 0 elsewhere, each kept with probability P and else turned. Two categories differ in
two bits or none, so a report's odds are at most (P / (1 - P))^2; the number of the function is drawn without regard to
the category, and costs nothing. An index that is too large counts as the last one: to drop it would tell.
"""

import hashlib
import math
from decimal import Decimal
from typing import Any, Callable, Mapping, NamedTuple, Sequence, Tuple

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.stages import mechanism as mech
from edgeveil.edge_runtime.stages.base import Entry
from edgeveil.edge_runtime.stages.draw import MOST_PLACES
from edgeveil.edge_runtime.util.validate import refuse, whole

PRIME = 2**31 - 1
MOST = 2**20  # categories
MOST_ROWS = 2**16
ROWS, WIDTH = 2**12, 2**10  # of a recipe's sketch: collisions move a share by 0.05 % (one deviation), whatever the law
NUMBER_BYTES = 4  # of the hash function, lowest first; then the bits, lowest first


class Hashes(object):
    """``rows`` hash functions from 0 .. 2^20 - 1 to ``width`` places, a power of two: the same ones for one ``seed``.

    Function j maps x to ((a x + b) x + c mod 2^31 - 1) mod ``width``. Its a, b and c are the first three words of 64
    bits, lowest byte first, of SHA-256("edgeveil sketch SEED j"), each mod 2^31 - 1. Such functions are 3-wise
    independent (Wegman and Carter, 1981), to 2^-33 for each of a, b and c.
    """

    def __init__(self, seed: int, rows: int, width: int) -> None:
        self.rows, self.width = rows, width
        names = ("edgeveil sketch {} {}".format(seed, row).encode("ascii") for row in range(rows))
        words = np.frombuffer(b"".join(hashlib.sha256(name).digest()[:24] for name in names), "<u8")
        self._factors = (words % np.uint64(PRIME)).astype(np.int64).reshape(rows, 3)

    def places(self, row: Any, category: np.ndarray) -> np.ndarray:
        """Where the functions ``row`` put categories, int64 (n,); ``row`` is one number or int64 (n,)."""
        a, b, c = np.moveaxis(self._factors[row], -1, 0)
        # A factor has 31 bits and a category 20: int64 holds each product.
        return ((((a * category + b) % PRIME) * category + c) % PRIME) % self.width


class Sketched(NamedTuple):
    """What a report of a sketch is worth to a collector: ``slope`` s + ``start`` for each category. s, -1 or 1, is
    the report's sign at the category's place.

    ``signs`` gives the numbers (n,) of the hash functions of reports, and int8 (n, width) the sign at each place;
    ``made`` the mask (n,) of the reports that the mechanism can make.
    """

    hashes: Hashes
    categories: int
    slope: float
    start: float
    made: Callable[[np.ndarray], np.ndarray]
    signs: Callable[[np.ndarray], Tuple[np.ndarray, np.ndarray]]


class Sketch(mech.Mechanism):
    """What both forms share. ``categories``: how many; ``seed``: that of the hash functions, which are public."""

    reads = {"input": "index"}
    fields = {"categories": whole(2, MOST), "seed": whole()}
    of = "share"
    most = MOST

    def sizes(self, noise: Sequence[Entry]) -> Tuple[int, int]:
        """How many hash functions, and their places."""
        raise NotImplementedError

    def shared(self, noise: Sequence[Entry], at: str) -> None:
        """Raise ``BundleRefused`` for a sketch of other sizes than can be."""
        rows, width = self.sizes(noise)
        if rows > MOST_ROWS or not 8 <= width <= MOST_PLACES or width & (width - 1):
            problem = "expected at most {} hash functions, and places that are a power of two, 8 to {}; got {} and {}"
            refuse("wrong-value", at + ".noise", problem.format(MOST_ROWS, MOST_PLACES, rows, width))

    def hashed(self, stage: Any, context: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """The function from categories (n,) and numbers of hash functions (n,) to places (n,)."""
        hashes = Hashes(stage.seed, *self.sizes([context.drawn[name].entry for name in stage.noise]))
        last = stage.categories - 1
        return lambda index, row: hashes.places(row, np.minimum(index, last))

    def inputs(self, stage: Entry, noise: Sequence[Entry]) -> Any:
        """As ``Mechanism``."""
        return mech.categories(int(stage["categories"]))

    def worth_of(self, stage: Entry, noise: Sequence[Entry], factor: float, start: float, **more: Any) -> Sketched:
        """``Sketched``. ``factor`` times the sign, plus ``start``, has the mean 1 at the place of the
        report's category and 0 elsewhere.

        A category that is not sent has the place of the one that is with probability 1 / width: so much is taken off,
        and the rest scaled, so that the mean over hash functions is the share.
        """
        rows, width = self.sizes(noise)
        less, hashes = width / (width - 1), Hashes(stage["seed"], rows, width)
        return Sketched(hashes, stage["categories"], less * factor, less * (start - 1 / width), **more)


def collided(rows: int, width: int) -> float:
    """The largest variance, over hash functions, of what collisions add to a share: the sum of the squares of the other
    shares, at most 1, over rows (width - 1)."""
    return 1 / (rows * (width - 1))


def of_one(width: int, square: float) -> float:
    """The variance of one report's estimate of a share of 0. ``square``: the mean square of what estimates whether the
    report's category has the same place, which it has with probability 1 / width."""
    return float((square - 1 / width**2) * (width / (width - 1)) ** 2)


def unpacked(reports: np.ndarray, width: int) -> Tuple[np.ndarray, np.ndarray]:
    """The numbers int64 (n,) of the hash functions and the bits uint8 (n, ``width``) of reports uint8 (n, bytes)."""
    row = np.ascontiguousarray(reports[:, :NUMBER_BYTES]).view("<u4")[:, 0].astype(np.int64)
    return row, np.unpackbits(reports[:, NUMBER_BYTES:], axis=1, bitorder="little")[:, :width]


def bits(place: np.ndarray, row: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Places and numbers of hash functions int64 (n,) in, reports uint8 (n, 4 + width / 8) out; ``kept`` is bool (n,
    width)."""
    sent = (place[:, None] == np.arange(kept.shape[1])) == kept
    number = np.ascontiguousarray(row.astype("<u4")).view(np.uint8).reshape(len(row), NUMBER_BYTES)
    return np.hstack([number, np.packbits(sent, axis=1, bitorder="little")])


class CountMean(Sketch):
    """The number of a hash function and a bit for each of its places."""

    name = "mechanism cms"
    mechanism = "cms"
    automatic = True

    def sizes(self, noise: Sequence[Entry]) -> Tuple[int, int]:
        """As ``Sketch``."""
        return noise[0]["bound"], noise[1]["shape"][0]

    def report(self, stage: Entry, at: str, size: Any, noise: Sequence[Entry]) -> mech.Report:
        """As ``Mechanism``."""
        width = noise[-1]["shape"][:1] or [1]
        mech.expect(noise, at, ("integer", []), ("coin", width))
        self.shared(noise, at)
        return [NUMBER_BYTES + width[0] // 8], "uint8"

    def function(self, stage: Any, context: Any) -> Callable[..., np.ndarray]:
        """As ``Mechanism``."""
        hashed = self.hashed(stage, context)
        return lambda index, row, kept: bits(hashed(index, row), row, kept)

    def epsilon(self, stage: Entry, noise: Sequence[Entry], table: Any) -> Decimal:
        """As ``Mechanism``: two categories differ in two bits."""
        return mech.log(mech.odds_of(noise[1]) ** 2)

    def design(self, input_: str, size: int, alpha: float, **asked: Any) -> mech.Design:
        """As ``Mechanism``; ``asked`` has the ``seed`` of the hash functions."""
        noise = (
            mech.draw("row", "integer", [], bound=ROWS),
            mech.draw("kept", "coin", [WIDTH], numerator=mech.likely(mech.odds(alpha, 2))),
        )
        stages = mech.stages_of("cms", input_, noise, categories=size, seed=asked["seed"])
        return mech.Design("cms", stages, (NUMBER_BYTES + WIDTH // 8,), "uint8")

    def variance(self, size: int, alpha: float) -> float:
        """As ``Mechanism``. What collisions add does not fall with the number of devices: ``collided``."""
        root = math.exp(alpha / 2)
        return of_one(WIDTH, root / (root - 1) ** 2 + 1 / WIDTH)

    def estimate(
        self, stage: Entry, stages: Sequence[Entry], size: int, alpha: float, tables: Any
    ) -> Tuple[int, float]:
        """As ``Mechanism``."""
        return stage["categories"], self.variance(stage["categories"], alpha)

    def worth(self, stage: Entry, made: Mapping[str, Entry], table: Any) -> Any:
        """As ``Mechanism``."""
        noise = [made[name] for name in stage["noise"]]
        rows, width = self.sizes(noise)

        def signs(reports: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
            row, sent = unpacked(reports, width)
            return row, sent.astype(np.int8) * np.int8(2) - np.int8(1)

        def can_be(reports: np.ndarray) -> np.ndarray:
            return np.asarray(unpacked(reports, width)[0] < rows)

        factor = 0.5 / mech.excess(noise[1]["numerator"])
        return self.worth_of(stage, noise, factor, 0.5, made=can_be, signs=signs)
