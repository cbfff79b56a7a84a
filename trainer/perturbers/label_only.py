"""Label-only: only the predicted y is sent, as that class's mean training sample.

The floor that every perturber is compared with: beyond y it leaks only the errors of y-hat. Sent as a *random donor*,
any real sample of the class, it even trains models and looks real: these two measures alone prove nothing.

Under [private] the network and the means come of private mechanisms (``private_label_only``). With an ``epsilon`` the
class passes randomised response first, and all that leaves is made of its answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages.channel import channel_of
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.perturbers import private_label_only
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.perturbers.codebook.stream_codes import donors_within, draw_stage
from edgeveil.trainer.perturbers.codebook.synthesis import check_consent
from edgeveil.trainer.recipe.perturber import LabelOnly
from edgeveil.trainer.recipe.training_sections import Budget
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage
from edgeveil.trainer.runs.run import Log
from edgeveil.trainer.training import classifiers

SENT = "label"  # the class that leaves, and what pictures are drawn of


def fit(
    section: LabelOnly, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
) -> FittedPerturber:
    """Label-only with D_y, or with the small network that the section asks for.

    Raises ``LimitNotMet`` where training diverges, ``BadInput`` for donors without consent.
    """
    if section.picture == "donor":
        check_consent(dataset.consent, public=section.public_data)  # before the slow part
    if section.network == "target":
        return _draw(dataset, goal.target, section, rng)
    import keras

    keras.utils.set_random_seed(int(rng.integers(2**32)))
    model = classifiers.build(section.network, dataset.input, len(dataset.y_names), width=section.width)
    if goal.private is not None:
        means, training = private_label_only.learn(dataset, model, goal.private, log)
        return replace(with_means(dataset, model, means, epsilon=section.epsilon), training=training)
    to_fit, to_choose = fit_and_validation(dataset, "perturber")
    classifiers.train_one(
        model,
        (dataset.unit(to_fit.x), to_fit.y),
        (dataset.unit(to_choose.x), to_choose.y),
        settings=goal.classifiers,
        batch=budget.batch,
        epochs=budget.epochs,
        seed=dataset.seed,
        log=log,
        stage="perturber",
    )
    return _draw(dataset, model, section, rng)


def from_classifier(dataset: Dataset, model: Any, *, epsilon: float | None = None) -> FittedPerturber:
    """Label-only with a given classifier (a Keras model from the unit cube to logits (n, classes of y))."""
    part = dataset.part("perturber")
    u = dataset.unit(part.x)
    means = np.stack([u[part.y == label].mean(axis=0) for label in range(len(dataset.y_names))]).astype(np.float32)
    return with_means(dataset, model, means, epsilon=epsilon)


def with_means(dataset: Dataset, model: Any, means: np.ndarray, *, epsilon: float | None = None) -> FittedPerturber:
    """Label-only with a given classifier and pictures of the classes, float32 (classes of y, *shape) in the cube."""
    row = {"stage": "synthesis", "op": "row", "input": SENT, "table": "means", "output": "v"}
    return _assemble(dataset, model, (row,), {"means": means}, epsilon)


def as_donor(
    dataset: Dataset,
    model: Any,
    rng: np.random.Generator,
    *,
    donors: int = 256,
    allowed: np.ndarray | None = None,
    epsilon: float | None = None,
) -> FittedPerturber:
    """Label-only as a random donor of the predicted class, one of ``donors`` (a power of two) that ``rng`` draws now.

    ``allowed`` (N,) marks the samples that may be shown; None: all, for tables of results or for public data. Raises
    ``BadInput`` where a class has no donor.
    """
    part = dataset.part("perturber")
    may = np.ones(len(part), bool) if allowed is None else allowed[part.index]
    rows = []
    for label, name in enumerate(dataset.y_names):
        mine = rng.permutation(np.flatnonzero((part.y == label) & may))
        if not len(mine):
            raise BadInput(f'No sample of y "{name}" may be shown: ask for consent, or set `picture = "mean"`.')
        rows.append(np.resize(mine, donors))
    tables = {
        "pictures": dataset.unit(part.x[np.concatenate(rows)]),
        "donors": donors_within(len(dataset.y_names), donors),
    }
    draw = draw_stage(SENT, "donors", "donor")
    row = {"stage": "synthesis", "op": "row", "input": "donor", "table": "pictures", "output": "v"}
    return replace(_assemble(dataset, model, (draw, row), tables, epsilon), substituted=True)


def _draw(dataset: Dataset, model: Any, section: LabelOnly, rng: np.random.Generator) -> FittedPerturber:
    if section.picture == "mean":
        return from_classifier(dataset, model, epsilon=section.epsilon)
    allowed = check_consent(dataset.consent, public=section.public_data)
    return as_donor(dataset, model, rng, donors=section.donors, allowed=allowed, epsilon=section.epsilon)


def _assemble(
    dataset: Dataset,
    model: Any,
    picture: tuple[dict[str, Any], ...],
    tables: dict[str, np.ndarray],
    epsilon: float | None,
) -> FittedPerturber:
    """The manifest's stages around a classifier and the ``picture`` stages from ``SENT`` to ``v``."""
    told = SENT if epsilon is None else "predicted"
    stages = [*class_of(dataset.input, model, told)]
    if epsilon is not None:
        tables = {**tables, "response": channel_of(len(dataset.y_names), epsilon)}
        stages.append(draw_stage(told, "response", SENT))
    return FittedPerturber(
        kind="label-only",
        input=dataset.input,
        stages=(*stages, *picture, output_stage(dataset.input)),
        outputs=(
            frame_output(dataset.input),
            {"name": "label", "kind": "label", "tensor": SENT, "shape": [], "dtype": "int64"},
        ),
        models={"classifier": model},
        tables=tables,
    )


def class_of(spec: InputSpec, model: Any, name: str) -> tuple[dict[str, Any], ...]:
    """The stages from x to the class ``name`` that a classifier predicts."""
    tensor = model.inputs[0].name
    return (
        preprocess_stage(spec),
        {"stage": "artefact", "model": "classifier", "inputs": {tensor: "u"}, "outputs": {"logits": "logits"}},
        {"stage": "table", "op": "argmax", "input": "logits", "output": name},
    )
