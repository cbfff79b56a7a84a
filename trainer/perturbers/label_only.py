"""Label-only: the predicted y leaves, drawn as that class's mean training reading, and nothing else.

The floor that every perturber is compared with: it leaks nothing beyond y but the errors of y-hat.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainer import classifiers
from trainer.datasets.base import Dataset
from trainer.perturbers.base import FittedPerturber, frame_output, output_stage, preprocess_stage
from trainer.perturbers.sections import LabelOnly
from trainer.run import Run


def fit(dataset: Dataset, rng: np.random.Generator, budget: Any, run: Run) -> FittedPerturber:
    """Label-only with the run's D_y, or with the small network that the recipe of a label-only run asks for.

    ``dataset`` is ``for_training()``; ``budget`` is the recipe's (its epochs). Raises ``LimitNotMet`` where training
    diverges. The audit calls this on runs of any kind, for the row that all others are compared with.
    """
    section = run.recipe.perturber
    if not isinstance(section, LabelOnly) or section.network == "target":
        return from_classifier(dataset, run.classifiers()["target"])
    if (run.folder / "perturber").is_dir():
        return run.perturber()
    import keras

    keras.utils.set_random_seed(int(rng.integers(2**32)))
    model = classifiers.build(section.network, dataset.input, len(dataset.y_names), width=section.width)
    to_fit, to_choose = run.hold_out(dataset.part("perturber"))
    classifiers.train_one(
        model,
        (dataset.unit(to_fit.x), to_fit.y),
        (dataset.unit(to_choose.x), to_choose.y),
        run=run,
        stage="perturber",
        epochs=budget.epochs,
    )
    return from_classifier(dataset, model)


def from_classifier(dataset: Dataset, model: Any) -> FittedPerturber:
    """Label-only with a given classifier (a Keras model from the unit cube to logits (n, classes of y))."""
    part = dataset.part("perturber")
    u = dataset.unit(part.x)
    means = np.stack([u[part.y == label].mean(axis=0) for label in range(len(dataset.y_names))]).astype(np.float32)
    tensor = model.inputs[0].name
    return FittedPerturber(
        kind="label-only",
        input=dataset.input,
        stages=(
            preprocess_stage(dataset.input),
            {"stage": "artefact", "model": "classifier", "inputs": {tensor: "u"}, "outputs": {"logits": "logits"}},
            {"stage": "table", "op": "argmax", "input": "logits", "output": "label"},
            {"stage": "synthesis", "op": "row", "input": "label", "table": "means", "output": "v"},
            output_stage(dataset.input),
        ),
        outputs=(
            frame_output(dataset.input),
            {"name": "label", "kind": "label", "tensor": "label", "shape": [], "dtype": "int64"},
        ),
        models={"classifier": model},
        tables={"means": means},
    )
