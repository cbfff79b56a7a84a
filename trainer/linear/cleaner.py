"""Linear cleaners: take out of a feature vector what a linear predictor does not need (paper 000).

The predictor of the wanted labels starts with a known operator A_d (features, outputs): it sees only A_d^T x. Every
cleaner here removes components of x, least useful first, until the predictor's input has moved by eps:

    x~ = D ((1 - alpha) c),   c = E^T x,   alpha_i = sqrt(clip((eps - sum_{j<i} c_j^2) / c_i^2, 0, 1))

c are the coordinates of x in a basis of range(A_d), in order of removal, each in units of the error that removing it
costs: A_d^T D has orthonormal columns, so |A_d^T (x - x~)|^2 = sum (alpha_i c_i)^2, which is min(eps, |A_d^T x|^2) for
every single x. The part of x in the null space of A_d^T costs nothing and is always removed. One clip decides what
steps 5 and 6 of the paper's Algorithm 1 search for: remove all, a fraction, nothing.

The three cleaners differ only in the order: ``exact`` removes the null space and nothing else (eps = 0),
``approximate`` goes by increasing singular value of A_d, ``algorithm1`` by increasing ratio of what a component is
worth to the predictor and to the adversary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from edgeveil.edge_runtime.errors import BadInput

RANK_TOLERANCE = 1e-10  # singular values below this share of the largest are rank deficiency
BLOCK = 4096  # rows at a time, so that a block's coordinates stay in the cache between the two products
RIDGE = 1e-9  # makes the adversary's quadratic form definite; share of its mean eigenvalue


@dataclass(frozen=True)
class Cleaner:
    """One fitted cleaner. ``encoder`` E and ``decoder`` D are (features, r) float64, E^T D = 1; ``eps`` is in units of
    the predictor's input squared, summed over its outputs, per vector."""

    encoder: np.ndarray
    decoder: np.ndarray
    eps: float

    @property
    def features(self) -> int:
        return self.encoder.shape[0]

    @property
    def rank(self) -> int:
        """r, the length of the code: the rank of A_d."""
        return self.encoder.shape[1]

    def astype(self, dtype: np.dtype | type) -> Cleaner:
        """The same cleaner with its matrices in ``dtype``, so that vectors of that dtype need no conversion."""
        return Cleaner(self.encoder.astype(dtype, copy=False), self.decoder.astype(dtype, copy=False), self.eps)

    def code(self, x: np.ndarray) -> np.ndarray:
        """What is kept of x (n, features): (n, r), in units of the predictor's input, in the dtype of x."""
        return shrink(x @ self.encoder.astype(x.dtype, copy=False), self.eps)

    def clean(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """x~ (n, features) of x (n, features), in the dtype of x; into ``out`` where it is given."""
        out = np.empty_like(x) if out is None else out
        typed = self if self.encoder.dtype == self.decoder.dtype == x.dtype else self.astype(x.dtype)
        if len(x) == 1:
            return np.matmul(_shrink_one(x @ typed.encoder, self.eps), typed.decoder.T, out=out)
        for start in range(0, len(x), BLOCK):
            rows = slice(start, start + BLOCK)
            np.matmul(typed.code(x[rows]), typed.decoder.T, out=out[rows])
        return out


def shrink(c: np.ndarray, eps: float) -> np.ndarray:
    """(1 - alpha) c for coordinates c (n, r): steps 4 to 6 of Algorithm 1 for all rows at once, in the dtype of c.

    The same operations as the exported graph (``models.cleaners``): a product with a triangle of ones is the running
    sum, and faster than one where r is small.
    """
    delta = c * c
    left = delta @ _before(c.shape[1], c.dtype)
    np.subtract(c.dtype.type(eps), left, out=left)
    np.maximum(left, 0, out=left)
    # eps divided by this fits float32, and it is far below any error that matters.
    np.maximum(delta, c.dtype.type(1e-30 * max(eps, 1.0)), out=delta)
    share = np.divide(left, delta, out=left)
    np.minimum(share, 1, out=share)
    np.sqrt(share, out=share)
    np.subtract(1, share, out=share)
    return np.multiply(share, c, out=share)


def _shrink_one(c: np.ndarray, eps: float) -> np.ndarray:
    """``shrink`` of one row c (1, r): a loop over numbers, which ten operations on so few would take longer than."""
    (kept,) = c.tolist()
    left = eps
    for place, value in enumerate(kept):
        if left <= 0:
            break
        delta = value * value
        kept[place] = 0.0 if delta <= left else value - math.sqrt(left / delta) * value
        left -= delta
    return np.array([kept], c.dtype)


@lru_cache
def _before(rank: int, dtype: np.dtype) -> np.ndarray:
    """Ones strictly above the diagonal: row times this is, for each coordinate, the sum of those before it."""
    triangle = np.triu(np.ones((rank, rank), dtype), 1)
    triangle.setflags(write=False)
    return triangle


def exact(a_d: np.ndarray) -> Cleaner:
    """Remove only the null space of A_d^T (a_d: features, outputs): the predictor's input does not change."""
    cleaner = approximate(a_d, eps=0.0)
    if cleaner.rank == cleaner.features:
        raise BadInput(
            f"A_d has rank {cleaner.rank} for {cleaner.features} features: its null space is empty, so nothing can be "
            "removed at no cost. Allow an error: eps above 0."
        )
    return cleaner


def approximate(a_d: np.ndarray, *, eps: float) -> Cleaner:
    """The null space, then the directions that A_d weighs least, up to an error of eps."""
    u, s = range_basis(a_d)
    return _cleaner((u * s)[:, ::-1], (u / s)[:, ::-1], eps)


def algorithm1(a_d: np.ndarray, a_c: np.ndarray, *, eps: float) -> Cleaner:
    """Algorithm 1: the null space, then by increasing gamma of B_d v = gamma B_c v on the range of A_d.

    ``a_c`` (features, confidential outputs) is the adversary's operator, estimated from training data.

    On the whole space the pencil is singular: its null part would keep what A_c does not see, but an adversary who
    refits does. Restricted to range(A_d), in the basis where B_d is the identity, it is one symmetric problem, and
    B_d- and B_c-orthogonal directions make the greedy order the exact optimum.
    """
    u, s = range_basis(a_d)
    a_c = checked_operator(a_c, "A_c")
    if len(a_c) != len(u):
        raise BadInput(f"A_c has {len(a_c)} features and A_d {len(u)}; estimate both on the same feature vectors.")
    basis = u / s
    seen = basis.T @ a_c
    # Without it, directions that A_c does not see would be in arbitrary order: of equals, remove the cheapest first.
    ridge = RIDGE * max(np.sum((u.T @ a_c) ** 2), np.sum(s**2)) / len(s)
    worth, q = np.linalg.eigh(seen @ seen.T + ridge * basis.T @ basis)
    q = q[:, np.argsort(-worth, kind="stable")]
    return _cleaner((u * s) @ q, basis @ q, eps)


def _cleaner(encoder: np.ndarray, decoder: np.ndarray, eps: float) -> Cleaner:
    if not 0 <= eps < np.inf:
        raise BadInput(f"eps must be 0 or more, the squared error allowed per vector; got {eps}.")
    return Cleaner(np.ascontiguousarray(encoder), np.ascontiguousarray(decoder), float(eps))


def range_basis(a_d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left singular vectors (features, outputs) and singular values (outputs,) of A_d, largest first.

    Raises BadInput where A_d is empty, not a finite matrix, or not of full column rank.
    """
    a_d = checked_operator(a_d, "A_d")
    u, s, _ = np.linalg.svd(a_d, full_matrices=False)
    rank = int(np.sum(s > RANK_TOLERANCE * s[0]))
    if s[0] == 0 or rank < a_d.shape[1]:
        raise BadInput(
            f"A_d has {a_d.shape[1]} outputs and rank {rank if s[0] > 0 else 0}: some outputs depend on the "
            "others. Leave them out, or merge them (operators.merged keeps the error)."
        )
    return u, s


def checked_operator(a: np.ndarray, name: str) -> np.ndarray:
    """``a`` as a float64 matrix (features, outputs); BadInput where it is none."""
    a = np.asarray(a)
    if a.ndim != 2 or a.size == 0:
        raise BadInput(f"{name} must be a matrix (features, outputs), got shape {a.shape}; reshape it.")
    if a.dtype.kind not in "fiub" or not np.isfinite(a).all():
        raise BadInput(f"{name} must hold finite numbers, got dtype {a.dtype} or NaN or infinity; check its source.")
    return a.astype(np.float64)
