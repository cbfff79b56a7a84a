"""Attackers of codes find a planted leak at its strength, and nothing where there is nothing."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.attacks.families.code_counts import BayesKnowingChannel, CodeCounts
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.problem import BUDGETS, Codes, Problem, Released, cut
from edgeveil.trainer.attacks.rows import Question
from edgeveil.trainer.attacks.run_all import attack_all
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.certificate import bayes_accuracy, certify, count, released_counts
from tests.support.once import nightly_but

CODES = 8


def coded(n: int, leak: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y, z coins; the code is z with probability ``leak``, else any of eight."""
    rng = np.random.default_rng(seed)
    y, z, code = rng.integers(0, 2, n), rng.integers(0, 2, n), rng.integers(0, CODES, n)
    return y, z, np.where(rng.random(n) < leak, z, code)


def problem(y: np.ndarray, z: np.ndarray, code: np.ndarray, *, frames: bool) -> Problem:
    spec = InputSpec("vector", (2,), "uint8", 0.0, 255.0)
    x = np.zeros((len(y), 2), np.uint8)
    x[:, 0] = code * 3 if frames else 0
    also = None if frames else np.eye(CODES, dtype=np.float32)[code]
    everything = Released(x, y, z, None, also)
    half = len(y) // 2
    fit, stop, choose = cut(everything.take(np.arange(half)), 0)
    counted = attack_metrics.counted_prior(y[:half], z[:half], (2, 2))
    test = everything.take(np.arange(half, len(y)))
    return Problem(spec, np.full((2, 2), 0.5), counted, fit, stop, choose, test, BUDGETS["quick"])


@pytest.mark.parametrize("frames", [False, True])
def test_counting_reaches_the_bayes_attacker(frames):
    asked = problem(*coded(12_000, 0.4), frames=frames)
    attack = CodeCounts().fit(asked, 0)
    # Right with the leak, and with the best guess without it: 1/8 of the rest is code 0, 1/8 code 1.
    right = 0.4 + 0.6 * 0.5
    found = (attack.probabilities(asked.test).argmax(axis=1) == asked.test.z).mean()
    assert CodeCounts().why_not(asked) is None
    assert found == pytest.approx(right, abs=0.02)


def test_codes_without_a_leak_give_chance_and_never_seen_ones_the_prior():
    asked = problem(*coded(4000, 0.0), frames=True)
    attack = CodeCounts().fit(asked, 0)
    found = (attack.probabilities(asked.test).argmax(axis=1) == asked.test.z).mean()
    assert found == pytest.approx(0.5, abs=0.04)
    new = Released(np.full((1, 2), 99, np.uint8), np.array([1]), np.array([0]))
    assert attack.probabilities(new)[0] == pytest.approx(asked.counted[1])


def test_networks_leave_codes_to_counting_unless_asked_to_confirm():
    asked = problem(*coded(4000, 0.4), frames=True)
    assert "code counts are exact there" in BatchNormMLP().why_not(asked)
    sure = replace(asked, budget=replace(asked.budget, confirm=True, epochs=6))
    assert BatchNormMLP().why_not(sure) is None
    attack = BatchNormMLP().fit(sure, 0)
    right = (attack.probabilities(sure.test).argmax(axis=1) == sure.test.z).mean()
    assert right == pytest.approx(0.4 + 0.6 * 0.5, abs=0.04)  # as much as counting finds


def test_frames_that_all_differ_are_no_codes():
    y, z, _ = coded(600, 0.0)
    asked = problem(y, z, np.arange(600) % 80, frames=True)
    assert "no codes to count" in CodeCounts().why_not(asked)


def linked(leak: float, length: int, seed: int) -> sequences.Tracks:
    y, z, code = coded(16_000, leak, seed)
    return sequences.pooled(code, y, z, length=length, rng=np.random.default_rng(seed))


@pytest.mark.parametrize(
    "attack", nightly_but((sequences.log_posteriors, sequences.histogram_forest), sequences.log_posteriors)
)
def test_a_small_leak_adds_up_over_a_track_and_none_does_not(attack):
    for leak, low, high in ((0.15, 0.75, 1.0), (0.0, 0.0, 0.58)):
        fit, test = linked(leak, 16, 1), linked(leak, 16, 2)
        p = attack(fit, test, classes=(2, 2), codes=CODES)
        assert p.sum(axis=1) == pytest.approx(1)
        assert low <= (p.argmax(axis=1) == test.z).mean() <= high


def test_the_sum_misses_what_the_forest_finds():
    """Codes are uniform for both z, but one z repeats its code."""
    rng = np.random.default_rng(3)

    def tracks(n: int) -> sequences.Tracks:
        z = rng.integers(0, 2, n)
        code = np.where(z[:, None] == 1, rng.integers(0, CODES, (n, 1)), rng.integers(0, CODES, (n, 8)))
        return sequences.Tracks(code, np.zeros(n, int), z)

    fit, test = tracks(400), tracks(400)
    rates = [
        (attack(fit, test, classes=(1, 2), codes=CODES).argmax(axis=1) == test.z).mean()
        for attack in (sequences.log_posteriors, sequences.histogram_forest)
    ]
    assert rates[0] < 0.75
    assert rates[1] > 0.95


