"""What of a release is learned: a trunk that knows y, z and T, and on it the codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edge_runtime.errors import LimitNotMet
from trainer.datasets.base import InputSpec
from trainer.perturbers.release import augment, codes
from trainer.perturbers.sections import Release

Report = Callable[[int, dict[str, float]], None]


def trunk(
    spec: InputSpec,
    rows: codes.Rows,
    section: Release,
    *,
    classes: int,
    epochs: int,
    batch: int,
    report: Report = lambda *_: None,
) -> tuple[Any, Any]:
    """Trunk and label head, trained to read y, z and T: a code can only be kept free of a z that the trunk knows of.

    ``rows`` has unit-cube readings in place of features, ``classes`` is the number of classes of y. ``report`` is
    called after each epoch. Raises ``LimitNotMet`` where the loss stops being a number.
    """
    import keras

    from models import encoders

    if spec.kind == "image":
        height, width, channels = spec.shape
        below = encoders.image_trunk((height, width, channels), width=section.width, features=section.features)
    else:
        below = encoders.vector_trunk(spec.shape[0], width=section.width, features=section.features)
    label_head = encoders.label_head(section.features, classes)
    n = len(rows.y)
    cell = np.unique(rows.y * (int(rows.z.max()) + 1) + rows.z, return_inverse=True)[1].reshape(-1)
    h = below.output
    outputs = [
        label_head(h),
        keras.layers.Dense(int(cell.max()) + 1, name="cells")(h),
        keras.layers.Dense(rows.kept.shape[1], name="kept")(h),
    ]
    model = keras.Model(below.inputs, outputs)
    batch = min(batch, n)
    schedule = keras.optimizers.schedules.CosineDecay(section.learning_rate, epochs * -(-n // batch))
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.AdamW(schedule, weight_decay=section.weight_decay),
        loss=[entropy, entropy, "mse"],
        # T has unit variance in all, so its mean squared error counts once per dimension.
        loss_weights=[1.0, 1.0, float(rows.kept.shape[1])],
    )

    def record(epoch: int, logs: dict[str, float] | None = None) -> None:
        loss = float((logs or {}).get("loss", np.nan))
        if not np.isfinite(loss):
            raise LimitNotMet(
                f"Training the encoder diverged in epoch {epoch + 1}: its loss is no longer a number. Lower "
                "`perturber.learning_rate` in the recipe and train into another folder."
            )
        report(epoch + 1, {"loss": loss})

    watch = keras.callbacks.LambdaCallback(on_epoch_end=record)
    model.fit(rows.features, [rows.y, cell, rows.kept], batch_size=batch, epochs=epochs, verbose=0, callbacks=[watch])
    return below, label_head


def code_head(
    rows: codes.Rows, section: Release, *, classes: tuple[int, int], rng: np.random.Generator, report: Report
) -> Any:
    """A head from trunk features to the logits of every class's codes. Raises ``LimitNotMet`` as above."""
    from models import encoders

    head = encoders.code_head(
        section.features, classes[0], section.codes, width=section.width_of_head, dropout=section.dropout
    )
    settings = codes.FunnelSettings(
        codes=section.codes,
        lam=section.price,
        steps=section.steps,
        batch=section.code_batch or None,
        shrinkage=section.shrinkage,
        weight_decay=section.weight_decay,
    )
    try:
        codes.learn(head, rows, settings, classes=classes, rng=rng, report=report)
    except FloatingPointError:
        raise LimitNotMet(
            "Learning the codes diverged: their loss is no longer a number. Lower `perturber.price` in the recipe and "
            "train into another folder."
        ) from None
    return head


def augmented(u: np.ndarray, section: Release, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Unit-cube readings u (n, ...) and ``section.copies`` - 1 changed copies of each, and whose copy each is."""
    images = [u]
    for _ in range(section.copies - 1):
        images.append(augment.images(u, shift=section.shift, scale=section.scale, offset=section.offset, rng=rng))
    return np.concatenate(images), np.tile(np.arange(len(u)), section.copies)
