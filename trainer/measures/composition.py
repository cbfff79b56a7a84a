"""Several answers with epsilon of local differential privacy each, together: optimal composition.

Kairouz, Oh and Viswanath (ICML 2015, theorem 3.3; IEEE Transactions on Information Theory 2017): k mechanisms of
(epsilon, 0), each chosen after the answers before it, are together (e, delta) for exactly those pairs for which k
binary randomised responses are. There l of k are "wrong" with the probability
P(l) = C(k, l) e^((k - l) epsilon) / (1 + e^epsilon)^k under one secret, and the loss is (k - 2l) epsilon, so that

    delta(e) = sum over l of P(l) max(0, 1 - e^(e - (k - 2l) epsilon)).

It holds whatever depends on what between frames, since each answer's noise is its own, and whatever else is known:
given the sequence of y, too. Of k-ary randomised response an answer says nothing with probability
``same`` = (k - 2) / (e^epsilon + k - 1), whatever the two categories are; the number of the others is binomial, and
delta the mean over it: exactly k-RR's own (its losses dominate adaptively, Zhu, Dong and Wang, AISTATS 2022).
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from edgeveil.edge_runtime.errors import BadInput

MOST_ANSWERS = 10**6
MOST_EXACT = 1000  # answers whose ``same`` counts; of more it is taken as 0, which is never too little
SLACK = 1e-9  # relative: what floating point may lose of a sum of probabilities


def delta_of_all(epsilon: float, answers: int, total: float, *, same: float = 0.0) -> float:
    """The least delta with which ``answers`` of ``epsilon`` each are (``total``, delta) together, for ``total`` >= 0.

    Raises ``BadInput`` for no answers, more than a million, or an epsilon that is not finite or below 0.
    """
    if not 1 <= answers <= MOST_ANSWERS or not 0 <= epsilon < np.inf:
        raise BadInput(
            f"Expected 1 to {MOST_ANSWERS:,} answers of a finite epsilon of at least 0; got {answers} of {epsilon}."
        )
    if not same or answers > MOST_EXACT:
        return _delta(epsilon, answers, total)
    number = np.arange(1, answers + 1)
    telling = stats.binom.pmf(number, answers, 1 - same)
    several = number[telling > 0]
    return float(min(1.0, telling[telling > 0] @ [_delta(epsilon, int(one), total) for one in several] * (1 + SLACK)))


def _delta(epsilon: float, answers: int, total: float) -> float:
    wrong = np.arange(answers + 1)
    gain = -np.expm1(np.minimum(total - (answers - 2 * wrong) * epsilon, 0.0))
    likely = stats.binom.pmf(wrong, answers, special.expit(-epsilon))
    return float(min(1.0, (likely * gain).sum() * (1 + SLACK)))


def epsilon_of_all(epsilon: float, answers: int, delta: float, *, same: float = 0.0) -> float:
    """The least total epsilon, from above to 1e-9, with which ``answers`` of ``epsilon`` each are (total, ``delta``).

    At most the sum, which needs no delta. Raises ``BadInput`` as ``delta_of_all``.
    """
    low, high = 0.0, answers * epsilon
    if delta_of_all(epsilon, answers, low, same=same) <= delta:
        return low
    while high - low > SLACK * max(1.0, high):
        middle = (low + high) / 2
        enough = delta_of_all(epsilon, answers, middle, same=same) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def most_right(epsilon: float, answers: int, prior: np.ndarray, *, same: float = 0.0) -> np.ndarray:
    """How often any attacker who sees all ``answers`` names z, at most: (n,) for priors (n, values of z) of z.

    The commonest value is guessed; of each other one at most delta(ln of their odds) of its chance is gained. With two
    values and binary responses this is the Bayes rate itself. ``prior`` may be one given anything, as all y of a track.
    """
    commonest = prior.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        odds = np.log(commonest) - np.log(prior)
    # Odds are rounded down to thousandths: delta is larger for less.
    known, place = np.unique(np.floor(1e3 * np.minimum(odds, 50.0)), return_inverse=True)
    gain = np.array([delta_of_all(epsilon, answers, one / 1e3, same=same) for one in known])[place.reshape(odds.shape)]
    gain[np.arange(len(prior)), prior.argmax(axis=1)] = 0.0
    return np.minimum(1.0, commonest[:, 0] + (prior * gain).sum(axis=1))
