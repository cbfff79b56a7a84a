"""Attackers of tracks find what is planted, at T = 1, 4 and 16 and across tracks, and nothing where nothing is."""

import numpy as np
import pytest

from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.attacks.sequences import Tracks
from edgeveil.trainer.audit.sections import streams
from edgeveil.trainer.audit.sections.streams import sequence_network

CLASSES, CODES = (2, 3), 8

# Far from 1/3, chance, for 240 shuffled labels are like the true ones here and there; a leak gives 0.75 and more.
NO_LEAK = 0.55


def made(n=240, t=16, seed=0, leak=0.0):
    """Codes within y; with ``leak`` a share of them is the person's own."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, 3, n)
    code = rng.integers(0, 4, (n, t))
    code = np.where(rng.random((n, t)) < leak, z[:, None], code)
    return Tracks(y[:, None] * 4 + code, y, z)


def in_order(n=240, t=16, seed=0):
    """Every track has each code equally often and each pair nearly so; the person is in where the track begins."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, 3, n)
    return Tracks(y[:, None] * 4 + (np.arange(t)[None] + z[:, None]) % 4, y, z)


def test_every_family_finds_a_leak_and_more_of_it_in_longer_tracks():
    found = streams.accuracies(made(leak=0.25), classes=CLASSES, codes=CODES, trees=60)
    assert set(found["T=16"]) == set(streams.FAMILIES)
    for name in found["T=1"]:
        assert found["T=1"][name] < found["T=4"][name] < found["T=16"][name]
    assert min(found["T=16"].values()) > 0.6
    assert min(found["linked"].values()) > 0.9


def test_where_nothing_leaks_nothing_is_found():
    found = streams.accuracies(made(), classes=CLASSES, codes=CODES, trees=60)
    assert max(found["T=16"].values()) < 0.45
    permuted = streams.permuted(made(leak=0.5), np.random.default_rng(0))
    answers = streams.cross_validated(permuted, classes=CLASSES, codes=CODES, trees=60)
    assert max((p.argmax(axis=1) == permuted.z).mean() for p in answers.values()) < NO_LEAK


@pytest.mark.parametrize("attack", [sequences.timed_forest, sequence_network])
def test_order_is_seen_where_counts_say_nothing(attack):
    fit, test = in_order(), in_order(seed=1)
    blind = sequences.log_posteriors(fit, test, classes=CLASSES, codes=CODES).argmax(axis=1) == test.z
    seen = attack(fit, test, classes=CLASSES, codes=CODES).argmax(axis=1) == test.z
    assert blind.mean() < 0.45
    assert seen.mean() > 0.9


def test_two_networks_in_a_row_do_not_learn_from_each_other():
    fit, test = made(leak=0.4), made(leak=0.4, seed=1)
    first = sequence_network(fit, test, classes=CLASSES, codes=CODES)
    nothing = sequence_network(streams.permuted(fit, np.random.default_rng(0)), test, classes=CLASSES, codes=CODES)
    assert (first.argmax(axis=1) == test.z).mean() > 0.75
    assert (nothing.argmax(axis=1) == test.z).mean() < NO_LEAK


def test_a_track_is_judged_by_attackers_that_did_not_see_it():
    """z is the track's own number: only one who saw the very track could know it."""
    one = made(n=120, leak=0.0)
    for p in streams.cross_validated(one, classes=CLASSES, codes=CODES, trees=60).values():
        assert (p.argmax(axis=1) == one.z).mean() < 0.5


def test_few_tracks_of_everybody_do_not_push_attackers_below_chance():
    """Four tracks of each (y, z) and nothing to learn: dealing them out must not say who is left."""
    rng = np.random.default_rng(0)
    cells = np.repeat(np.arange(6), 4)
    right = []
    for seed in range(12):
        few = Tracks(np.zeros((24, 1), int) + 4 * (cells // 3)[:, None], cells // 3, cells % 3)
        few = few.take(np.sort(rng.permutation(24)[:20]))
        p = streams.cross_validated(few, classes=CLASSES, codes=CODES, trees=20, seed=seed)["sum of log-posteriors"]
        best = p >= p.max(axis=1, keepdims=True) - 1e-6  # ties count their share
        right.append((best[np.arange(20), few.z] / best.sum(axis=1)).mean())
    assert np.mean(right) == pytest.approx(1 / 3, abs=0.02)
