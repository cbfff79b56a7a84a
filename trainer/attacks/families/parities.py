"""An attack on parities of low bits of x'.

The XOR of two or three bits can carry z while each bit alone, and each pair of three, is independent of it. Trees and
networks do not find such a parity among hundreds of noisy values; a search over all products does. With bits as signs
+1 and -1 an XOR is a product, and S^T diag(w) S holds the scores of all pairs at once.

What is searched, of the lowest three bit planes, further outputs and code digits (``columns``):

* *Pairs*: every one, as long as the multiply-adds fit ``PAIRS_SHARE`` of the budget's (9,900 columns in the quick
  audit, two values of z); else pairs of a random part, of the lowest plane first. Once more with the planes above
  (``higher``), of integers and of floats on even steps, on as many rows as the same share allows.
* *Triples*: all of the lowest plane where they fit ``TRIPLES_SHARE`` (up to 837 columns in the quick audit and 1,330 in
  the thorough one, two values of z), first scored on few rows (at least 512), the best again on all; of more columns
  those of the best pairs, and a random part of the others. A triple must be correlated with z by about 6 / sqrt(rows)
  to survive the first pass.
* *Any number of bits*: a parity that is z without exception solves a system of linear equations over GF(2). It is
  found where there are more training rows than columns, whatever its size. One row in a thousand that does not fit
  hides it.

Candidates that ``stop`` does not confirm are dropped; boosted trees combine the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import stats

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import trees
from edgeveil.trainer.attacks.families.networks import Learner
from edgeveil.trainer.attacks.features import Levels
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Learned

PLANES, EVERY_PLANE = 3, 8
PAIRS_SHARE, TRIPLES_SHARE = 0.25, 0.5  # of the budget's multiply-adds for one network
FEWEST_SCREENED = 512  # rows of the first pass
FEWEST_CHANGES = (
    20  # rows in which a bit or product differs from its usual value, to be scored as if it varied so often
)
CANDIDATES, KEPT = 512, 48
PAIRS_FOR_TRIPLES = 200
CONFIRMED = 0.05
MOST_CONTRASTS = 10
SPARE_EQUATIONS = 64  # each halves the chance that equations without a solution look solved
TRIES = 4  # subsets of rows for the equations: one row that does not fit spoils one subset
MOST_COLUMNS = 16_000
MOST_BITS = 1e8  # of the rows searched, and of those looked at together
FEWEST_ROWS = 2048  # searched, however large the frames
LARGEST_SIGNS = 4e7  # values of the matrix of signs, 160 MB
STRIPES = 4  # of a square of scores of which one half is needed
BLOCK = 4_000_000  # scores at once, 16 MB

Parity = tuple[int, ...]  # column numbers


class Parities(Learner):
    """Boosted trees on the XOR of two bits or three low ones, under noise, and on an exact one of any number."""

    name = "parities of bits"
    order = 20

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Search parities on ``fit``, confirm them on ``stop``, then train trees on them."""
        problem = problem.capped(problem.budget.rows)
        selected, levels = confirmed(search(problem, seed), problem.stop, problem), Levels.from_samples(problem.fit.x)

        def view(part: Released) -> np.ndarray:
            return np.concatenate([seen(part, selected, levels), features.side(problem, part)], axis=1)

        return trees(problem, view, seed)


def columns(part: Released, levels: Levels | None) -> np.ndarray:
    """Bits that parities are made of, uint8 (n, columns): bit planes from the lowest one, then other outputs.

    Three planes, of large frames fewer; of floats on even steps, ``levels``, those of the steps come first. Outputs
    ``also`` count as 1 where they are above one half (they are one-hot); codes give their binary digits.
    """
    blocks = [features.low_bits(part, int(np.clip(MOST_COLUMNS / part.x[:1].size, 1, PLANES)), levels)]
    if part.also is not None:
        blocks.append((part.also > 0.5).astype(np.uint8))
    if part.codes is not None:
        code = np.asarray(part.codes.received, np.int64).reshape(len(part), 1)
        blocks.append(((code >> np.arange(12)) & 1).astype(np.uint8))
    return np.concatenate(blocks, axis=1)


