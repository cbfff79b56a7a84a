"""A codebook under [private]: what each part takes from training data goes through a Gaussian mechanism.

The trunk learns from the first slice by DP-SGD, y, the pairs (y, z) and T at once; codes and their pictures come of the
second one. A unit is in one slice, whatever the others do, so the two do not add up (parallel composition); on the
second slice codes and pictures share the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.ext import private
from edgeveil.trainer.ext.private import Secret, cross_entropy, guarded, noisy_pictures, train_encoder
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.measures.per_code import MOMENTS, moments
from edgeveil.trainer.perturbers.codebook import Codebook, funnel, training
from edgeveil.trainer.perturbers.codebook.funnel import IMITATION_SHARE, LARGEST_LOGIT, RAMP_SHARE
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.runs.run import Log

# T(x) under [private]: the same transform for everybody's data, since one that is fitted to them would tell of them.
#
# "pixels" are the means of 16 equal parts of a sample in place of principal components; moments are centred and scaled
# by figures for a drawing in the middle of a picture. What lies further than ``REACH`` is pulled back, so that sums of
# T have a bounded share of each unit.


REACH = 2.0  # the largest length of T, which has about unit variance
PARTS = 4  # each way
SPREAD = 0.25  # of a part's mean in the unit cube
MIDDLE = {"ink": (0.15, 0.05), "slant": (0.0, 0.3), "stroke": (3.0, 1.0)}  # and deviation


def fixed_kept(section: Codebook, u: np.ndarray) -> np.ndarray:
    """T (n, d), float32, of samples u (n, ...) in the unit cube; parts count by the section's ``weights``."""
    shares = np.ones(len(section.keep)) if section.weights is None else np.array(section.weights)
    parts = [_part(name, u) * np.sqrt(share) for name, share in zip(section.keep, shares / shares.sum(), strict=True)]
    joined = np.concatenate(parts, axis=1)
    length = np.linalg.norm(joined, axis=1, keepdims=True)
    return np.asarray(joined * np.minimum(1, REACH / np.maximum(length, 1e-12)), np.float32)


def _part(name: str, u: np.ndarray) -> np.ndarray:
    """One of ``keep`` (n, e), of about unit variance in all."""
    if name == "pixels":
        means = _means(u)
        return np.asarray((means - 0.5) / SPREAD / np.sqrt(means.shape[1]))
    names = MOMENTS if name == "moments" else (name,)
    values = moments(u)[:, [MOMENTS.index(one) for one in names]]
    middle, deviation = np.array([MIDDLE[one] for one in names]).T
    return np.asarray((values - middle) / deviation / np.sqrt(len(names)))


def _means(u: np.ndarray) -> np.ndarray:
    """Of 4 x 4 parts of pictures, or of 16 runs of a vector's values: (n, parts)."""
    if u.ndim == 4:
        rows = [part.mean(axis=(1, 3)) for part in np.array_split(u.astype(np.float64), PARTS, axis=1)]
        pieces = [part.mean(axis=1) for row in rows for part in np.array_split(row, PARTS, axis=1)]
    else:
        flat = u.reshape(len(u), -1).astype(np.float64)
        pieces = [part.mean(axis=1) for part in np.array_split(flat, min(PARTS**2, flat.shape[1]), axis=1)]
    return np.stack(pieces, axis=1)


# The funnel (codebook/funnel.py) with prices from noisy counts: one Gaussian mechanism a step pays for all it takes.
#
# A unit adds to a step its clipped gradient, its soft code q, counted in its cell (y, z), and q times T, summed in y.
# The lengths of these are at most the clip, 1 and ``REACH``; scaled, they are one vector of bounded length. The next
# step's prices come of the running noisy counts, so they cost nothing more. There is no k-means: codes start as what
# is nearest to points that are drawn from a seed, and no row's own share is left out of the counts, since noise hides
# it.


SHARE = 0.5  # of the squared sensitivity for counts and sums; half of it each
MEMORY = 0.97  # of the running counts, which averages noise over about thirty lots
FLOOR = 1.0  # of a running count: below it noise is all there is


class NoisyCodes:
    """For ``train_encoder``, ``beside`` and loss of ``head``: from trunk features to logits (n, classes of y * codes).

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

    def take_noisy(self, noisy: Sequence[np.ndarray]) -> None:
        """Take a lot's noisy sums into the running ones."""
        for running, one, unit in zip(self.variables, noisy, (2**0.5, REACH * 2**0.5), strict=False):
            running.assign(MEMORY * running + (unit * one).astype(np.float32))
        self._done.assign_add(1.0)


