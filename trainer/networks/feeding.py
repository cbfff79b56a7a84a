"""Batches for a training step, from memory or from disk, on one device or on several."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.samples import Stored
from edgeveil.trainer.progress import say

READERS = 2  # batches that are read at a time
AHEAD = 4  # batches that wait for the step


class Feed:
    """Samples u (n, ...) in the unit cube with values (n,) of each, as batches of a training step.

    ``batches`` gives what the step takes, and within the step's graph the feed itself makes samples and values of it.
    Arrays are in the graph and their rows are gathered there. Stored samples, and all where several devices train, are
    read by tf.data while the step before runs.
    """

    def __init__(self, u: np.ndarray, *values: np.ndarray) -> None:
        import tensorflow as tf

        self._u, self._values = u, values
        self._strategy = tf.distribute.get_strategy()
        self._read = isinstance(u, Stored) or replicas() > 1
        self._inside = () if self._read else tuple(map(tf.constant, (u, *values)))
        self._failed: Exception | None = None

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        """In the graph: samples and values of what ``batches`` gave."""
        import tensorflow as tf

        return given if self._read else tuple(tf.gather(one, given[0]) for one in self._inside)

    def some(self, rows: np.ndarray) -> Any:
        """The samples of these rows (m,)."""
        return np.asarray(self._u[rows])

    def batches(self, order: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """A batch for each row of ``order`` (steps, batch), row numbers. Raises ``BadInput`` of the samples' file."""
        import tensorflow as tf

        if not self._read:
            yield from ((tf.constant(rows),) for rows in order)
            return
        devices, (steps, batch) = replicas(), order.shape
        share = batch // devices
        order = order[:, : share * devices].reshape(steps * devices, share)
        kinds = [tf.float32, *(tf.as_dtype(one.dtype) for one in self._values)]

        def batch_of(rows: Any) -> Any:
            found = tf.numpy_function(self._of_rows, [rows], kinds)
            shapes = [(share, *self._u.shape[1:]), *((share, *one.shape[1:]) for one in self._values)]
            return tuple(tf.ensure_shape(one, shape) for one, shape in zip(found, shapes, strict=True))

        def made(_: Any = None) -> Any:
            data = tf.data.Dataset.from_tensor_slices(order)
            return data.map(batch_of, num_parallel_calls=READERS, deterministic=True).prefetch(AHEAD)

        try:
            yield from made() if devices == 1 else self._strategy.distribute_datasets_from_function(made)
        except tf.errors.OpError as error:
            raise self._failed or error from None

    def _of_rows(self, rows: np.ndarray) -> list[np.ndarray]:
        try:
            return [np.asarray(self._u[rows], np.float32), *(one[rows] for one in self._values)]
        except Exception as failed:
            self._failed = failed  # TensorFlow would make a text of it
            raise


# Several devices: every variable is mirrored, a batch is divided among them, and gradients are added up.


@contextmanager
def on_every_device(asked: bool) -> Iterator[None]:
    """Within the block networks are made and trained on all devices of one kind, where that is ``asked``."""
    if not asked:
        yield
        return
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    names = [one.name.rpartition("device:")[2] for one in devices]
    if len(names) < 2:
        say(f"--distribute: there is one device, {names[0]}, which trains alone.")
        yield
        return
    say(f"Training is distributed over {len(names)} devices: {', '.join(names)}.")
    with _strategy(*(one.name for one in devices)).scope():
        yield


@functools.cache
def _strategy(*devices: str) -> Any:
    """One for the process: the numbers by which devices add up would meet those of an earlier one."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(devices)


def replicas() -> int:
    """How many devices train."""
    import tensorflow as tf

    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def compiled(step: Callable[..., Any]) -> Any:
    """A training step, of what ``Feed.batches`` gives and further tensors, as a graph that runs on every device.

    What it returns, a tensor or a mapping of them, is the mean over the devices.
    """
    import tensorflow as tf

    if replicas() == 1:
        return tf.function(step, reduce_retracing=True)
    strategy = tf.distribute.get_strategy()

    @tf.function(reduce_retracing=True)
    def everywhere(*given: Any) -> Any:
        found = strategy.run(step, given)
        mean = (
            {name: strategy.reduce("MEAN", one, axis=None) for name, one in found.items()}
            if isinstance(found, dict)
            else strategy.reduce("MEAN", found, axis=None)
        )
        return mean

    return everywhere


def descend(loss: Any, tape: Any, model: Any, optimizer: Any) -> None:
    """One step of ``optimizer`` down the gradient of ``loss``, a mean over this device's share of the batch."""
    import tensorflow as tf

    # Keras adds up the gradients of all devices.
    share = None if replicas() == 1 or tf.distribute.in_cross_replica_context() else 1 / replicas()
    seed = None if share is None else tf.fill(tf.shape(loss), tf.cast(share, loss.dtype))
    optimizer.apply(tape.gradient(loss, model.trainable_variables, output_gradients=seed), model.trainable_variables)