def higher(part: Released, levels: Levels | None) -> np.ndarray:
    """The bit planes above those of ``columns``, uint8 (n, columns): of integers and ``levels``, up to the eighth."""
    values = part.x.reshape(len(part), -1)
    planes = int(np.clip(MOST_COLUMNS / values[:1].size, PLANES, EVERY_PLANE))
    if levels is None or planes == PLANES:
        return np.empty((len(part), 0), np.uint8)
    number = levels.number(values)
    return np.concatenate([(number >> plane) & 1 for plane in range(PLANES, planes)], axis=1).astype(np.uint8)


def parities(bits: np.ndarray, found: Sequence[Parity]) -> np.ndarray:
    """The XOR of the columns of each of ``found``, uint8 (n, len(found)), of ``bits`` (n, columns)."""
    out = np.zeros((len(bits), len(found)), np.uint8)
    for place, parity in enumerate(found):
        out[:, place] = bits[:, list(parity)].sum(axis=1) & 1
    return out


def seen(part: Released, found: Sequence[Parity], levels: Levels | None) -> np.ndarray:
    """The parities of each row, float32 (n, len(found))."""
    used = np.unique([one for parity in found for one in parity]).astype(np.int64)
    places = [tuple(np.searchsorted(used, parity)) for parity in found]
    return parities(picked(part, used, levels), places).astype(np.float32)


def picked(part: Released, numbers: np.ndarray, levels: Levels | None) -> np.ndarray:
    """These of ``columns`` and, behind them, ``higher``, uint8 (n, k); some rows at a time, for large frames are many
    bits."""
    step = max(1, int(MOST_BITS / EVERY_PLANE / max(1, part.x[:1].size)))
    pieces = [np.empty((0, len(numbers)), np.uint8)]
    for start in range(0, len(part), step):
        piece = part.take(np.arange(start, min(len(part), start + step)))
        pieces.append(np.concatenate([columns(piece, levels), higher(piece, levels)], axis=1)[:, numbers])
    return np.concatenate(pieces)


def search(problem: Problem, seed: int) -> list[Parity]:
    """The parities of ``fit`` that depend most on z given y, best first; exact solutions before all others."""
    from threadpoolctl import threadpool_limits

    rng, rows = np.random.default_rng([seed, 16]), int(MOST_BITS / problem.fit.x[:1].size)
    fit = problem.fit.take(np.arange(min(len(problem.fit), max(FEWEST_ROWS, rows))))
    levels = Levels.from_samples(problem.fit.x)
    bits = columns(fit, levels)
    width, varied = bits.shape[1], _varied(bits)
    # A screen of more columns than this is beyond any budget: the lowest plane goes first.
    order = np.lexsort((rng.random(len(varied)), varied >= fit.x[:1].size))
    varied = np.sort(varied[order[: min(MOST_COLUMNS, int(MOST_BITS / len(fit)))]])
    bits, lowest = bits[:, varied], varied < fit.x[:1].size
    contrasts = contrasts_of(problem.z_classes, rng)
    exact = solved(bits, fit.y, fit.z, contrasts, problem.theta.shape[0], rng)
    screen, pairs_macs = Screen(bits, fit.y, fit.z, contrasts), problem.budget.macs * PAIRS_SHARE
    pairs: list[Parity] = []
    triples: list[Parity] = []
    few = fit.take(np.arange(min(len(fit), int(LARGEST_SIGNS / (EVERY_PLANE * fit.x[:1].size)))))
    above = higher(few, levels)
    of_above = _varied(above)
    every, all_bits = (
        np.append(varied, width + of_above),
        np.concatenate([bits[: len(few)], above[:, of_above]], axis=1),
    )
    # Of products as small as these, threads only wait for each other: 7 s instead of 0.5 s on two busy cores.
    with threadpool_limits(1, user_api="blas"):
        if len(varied) > 1:
            pairs = screen.pairs(pairs_macs, lowest, rng)
            triples = screen.triples(problem.budget.macs * TRIPLES_SHARE, lowest, pairs[:PAIRS_FOR_TRIPLES], rng)
        if len(of_above) and len(every) > 1:
            pairs += Screen(all_bits, few.y, few.z, contrasts).pairs(pairs_macs, every < fit.x[:1].size, rng)
    some = list(dict.fromkeys(tuple(sorted(parity)) for parity in (*pairs, *triples)))
    if not some:
        return []
    used = np.unique([one for parity in some for one in parity]).astype(np.int64)
    places = [tuple(np.searchsorted(used, parity)) for parity in some]
    scores = excess(picked(fit, every[used], levels), places, fit.y, fit.z, contrasts)
    best = [some[place] for place in np.argsort(-scores, kind="stable")[:KEPT]]
    return [tuple(int(every[one]) for one in parity) for parity in dict.fromkeys([*exact, *best])]