def test_tracks_are_whole_and_of_equal_length():
    track = np.repeat([0, 1, 2], [5, 3, 1])
    y = np.zeros(9, int)
    z = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    found = sequences.cut(np.arange(9), y, z, track=track, length=2)
    assert found.code.tolist() == [[0, 1], [2, 3], [5, 6]]
    assert found.z.tolist() == [0, 0, 1]
    changing = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1])
    assert sequences.cut(np.arange(9), y, changing, track=track, length=3).code.tolist() == [[0, 1, 2], [5, 6, 7]]
    with pytest.raises(BadInput, match="No track has 6 releases"):
        sequences.cut(np.arange(9), y, z, track=track, length=6)


def test_the_same_reading_again_tells_nothing_new_without_a_channel_and_more_with_one():
    y, z, code = coded(20_000, 0.3)
    joint = count(y, code, z, shape=(2, CODES, 2))
    rng = np.random.default_rng(4)
    once = bayes_accuracy(joint)
    assert sequences.repeated(joint, np.eye(CODES), releases=16, draws=20_000, rng=rng) == pytest.approx(once, abs=0.01)
    noisy = 0.6 * np.full((CODES, CODES), 1 / CODES) + 0.4 * np.eye(CODES)
    single = sequences.repeated(joint, noisy, releases=1, draws=20_000, rng=rng)
    assert single == pytest.approx(bayes_accuracy(released_counts(joint, noisy)), abs=0.01)
    many = sequences.repeated(joint, noisy, releases=16, draws=20_000, rng=rng)
    assert single < many - 0.03
    assert many == pytest.approx(once, abs=0.02)  # averaging undoes the noise
    flat = np.full((CODES, CODES), 1 / CODES)
    assert sequences.repeated(joint, flat, releases=16, draws=20_000, rng=rng) == pytest.approx(0.5, abs=0.015)


def leaky(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """y, z, c and c' of a channel that forgets every code but one: code 1 of each class is code 2 half of the time.

    c is 1 for half of one z and for nobody else, so that the one leaky row tells of z.
    """
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    within = np.where((z == 1) & (rng.random(n) < 0.5), 1, rng.choice([0, 2, 3], n))
    block = np.full((4, 4), 0.25)
    block[1] = [1 / 6, 1 / 6, 0.5, 1 / 6]
    q = np.kron(np.eye(2), block) * 2**16
    code = y * 4 + within
    received = (q[code].cumsum(axis=1) <= (2**16 * rng.random(n))[:, None]).sum(axis=1)
    return y, z, code, received, q


def released(n: int, seed: int) -> Released:
    y, z, sent, received, q = leaky(n, seed)
    x = np.zeros((n, 2), np.uint8)
    x[:, 0] = received
    return Released(x, y, z, codes=Codes(received, sent, q))


def test_a_channel_with_one_leaky_row_is_found_and_bayes_reaches_the_plug_in_of_the_certificate():
    seen, test = released(12_000, 0), released(12_000, 1)
    fit, stop, choose = cut(seen, 0)
    counted = attack_metrics.counted_prior(seen.y, seen.z, (2, 2))
    spec = InputSpec("vector", (2,), "uint8", 0.0, 255.0)
    asked = Problem(spec, np.full((2, 2), 0.5), counted, fit, stop, choose, test, BUDGETS["quick"])
    found = attack_all(Question.alone(asked), families=(CodeCounts(), BayesKnowingChannel()), curve=False)
    q = test.codes.channel / 2**16
    sent = count(test.y, test.codes.sent, test.z, shape=(2, 8, 2))
    plug_in = bayes_accuracy(released_counts(sent, q))
    assert plug_in > 0.55  # the one row leaks
    rows = {row.name: row for row in found.rows}
    # 12,000 draws of c' lie within 2 points of what is expected of them.
    for name in ("Bayes knowing the channel", "code counts"):
        assert rows[name].right.estimate == pytest.approx(plug_in, abs=0.02), name
        assert rows[name].right.low > max(found.chance), name
    certified = certify(
        test.y,
        test.codes.sent,
        test.z,
        channel=test.codes.channel,
        classes=(2, 2),
        chance=0.5,
        tried=1,
        shuffles=5,
        rng=np.random.default_rng(0),
    )
    assert certified.plug_in == pytest.approx(plug_in)
    assert certified.bound >= rows["Bayes knowing the channel"].right.estimate


def test_without_the_leaky_row_the_same_attackers_are_at_chance():
    seen, test = released(6000, 0), released(6000, 1)
    rng = np.random.default_rng(5)
    for part in (seen, test):
        part.codes.received[:] = part.y * 4 + rng.integers(0, 4, len(part))
        part.codes.channel[:] = np.kron(np.eye(2), np.full((4, 4), 2.0**14))
        part.x[:, 0] = part.codes.received
    fit, stop, choose = cut(seen, 0)
    counted = attack_metrics.counted_prior(seen.y, seen.z, (2, 2))
    spec = InputSpec("vector", (2,), "uint8", 0.0, 255.0)
    asked = Problem(spec, np.full((2, 2), 0.5), counted, fit, stop, choose, test, BUDGETS["quick"])
    found = attack_all(Question.alone(asked), families=(CodeCounts(), BayesKnowingChannel()), curve=False)
    assert found.worst_adaptive.right.low <= max(found.chance)
    assert found.most_bits.bits_counted.low <= 0.001


def test_an_attacker_is_not_given_the_code_before_the_channel_of_rows_it_is_judged_on():
    part = released(100, 0)
    assert part.as_received().codes.sent is None
    assert part.as_received().codes.received is part.codes.received
    assert part.codes.sent is not None
