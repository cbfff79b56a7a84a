"""The channel Q(c'|c) of a codebook: the least noise under a bound on the posterior, or independence.

A channel never changes the class y-hat, so it is one block per class. It ships as integers: every row of the table sums
to the same power of two, and the certificate is computed on these integers.
"""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet

TOTAL_BITS = 16  # every row of the shipped table sums to 2**16
SLACK = 1e-7  # how far constraints may be missed
# Of the solver: finer than SLACK. At its default of 1e-7, HiGHS's presolve calls feasible channels infeasible.
TOLERANCE = 1e-9


def independent(p_code: np.ndarray) -> np.ndarray:
    """c' drawn from P(c) (K,), independent of c: of x, only y-hat is sent."""
    p = np.asarray(p_code, np.float64)
    return np.tile(p / p.sum(), (len(p), 1))


def merged(units: np.ndarray, distance: np.ndarray, *, fewest: int) -> np.ndarray:
    """c' (K, K), 0 or 1: a code of fewer than ``fewest`` ``units`` (K,) is sent as the nearest that has as many.

    A rare code has a wide interval, and so a wide bound. Raises ``BadInput`` where no code has as many.
    """
    often = np.flatnonzero(units >= fewest)
    if not len(often):
        raise BadInput(
            f"No code of a class has {fewest} units of its own: the most frequent has {int(units.max())}. Lower "
            "`perturber.merge_below` or `perturber.codes`, or give more data."
        )
    nearest = np.where(units >= fewest, np.arange(len(units)), often[distance[:, often].argmin(axis=1)])
    return np.eye(len(units))[nearest]


def least_noise(joint: np.ndarray, distance: np.ndarray, *, bound: float) -> np.ndarray:
    """The Q (K, K) of smallest expected distance that keeps the posterior of z near its prior for every c'.

    ``joint`` (K, Z) is P(c, z) within the class (or its counts), ``distance`` (K, K) the cost of sending column c' for
    row c. For every c' and z, |log P(z|c') - log P(z)| <= ``bound`` (natural logarithm), which is linear in Q:
    e^-bound P(z) P(c') <= P(z, c') <= e^bound P(z) P(c'). c' is distributed as c, so that models trained on sent
    samples see the true frequencies. Solved by HiGHS. The independent channel always satisfies all constraints. Raises
    ``BadInput`` for a negative bound, ``LimitNotMet`` where the solver fails.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, kron, vstack
    from scipy.sparse import identity as sparse_identity

    if not np.isfinite(bound) or bound < 0:
        raise BadInput(f"The bound of an LP channel must be 0 or more; got {bound:g}. At 0, c' is independent of z.")
    joint = np.asarray(joint, np.float64) / np.sum(joint)
    k = len(joint)
    p_c, p_z = joint.sum(axis=1), joint.sum(axis=0)
    seen = p_z > 0
    given = (joint[:, seen] / p_z[seen]).T  # P(c|z), (Z, K)
    # Variables Q[c, c'] in row order. P(c'|z) - e^b P(c') <= 0 and e^-b P(c') - P(c'|z) <= 0, for every z and c'.
    every = sparse_identity(k)
    above = kron(coo_matrix(given - np.exp(bound) * p_c), every)
    below = kron(coo_matrix(np.exp(-bound) * p_c - given), every)
    equal = [kron(every, np.ones((1, k))), kron(p_c[None, :], every)]
    found = linprog(
        (p_c[:, None] * distance).ravel(),
        A_ub=vstack([above, below]).tocsr(),
        b_ub=np.full(2 * k * int(seen.sum()), SLACK),
        A_eq=vstack(equal).tocsr(),
        b_eq=np.concatenate([np.ones(k), p_c]),
        bounds=(0, 1),
        method="highs",
        options={"primal_feasibility_tolerance": TOLERANCE},
    )
    if found.x is None:
        raise LimitNotMet(
            f"The linear program of the channel was not solved at `perturber.bound` = {bound:g}, although it has a "
            f'solution: {found.message} Set another bound, or `channel = "independent"`, and train into another folder.'
        )
    q = np.clip(found.x.reshape(k, k), 0, None)
    # A code that never occurs has a free row; it sends what the others send on average.
    q[p_c == 0] = p_c
    return q / q.sum(axis=1, keepdims=True)


def integers(q: np.ndarray) -> np.ndarray:
    """The shipped table uint32: each row of q (R, C) as integers that sum to 2**TOTAL_BITS, by largest remainders.

    A probability of 0 stays 0; no other is off by more than 2**-TOTAL_BITS. Rows that are equal stay equal, so an
    independent channel stays exactly independent. Raises ``BadInput`` where a row has more than 2**TOTAL_BITS entries.
    """
    total = 2**TOTAL_BITS
    if q.shape[1] > total:
        raise BadInput(f"A channel table has at most {total} codes; got {q.shape[1]}. Set fewer `perturber.codes`.")
    exact = q / q.sum(axis=1, keepdims=True) * total
    table = np.floor(exact).astype(np.int64)
    # Ties by position, the same in every row.
    order = np.argsort(-(exact - table), axis=1, kind="stable")
    missing = total - table.sum(axis=1)
    one_more = np.arange(q.shape[1]) < missing[:, None]
    np.put_along_axis(table, order, np.take_along_axis(table, order, axis=1) + one_more, axis=1)
    return table.astype(np.uint32)


def donors_within(codes: int, copies: int) -> np.ndarray:
    """The table uint32 (codes, codes * copies) that picks one of ``copies``, a power of two, evenly for each code."""
    if copies < 1 or copies & (copies - 1):
        raise BadInput(f"The number of donors of each code must be a power of two; got {copies}.")
    return np.kron(np.eye(codes, dtype=np.uint32), np.ones((1, copies), np.uint32))
