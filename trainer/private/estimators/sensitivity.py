"""How far one row can move the coefficients of a quadratic objective: what the functional mechanism's noise must hide.

A row x of |x_j| <= 1 adds a linear part to the coefficients of w and a quadratic part xx^T. Let another row x' take its
place, p = x - x', q = x + x'. Then xx^T - x'x'^T = (pq^T + qp^T) / 2, and |p_j| + |q_j| <= 2 for each j: with P and Q
their l1 norms, P + Q <= 2d. The quadratic part moves by at most PQ, the linear one by P where the labels are alike and
by Q where they are not, which is the same by symmetry. So the l1 change is at most

    max over 0 <= P <= 2d of  linear P + quadratic P (2d - P),

which is (d + 2)^2 / 8 for logistic regression (Taylor's objective, weights 1/2 and 1/8) and (d + 1)^2 for linear
regression (2 and 1). Papers use d^2/4 + 3d and 2d^2 + 4d (Zhang et al. 2012; paper 004, results 1 and 2): valid, and
larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Weights(NamedTuple):
    """What the linear and the quadratic part weigh in an objective."""

    linear: float
    quadratic: float


LOGISTIC = Weights(1 / 2, 1 / 8)
LINEAR = Weights(2.0, 1.0)


def most_moved(weights: Weights, ordinary: int, sensitive: int = 0, gamma: float = 1.0) -> float:
    """max of F_n + gamma F_s: the l1 change of coefficients without and with one of the sensitive attributes.

    By blocks: ``ordinary`` attributes share P_n + Q_n <= 2 ordinary, sensitive ones P_s + Q_s <= 2 sensitive. The
    maximum of a quadratic function on a rectangle lies inside, on an edge or in a corner, and all are tried.
    """

    def moved(p_n: float, p_s: float) -> float:
        q_n, q_s = 2 * ordinary - p_n, 2 * sensitive - p_s
        plain = weights.linear * p_n + weights.quadratic * p_n * q_n
        touched = weights.linear * p_s + weights.quadratic * (p_n * q_s + p_s * q_n + p_s * q_s)
        return plain + gamma * touched

    return max(moved(*point) for point in _candidates(weights, ordinary, sensitive, gamma))


def _candidates(weights: Weights, ordinary: int, sensitive: int, gamma: float) -> Iterator[tuple[float, float]]:
    """Where the maximum can be. The gradient of ``moved`` is g - H (p_n, p_s)."""
    high_n, high_s = 2.0 * ordinary, 2.0 * sensitive
    a, b = weights
    g_n = a + b * high_n + gamma * b * high_s
    g_s = gamma * (a + b * high_n + b * high_s)
    h_nn, h_ns, h_ss = 2 * b, 2 * gamma * b, 2 * gamma * b

    def inside(value: float, high: float) -> float:
        return min(max(value, 0.0), high)

    for p_s in (0.0, high_s):
        for p_n in (0.0, high_n, inside((g_n - h_ns * p_s) / h_nn, high_n)):
            yield p_n, p_s
    for p_n in (0.0, high_n):
        yield p_n, inside((g_s - h_ns * p_n) / h_ss, high_s)
    determinant = h_nn * h_ss - h_ns**2
    if determinant > 0:
        p_n = (g_n * h_ss - g_s * h_ns) / determinant
        p_s = (g_s * h_nn - g_n * h_ns) / determinant
        yield inside(p_n, high_n), inside(p_s, high_s)


def one_hot(most_ones: int) -> float:
    """The change for logistic regression on rows of 0 and 1, of which at most ``most_ones`` are 1: B + B^2 / 4."""
    return most_ones + most_ones**2 / 4


def of_the_paper(weights: Weights, attributes: int) -> float:
    """Delta of paper 004, results 1 and 2."""
    return attributes**2 / 4 + 3 * attributes if weights == LOGISTIC else 2 * (attributes**2 + 2 * attributes)


def split_of_the_paper(attributes: int, sensitive: int, gamma: float, epsilon: float) -> tuple[float, float]:
    """(epsilon_n, epsilon_s) of algorithm 1, line 14, with the betas of results 1 and 2.

    These count kd of the 2kd - k^2 ordered pairs that touch one of k sensitive attributes, so less than epsilon is
    spent.
    """
    beta = sensitive / attributes
    ordinary = epsilon / (1 - beta + gamma * beta)
    return ordinary, gamma * ordinary
