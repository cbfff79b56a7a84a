"""D_y and D_z by least squares, for cleaners: D_y sees A_d^T x, which a cleaner keeps, and D_z is paper 000's f_c."""

from __future__ import annotations

from typing import cast

import numpy as np

from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.linear.linear_problem import linear_problem
from edgeveil.trainer.recipe.perturber import Cleaner, Noise
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.training.classifiers import NAMES, evaluate, save_keras


def train_linear(run: Run) -> None:
    """Fit what RUN/classifiers lacks of D_y and D_z on the first slice, whole."""
    from edgeveil.models.classifiers import linear

    dataset = run.dataset().for_training()
    section = cast("Cleaner | Noise", run.recipe.perturber)  # a recipe has linear classifiers with these alone
    part = dataset.part("classifiers")
    x = part.x.astype(np.float64)
    _, choose = fit_and_validation(dataset, "classifiers")
    for name, labels, classes in ((NAMES[0], part.y, dataset.y_names), (NAMES[1], part.z, dataset.z_names)):
        path = run.folder / "classifiers" / f"{name}.keras"
        if path.is_file():
            continue
        operator = linear_problem(section, dataset).a_d if name == "target" else None
        seen = x if operator is None else x @ operator
        centre, share = seen.mean(axis=0), np.eye(len(classes))[labels]
        weights = np.linalg.lstsq(seen - centre, share - share.mean(axis=0), rcond=None)[0]
        model = linear(weights, share.mean(axis=0) - centre @ weights, operator)
        held = choose.y if name == "target" else choose.z
        accuracy = evaluate(model, dataset.unit(choose.x), held)[1]
        save_keras(model, path)
        run.record(classifiers={**run.facts.get("classifiers", {}), name: {"validation_accuracy": accuracy}})
