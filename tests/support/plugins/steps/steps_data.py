"""A data set of another package: made-up vectors in which a label moves one value."""

import numpy as np

from edgeveil.trainer.datasets.readings import DataSet, Readings


class Steps(DataSet):
    """600 vectors of 6 values, y in the first and z in the second."""

    names = ("steps",)
    licence = "CC0"
    sensor = "motion"

    @classmethod
    def read(cls, data, capture):
        """The made-up vectors."""
        rng = np.random.default_rng(0)
        y, z = rng.integers(0, 2, 600), rng.integers(0, 2, 600)
        x = rng.normal(size=(600, 6)).astype(np.float32)
        x[:, 0] += 4 * y
        x[:, 1] += 4 * z
        return Readings(x, y, z, ("slow", "fast"), ("one", "other"), "vector")
