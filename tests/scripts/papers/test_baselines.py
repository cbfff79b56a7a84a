"""PASS keeps y and hides z, on data where each has a feature of its own."""

import numpy as np
import pytest

from scripts.papers import baselines
from tests.support.small_runs import small_run


@pytest.mark.nightly  # by day the records of its rows: test_pages.py
def test_substitutes_are_real_samples_that_tell_y_and_not_z():
    run = small_run(kind="label-only")
    dataset = run.dataset()
    sent = baselines.substitution(run, np.random.default_rng(0), steps=150).perturb(np.tile(dataset.x, (4, 1)))
    second = dataset.part("perturber")
    place = {row.tobytes(): number for number, row in enumerate(second.x)}
    drawn = np.array([place[row.tobytes()] for row in sent["frame"]])  # a KeyError is a sample that is not real
    assert len(set(drawn)) > 4
    assert (second.y[drawn] == np.tile(dataset.y, 4)).mean() > 0.8
    raw, left = (
        np.corrcoef(np.tile(dataset.z, 4), column)[0, 1]
        for column in (np.tile(dataset.x[:, 1], 4), sent["frame"][:, 1])
    )
    assert raw > 0.8
    assert abs(left) < 0.3
