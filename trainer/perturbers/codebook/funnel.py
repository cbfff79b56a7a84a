"""Learned codes, the *funnel*: one of K codes keeps what is wanted of x and carries little information about z.

Loss, for soft codes q(c|x) within the class y:  sum_c q_c |T(x) - mu_yc|^2 + lambda I(c; z | y) - eta H(c | y).

T(x) is what should survive. c is discrete, so I(c; z | y) is counted from the soft codes and is itself the penalty. No
adversary is trained, so none can be too weak. Given centres mu and counts the loss is linear in q,

    d loss / d q_c = |T - mu_yc|^2 + lambda log[P(c | z, y) / P(c | y)] + eta log P(c | y),

a *price* of every code for every row. It is held constant while the head learns to take the cheapest code, so q
sharpens by itself. Counts shrink towards P(c | y) and leave out the row's own group: with few rows per z, a code would
otherwise look like its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.measures.certificate import information
from edgeveil.trainer.measures.per_code import MOMENTS, moments
from edgeveil.trainer.perturbers.codebook import Codebook

# Sums and means of rows by group.


def group_sums(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """The sum (groups, d) of the rows of ``values`` (n, d) in each group; ``group`` (n,) numbers them."""
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, group, values)
    return sums


def group_means(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """The mean (groups, d) of the rows of ``values`` (n, d) in each group; 0 for a group without rows."""
    return group_sums(values, group, groups) / np.maximum(np.bincount(group, minlength=groups), 1)[:, None]


# The start: this share of the steps imitates k-means on what z does not explain, and the price of z grows over half.
IMITATION_SHARE = 0.15
RAMP_SHARE = 0.5
MEMORY = 0.9  # share of the running counts that a step keeps; steps on all rows need no memory
LEARNING_RATE = 3e-3
# Larger ones are pulled back: int8 has 255 steps for all logits, and one that is far out makes ties of the others.
LARGEST_LOGIT = 10.0


@dataclass(frozen=True)
class Rows:
    """What codes are learned from: features h (n, f) of a frozen trunk, T (n, d), y and z (n,).

    ``group`` (n,) numbers the samples: augmented copies of a sample share a number. None: every row is its own.
    """

    features: np.ndarray
    kept: np.ndarray
    y: np.ndarray
    z: np.ndarray
    group: np.ndarray | None = None


def learn(
    head: Any,
    rows: Rows,
    section: Codebook,
    *,
    classes: tuple[int, int],
    rng: np.random.Generator,
    report: Callable[[int, dict[str, float]], None],
) -> None:
    """Train ``head``, a Keras model from h (n, f) to logits (n, classes of y * codes), class by class.

    ``report`` is called ``reports(section.steps)`` times, with the step and its ``distortion`` and ``bits`` of the soft
    codes. Raises ``LimitNotMet`` where the loss stops being a number.
    """
    import tensorflow as tf

    n, steps = len(rows.y), section.steps
    batch = min(section.code_batch or n, n)
    start = starting_codes(rows, codes=section.codes, n_z=classes[1], rng=rng)
    step, counts = _training_step(head, rows, start, section, classes, memory=0.0 if batch == n else MEMORY)
    order, at = rng.permutation(n), 0
    for number in range(steps):
        if at + batch > n:
            order, at = rng.permutation(n), 0
        pick, at = order[at : at + batch], at + batch
        done = number / steps
        lam = section.price * min(1.0, max(0.0, done - IMITATION_SHARE) / (RAMP_SHARE - IMITATION_SHARE))
        loss, far = step(tf.constant(pick), tf.constant(lam, tf.float32), tf.constant(done < IMITATION_SHARE))
        if not np.isfinite(float(loss)):
            raise LimitNotMet(
                "Learning the codes diverged: the loss is no longer a number. Lower `perturber.price` in the recipe "
                "and train into another folder."
            )
        if (number + 1) % _every(steps) == 0:
            soft_counts = counts.numpy().reshape(*classes, section.codes)
            report(number + 1, {"distortion": float(far), "bits": information(soft_counts.transpose(0, 2, 1))})


def _training_step(
    head: Any, rows: Rows, start: np.ndarray, section: Codebook, classes: tuple[int, int], *, memory: float
) -> tuple[Any, Any]:
    """A compiled step (row numbers, lambda, whether to imitate ``start``) to (loss, distortion); and its counts."""
    import keras
    import tensorflow as tf

    (n_y, n_z), k, d = classes, section.codes, rows.kept.shape[1]
    group = np.arange(len(rows.y)) if rows.group is None else np.unique(rows.group, return_inverse=True)[1].reshape(-1)
    groups = int(group.max()) + 1
    features, t_all = tf.constant(rows.features, tf.float32), tf.constant(rows.kept, tf.float32)
    y_all, cell_all = tf.constant(rows.y, tf.int32), tf.constant(rows.y * n_z + rows.z, tf.int32)
    group_all, start_all = tf.constant(group, tf.int32), tf.constant(start, tf.int32)
    counts, sums = tf.Variable(tf.zeros((n_y * n_z, k))), tf.Variable(tf.zeros((n_y, k, d)))
    schedule = keras.optimizers.schedules.CosineDecay(LEARNING_RATE, section.steps)
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=section.weight_decay)
    optimizer.build(head.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(pick: tf.Tensor, lam: tf.Tensor, imitate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        t, y, cell = tf.gather(t_all, pick), tf.gather(y_all, pick), tf.gather(cell_all, pick)
        with tf.GradientTape() as tape:
            every = tf.reshape(head(tf.gather(features, pick), training=True), (-1, n_y, k))
            logits = tf.gather(every, y, axis=1, batch_dims=1)
            soft = tf.nn.softmax(logits)
            q = tf.stop_gradient(soft)
            counts.assign(memory * counts + tf.math.unsorted_segment_sum(q, cell, n_y * n_z))
            sums.assign(memory * sums + tf.math.unsorted_segment_sum(q[:, :, None] * t[:, None, :], y, n_y))
            mass = tf.reduce_sum(tf.reshape(counts, (n_y, n_z, k)), axis=1)
            own = q
            if rows.group is not None:
                of = tf.gather(group_all, pick)
                own = tf.gather(tf.math.unsorted_segment_sum(q, of, groups), of)
            p_c = tf.gather(mass / tf.reduce_sum(mass, axis=1, keepdims=True), y) + 1e-6
            others = tf.maximum(tf.gather(counts, cell) - own, 0.0)
            shrinkage, eta = section.shrinkage(n_z), section.evenness
            p_cz = (others + shrinkage * p_c) / (tf.reduce_sum(others, axis=1, keepdims=True) + shrinkage)
            centres = sums / (mass + 1e-6)[:, :, None]
            far = tf.reduce_sum(tf.square(t[:, None, :] - tf.gather(centres, y)), axis=2)
            log_share = tf.math.log(p_c)
            price = far + lam * (tf.math.log(p_cz + 1e-9) - log_share) + eta * log_share
            funnel = tf.reduce_mean(tf.reduce_sum(soft * price, axis=1))
            copy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(start_all, pick), logits))
            wide = tf.reduce_mean(tf.square(tf.nn.relu(tf.abs(every) - LARGEST_LOGIT)))
            loss = tf.where(imitate, copy, funnel) + wide
        optimizer.apply(tape.gradient(loss, head.trainable_variables), head.trainable_variables)
        return loss, tf.reduce_mean(tf.reduce_sum(q * far, axis=1))

    return step, counts


def reports(steps: int) -> int:
    """How often ``learn`` reports in so many steps: about ten times."""
    return steps // _every(steps)


def _every(steps: int) -> int:
    return max(1, steps // 10)


def starting_codes(rows: Rows, *, codes: int, n_z: int, rng: np.random.Generator) -> np.ndarray:
    """Codes (n,) by k-means within each class of y on T - E[T|y, z], which on average has nothing to do with z."""
    from sklearn.cluster import KMeans

    start = np.zeros(len(rows.y), np.int64)
    cell = rows.y * n_z + rows.z
    residual = rows.kept - group_means(rows.kept, cell, int(cell.max()) + 1)[cell]
    for value in np.unique(rows.y):
        of_class = np.flatnonzero(rows.y == value)
        k = min(codes, len(of_class))
        seed = int(rng.integers(2**31))
        start[of_class] = KMeans(k, n_init=3, random_state=seed).fit_predict(residual[of_class])
    return start


def global_codes(y_logits: np.ndarray, code_logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The predicted class (n,) and the code (n,) = class * K + code within it, as the runtime's tables take them, from
    logits (n, classes) and (n, classes * K)."""
    label = y_logits.argmax(axis=1)
    parts = code_logits.reshape(len(code_logits), y_logits.shape[1], -1)
    return label, label * parts.shape[2] + parts[np.arange(len(parts)), label].argmax(axis=1)


