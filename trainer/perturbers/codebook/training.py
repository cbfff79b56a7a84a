"""The trained parts of a codebook: a trunk that predicts y, z and T, and the codes on top of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.graphs import fitting
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.measures.certificate import count, information
from edgeveil.trainer.perturbers.codebook import Codebook, funnel
from edgeveil.trainer.perturbers.codebook.funnel import group_means, group_sums

# Copies of a picture that show the same thing a little nearer, further away, larger or elsewhere.
#
# An encoder's errors about a person outside the training data repeat, and so identify that person. Training on copies
# makes errors rarer (docs/explanation/streams.md).


def changed_images(u: np.ndarray, *, shift: int, scale: float, offset: float, rng: np.random.Generator) -> np.ndarray:
    """One changed copy of each unit-cube picture u (n, height, width, channels); float32 of the same shape.

    Each is moved by up to ``shift`` pixels, made up to ``scale`` (a share) larger or smaller about its middle, and all
    its values except 0, the background, are shifted by up to ``offset`` together. The nearest pixel is taken, so that
    no value is a mean across an outline.
    """
    n, height, width, _ = u.shape
    by = rng.uniform(1 - scale, 1 + scale, (n, 1))
    moved = rng.integers(-shift, shift + 1, (n, 2))

    def source(size: int, axis: int) -> np.ndarray:
        middle = (size - 1) / 2
        return np.rint((np.arange(size)[None] - middle - moved[:, axis, None]) / by + middle).astype(np.int64)

    rows, columns = source(height, 0), source(width, 1)
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
    at = np.arange(n)[:, None, None], np.clip(rows, 0, height - 1)[:, :, None], np.clip(columns, 0, width - 1)[:, None]
    copy = u[at] * inside[..., None]
    step = rng.uniform(-offset, offset, (n, 1, 1, 1))
    return np.where(copy > 0, np.clip(copy + step, 1e-3, 1.0), 0.0).astype(np.float32)


# Codes of what z does not explain: for little data and many z, where a learned head would learn its own rows.
#
# The trunk predicts T^ and P(z | x, y). What is coded is the *residual* r = E_z[(T^ - m_yz) / s_yz | x], T relative to
# what is usual for its z. With the true z in place of P(z | x, y), mean and variance of r are the same for every z, so
# codes of r carry little information about z to begin with. The price of funnel.py, in expectation, takes off the rest:
#
#     c = argmin_c |r - mu_yc|^2 + lambda E_z[W_yzc | x],   W_yzc = log P(c | z, y) - log P(c | y)
#
# with counts that shrink towards P(c | y). Only means, scales, centres and prices are fitted, some 20 numbers for each
# z. A row's own z moves them by its share of a count and no more; a head of thousands of weights can follow every row.
#
# |r|^2 is the same for every c, so the score of a code is linear in the products P(z | x, y) T^_j and in P(z | x, y)
# itself. It is exported unchanged, as a softmax, three matrix products and one elementwise product.


ROUNDS = 150  # of counting and pricing
STEP = 0.1  # share of the new price in each: prices that jump to their target swing for ever


@dataclass(frozen=True)
class Usual:
    """What is usual of T for each *cell*, a pair (y, z) that occurs: ``mean`` and ``scale`` (cells, d).

    ``of_y`` and ``of_z`` (cells,) say which pair it is. The scale is relative: 1 where T varies as it does on average.
    """

    mean: np.ndarray
    scale: np.ndarray
    of_y: np.ndarray
    of_z: np.ndarray


@dataclass(frozen=True)
class Scores:
    """Score of a code = sum_cells P(cell) (slope (cells, d, codes) . T^ + offset (cells, codes)); codes of all y.

    A cell has scores for the codes of its own y alone, so P(cell) need not be divided by P(y).
    """

    slope: np.ndarray
    offset: np.ndarray

    def __call__(self, kept: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        """Logits (n, codes of all y) for T^ (n, d) and P(cell) (n, cells)."""
        slopes = np.einsum("nz,zdc->ndc", posterior, self.slope)
        return np.einsum("nd,ndc->nc", kept, slopes) + posterior @ self.offset


def usual(kept: np.ndarray, y: np.ndarray, z: np.ndarray, *, shrinkage: float) -> Usual:
    """Mean and relative scale of T (n, d) in each cell, shrunk by ``shrinkage`` rows towards those of all of its y."""
    cells, cell = np.unique(np.stack([y, z], axis=1), axis=0, return_inverse=True)
    cell, (of_y, of_z) = cell.reshape(-1), cells.T
    n = np.bincount(cell)[:, None]
    whole = group_means(kept, y, int(y.max()) + 1)[of_y]
    mean = (group_sums(kept, cell, len(cells)) + shrinkage * whole) / (n + shrinkage)
    square = (kept - mean[cell]) ** 2
    overall = np.maximum(square.mean(axis=0), 1e-12)
    scale = np.sqrt((group_sums(square, cell, len(cells)) + 2 * shrinkage * overall) / (n + 2 * shrinkage) / overall)
    return Usual(mean, scale, of_y, of_z)


def learn(
    kept: np.ndarray,
    posterior: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    normal: Usual,
    *,
    codes: int,
    classes: int,
    price: float,
    shrinkage: float,
    rng: np.random.Generator,
) -> Scores:
    """Centres by k-means on residuals, then prices by counting, class by class of the ``classes`` of y.

    ``kept`` (n, d) is T^ and ``posterior`` (n, cells) P(cell), both predicted by the trunk, best on rows that it was
    not trained on. ``price`` is lambda, in squared distance of T for one nat.
    """
    cells, d = normal.mean.shape
    slope, offset = np.zeros((cells, d, classes * codes)), np.zeros((cells, classes * codes))
    for value in np.unique(y):
        rows, mine = np.flatnonzero(y == value), np.flatnonzero(normal.of_y == value)
        place = np.searchsorted(normal.of_z[mine], z[rows])
        p = posterior[rows][:, mine]
        p = p / np.maximum(p.sum(axis=1, keepdims=True), 1e-9)
        mean, scale = normal.mean[mine], normal.scale[mine]
        residual = kept[rows] * (p @ (1 / scale)) - p @ (mean / scale)
        centres = _centres(residual, codes, rng)
        near = 2 * residual @ centres.T - (centres**2).sum(axis=1)
        # Rows of a z that never occurs in this class are priced as if z were not known.
        known = (place < len(mine)) & (normal.of_z[mine][np.minimum(place, len(mine) - 1)] == z[rows])
        w = _prices(near[known], p[known], place[known], price=price, shrinkage=shrinkage)
        of = slice(value * codes, (value + 1) * codes)
        slope[mine, :, of] = 2 * centres.T[None] / scale[:, :, None]
        offset[mine, of] = -2 * (mean / scale) @ centres.T - (centres**2).sum(axis=1) - price * w
    return Scores(slope, offset)


def _prices(near: np.ndarray, p: np.ndarray, z: np.ndarray, *, price: float, shrinkage: float) -> np.ndarray:
    """W (Z, K) for scores ``near`` (n, K), P(z|x) ``p`` (n, Z) and z (n,): the best round by near - lambda I(c; z)."""
    (n, k), n_z = near.shape, p.shape[1]
    w = best = np.zeros((n_z, k))
    best_value = -np.inf
    for _ in range(ROUNDS):
        code = (near - price * (p @ w)).argmax(axis=1)
        counts = np.zeros((n_z, k))
        np.add.at(counts, (z, code), 1.0)
        share = (counts.sum(axis=0) + 1) / (n + k)
        given = (counts + shrinkage * share) / (counts.sum(axis=1, keepdims=True) + shrinkage)
        # Valued by the same shrunk counts: plain ones would count noise as a leak.
        joint = given * counts.sum(axis=1, keepdims=True)
        value = near[np.arange(n), code].mean() - price * np.log(2) * information(joint.T[None])
        if value > best_value:
            best, best_value = w, value
        w = (1 - STEP) * w + STEP * (np.log(given) - np.log(share))
    return best


def _centres(residual: np.ndarray, codes: int, rng: np.random.Generator) -> np.ndarray:
    from sklearn.cluster import KMeans

    k = min(codes, len(np.unique(residual, axis=0)))
    centres = KMeans(k, n_init=3, random_state=int(rng.integers(2**31))).fit(residual).cluster_centers_
    # Fewer rows than codes: put the other centres where no row is near.
    return np.concatenate([centres, np.full((codes - k, residual.shape[1]), 1e3)])


Report = Callable[[int, dict[str, float]], None]
LEARNING_RATES = {"series": 3e-3}  # by the kind of input


class Trunk(NamedTuple):
    """``below`` from the unit cube to features, and on them ``label`` (a model), and layers for the pairs (y, z) that
    occur, by number (``cells``), and for T (``reads``)."""

    below: Any
    label: Any
    cells: Any
    reads: Any


def below(spec: InputSpec, section: Codebook) -> Any:
    """The network below the heads, untrained: from the unit cube to ``section.features(spec.kind)``."""
    from edgeveil.models import encoders, series

    features = section.features(spec.kind)
    if spec.kind == "series":
        steps, channels = spec.shape
        return series.trunk((steps, channels), width=section.width, features=features)
    if spec.kind == "image":
        height, width, channels = spec.shape
        return encoders.image_trunk((height, width, channels), width=section.width, features=features)
    return encoders.vector_trunk(spec.shape[0], width=section.width, features=features)


def trunk(
    spec: InputSpec,
    rows: funnel.Rows,
    section: Codebook,
    *,
    classes: int,
    epochs: int,
    batch: int,
    report: Report = lambda *_: None,
) -> Trunk:
    """Trunk and heads, trained to predict y, z and T: codes can only be kept free of a z that the trunk predicts.

    ``rows`` has unit-cube samples in place of features, ``classes`` is the number of classes of y. ``report`` is called
    after each epoch. Raises ``LimitNotMet`` where the loss stops being a number.
    """
    import keras

    from edgeveil.models import encoders

    network = below(spec, section)
    label_head = encoders.label_head(section.features(spec.kind), classes)
    n = len(rows.y)
    cell = np.unique(rows.y * (int(rows.z.max()) + 1) + rows.z, return_inverse=True)[1].reshape(-1)
    h = network.output
    cells = keras.layers.Dense(int(cell.max()) + 1, name="cells")
    reads = keras.layers.Dense(rows.kept.shape[1], name="kept")
    model = keras.Model(network.inputs, [label_head(h), cells(h), reads(h)])
    batch = min(batch, n)
    schedule = keras.optimizers.schedules.CosineDecay(LEARNING_RATES.get(spec.kind, 2e-3), epochs * -(-n // batch))
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # T has unit variance in all, so its mean squared error counts once per dimension.
    loss = fitting.total([entropy, entropy, keras.losses.MeanSquaredError()], [1.0, 1.0, float(rows.kept.shape[1])])
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=section.weight_decay)

    def record(epoch: int, mean: float) -> None:
        if not np.isfinite(mean):
            raise LimitNotMet(
                f"Training the encoder diverged in epoch {epoch}: the loss is no longer a number. Lower "
                "`perturber.width` in the recipe and train into another folder."
            )
        report(epoch, {"loss": mean})

    targets = [rows.y, cell, rows.kept]
    fitting.fit(model, rows.features, targets, loss, optimizer, batch=batch, epochs=epochs, report=record)
    return Trunk(network, label_head, cells, reads)


def code_head(
    rows: funnel.Rows, section: Codebook, *, classes: tuple[int, int], rng: np.random.Generator, report: Report
) -> Any:
    """A head from trunk features to the logits of every class's codes. Raises as ``funnel.learn``."""
    from edgeveil.models import encoders

    head = encoders.code_head(
        rows.features.shape[1], classes[0], section.codes, width=section.width_of_head, dropout=section.dropout
    )
    funnel.learn(head, rows, section, classes=classes, rng=rng, report=report)
    return head


