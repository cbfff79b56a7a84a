"""Pictures of codes that are nobody's: drawn by a network from the code and noise.

The network is a conditional variational autoencoder: it learns how readings of a code look and differ, and then draws
new ones. What it draws is a table, fixed before anything is shipped, from which the board picks evenly: so what leaves
is a function of c' and fresh noise, exactly, on every board. No promise goes with it that nobody can be made out in a
picture, as with a centroid: on few readings a network may remember one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.perturbers.codebook.synthesis import SURE

TRIES = 4  # pictures drawn for each that is kept
BATCH = 128


@dataclass(frozen=True)
class DecoderSettings:
    """How a decoder is trained, and how many pictures of a code it draws; ``binary`` ones are drawn as 0 and 1."""

    copies: int
    steps: int
    latent: int
    binary: bool


def pictures(
    u: np.ndarray,
    code: np.ndarray,
    kept: np.ndarray,
    *,
    codes: int,
    per_class: int,
    settings: DecoderSettings,
    read: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    """The table float32 (codes * copies, *shape) in the unit cube, the pictures of a code after each other.

    u (n, ...) are readings, ``code`` (n,) theirs, ``kept`` (n, d) their T. ``read`` gives P(y | picture) (m, classes):
    of four pictures drawn those are kept that are read as their code's class, for else y would be lost. A code without
    readings looks like the commonest of its class. Raises ``BadInput`` where a class has none, ``LimitNotMet`` where
    training diverges.
    """
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(int(rng.integers(2**32)))
    condition = _conditions(code, kept, codes=codes, per_class=per_class)
    draw = _trained(u, condition[code], settings, rng)
    table = np.empty((codes, settings.copies, *u.shape[1:]), np.float32)
    for number in range(codes):
        count = TRIES * settings.copies
        noise = rng.normal(size=(count, settings.latent)).astype(np.float32)
        drawn = np.asarray(tf.sigmoid(draw([np.tile(condition[number], (count, 1)), noise], training=False)))
        if settings.binary:
            drawn = (rng.random(drawn.shape) < drawn).astype(np.float32)
        # Those that are sure enough count alike, so that not only the most typical are kept.
        sure = np.minimum(read(drawn)[:, number // per_class], SURE)
        table[number] = drawn[np.argsort(-sure, kind="stable")[: settings.copies]]
    return table.reshape(-1, *u.shape[1:])


def _conditions(code: np.ndarray, kept: np.ndarray, *, codes: int, per_class: int) -> np.ndarray:
    """What the decoder is told of every code, float32 (codes, codes + d): which one it is, and its mean T."""
    count = np.bincount(code, minlength=codes)
    means = np.zeros((codes, kept.shape[1]))
    np.add.at(means, code, kept)
    told = np.concatenate([np.eye(codes), means / np.maximum(count, 1)[:, None]], axis=1).astype(np.float32)
    for first in range(0, codes, per_class):
        mine = np.arange(first, first + per_class)
        if not count[mine].any():
            raise BadInput(
                f"No reading is taken for class {first // per_class} of y, so its codes have no pictures: train longer."
            )
        told[mine[count[mine] == 0]] = told[first + count[mine].argmax()]
    return told


def _trained(u: np.ndarray, condition: np.ndarray, settings: DecoderSettings, rng: np.random.Generator):
    import keras
    import tensorflow as tf

    from edgeveil.models import decoders

    latent, shape, told = settings.latent, u.shape[1:], condition.shape[1]
    draw, recognise = decoders.decoder(told, latent, shape), decoders.recogniser(told, latent, shape)
    variables = draw.trainable_variables + recognise.trainable_variables
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(2e-3, settings.steps))
    optimizer.build(variables)
    readings, conditions = tf.constant(u, tf.float32), tf.constant(condition)

    @tf.function(reduce_retracing=True)
    def step(rows: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        x, known = tf.gather(readings, rows), tf.gather(conditions, rows)
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(recognise([x, known], training=True), 2, axis=1)
            logits = draw([known, mean + noise * tf.exp(0.5 * log_variance)], training=True)
            apart = tf.nn.sigmoid_cross_entropy_with_logits(x, logits)
            apart = tf.reduce_sum(tf.reshape(apart, (tf.shape(x)[0], -1)), axis=1)
            divergence = 0.5 * tf.reduce_sum(tf.exp(log_variance) + tf.square(mean) - 1 - log_variance, axis=1)
            loss = tf.reduce_mean(apart + divergence)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    for number in range(settings.steps):
        rows = rng.integers(0, len(u), min(BATCH, len(u)))
        loss = step(tf.constant(rows), tf.constant(rng.normal(size=(len(rows), latent)), tf.float32))
        if not np.isfinite(float(loss)):
            raise LimitNotMet(
                f"Training the decoder diverged in step {number + 1}: its loss is no longer a number. Take "
                '`synthesis = "centroid"`, or train into another folder with another `seed`.'
            )
    return draw