# T(x): what of a sample should survive in its code. The recipe's key ``keep`` decides it.
#
# Each part is centred, brought to unit variance in total, and weighted by the square root of its share, so that squared
# distances of T count every part by its share, however many dimensions it has.


PIXEL_COMPONENTS = 16

# From unit-cube samples u (n, ...) and their row numbers (n,) in the data set to values (n, d).
Values = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fit_kept(
    keep: Sequence[str],
    u: np.ndarray,
    rows: np.ndarray,
    *,
    y: np.ndarray,
    attributes: Mapping[str, np.ndarray] | None = None,
    weights: Sequence[float] | None = None,
) -> Values:
    """Fit T to the rows ``rows`` (n,), with samples u (n, ...) and y (n,); T is float32.

    ``keep`` names "pixels" (principal components), "moments" (``MOMENTS`` of an image), one of these, and attributes of
    the data set. ``weights`` are the shares of each in squared distances; None: all alike. ``attributes`` maps a name
    to values (N,) of the whole data set. T keeps what varies *within* y, since y is sent anyway. Raises ``BadInput``
    for an unknown name, a property that does not vary, or another number of weights.
    """
    if not keep or len(set(keep)) != len(keep):
        raise BadInput(f"`keep` must name at least one property, each once; got {list(keep)}.")
    shares = np.ones(len(keep)) if weights is None else np.array(weights)
    if len(shares) != len(keep):
        raise BadInput(f"`weights` must hold one number for each of the {len(keep)} of `keep`; got {len(shares)}.")
    parts = []
    for name, share in zip(keep, shares / shares.sum(), strict=True):
        of = source(name, u, attributes or {})
        values = of(u, rows)
        numbered = np.unique(y, return_inverse=True)[1].reshape(-1)
        residual = values - group_means(values, numbered, int(numbered.max()) + 1)[numbered]
        mean, matrix = values.mean(axis=0), _whitened(residual, pixels=name == "pixels")
        spread = float(((residual @ matrix) ** 2).sum(axis=1).mean())
        if not np.isfinite(spread) or spread < 1e-12:
            raise BadInput(f'`keep`: "{name}" does not vary within any class of y, so there is nothing to keep of it.')
        parts.append((of, mean, matrix * np.sqrt(share / spread)))
    return lambda u, rows: np.concatenate([(of(u, rows) - mean) @ matrix for of, mean, matrix in parts], axis=1).astype(
        np.float32
    )


