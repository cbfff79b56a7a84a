"""An encoder trained by DP-SGD, which a killed training cannot make spend more than was planned.

Before steps begin they are written down as begun, ``BLOCK`` at a time, and what a resumed training does comes out of
the rest of the plan, with lots and noise drawn anew. The last weights are kept, or the average of those of the plan's
second half; nothing is chosen by validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.private import dpsgd
from edgeveil.trainer.private.noise import Noise
from edgeveil.trainer.private.shares import Shares, shares
from edgeveil.trainer.progress import progress
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.runs.log import Log

BLOCK = 10  # steps between checkpoints, and the most that a kill can cost


def guarded(dataset: Dataset, asked: Private) -> tuple[Part, list[np.ndarray], Shares]:
    """The rows that train what ships, those of each unit, and the budget's shares. Raises ``BadInput``."""
    if dataset.units is None:
        raise ValueError("[private] asks for data that were cut by unit")
    part, _ = fit_and_validation(dataset, "perturber")
    rows = dataset.units.rows(part.index)
    return part, rows, shares(asked, len(rows))


def train_encoder(
    model: Any, u: np.ndarray, labels: np.ndarray, rows: Sequence[np.ndarray], made: Shares, *, noise: Noise, log: Log
) -> dict[str, int]:
    """Train ``model`` (unit cube to logits) in place on samples u (n, ...); ``rows`` are those of each unit.

    Returns how many steps were ever ``begun``, which is what was spent, and how many the weights come of (``kept``).
    """
    import keras
    import tensorflow as tf

    asked, steps = made.asked, made.encoder.steps
    optimizer = keras.optimizers.Adam(asked.learning_rate)
    optimizer.build(model.trainable_variables)
    mean = keras.models.clone_model(model)
    last = log.checkpoint("perturber", model=model, optimizer=optimizer, mean=mean)
    book = log.checkpoint("perturber-begun")
    kept, averaged = (last.restore() or {"steps": (0, 0)})["steps"]
    before = max((book.restore() or {"begun": 0})["begun"], kept)
    left = steps - before

    def loss(logits: Any, of: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(of, logits)

    with whole_steps() as check, progress("encoder", total=steps, done=before) as advance:

        def after(number: int) -> None:
            nonlocal kept, averaged
            kept += 1
            if before + number > steps // 2:
                averaged += 1
                for total, one in zip(mean.trainable_variables, model.trainable_variables, strict=True):
                    total.assign_add((one - total) / averaged)
            advance()
            if number % BLOCK == 0 or number == left:
                last.save(steps=(kept, averaged))
                check()
                book.save(begun=before + min(number + BLOCK, left))

        if left:
            book.save(begun=before + min(BLOCK, left))
            rest = replace(made.encoder, steps=left)
            dpsgd.train(model, u, labels, loss, rest, rows=rows, optimizer=optimizer, noise=noise, after=after)
    if asked.average and averaged:
        model.set_weights(mean.get_weights())
    return {"begun": steps, "kept": kept}
