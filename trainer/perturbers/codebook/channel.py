"""Channels designed for a bound: the least distortion of T with which no z makes a code e^epsilon times as likely.

A trained code is a finite cell c of x. A channel Q(c' | c) sends another code of the same class in its place, and

    P(c' | y, z) = sum over c of P(c | y, z) Q(c' | c)

is linear in Q. So is the distortion, the sum over c, c' of P(c) Q(c' | c) |mu_c - nu_c'|^2. The least of it under
U(c' | y, z) <= e^epsilon L(c' | y, z') for every y, z, z' and c' is a linear programme for each class. The ends U and L
of P are s sqrt(P) away, so that codes with few rows are far from certain; s sqrt(P) is at most its tangent at any m,
s / 2 (P / sqrt(m) + sqrt(m)), which is linear, and m is P of the last solution.

s covers the rows that laws are counted on, fresh ones, and the ends that an audit takes of these (``width``). It is no
proof, since Q is chosen by the same counts: the bound is what an audit counts on rows that no training saw. Codes that
come with another y than y-hat are errors of the classifier, and left to delta.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize, sparse, stats

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.perturbers.codebook.funnel import group_means

DEVIATIONS = 2.0  # of the counted law and of a fresh one, at each end of a ratio
ROUNDS = 3  # of centres and tangents
SIZES = 12  # numbers of codes that are tried


class Design(NamedTuple):
    """``q`` (codes, codes) is the channel, ``codes`` how many of each class it sends, and ``distortion`` that of T that
    it adds, in variances of T within y."""

    q: np.ndarray
    codes: list[int]
    distortion: float


def width(counted: np.ndarray, fresh: np.ndarray, error: float) -> np.ndarray:
    """s: an end of a share P lies s sqrt(P) from it, for numbers of independent units (...,) that are ``counted`` here
    and ``fresh`` in an audit, whose ends each have this ``error``."""
    return float(stats.norm.isf(error)) / np.sqrt(fresh) + DEVIATIONS * np.sqrt(1 / counted + 1 / fresh)


def design(
    kept: np.ndarray,
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    units: np.ndarray,
    *,
    per_class: int,
    epsilon: float,
    error: float,
    fresh: float,
) -> Design:
    """The channel for rows with T ``kept`` (n, d), y, code and z (n,), which no code was learned from.

    Codes are numbered class * ``per_class`` + code. ``units`` (n,) are the independent ones, of which an audit will
    count ``fresh`` times as many at ``error`` in all. Raises ``LimitNotMet`` where there is no channel.
    """
    classes, values = int(y.max()) + 1, int(z.max()) + 1
    error /= 8 * classes * classes * per_class * values
    q, sent, distortion = np.zeros((classes * per_class,) * 2), [], 0.0
    for number in range(classes):
        own = slice(number * per_class, (number + 1) * per_class)
        rows = y == number
        met = np.unique(z[rows])
        laws = np.stack([np.bincount(code[rows & (z == one)], minlength=len(q)) for one in met]).astype(float)
        laws = (laws / laws.sum(axis=1, keepdims=True))[:, own]
        count = np.array([len(np.unique(units[rows & (z == one)])) for one in met])
        inside = rows & (code // per_class == number)
        weight = np.bincount(code[inside] - own.start, minlength=per_class) / len(y)
        centres = group_means(kept[inside], code[inside] - own.start, per_class)
        q[own, own], far = block(laws, weight, centres, epsilon=epsilon, s=width(count, fresh * count, error))
        sent.append(int((q[own, own].sum(axis=0) > 0).sum()))
        distortion += far
    return Design(q, sent, distortion)


def send(code: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The codes (n,) that the channel ``q`` draws for codes (n,)."""
    sent = np.empty_like(code)
    for one in np.unique(code):
        rows = np.flatnonzero(code == one)
        sent[rows] = rng.choice(len(q), len(rows), p=q[one])
    return sent


def reachable(laws: np.ndarray, s: np.ndarray) -> float:
    """The least epsilon of any channel on laws (Z, K) of the codes of a class: that of one code in place of all."""
    share = laws.sum(axis=1)
    low = (share - s * np.sqrt(share)).min()
    return float(np.log((share + s * np.sqrt(share)).max() / low)) if low > 0 else np.inf