def source(name: str, u: np.ndarray, attributes: Mapping[str, np.ndarray]) -> Values:
    """The values of a property that ``keep`` names. Raises ``BadInput`` where samples as u (n, ...) have none such."""
    if name == "pixels":
        return lambda u, _rows: u.reshape(len(u), -1).astype(np.float64)
    if name == "moments":
        if u.ndim != 4:
            raise BadInput(
                '`keep`: "moments" are of images; for vectors name "pixels" (their components) or an attribute.'
            )
        return lambda u, _rows: moments(u)
    if name in MOMENTS and u.ndim == 4:
        return lambda u, _rows: moments(u)[:, [MOMENTS.index(name)]]
    if name not in attributes:
        known = ", ".join(["pixels", *(["moments", *MOMENTS] if u.ndim == 4 else []), *attributes])
        raise BadInput(f'`keep`: there is no "{name}" in these data; it may name {known}.')

    def attribute(_u: np.ndarray, rows: np.ndarray) -> np.ndarray:
        values = np.asarray(attributes[name], np.float64)[rows]
        if values.ndim != 1 or not np.isfinite(values).all():
            raise BadInput(f'`keep`: "{name}" must hold one finite number for each sample; got shape {values.shape}.')
        return values[:, None]

    return attribute


def _whitened(residual: np.ndarray, *, pixels: bool) -> np.ndarray:
    """A matrix (d, e) to T's coordinates: principal components unscaled, other properties each to variance 1."""
    if not pixels:
        deviation = residual.std(axis=0)
        return np.diag(np.where(deviation > 1e-9, 1 / np.maximum(deviation, 1e-9), 0.0))
    if len(residual) < residual.shape[1]:  # large samples: of their covariance, few components are not 0
        return np.linalg.svd(residual - residual.mean(axis=0), full_matrices=False)[2][:PIXEL_COMPONENTS].T
    values, vectors = np.linalg.eigh(np.cov(residual, rowvar=False).reshape(residual.shape[1], -1))
    return vectors[:, np.argsort(-values)[:PIXEL_COMPONENTS]]
