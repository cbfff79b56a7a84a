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


def right(fit, test, **settings):
    """How often each family is right about tracks that it did not learn on."""
    found = streams.posteriors(fit, test, classes=CLASSES, codes=CODES, trees=60, **settings)
    return {name: (p.argmax(axis=1) == test.z).mean() for name, p in found.items()}


def test_every_family_finds_a_leak_and_more_of_it_in_longer_tracks():
    found = [right(made(leak=0.25, t=length), made(leak=0.25, t=length, seed=1)) for length in (1, 4, 16)]
    assert set(found[2]) == set(streams.FAMILIES)
    for name in found[0]:
        assert found[0][name] < found[1][name] < found[2][name]
    assert min(found[2].values()) > 0.6


def test_where_nothing_leaks_nothing_is_found():
    assert max(right(made(), made(seed=1)).values()) < 0.45
    permuted = streams.permuted(made(leak=0.5), np.random.default_rng(0))
    assert max(right(permuted, made(leak=0.5, seed=1)).values()) < NO_LEAK


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
