"""What a code that tells nothing of a person can keep."""

import numpy as np
import pytest

from scripts.reproduce.series.most_kept import most_kept


def test_what_is_a_persons_own_cannot_be_kept():
    """Of a value that is half the person's and half the recording's: the root of a half, however few recordings."""
    rng = np.random.default_rng(0)
    y, z = np.repeat(np.arange(2), 6000), np.tile(np.repeat(np.arange(3000), 2), 2)
    recording = np.repeat(np.arange(12_000), 3)
    own, other = rng.normal(size=(2, 3000)), rng.normal(size=12_000)
    values = np.repeat(own[y, z] + other + 5 * y, 3)
    y, z = np.repeat(y, 3), np.repeat(z, 3)
    assert most_kept(values, y, z, recording) == pytest.approx(0.5**0.5, abs=0.03)
    assert most_kept(np.repeat(other, 3), y, z, recording) > 0.97
    assert most_kept(np.repeat(own.repeat(2), 3), y, z, recording) < 0.03
