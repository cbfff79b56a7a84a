"""A perturber of another package: all values of a vector become one level, their mean drawn towards the middle."""

from typing import Literal

from pydantic import Field

from edgeveil.trainer.perturbers.base import as_perturber
from edgeveil.trainer.recipe.perturber import Perturber


class Level(Perturber):
    """One level for all values of a vector."""

    kinds = ("level",)
    titles = ("A level",)

    kind: Literal["level"] = Field(description="All values become their mean.")
    share: float = Field(default=0.5, gt=0, le=1, description="Of the mean's distance to the middle that is kept.")

    def fit(self, dataset, **_):
        """One dense layer with fixed weights."""
        import keras
        import numpy as np

        n = dataset.input.shape[0]
        x = keras.Input((n,), name="sample")
        network = keras.Model(x, keras.layers.Dense(n, name="output")(x))
        middle = np.full(n, (1 - self.share) / 2, np.float32)
        network.set_weights([np.full((n, n), self.share / n, np.float32), middle])
        return as_perturber(dataset.input, network, kind=self.kind)
