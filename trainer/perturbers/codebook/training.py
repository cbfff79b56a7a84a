"""The trained parts of a codebook: a trunk that predicts y, z and T, and the codes on top of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.graphs.compilation import compile_built
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.measures.certificate import count, information
from edgeveil.trainer.perturbers.codebook import augment, funnel, residual
from edgeveil.trainer.recipe.perturber import Codebook

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
    compile_built(
        model,
        keras.optimizers.AdamW(schedule, weight_decay=section.weight_decay),
        [entropy, entropy, "mse"],
        # T has unit variance in all, so its mean squared error counts once per dimension.
        loss_weights=[1.0, 1.0, float(rows.kept.shape[1])],
    )

    def record(epoch: int, logs: dict[str, float] | None = None) -> None:
        loss = float((logs or {}).get("loss", np.nan))
        if not np.isfinite(loss):
            raise LimitNotMet(
                f"Training the encoder diverged in epoch {epoch + 1}: the loss is no longer a number. Lower "
                "`perturber.width` in the recipe and train into another folder."
            )
        report(epoch + 1, {"loss": loss})

    watch = keras.callbacks.LambdaCallback(on_epoch_end=record)
    model.fit(rows.features, [rows.y, cell, rows.kept], batch_size=batch, epochs=epochs, verbose=0, callbacks=[watch])
    return Trunk(network, label_head, cells, reads)


def code_head(
    rows: funnel.Rows,
    section: Codebook,
    *,
    classes: tuple[int, int],
    rng: np.random.Generator,
    report: Report,
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
    """The encoder whose codes describe what z does not explain of T (residual.py).

    ``before`` are the rows that the trunk learned from, ``rows`` those that codes are learned from; both have unit-cube
    samples in place of features.
    """
    import keras

    from edgeveil.models import encoders

    n_y, n_z = classes
    # The usual T needs no trunk, so both slices count; but its cells are those that the trunk was trained on.
    met = np.isin(rows.y * n_z + rows.z, before.y * n_z + before.z)
    normal = residual.usual(
        np.concatenate([before.kept, rows.kept[met]]).astype(np.float64),
        np.concatenate([before.y, rows.y[met]]),
        np.concatenate([before.z, rows.z[met]]),
        shrinkage=section.shrinkage(n_z),
    )
    h = trunk.below.output
    reader = keras.Model(trunk.below.inputs, [keras.layers.Softmax()(trunk.cells(h)), trunk.reads(h)])
    posterior, kept = (value.astype(np.float64) for value in predict(reader, rows.features))
    scores = residual.learn(
        kept,
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
    of_class = scores(kept, posterior).reshape(len(kept), n_y, section.codes)[np.arange(len(kept)), rows.y]
    counts = count(rows.y, of_class.argmax(axis=1), rows.z, shape=(n_y, section.codes, n_z))
    report(1, {"bits": information(counts)})
    return encoders.residual_encoder(
        trunk.below, trunk.label, trunk.cells, trunk.reads, slope=scores.slope, offset=scores.offset
    )


def augmented(u: np.ndarray, section: Codebook, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Unit-cube samples u (n, ...) with ``section.copies`` - 1 changed copies of each, and the row each is of."""
    images = [u]
    for _ in range(section.copies - 1):
        images.append(augment.images(u, shift=section.shift, scale=section.scale, offset=section.offset, rng=rng))
    return np.concatenate(images), np.tile(np.arange(len(u)), section.copies)