def _varied(bits: np.ndarray) -> np.ndarray:
    """The columns of ``bits`` (n, d) that change in rows enough to be scored."""
    often = bits.sum(axis=0, dtype=np.int64)
    return np.flatnonzero(np.minimum(often, len(bits) - often) >= min(FEWEST_CHANGES, len(bits) // 4))


def confirmed(found: Sequence[Parity], stop: Released, problem: Problem) -> list[Parity]:
    """Those of ``found`` that depend on z given y on the rows of ``stop`` too, at ``CONFIRMED``."""
    if not found:
        return []
    scores, degrees = chi_squared(
        seen(stop, found, Levels.from_samples(problem.fit.x)), stop.y, stop.z, np.eye(problem.z_classes)[1:]
    )
    return [parity for parity, p in zip(found, stats.chi2.sf(scores, max(1, degrees)), strict=True) if p < CONFIRMED]


def contrasts_of(classes: int, rng: np.random.Generator) -> np.ndarray:
    """Which z are set against the others, bool (contrasts, classes): each one, or random halves of many."""
    if classes == 2:
        return np.array([[False, True]])
    if classes <= MOST_CONTRASTS:
        return np.eye(classes, dtype=bool)
    return np.stack([rng.permutation(classes) < classes // 2 for _ in range(MOST_CONTRASTS)])


def weights(y: np.ndarray, z: np.ndarray, contrasts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each y its rows (m,), and weights (m, contrasts): centred, such that a random sign's weighted sum has
    variance 1.
    """
    for value in np.unique(y):
        rows = np.flatnonzero(y == value)
        with_z = np.asarray(contrasts, np.float64).T[z[rows]]
        spread = with_z.std(axis=0) * np.sqrt(len(rows))
        weight = np.where(spread > 0, (with_z - with_z.mean(axis=0)) / np.where(spread > 0, spread, 1.0), 0.0)
        yield rows, weight.astype(np.float32)


def chi_squared(bits: np.ndarray, y: np.ndarray, z: np.ndarray, contrasts: np.ndarray) -> tuple[np.ndarray, int]:
    """Dependence of each column of ``bits`` (n, d) on the contrasts of z given y, and its degrees of freedom.

    Summed over y. A column that hardly varies counts as if it changed in ``FEWEST_CHANGES`` rows.
    """
    score, degrees = np.zeros(bits.shape[1]), 0
    for rows, weight in weights(y, z, contrasts):
        signs = _signs(bits[rows])
        spread = np.maximum(1 - signs.mean(axis=0) ** 2, _least(len(rows)))
        score += ((weight.T @ signs) ** 2).sum(axis=0) / spread
        degrees += int((weight != 0).any(axis=0).sum())
    return score, degrees


def excess(
    bits: np.ndarray, found: Sequence[Parity], y: np.ndarray, z: np.ndarray, contrasts: np.ndarray
) -> np.ndarray:
    """How much more each parity depends on z than its strongest bit does, (len(found),)."""
    whole, _ = chi_squared(parities(bits, found), y, z, contrasts)
    used = np.unique(np.concatenate([list(parity) for parity in found]))
    alone, _ = chi_squared(bits[:, used], y, z, contrasts)
    return whole - np.array([alone[np.searchsorted(used, parity)].max() for parity in found])


class Screen:
    """Scores of all products of two or three columns of ``bits`` (n, d) against the contrasts of z given y."""

    def __init__(self, bits: np.ndarray, y: np.ndarray, z: np.ndarray, contrasts: np.ndarray) -> None:
        self.bits, self.y, self.z, self.contrasts = bits, y, z, contrasts

    def pairs(self, macs: float, lowest: np.ndarray, rng: np.random.Generator) -> list[Parity]:
        """The best ``CANDIDATES`` pairs by their excess over single bits; ``lowest`` columns (bool, (d,)) go first."""
        # A product for each contrast, and one for the spread; half of the square is computed.
        each = (len(self.contrasts) + 1) / 2
        most = int(np.sqrt(macs / (each * FEWEST_SCREENED)))
        some = np.sort(self._preferred(lowest, [], rng)[:most])
        rows = self._rows(len(some), int(macs / (each * len(some) ** 2)))
        signs, groups = self._sorted(rows, some)
        alone, _ = chi_squared(self.bits[rows][:, some], self.y[rows], self.z[rows], self.contrasts)
        best, width = _Best(CANDIDATES), max(1, BLOCK // len(some))
        for start in range(0, len(some), width):
            end = min(len(some), start + width)
            score = np.zeros((end - start, len(some) - start), np.float32)
            for piece, weight in groups:
                # Weights have one value on each side of a contrast, so its product follows from that of one side.
                right, whole, spread = signs[piece, start:], None, None
                for one in weight.T[weight.any(axis=0)]:
                    inside = one > 0
                    side = right[inside, : end - start].T @ right[inside]
                    if whole is None:
                        whole = side + right[~inside, : end - start].T @ right[~inside]
                        spread = np.maximum(1 - (whole / len(right)) ** 2, _least(len(right)))
                    in_, out = one[inside][0], one[~inside][0]
                    score += ((in_ - out) * side + out * whole) ** 2 / spread
            score -= np.maximum(alone[start:end, None], alone[None, start:])
            best.take(score, lambda i, j, at=start: (at + i, at + j))
        return best.of(some)

    def triples(
        self, macs: float, lowest: np.ndarray, pairs: Sequence[Parity], rng: np.random.Generator
    ) -> list[Parity]:
        """The best ``CANDIDATES`` triples of the first pass, of ``lowest`` columns (bool, (d,)) and of ``pairs``."""
        each = len(self.contrasts) / 3
        most = int(np.cbrt(macs / (each * FEWEST_SCREENED)))
        some = self._preferred(lowest, pairs, rng)[:most]
        if len(some) < 3:
            return []
        rows = self._rows(len(some), int(macs / (each * len(some) ** 3)))
        signs, groups = self._sorted(rows, some)
        best = _Best(CANDIDATES)
        # Of the square of both others the half above its diagonal is enough, and nearly that is computed.
        blocks = [
            (first, start, min(len(some), start + -(-(len(some) - first) // STRIPES)))
            for first in range(len(some) - 2)
            for start in range(first + 1, len(some) - 1, -(-(len(some) - first) // STRIPES))
        ]
        for first, start, end in blocks:
            score = np.zeros((end - start, len(some) - start), np.float32)
            for piece, weight in groups:
                right = signs[piece, start:]
                for one in weight.T:
                    score += ((right[:, : end - start] * (one * signs[piece, first])[:, None]).T @ right) ** 2
            best.take(score, lambda i, j, at=first, by=start: (at, by + i, by + j))
        return best.of(some)

    def _preferred(self, lowest: np.ndarray, pairs: Sequence[Parity], rng: np.random.Generator) -> np.ndarray:
        """Columns in the order in which triples are made of them: the lowest plane and those of ``pairs`` first."""
        paired = np.array(list(dict.fromkeys(one for pair in pairs for one in pair)), np.int64)
        plane, others = rng.permutation(np.flatnonzero(lowest)), rng.permutation(np.flatnonzero(~lowest))
        first = [plane, paired] if len(plane) <= 2 * len(paired) or len(plane) < 1000 else [paired, plane]
        return np.array(list(dict.fromkeys(np.concatenate([*first, others]).tolist())), np.int64)

    def _rows(self, width: int, affordable: int) -> np.ndarray:
        """The first rows (they are in random order) that the budget and memory allow for ``width`` columns."""
        most = min(max(FEWEST_SCREENED, affordable), int(LARGEST_SIGNS / width))
        return np.arange(min(len(self.y), max(most, 1)))

    def _sorted(self, rows: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, list[tuple[slice, np.ndarray]]]:
        """Signs float32 (rows, columns) ordered by y, and the rows of each y with their weights."""
        order, groups, start = [], [], 0
        for of_y, weight in weights(self.y[rows], self.z[rows], self.contrasts):
            if not weight.any():
                continue
            groups.append((slice(start, start + len(of_y)), weight))
            order.append(rows[of_y])
            start += len(of_y)
        ordered = np.concatenate(order) if order else np.empty(0, np.int64)
        return _signs(self.bits[np.ix_(ordered, some)]), groups


class _Best:
    """The highest ``most`` scores seen, with their parities."""

    def __init__(self, most: int) -> None:
        self.most, self.scores, self.parities = most, np.empty(0, np.float32), np.empty((0, 0), np.int64)

    def take(self, score: np.ndarray, name: Callable[..., tuple]) -> None:
        """Take those above the diagonal of ``score`` (rows, columns) that are among the best; ``name`` makes their
        columns of their places."""
        if len(self.scores) == self.most:
            rows, columns = np.nonzero(score > self.scores.min())
        else:  # those of two columns may be there twice
            rows, columns = np.nonzero(score >= _highest(score, 2 * self.most + len(score)))
        rows, columns = rows[columns > rows], columns[columns > rows]
        mine = score[rows, columns]
        keep = np.flatnonzero(mine >= _highest(mine, self.most))
        keep = keep[np.argsort(-mine[keep], kind="stable")[: self.most]]
        named = np.stack(np.broadcast_arrays(*name(rows[keep], columns[keep])), axis=1)
        parities = named if not len(self.scores) else np.concatenate([self.parities, named])
        scores = np.concatenate([self.scores, mine[keep]])
        best = np.argsort(-scores, kind="stable")[: self.most]
        self.scores, self.parities = scores[best], parities[best]

    def of(self, some: np.ndarray) -> list[Parity]:
        """The best, best first, by the numbers ``some`` of their columns."""
        return [tuple(int(some[one]) for one in parity) for parity in self.parities]


def solved(
    bits: np.ndarray, y: np.ndarray, z: np.ndarray, contrasts: np.ndarray, y_classes: int, rng: np.random.Generator
) -> list[Parity]:
    """Parities of ``bits`` (n, d) of any size that are a contrast of z, up to a function of y, in every row tried.

    Empty where there are too few rows for as many columns.
    """
    known = np.eye(y_classes, dtype=np.uint8)[y]
    system = np.concatenate([bits, known], axis=1)
    needed = system.shape[1] + SPARE_EQUATIONS
    if len(bits) < needed:
        return []
    goals = contrasts.T[z].astype(np.uint8)
    by_goal: dict[int, Parity] = {}
    for _ in range(TRIES):
        rows = rng.choice(len(bits), needed, replace=False)
        for goal, support in solve(system[rows], goals[rows]).items():
            by_goal.setdefault(goal, tuple(int(one) for one in support if one < bits.shape[1]))
        if len(by_goal) == goals.shape[1]:
            break
    return [parity for parity in by_goal.values() if parity]


def solve(system: np.ndarray, goals: np.ndarray) -> dict[int, np.ndarray]:
    """Which columns of ``system`` (m, d) XOR to each column of ``goals`` (m, k) in all rows; 0/1 values, Gauss-Jordan.

    Goals without a solution are left out.
    """
    width = system.shape[1]
    packed = np.packbits(np.concatenate([system, goals], axis=1), axis=1)
    packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    words = packed.view(np.uint64)
    pivots: list[int] = []
    for column in range(width):
        byte, mask = column >> 3, np.uint8(128 >> (column & 7))
        hits = np.flatnonzero(packed[:, byte] & mask)
        below = hits[hits >= len(pivots)]
        if not len(below):
            continue
        pivot = len(pivots)
        if below[0] != pivot:
            words[[pivot, below[0]]] = words[[below[0], pivot]]
            hits = np.flatnonzero(packed[:, byte] & mask)
        words[hits[hits != pivot]] ^= words[pivot]
        pivots.append(column)
        if len(pivots) == len(words):
            break
    left = np.unpackbits(packed, axis=1)[:, width : width + goals.shape[1]]
    solvable = np.flatnonzero(~left[len(pivots) :].any(axis=0)) if len(pivots) < len(words) else np.empty(0, np.int64)
    return {int(goal): np.array(pivots, np.int64)[left[: len(pivots), goal] == 1] for goal in solvable}


def _signs(bits: np.ndarray) -> np.ndarray:
    return np.float32(1) - 2 * bits.astype(np.float32)


def _highest(values: np.ndarray, most: int) -> float:
    """What the highest ``most`` of ``values`` have at least."""
    place = values.size - most
    return float(np.partition(values, place, axis=None)[place]) if place > 0 else -np.inf


def _least(rows: int) -> float:
    """The smallest variance that a sign is given: as if it changed in ``FEWEST_CHANGES`` of the rows."""
    share = min(0.5, FEWEST_CHANGES / max(1, rows))
    return 4 * share * (1 - share)
