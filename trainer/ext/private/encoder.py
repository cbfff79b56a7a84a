"""An encoder trained by DP-SGD, which a killed training cannot make spend more than was planned; and its pictures.

Before steps begin they are written down as begun, ``BLOCK`` at a time, and what a resumed training does comes out of
the rest of the plan, with lots and noise drawn anew. The last weights are kept, or the average of those of the plan's
second half; nothing is chosen by validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import Dataset, Part, SliceName
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.ext.private.noise import Noise, Shares, noisy_means, shares, train
from edgeveil.trainer.ext.private.per_example import Loss
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.progress import progress
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.runs.run import Log

BLOCK = 10  # steps between checkpoints, and the most that a kill can cost


def cross_entropy(logits: Any, of: Any) -> Any:
    """Of the class, for each example."""
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(of, logits)


def guarded(dataset: Dataset, asked: Private, name: SliceName = "perturber") -> tuple[Part, list[np.ndarray], Shares]:
    """The rows of a slice that train what ships, those of each unit, and the budget's shares. Raises ``BadInput``."""
    if dataset.units is None:
        raise ValueError("[private] asks for data that were cut by unit")
    part, _ = fit_and_validation(dataset, name)
    rows = dataset.units.rows(part.index)
    return part, rows, shares(asked, len(rows))


def train_encoder(
    model: Any,
    u: np.ndarray,
    labels: Any,
    rows: Sequence[np.ndarray],
    made: Shares,
    *,
    noise: Noise,
    log: Log,
    loss: Loss = cross_entropy,
    name: str = "perturber",
    beside: Any = None,
) -> dict[str, int]:
    """Train ``model`` in place on samples u (n, ...) and ``labels``, arrays (n, ...) or a dict of them.

    ``rows`` are those of each unit, ``name`` is that of the checkpoints, and ``beside`` a ``noise.Beside`` with the
    ``variables`` that a checkpoint must keep. Returns how many steps were ever ``begun``, which is what was spent, and
    how many the weights come of (``kept``).
    """
    import keras

    asked, steps = made.asked, made.encoder.steps
    optimizer = keras.optimizers.Adam(asked.learning_rate)
    optimizer.build(model.trainable_variables)
    mean = keras.models.clone_model(model)
    more = {} if beside is None else {"beside": beside}
    last = log.checkpoint(name, model=model, optimizer=optimizer, mean=mean, **more)
    book = log.checkpoint(f"{name}-begun")
    kept, averaged = (last.restore() or {"steps": (0, 0)})["steps"]
    before = max((book.restore() or {"begun": 0})["begun"], kept)
    left = steps - before

    word = "encoder" if name == "perturber" else name
    with whole_steps() as check, progress(word, total=steps, done=before) as advance:

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
            given = {"rows": rows, "optimizer": optimizer, "noise": noise, "after": after, "beside": beside}
            train(model, u, labels, loss, rest, **given)
    if asked.average and averaged:
        model.set_weights(mean.get_weights())
    return {"begun": steps, "kept": kept}


# Pictures of classes or codes by the Gaussian mechanism, which a resumed run does not draw again.


def noisy_pictures(
    u: np.ndarray, of: np.ndarray, count: int, rows: Sequence[np.ndarray], *, sigma: float, noise: Noise, log: Log
) -> np.ndarray:
    """The mean (count, *shape) of samples u (n, *shape) by the class or code ``of`` (n,); float32 in the unit cube.

    ``rows`` are the row numbers of each unit, ``sigma`` is the deviation of the noise on ``bounded_sums``.
    """
    import tensorflow as tf

    pictures = tf.Variable(tf.zeros((count, *u.shape[1:])))
    kept = log.checkpoint("pictures", pictures=SimpleNamespace(variables=[pictures]))
    if kept.restore() is None:  # drawn once: another draw of a resumed run would have to be paid for
        pictures.assign(noisy_means(u, of, count, rows, sigma=sigma, noise=noise))
        kept.save()
    return np.asarray(pictures.numpy())