def block(
    laws: np.ndarray, weight: np.ndarray, centres: np.ndarray, *, epsilon: float, s: np.ndarray
) -> tuple[np.ndarray, float]:
    """The channel (K, K) of one class and its distortion, for laws (Z, K), weights (K,) and centres (K, d) of codes."""
    if (least := reachable(laws, s)) > epsilon:
        cure = (
            f"{np.ceil(100 * least) / 100:g} is the least: raise it, or add rows" if np.isfinite(least) else "add rows"
        )
        raise LimitNotMet(f"No channel has a `perturber.pufferfish` of {epsilon:g} on so few rows: {cure}.")
    order = _order(weight, centres)
    far = ((centres - weight @ centres / weight.sum()) ** 2).sum(axis=1)
    best = np.eye(len(weight))[np.repeat(order[0], len(weight))], float(weight @ far)
    most = int(min(len(weight), (np.tanh(epsilon / 2) / s.max()) ** 2))  # of even codes, more have too few rows each
    for size in sorted({round(one) for one in np.geomspace(2, most, SIZES)}) if most > 1 else ():
        found = _least(laws, weight, centres, order[:size], epsilon=epsilon, s=s)
        best = found if found is not None and found[1] < best[1] else best
    return best


def _order(weight: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """All codes, so that each is missed least, as the nearest of others, where those before it alone are sent."""
    far = ((centres[:, None] - centres[None]) ** 2).sum(axis=2)
    stay, gone = list(range(len(weight))), list[int]()
    while len(stay) > 1:
        near = np.partition(far[:, stay], 1, axis=1)
        lost = np.bincount(far[:, stay].argmin(axis=1), weight * (near[:, 1] - near[:, 0]), minlength=len(stay))
        gone.append(stay.pop(int(lost.argmin())))
    return np.array([*stay, *gone[::-1]])


def _least(
    laws: np.ndarray, weight: np.ndarray, centres: np.ndarray, stay: np.ndarray, *, epsilon: float, s: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """The best channel that sends the codes ``stay``; None where there is none."""
    (values, codes), size = laws.shape, len(stay)
    mass = np.full((values, size), laws.sum(axis=1).mean() / size)
    shown, best = centres[stay], None
    every = sparse.kron(laws, sparse.eye(size), format="csr")  # (Z * size, K * size): P(c' | y, z) of Q
    least = sparse.kron(np.ones((values, 1)), sparse.eye(size))  # of each code the least L over all z, a variable
    whole = sparse.kron(sparse.eye(codes), np.ones((1, size)), format="csr")
    for _ in range(ROUNDS):
        slope, offset = s[:, None] / np.sqrt(mass) / 2, s[:, None] * np.sqrt(mass) / 2
        up, down = (every.multiply((1 + sign * slope).reshape(-1, 1)) for sign in (1, -1))
        far = ((centres[:, None] - shown[None]) ** 2).sum(axis=2)
        solved = optimize.linprog(
            np.concatenate([(weight[:, None] * far).ravel(), np.zeros(size)]),
            A_ub=sparse.bmat([[up, -np.exp(epsilon) * least], [-down, least]], format="csr"),
            b_ub=-np.concatenate([offset, offset]).ravel(),
            A_eq=sparse.hstack([whole, sparse.csr_matrix((codes, size))], format="csr"),
            b_eq=np.ones(codes),
            method="highs",
        )
        if solved.x is None:
            break
        q = np.maximum(solved.x[: codes * size].reshape(codes, size), 0)
        q /= q.sum(axis=1, keepdims=True)
        mass = np.maximum(laws @ q, 1e-6)
        drawn = weight[:, None] * q
        shown = (drawn.T @ centres) / np.maximum(drawn.sum(axis=0), 1e-12)[:, None]
        value = float((drawn * ((centres[:, None] - shown[None]) ** 2).sum(axis=2)).sum())
        if best is None or value < best[1]:
            whole_q = np.zeros((codes, codes))
            whole_q[:, stay] = q
            best = whole_q, value
    return best