def residual_encoder(
    trunk: Trunk,
    before: funnel.Rows,
    rows: funnel.Rows,
    section: Codebook,
    *,
    classes: tuple[int, int],
    rng: np.random.Generator,
    report: Report,
) -> Any:
    """The encoder whose codes describe what z does not explain of T.

    ``before`` are the rows that the trunk learned from, ``rows`` those that codes are learned from; both have unit-cube
    samples in place of features.
    """
    import keras

    from edgeveil.models import encoders

    n_y, n_z = classes
    # The usual T needs no trunk, so both slices count; but its cells are those that the trunk was trained on.
    met = np.isin(rows.y * n_z + rows.z, before.y * n_z + before.z)
    normal = usual(
        np.concatenate([before.kept, rows.kept[met]]).astype(np.float64),
        np.concatenate([before.y, rows.y[met]]),
        np.concatenate([before.z, rows.z[met]]),
        shrinkage=section.shrinkage(n_z),
    )
    h = trunk.below.output
    reader = keras.Model(trunk.below.inputs, [keras.layers.Softmax()(trunk.cells(h)), trunk.reads(h)])
    posterior, retained = (value.astype(np.float64) for value in predict(reader, rows.features))
    scores = learn(
        retained,
        posterior,
        rows.y,
        rows.z,
        normal,
        codes=section.codes,
        classes=n_y,
        price=section.price,
        shrinkage=section.shrinkage(n_z),
        rng=rng,
    )
    of_class = scores(retained, posterior).reshape(len(retained), n_y, section.codes)[np.arange(len(retained)), rows.y]
    counts = count(rows.y, of_class.argmax(axis=1), rows.z, shape=(n_y, section.codes, n_z))
    report(1, {"bits": information(counts)})
    return encoders.residual_encoder(
        trunk.below, trunk.label, trunk.cells, trunk.reads, slope=scores.slope, offset=scores.offset
    )


def augmented(u: np.ndarray, section: Codebook, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Unit-cube samples u (n, ...) with ``section.copies`` - 1 changed copies of each, and the row each is of."""
    images = [u]
    for _ in range(section.copies - 1):
        images.append(changed_images(u, shift=section.shift, scale=section.scale, offset=section.offset, rng=rng))
    return np.concatenate(images), np.tile(np.arange(len(u)), section.copies)
