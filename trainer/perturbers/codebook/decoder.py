"""Synthetic pictures of codes, drawn by a network from the code and noise.

The network is a conditional variational autoencoder: it learns how samples of a code look and differ, and then draws
new ones. They form a table, fixed before the export, from which the board picks evenly. So what is sent is a function
of c' and fresh noise, on every board. Unlike with a centroid, there is no guarantee that a picture shows no real
person: a network trained on few samples may remember one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.perturbers.codebook.group_means import group_means
from edgeveil.trainer.perturbers.codebook.synthesis import SURE
from edgeveil.trainer.recipe.perturber import Codebook

TRIES = 4  # pictures drawn for each that is kept
BATCH = 128


def pictures(
    u: np.ndarray,
    code: np.ndarray,
    kept: np.ndarray,
    *,
    codes: int,
    section: Codebook,
    binary: bool,
    read: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    """The table float32 (codes * donors, *shape) in the unit cube, the pictures of a code after each other.

    u (n, ...) are samples, ``code`` (n,) their codes, ``kept`` (n, d) their T. ``binary``: pixels are drawn as 0 and 1.
    ``read`` gives P(y | picture) (m, classes): four pictures are drawn for each that is kept, and those are kept that
    are classified as their code's class, or y would be lost. A code without samples looks like the commonest of its
    class. Raises ``BadInput`` where a class has no samples, ``LimitNotMet`` where training diverges.
    """
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(int(rng.integers(2**32)))
    condition = _conditions(code, kept, codes=codes, per_class=section.codes_of_class)
    draw = _trained(u, condition[code], section, rng)
    table = np.empty((codes, section.donors, *u.shape[1:]), np.float32)
    for number in range(codes):
        count = TRIES * section.donors
        noise = rng.normal(size=(count, section.latent)).astype(np.float32)
        drawn = np.asarray(tf.sigmoid(draw([np.tile(condition[number], (count, 1)), noise], training=False)))
        if binary:
            drawn = (rng.random(drawn.shape) < drawn).astype(np.float32)
        # Those that are sure enough count alike, so that not only the most typical are kept.
        sure = np.minimum(read(drawn)[:, number // section.codes_of_class], SURE)
        table[number] = drawn[np.argsort(-sure, kind="stable")[: section.donors]]
    return table.reshape(-1, *u.shape[1:])


def _conditions(code: np.ndarray, kept: np.ndarray, *, codes: int, per_class: int) -> np.ndarray:
    """The decoder's input for every code, float32 (codes, codes + d): which one it is, and its mean T."""
    count = np.bincount(code, minlength=codes)
    told = np.concatenate([np.eye(codes), group_means(kept, code, codes)], axis=1).astype(np.float32)
    for first in range(0, codes, per_class):
        mine = np.arange(first, first + per_class)
        if not count[mine].any():
            raise BadInput(
                f"No sample is classified as class {first // per_class} of y, so its codes have no pictures: train "
                "longer."
            )
        told[mine[count[mine] == 0]] = told[first + count[mine].argmax()]
    return told


def _trained(u: np.ndarray, condition: np.ndarray, section: Codebook, rng: np.random.Generator):
    import keras
    import tensorflow as tf

    from edgeveil.models import decoders

    latent, shape, told = section.latent, u.shape[1:], condition.shape[1]
    draw, recognise = decoders.decoder(told, latent, shape), decoders.recogniser(told, latent, shape)
    variables = draw.trainable_variables + recognise.trainable_variables
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(2e-3, section.decoder_steps))
    optimizer.build(variables)
    samples, conditions = tf.constant(u, tf.float32), tf.constant(condition)

    @tf.function(reduce_retracing=True)
    def step(rows: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        x, known = tf.gather(samples, rows), tf.gather(conditions, rows)
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(recognise([x, known], training=True), 2, axis=1)
            logits = draw([known, mean + noise * tf.exp(0.5 * log_variance)], training=True)
            apart = tf.nn.sigmoid_cross_entropy_with_logits(x, logits)
            apart = tf.reduce_sum(tf.reshape(apart, (tf.shape(x)[0], -1)), axis=1)
            divergence = 0.5 * tf.reduce_sum(tf.exp(log_variance) + tf.square(mean) - 1 - log_variance, axis=1)
            loss = tf.reduce_mean(apart + divergence)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    for number in range(section.decoder_steps):
        rows = rng.integers(0, len(u), min(BATCH, len(u)))
        loss = step(tf.constant(rows), tf.constant(rng.normal(size=(len(rows), latent)), tf.float32))
        if not np.isfinite(float(loss)):
            raise LimitNotMet(
                f"Training the decoder diverged in step {number + 1}: the loss is no longer a number. Set "
                '`synthesis = "centroid"`, or train into another folder with another `seed`.'
            )
    return draw
