"""A 1-D convolutional network on the codes of a track, in order of time.

Tracks are few, so it is small, starts from log P(z|y) and sees all of them in every step.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import special

from edgeveil.trainer.attacks.sequences import Tracks, prior_of, timed

WIDTH = 24
STEPS = 45
RATE = 1.2e-2
DECAY = 0.02


def sequence_network(
    fit: Tracks, test: Tracks, *, classes: tuple[int, int], codes: int, steps: int = STEPS, seed: int = 0
) -> np.ndarray:
    """P(z | y, codes of the track in order), (tracks, classes of z), by two convolutions over time."""
    import tensorflow as tf

    model, optimizer, step = _network(fit.code.shape[1], codes + classes[0], classes[1])
    rng = np.random.default_rng(seed)
    model.set_weights([_fresh(weight.shape, rng) for weight in model.get_weights()])
    for variable in optimizer.variables:
        if variable is not optimizer.learning_rate:
            variable.assign(tf.zeros_like(variable))
    start = np.log(prior_of(fit, classes)).astype(np.float32)
    x, prior = tf.constant(timed(fit, classes=classes[0], codes=codes)), tf.constant(start[fit.y])
    z = tf.constant(fit.z, tf.int32)
    weight = tf.constant(np.ones(len(fit)) if fit.weight is None else fit.weight, tf.float32)
    for _ in range(steps):
        step(x, prior, z, weight)
    scores = model(timed(test, classes=classes[0], codes=codes)).numpy() + start[test.y]
    return np.asarray(special.softmax(scores, axis=1))


@functools.lru_cache(maxsize=8)
def _network(length: int, width: int, classes: int) -> tuple[Any, Any, Any]:
    """The network of that size, its optimizer and its step, traced once however many are trained."""
    import keras
    import tensorflow as tf

    from edgeveil.models.classifiers import track_network

    model = track_network(length, width, classes, channels=WIDTH)
    optimizer = keras.optimizers.AdamW(RATE, weight_decay=DECAY)
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(x: Any, prior: Any, z: Any, weight: Any) -> None:
        with tf.GradientTape() as tape:
            answers = model(x, training=True) + prior
            each = keras.losses.sparse_categorical_crossentropy(z, answers, from_logits=True)
            loss = tf.reduce_sum(weight * each) / tf.reduce_sum(weight)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    return model, optimizer, step


def _fresh(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """He's start for kernels, zeros for biases."""
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    return (rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype(np.float32)
