"""Codes that tell z on fresh rows alone are counted there, and nowhere else."""

import numpy as np

from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices
from scripts.codebooks.slice_leaks import by_slice


def test_a_leak_on_fresh_rows_is_counted_on_the_slices_that_did_not_train():
    rng = np.random.default_rng(0)
    n = 4000
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    first, second, test, fresh = np.split(rng.permutation(n), 4)
    cut = Slices(first, second, test, fresh)
    x = np.zeros((n, 1), np.float32)
    spec = InputSpec("vector", (1,), "float32", None, None)
    data = Dataset("made", x, y, z, ("a", "b"), ("c", "d"), np.full((2, 2), 0.5), spec, cut)
    rows = cut.rows()
    tells = ~np.isin(rows, cut.training()) & (rng.random(n) < 0.3)
    code = np.where(tells, z[rows], rng.integers(0, 2, n))
    found = by_slice(data, code)
    for name, trained in (("classifiers", True), ("perturber", True), ("attack", False), ("test", False)):
        assert (found[name]["p"] > 0.01) == trained, name
        assert (found[name]["bits_over_shuffled"] > 0.02) != trained, name
