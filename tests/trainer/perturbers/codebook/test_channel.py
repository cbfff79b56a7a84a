"""The channel as it ships: integers that sum to a power of two."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages.random_draws import Channel
from edgeveil.trainer.measures import black_box
from edgeveil.trainer.perturbers.codebook import stream_codes


def test_the_shipped_integers_are_a_channel_and_close():
    q = np.random.default_rng(0).dirichlet(np.ones(5), 5)
    table = stream_codes.integers(q)
    Channel(table)  # the runtime's own check
    assert (table.sum(axis=1) == 2**16).all()
    assert np.abs(table / 2**16 - q).max() <= 2**-16


def test_equal_rows_stay_equal():
    table = stream_codes.integers(np.tile(np.array([1, 1, 1, 4.0]) / 7, (4, 1)))
    assert (table == table[0]).all()
    assert black_box.total_variation(table.astype(float)) == 0
    with pytest.raises(BadInput, match="at most 65536 codes; got 65537"):
        stream_codes.integers(np.ones((1, 2**16 + 1)))


def test_zero_stays_zero():
    table = stream_codes.integers(np.array([[0.3, 0.7, 0.0], [0.0, 0.0, 1.0]]))
    assert not table[0, 2]
    assert table[1].tolist() == [0, 0, 2**16]


def test_donors_are_picked_evenly():
    table = stream_codes.donors_within(2, 4)
    Channel(table)
    assert table.tolist() == [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    with pytest.raises(BadInput, match="power of two; got 3"):
        stream_codes.donors_within(2, 3)
