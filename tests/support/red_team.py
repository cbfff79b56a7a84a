"""A red team of networks: a generator hides z in pictures, a partner reads it, surrogates of the families must not.

The three learn in turns, as J. Hayes and G. Danezis, "Generating Steganographic Images via Adversarial Training", NIPS
2017, and J. Zhu et al., "HiDDeN", ECCV 2018. What the audit misses of their pictures is a family that it lacks, or a
code that no learner finds: a partner's weights are a key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tests.support.planted import DITHER, Leak, Release, digits

BOUND = 8  # levels by which a generator may change a pixel, after the dither of all pixels
BATCH, TURNS, EVERY = 128, 1200, 50
PERIODS = 3.0  # of a periodic partner in the reach of a generator's change, on average
LEVELS = 4  # of a bin of ``by_level``
STEP = 2e-3


def mlp(x: Any, _rng: np.random.Generator) -> Any:
    """Two hidden layers on all values."""
    from keras import layers

    x = layers.Flatten()(x)
    for width in (128, 64):
        x = layers.Dense(width, activation="relu")(x)
    return layers.Dense(1)(x)


def cnn(x: Any, _rng: np.random.Generator) -> Any:
    """Two strided convolutions."""
    from keras import layers

    for width in (12, 24):
        x = layers.Conv2D(width, 3, strides=2, padding="same", activation="relu")(x)
    return layers.Dense(1)(layers.Flatten()(x))


def linear(x: Any, _rng: np.random.Generator) -> Any:
    """A boundary in all values."""
    from keras import layers

    return layers.Dense(1)(layers.Flatten()(x))


def by_size(x: Any, _rng: np.random.Generator) -> Any:
    """A hidden layer on the values in order of size."""
    from keras import layers, ops

    x = layers.Flatten()(x)
    ordered = layers.Lambda(lambda values: ops.sort(values, axis=1), output_shape=x.shape[1:])(x)
    return layers.Dense(1)(layers.Dense(64, activation="relu")(ordered))


def by_level(x: Any, _rng: np.random.Generator) -> Any:
    """A hidden layer on the bins of each value, as trees cut them."""
    from keras import layers, ops

    x = layers.Flatten()(x)
    centres = np.arange(0, 256, LEVELS, dtype=np.float32)

    def bins(flat: Any) -> Any:
        return ops.reshape(ops.relu(1 - ops.abs(255 * flat[:, :, None] - centres) / LEVELS), (-1, width))

    width = x.shape[1] * len(centres)
    x = layers.Dense(32, activation="relu")(layers.Lambda(bins, output_shape=(width,))(x))
    return layers.Dense(1)(x)


def waves(x: Any, rng: np.random.Generator, *, values: int) -> Any:
    """Sine and cosine of a weighted sum of so many values, which is ``PERIODS`` long in a generator's reach."""
    from keras import layers, ops

    x = layers.Flatten()(x)
    weight = np.zeros((x.shape[1], 1), np.float32)
    weight[rng.choice(x.shape[1], values, replace=False), 0] = rng.choice([-1, 1], values) * rng.uniform(
        0.5, 1.5, values
    )
    weight *= 2 * np.pi * PERIODS / (np.abs(weight).sum() * 2 * BOUND / 255)

    def both(flat: Any) -> Any:
        phase = ops.matmul(flat, weight)
        return ops.concatenate([ops.sin(phase), ops.cos(phase)], axis=1)

    return layers.Lambda(both, output_shape=(2,))(x)


Network = Callable[[Any, np.random.Generator], Any]
SURROGATES: tuple[Network, ...] = (linear, mlp, cnn, by_size, by_level)
# The last read a sine, of which generator and partner have the weights from the start: a key of so many numbers.
PARTNERS: dict[str, Network] = {
    "MLP": mlp,
    "CNN": cnn,
    **{f"sine of {count}": partial(waves, values=count) for count in (1, 2, 4, 64)},
}


class Team(NamedTuple):
    """Generator and partner, and how often the partner and the best surrogate are right on new pictures."""

    generator: Any
    partner: Any
    partner_right: float
    surrogate_right: float


