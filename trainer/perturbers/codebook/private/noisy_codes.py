"""The funnel (codebook/funnel.py) with prices from noisy counts: one Gaussian mechanism a step pays for all it takes.

A unit adds to a step its clipped gradient, its soft code q, counted in its cell (y, z), and q times T, summed in y. The
lengths of these are at most the clip, 1 and ``REACH``; scaled, they are one vector of bounded length. The next step's
prices come of the running noisy counts, so they cost nothing more. There is no k-means: codes start as what is nearest
to points that are drawn from a seed, and no row's own share is left out of the counts, since noise hides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgeveil.trainer.perturbers.codebook.funnel import IMITATION_SHARE, LARGEST_LOGIT, RAMP_SHARE
from edgeveil.trainer.perturbers.codebook.private.fixed_targets import REACH
from edgeveil.trainer.recipe.perturber import Codebook

SHARE = 0.5  # of the squared sensitivity for counts and sums; half of it each
MEMORY = 0.97  # of the running counts, which averages noise over about thirty lots
FLOOR = 1.0  # of a running count: below it noise is all there is


class NoisyCodes:
    """A ``dpsgd.Beside`` for ``head``, from trunk features to logits (n, classes of y * codes), and its loss.

    ``classes`` are the numbers of classes of y and of z, ``size`` is that of T, ``steps`` the plan's.
    """

    share = SHARE

    def __init__(self, head: Any, section: Codebook, *, classes: tuple[int, int], size: int, steps: int) -> None:
        import tensorflow as tf

        self._head, self._section, self._classes, self._steps = head, section, classes, steps
        (n_y, n_z), k = classes, section.codes
        self._counts, self._totals = tf.Variable(tf.zeros((n_y, n_z, k))), tf.Variable(tf.zeros((n_y, k, size)))
        self._done = tf.Variable(0.0)

    @property
    def variables(self) -> list[Any]:
        """What a checkpoint keeps: running counts and sums, and how many steps they are of."""
        return [self._counts, self._totals, self._done]

    def starting(self, kept: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The number (n,) of the point nearest to each T (n, d), of as many drawn points as there are codes."""
        points = rng.normal(size=(self._section.codes, kept.shape[1])) / np.sqrt(kept.shape[1])
        return np.asarray(((kept[:, None] - points) ** 2).sum(axis=2).argmin(axis=1))

    def loss(self, logits: Any, of: Any) -> Any:
        """Of each example (n,); ``of`` holds its ``y``, ``z``, ``kept`` (T) and ``start`` (its starting code)."""
        import tensorflow as tf

        (n_y, _), k, section = self._classes, self._section.codes, self._section
        every = tf.reshape(logits, (-1, n_y, k))
        mine = tf.gather(every, of["y"], axis=1, batch_dims=1)
        # Sums of codes over z are noisier than the counts alone; both are kept above the floor.
        counts = tf.maximum(self._counts, 0.0)
        mass = tf.reduce_sum(counts, axis=1) + FLOOR
        p_c = mass / tf.reduce_sum(mass, axis=1, keepdims=True)
        shrinkage = section.shrinkage(self._classes[1])
        p_cz = (counts + shrinkage * p_c[:, None]) / (tf.reduce_sum(counts, axis=2, keepdims=True) + shrinkage)
        centres = tf.clip_by_norm(self._totals / mass[:, :, None], REACH, axes=[2])
        far = tf.reduce_sum(tf.square(of["kept"][:, None] - tf.gather(centres, of["y"])), axis=2)
        log_share = tf.math.log(tf.gather(p_c, of["y"]))
        told = tf.math.log(tf.gather_nd(p_cz, tf.stack([of["y"], of["z"]], axis=1)) + 1e-9) - log_share
        done = self._done / self._steps
        lam = section.price * tf.clip_by_value((done - IMITATION_SHARE) / (RAMP_SHARE - IMITATION_SHARE), 0.0, 1.0)
        price = far + lam * told + section.evenness * log_share
        funnel = tf.reduce_sum(tf.nn.softmax(mine) * price, axis=1)
        copy = tf.nn.sparse_softmax_cross_entropy_with_logits(of["start"], mine)
        wide = tf.reduce_mean(tf.square(tf.nn.relu(tf.abs(every) - LARGEST_LOGIT)), axis=(1, 2))
        return tf.where(done < IMITATION_SHARE, copy, funnel) + wide

    def sums(self, inputs: Any, labels: Any, mask: Any) -> list[Any]:
        """Soft counts (y, z, codes) and sums of T (y, codes, d), scaled so that a unit adds at most 1 to both."""
        import tensorflow as tf

        n_y, n_z = self._classes
        every = tf.reshape(self._head(inputs, training=False), (-1, n_y, self._section.codes))
        q = tf.nn.softmax(tf.gather(every, labels["y"], axis=1, batch_dims=1)) * mask[:, None]
        counts = tf.math.unsorted_segment_sum(q, labels["y"] * n_z + labels["z"], n_y * n_z)
        totals = tf.math.unsorted_segment_sum(q[:, :, None] * labels["kept"][:, None], labels["y"], n_y)
        half = 0.5**0.5
        return [half * tf.reshape(counts, self._counts.shape), half / REACH * totals]

    def told(self, noisy: Sequence[np.ndarray]) -> None:
        """Take a lot's noisy sums into the running ones."""
        for kept, one, unit in zip(self.variables, noisy, (2**0.5, REACH * 2**0.5), strict=False):
            kept.assign(MEMORY * kept + (unit * one).astype(np.float32))
        self._done.assign_add(1.0)
