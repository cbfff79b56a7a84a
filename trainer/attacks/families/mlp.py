"""A BatchNorm MLP: the best breaker of faces hidden by PR-GAN, where small CNNs stay 20 to 35 points behind."""

from __future__ import annotations

from typing import Any

from edgeveil.trainer.attacks.families.networks import Network


def mlp_trunk(frame: Any, widen: int) -> Any:
    """Two hidden layers of 384 and 192 with BatchNorm and a little dropout. Widened is the first, by the square."""
    from keras import layers

    x = layers.Flatten()(frame)
    for width in (384 * widen**2, 192):
        x = layers.Dense(width, use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9)(x)
        x = layers.ReLU()(x)
        x = layers.Dropout(0.2)(x)
    return x


class BatchNormMLP(Network):
    """A network of two hidden layers with BatchNorm on all values."""

    name = "BatchNorm MLP"
    order = 13
    trunk = staticmethod(mlp_trunk)
    rate = 2e-3
    confirms = True
    swept = True