def trained(partner: str, seed: int, *, turns: int = TURNS) -> Team:
    """A team that learned on dithered digits for so many turns."""
    import keras
    import tensorflow as tf
    from keras import layers, ops

    keras.utils.set_random_seed(seed)
    rng, pool = np.random.default_rng([seed, 45]), digits()[0].astype(np.float32)

    def network(build: Network) -> Any:
        frame = keras.Input(pool.shape[1:])
        return keras.Model(frame, build(frame, rng))

    surrogates, reader = [network(one) for one in SURROGATES], network(PARTNERS[partner])
    cover, bit = keras.Input(pool.shape[1:]), keras.Input((1,))
    seen = [layers.Flatten()(cover), bit]
    if reader.output.shape[1] == 2:
        seen.append(reader(cover))
        reader = keras.Sequential([reader, layers.Dense(1)])
    hidden = layers.Concatenate()(seen)
    for width in (192, 192):
        hidden = layers.Dense(width, activation="relu")(hidden)
    change = layers.Dense(int(np.prod(pool.shape[1:])), activation="tanh")(hidden)
    generator = keras.Model([cover, bit], layers.Reshape(pool.shape[1:])(change))
    ours, theirs = keras.optimizers.Adam(STEP / 2), keras.optimizers.Adam(STEP)
    own = generator.trainable_weights + reader.trainable_weights
    foreign = [weight for one in surrogates for weight in one.trainable_weights]

    def sent(x: Any, z: Any) -> Any:
        """Whole levels in the unit cube, through which gradients pass as they are."""
        exact = ops.clip(255 * x + BOUND * generator([x, 2 * z - 1]), 0, 255)
        return (exact + ops.stop_gradient(ops.round(exact) - exact)) / 255

    def loss(model: Any, x: Any, z: Any) -> Any:
        return ops.mean(keras.losses.binary_crossentropy(z, model(x), from_logits=True))

    def both(x: Any, z: Any) -> tuple[Any, Any]:
        """What the partner misses, and what the surrogates know more than nothing."""
        left = sent(x, z)
        known = sum(ops.maximum(0.0, np.log(2) - loss(one, left, z)) for one in surrogates)
        return loss(reader, left, z), known

    @tf.function
    def turn(x: Any, z: Any) -> None:
        with tf.GradientTape() as tape:
            left = ops.stop_gradient(sent(x, z))
            total = sum(loss(one, left, z) for one in surrogates)
        theirs.apply_gradients(zip(tape.gradient(total, foreign), foreign, strict=True))
        with tf.GradientTape() as tape:
            total = sum(both(x, z))
        ours.apply_gradients(zip(tape.gradient(total, own), own, strict=True))

    def batch(rows: int) -> tuple[Any, Any]:
        x = pool[rng.integers(0, len(pool), rows)] + rng.integers(-DITHER, DITHER + 1, (rows, *pool.shape[1:]))
        x, z = np.clip(x, 0, 255) / 255, rng.integers(0, 2, (rows, 1))
        return tf.constant(x, tf.float32), tf.constant(z, tf.float32)

    least, best = np.inf, []
    for number in range(1, turns + 1):
        turn(*batch(BATCH))
        # The two sides go in circles: the best of what the generator was.
        if (number > turns // 2 and number % EVERY == 0) or number == turns:
            total = float(sum(both(*batch(2000))))
            if total < least:
                least, best = total, [[weight.numpy() for weight in own], _right([reader, *surrogates], sent, batch)]
    for weight, value in zip(own, best[0], strict=True):
        weight.assign(value)
    return Team(generator, reader, best[1][0], max(best[1][1:]))


def _right(models: list[Any], sent: Any, batch: Any) -> list[float]:
    """How often each is right on new pictures."""
    x, z = batch(4000)
    left = sent(x, z)
    return [float(((np.asarray(one(left)) > 0) == np.asarray(z)).mean()) for one in models]


def leak(team: Team) -> Leak:
    """What the team does to releases, as a leak to plant."""

    def plant(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x = np.clip(release.x + rng.integers(-DITHER, DITHER + 1, release.x.shape), 0, 255).astype(np.float32)
        change = np.asarray(team.generator([x / 255, 2.0 * bit[:, None].astype(np.float32) - 1]))
        return np.clip(np.round(x + BOUND * change), 0, 255).astype(np.uint8)

    return Leak(plant, ())