class Learned(NamedTuple):
    """An encoder, pictures of all codes, and the manifest's ``training``."""

    encoder: Any
    pictures: np.ndarray
    training: dict[str, Any]


def learn(dataset: Dataset, section: Codebook, asked: Private, *, rng: np.random.Generator, log: Log) -> Learned:
    """Train all of it. Raises ``BadInput`` where the budget does not fit the units of a slice."""
    from edgeveil.models import encoders

    noise, n_y, n_z = Secret(), len(dataset.y_names), len(dataset.z_names)
    below, label, first = _trunk(dataset, section, asked, rng=rng, noise=noise, log=log)
    part, rows, plan = guarded(dataset, asked)
    u, of, rows_of_copies = _copies(dataset.unit(part.x), rows, section, rng)
    retained = fixed_kept(section, u)
    head = encoders.code_head(section.features(dataset.input.kind), n_y, section.codes, width=section.width_of_head)
    codes = NoisyCodes(head, section, classes=(n_y, n_z), size=retained.shape[1], steps=plan.encoder.steps)
    labels = {
        "y": part.y[of].astype(np.int32),
        "z": part.z[of].astype(np.int32),
        "kept": retained,
        "start": codes.starting(retained, rng).astype(np.int32),
    }
    given: dict[str, Any] = {"noise": noise, "log": log, "loss": codes.loss, "name": "codes", "beside": codes}
    second = train_encoder(head, predict(below, u), labels, rows_of_copies, plan, **given)
    encoder = encoders.encoder(below, label, head)
    logits = dict(zip(encoder.output_names, predict(encoder, u[: len(part)]), strict=True))
    _, code = funnel.global_codes(logits["label_logits"], logits["code_logits"])
    count, sigma = n_y * section.codes, plan.pictures.sigma
    pictures = noisy_pictures(u[: len(part)], code, count, rows, sigma=sigma, noise=noise, log=log)
    unit = "row" if dataset.units is None else dataset.units.kind
    common = {"clip": asked.clip, "lot": asked.lot}
    spent = {
        "trunk": {**first, **common},
        "codes": {**plan.encoder.claim.as_dict(), **common, **second},
        "pictures": plan.pictures.as_dict(),
    }
    log.record(private={"unit": unit, "units": plan.units, **spent})
    return Learned(encoder, pictures, private.promise(asked, unit, _marks(asked)))


def _trunk(
    dataset: Dataset, section: Codebook, asked: Private, *, rng: np.random.Generator, noise: Secret, log: Log
) -> tuple[Any, Any, dict[str, Any]]:
    """The network below the heads, the head of y, and what the first slice's units spent."""
    import keras
    import tensorflow as tf

    from edgeveil.models import encoders

    part, rows, plan = guarded(dataset, asked, "classifiers")
    u, of, rows = _copies(dataset.unit(part.x), rows, section, rng)
    retained, n_y, n_z = fixed_kept(section, u), len(dataset.y_names), len(dataset.z_names)
    below = training.below(dataset.input, section)
    label = encoders.label_head(section.features(dataset.input.kind), n_y)
    h = below.output
    cells, reads = keras.layers.Dense(n_y * n_z, name="cells"), keras.layers.Dense(retained.shape[1], name="kept")
    model = keras.Model(below.inputs, [label(h), cells(h), reads(h)])

    def loss(outputs: Any, labels: Any) -> Any:
        y, cell, t = outputs
        missed = tf.reduce_sum(tf.square(t - labels["kept"]), axis=1)
        return cross_entropy(y, labels["y"]) + cross_entropy(cell, labels["cell"]) + missed

    y, cell = part.y[of].astype(np.int32), (part.y * n_z + part.z)[of].astype(np.int32)
    labels = {"y": y, "cell": cell, "kept": retained}
    steps = train_encoder(model, u, labels, rows, plan, noise=noise, log=log, loss=loss, name="trunk")
    return below, label, {**plan.encoder.claim.as_dict(), "units": plan.units, **steps}


def _copies(
    u: np.ndarray, rows: list[np.ndarray], section: Codebook, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Samples and their changed copies, the row each is of, and the rows of each unit: copies are their sample's."""
    copies, of = training.augmented(u, section, rng)
    starts = len(u) * np.arange(section.copies)
    return copies, of, [(mine[:, None] + starts).reshape(-1) for mine in rows]


def _marks(asked: Private) -> dict[str, Any]:
    """How each part depends on training data."""
    return {
        "models": {"encoder": private.mark("DP-SGD on two slices", 1 - asked.pictures)},
        "tables": {"pictures": private.mark("Gaussian mechanism", asked.pictures)},
        "range": private.PUBLIC,
    }
