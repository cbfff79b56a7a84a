"""A codebook under [private]: what each part takes from training data goes through a Gaussian mechanism.

The trunk learns from the first slice by DP-SGD, y, the pairs (y, z) and T at once; codes and their pictures come of the
second one. A unit is in one slice, whatever the others do, so the two do not add up (parallel composition); on the
second slice codes and pictures share the budget.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.perturbers.codebook import funnel, training
from edgeveil.trainer.perturbers.codebook.private.fixed_targets import fixed_kept
from edgeveil.trainer.perturbers.codebook.private.noisy_codes import NoisyCodes
from edgeveil.trainer.private import cover
from edgeveil.trainer.private.noise import Secret
from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.runs.log import Log
from edgeveil.trainer.training.private_encoder import cross_entropy, guarded, train_encoder
from edgeveil.trainer.training.private_pictures import noisy_pictures


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
    part, rows, made = guarded(dataset, asked)
    u, of, rows_of_copies = _copies(dataset.unit(part.x), rows, section, rng)
    kept = fixed_kept(section, u)
    head = encoders.code_head(section.features(dataset.input.kind), n_y, section.codes, width=section.width_of_head)
    codes = NoisyCodes(head, section, classes=(n_y, n_z), size=kept.shape[1], steps=made.encoder.steps)
    labels = {
        "y": part.y[of].astype(np.int32),
        "z": part.z[of].astype(np.int32),
        "kept": kept,
        "start": codes.starting(kept, rng).astype(np.int32),
    }
    given: dict[str, Any] = {"noise": noise, "log": log, "loss": codes.loss, "name": "codes", "beside": codes}
    second = train_encoder(head, predict(below, u), labels, rows_of_copies, made, **given)
    encoder = encoders.encoder(below, label, head)
    logits = dict(zip(encoder.output_names, predict(encoder, u[: len(part)]), strict=True))
    _, code = funnel.global_codes(logits["label_logits"], logits["code_logits"])
    count, sigma = n_y * section.codes, made.pictures.sigma
    pictures = noisy_pictures(u[: len(part)], code, count, rows, sigma=sigma, noise=noise, log=log)
    unit = "row" if dataset.units is None else dataset.units.kind
    common = {"clip": asked.clip, "lot": asked.lot}
    spent = {
        "trunk": {**first, **common},
        "codes": {**made.encoder.claim.as_dict(), **common, **second},
        "pictures": made.pictures.as_dict(),
    }
    log.record(private={"unit": unit, "units": made.units, **spent})
    return Learned(encoder, pictures, cover.promise(asked, unit, _marks(asked)))


def _trunk(
    dataset: Dataset, section: Codebook, asked: Private, *, rng: np.random.Generator, noise: Secret, log: Log
) -> tuple[Any, Any, dict[str, Any]]:
    """The network below the heads, the head of y, and what the first slice's units spent."""
    import keras
    import tensorflow as tf

    from edgeveil.models import encoders

    part, rows, made = guarded(dataset, asked, "classifiers")
    u, of, rows = _copies(dataset.unit(part.x), rows, section, rng)
    kept, n_y, n_z = fixed_kept(section, u), len(dataset.y_names), len(dataset.z_names)
    below = training.below(dataset.input, section)
    label = encoders.label_head(section.features(dataset.input.kind), n_y)
    h = below.output
    cells, reads = keras.layers.Dense(n_y * n_z, name="cells"), keras.layers.Dense(kept.shape[1], name="kept")
    model = keras.Model(below.inputs, [label(h), cells(h), reads(h)])

    def loss(outputs: Any, labels: Any) -> Any:
        y, cell, t = outputs
        missed = tf.reduce_sum(tf.square(t - labels["kept"]), axis=1)
        return cross_entropy(y, labels["y"]) + cross_entropy(cell, labels["cell"]) + missed

    y, cell = part.y[of].astype(np.int32), (part.y * n_z + part.z)[of].astype(np.int32)
    labels = {"y": y, "cell": cell, "kept": kept}
    steps = train_encoder(model, u, labels, rows, made, noise=noise, log=log, loss=loss, name="trunk")
    return below, label, {**made.encoder.claim.as_dict(), "units": made.units, **steps}


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
        "models": {"encoder": cover.private("DP-SGD on two slices", 1 - asked.pictures)},
        "tables": {
            "pictures": cover.private("Gaussian mechanism", asked.pictures),
        },
        "range": cover.PUBLIC,
    }
