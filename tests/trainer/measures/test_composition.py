"""Optimal composition against every sequence of answers of small channels, counted in fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages.channel import Response, channel_of, same_of
from edgeveil.trainer.measures.composition import delta_of_all, epsilon_of_all, most_right

TOTALS = (0.0, 0.3, 1.0, 2.0)


def laws(table, stream):
    """P(answers | stream of categories) for all sequences of answers, exactly."""
    rows = [[Fraction(int(entry), int(row.sum(dtype=np.int64))) for entry in row] for row in table]
    return [
        math.prod(rows[x][a] for x, a in zip(stream, answers, strict=True))
        for answers in itertools.product(range(table.shape[1]), repeat=len(stream))
    ]


def mixture(table, streams):
    """The law of answers where a secret makes each of ``streams`` with a weight: frames may depend on each other."""
    each = [[weight * p for p in laws(table, stream)] for stream, weight in streams.items()]
    return [sum(ps) for ps in zip(*each, strict=True)]


def hockey_stick(p, q, total):
    return float(sum(max(0, a - Fraction(math.exp(total)) * b) for a, b in zip(p, q, strict=True)))


@pytest.mark.parametrize("alpha", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("answers", [1, 2, 4])
def test_it_is_what_binary_responses_reach_and_never_less(alpha, answers):
    table = channel_of(2, alpha)
    epsilon = float(Response().epsilon({}, [], table.tolist()))
    p, q = (laws(table, (z,) * answers) for z in (0, 1))
    for total in TOTALS:
        exact = hockey_stick(p, q, total)
        assert exact <= delta_of_all(epsilon, answers, total) <= exact + 1e-6


STREAMS = {  # of two secrets: categories of three frames that depend on each other in every way
    "the same": ({(0, 0, 0): 1}, {(1, 1, 1): 1}),
    "of one digit that stays or goes": ({(0, 0, 0): 0.7, (0, 0, 1): 0.3}, {(1, 1, 1): 0.6, (1, 2, 2): 0.4}),
    "that differ in their order alone": ({(0, 1, 2): 0.5, (2, 1, 0): 0.5}, {(1, 1, 1): 0.5, (0, 0, 2): 0.5}),
    "whose parity is the secret": ({(0, 0, 0): 0.5, (1, 1, 0): 0.5}, {(0, 1, 0): 0.5, (1, 0, 0): 0.5}),
}


@pytest.mark.parametrize("secret", STREAMS)
@pytest.mark.parametrize("alpha", [0.25, 1.0, 3.0])
def test_whatever_frames_have_to_do_with_each_other_it_holds(secret, alpha):
    table = channel_of(3, alpha)
    epsilon = float(Response().epsilon({}, [], table.tolist()))
    weighed = [{stream: Fraction(str(w)) for stream, w in one.items()} for one in STREAMS[secret]]
    p, q = (mixture(table, streams) for streams in weighed)
    for total in TOTALS:
        assert max(hockey_stick(p, q, total), hockey_stick(q, p, total)) <= delta_of_all(
            epsilon, 3, total, same=same_of(table)
        )
    for share in (0.5, 0.59, 0.9):
        right = float(sum(max(Fraction(1 - share) * a, Fraction(share) * b) for a, b in zip(p, q, strict=True)))
        assert right <= most_right(epsilon, 3, np.array([[1 - share, share]]), same=same_of(table))[0] + 1e-9


@pytest.mark.parametrize("alpha", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("k", [3, 5])
def test_of_k_ary_responses_it_is_exact_where_frames_are_the_same(alpha, k):
    table = channel_of(k, alpha)
    epsilon, same = float(Response().epsilon({}, [], table.tolist())), same_of(table)
    assert same == pytest.approx((k - 2) / (math.exp(alpha) + k - 1), abs=1e-8)
    p, q = (laws(table, (z,) * 3) for z in (0, 1))
    for total in TOTALS:
        exact = hockey_stick(p, q, total)
        assert exact <= delta_of_all(epsilon, 3, total, same=same) <= exact + 1e-6
        assert exact < delta_of_all(epsilon, 3, total) or exact == 0
    assert same_of(table[::-1]) == 0.0
    assert same_of(channel_of(2, alpha)) == 0.0


def test_one_answer_fewer_would_be_too_little():
    p, q = (laws(channel_of(2, 1.0), (z,) * 4) for z in (0, 1))
    assert hockey_stick(p, q, 1.0) > delta_of_all(1.0, 3, 1.0) + 0.01


def test_z_of_three_values_is_named_no_more_often_than_the_bound():
    table, prior = channel_of(3, 1.0), np.array([0.5, 0.3, 0.2])
    p = [laws(table, (z, z)) for z in range(3)]
    right = sum(max(Fraction(w) * one for w, one in zip(prior, ps, strict=True)) for ps in zip(*p, strict=True))
    (most,) = most_right(1.0, 2, prior[None])
    assert float(right) <= most < 0.95
    assert most_right(1.0, 2, np.array([[1.0, 0.0]])).tolist() == [1.0]


def test_epsilon_at_a_delta():
    assert epsilon_of_all(1.0, 4, 0.0) == pytest.approx(4.0, abs=1e-6)
    assert epsilon_of_all(0.1, 100, 1e-6) == pytest.approx(5.03, abs=0.35)
    assert epsilon_of_all(0.1, 100, 1e-6) < 10
    found = epsilon_of_all(0.5, 16, 1e-5)
    assert delta_of_all(0.5, 16, found) <= 1e-5 < delta_of_all(0.5, 16, found - 1e-3)
    assert epsilon_of_all(1.0, 1, 0.9) == 0.0


def test_what_is_no_answer_is_refused():
    for epsilon, answers in ((-1.0, 2), (float("inf"), 2), (1.0, 0)):
        with pytest.raises(BadInput, match="Expected 1 to 1,000,000 answers"):
            delta_of_all(epsilon, answers, 0.0)
