"""What label-only takes from training data under [private]: an encoder by DP-SGD, and pictures of the classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.private import cover
from edgeveil.trainer.private.noise import Secret
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.runs.run import Log
from edgeveil.trainer.training.checkpoint_score import guarded, noisy_pictures, train_encoder


def learn(dataset: Dataset, model: Any, asked: Private, log: Log) -> tuple[np.ndarray, dict[str, Any]]:
    """Train ``model`` in place; the pictures, float32 (classes of y, *shape), and the manifest's ``training``.

    Raises ``BadInput`` where the budget does not fit the data, or the network mixes the examples of a lot.
    """
    part, rows, made = guarded(dataset, asked)
    u, noise = dataset.unit(part.x), Secret()
    steps = train_encoder(model, u, part.y, rows, made, noise=noise, log=log)
    count, sigma = len(dataset.y_names), made.pictures.sigma
    pictures = noisy_pictures(u, part.y, count, rows, sigma=sigma, noise=noise, log=log)
    unit = "row" if dataset.units is None else dataset.units.kind
    log.record(
        private={
            "unit": unit,
            "units": made.units,
            "encoder": {**made.encoder.claim.as_dict(), "clip": asked.clip, "lot": asked.lot, **steps},
            "pictures": made.pictures.as_dict(),
        }
    )
    marks = {
        "models": {"classifier": cover.private("DP-SGD", 1 - asked.pictures)},
        "tables": {"means": cover.private("Gaussian mechanism", asked.pictures), "response": cover.PUBLIC},
        "range": cover.PUBLIC,
    }
    return pictures, cover.promise(asked, unit, marks)
