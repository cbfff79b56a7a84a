"""Fit Keras models by gradient steps whose loop is part of the graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

STEPS = 32  # batches between two looks at Ctrl-C
STOP_BATCH = 1024

Loss = Callable[[Any, Any], Any]  # (targets, outputs) of a batch -> their mean loss, a scalar tensor


def fit(
    model: Any,
    inputs: Any,
    targets: Any,
    loss: Loss,
    optimizer: Any,
    *,
    batch: int,
    epochs: int,
    stop: tuple[Any, Any] | None = None,
    patience: int = 0,
    report: Callable[[int, float], None] = lambda *_: None,
) -> None:
    """Train on ``inputs`` and ``targets``, arrays (n, ...) or lists or dictionaries of them, as the model takes them.

    All epochs have one order, drawn from the seed that ``keras.utils.set_random_seed`` set. With ``stop``, (inputs,
    targets) of other rows, training ends where the loss on them has not fallen for ``patience`` epochs, and the weights
    of the smallest are restored. It also ends where the loss is no longer finite. ``report`` is called after each epoch
    with its number from 1 and the mean loss.
    The weights are bit for bit those of Keras' ``fit``, which has that order too. For a small network its tracing and
    its loop over batches cost more than the arithmetic.
    """
    import tensorflow as tf

    optimizer.build(model.trainable_variables)  # in the first step it would be traced twice
    tensors = tf.nest.map_structure(_tensor, (inputs, targets))
    rows = int(tf.nest.flatten(tensors)[0].shape[0])
    stopping = None if stop is None else tf.nest.map_structure(_tensor, stop)

    def over(order: Any, size: int, data: Any, step: Callable[[Any, Any], Any]) -> Any:
        """The sum of ``step``'s losses over the batches of the rows ``order``, each times its number of rows."""
        count = tf.shape(order)[0]

        def body(start: Any, total: Any) -> tuple[Any, Any]:
            places = order[start : start + size]
            value = step(*tf.nest.map_structure(lambda tensor: tf.gather(tensor, places), data))
            return start + size, total + value * tf.cast(tf.shape(places)[0], value.dtype)

        return tf.while_loop(lambda start, _: start < count, body, (0, 0.0), parallel_iterations=1)[1]

    def judge(x: Any, known: Any, *, training: bool) -> Any:
        return sum([loss(known, model(x, training=training)), *model.losses])

    def descend(x: Any, known: Any) -> Any:
        with tf.GradientTape() as tape:
            value = judge(x, known, training=True)
        optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
        return value

    # Of any length: the last batches of an epoch are fewer, and would be traced anew.
    function = partial(tf.function, autograph=False, input_signature=[tf.TensorSpec([None], tf.int64)])
    trained = function(lambda order: over(order, batch, tensors, descend))
    judged = function(lambda order: over(order, STOP_BATCH, stopping, partial(judge, training=False)))
    best: tuple[float, list[np.ndarray] | None] = (math.inf, None)
    waited = 0
    (order,) = tf.data.Dataset.range(1).map(lambda _: tf.random.shuffle(tf.range(rows, dtype=tf.int64)))
    for epoch in range(epochs):
        total = sum(float(trained(order[at : at + STEPS * batch])) for at in range(0, rows, STEPS * batch))
        finite = math.isfinite(total)
        if stopping is not None:
            held_out = int(tf.nest.flatten(stopping)[0].shape[0])
            value = float(judged(tf.range(held_out, dtype=tf.int64)) / held_out)
            waited += 1
            if best[1] is None or value < best[0]:
                best, waited = (value, model.get_weights()), 0
        report(epoch + 1, total / rows)
        if not finite or (stopping is not None and epoch and waited >= patience):
            break
    if best[1] is not None:
        model.set_weights(best[1])


def total(losses: Any, weights: Any = None) -> Loss:
    """The weighted sum of ``losses``, a list or dictionary as the model's outputs are."""
    import tensorflow as tf

    weights = tf.nest.map_structure(lambda _: 1.0, losses) if weights is None else weights

    def of_batch(targets: Any, outputs: Any) -> Any:
        parts = tf.nest.map_structure(
            lambda loss, weight, *both: weight * loss(*both), losses, weights, targets, outputs
        )
        return sum(tf.nest.flatten(parts))

    return of_batch


def _tensor(values: np.ndarray) -> Any:
    import tensorflow as tf

    return tf.convert_to_tensor(values.astype(np.float32) if values.dtype == np.float64 else values)
