"""D_y and D_z by least squares, for cleaners: D_y sees A_d^T x, which a cleaner keeps, and D_z is paper 000's f_c."""

from __future__ import annotations

from typing import cast

import numpy as np

from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.linear.linear_problem import linear_problem
from edgeveil.trainer.recipe.perturber import Cleaner, Noise
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.training.classifiers import NAMES, classifier_path, evaluate, save_classifier


def train_linear(run: Run) -> None:
    """Fit D_y and D_z on the whole first slice, unless RUN/classifiers has them."""
    from edgeveil.models.classifiers import linear

    dataset = run.dataset().for_training()
    section = cast("Cleaner | Noise", run.recipe.perturber)  # only recipes of these kinds have linear classifiers
    part = dataset.part("classifiers")
    x = part.x.astype(np.float64)
    _, choose = fit_and_validation(dataset, "classifiers")
    of_name = zip(NAMES, (dataset.y_names, dataset.z_names), (part.y, part.z), (choose.y, choose.z), strict=True)
    for name, classes, labels, held in of_name:
        if classifier_path(run, name).is_file():
            continue
        operator = linear_problem(section, dataset).a_d if name == "target" else None
        seen = x if operator is None else x @ operator
        centre, share = seen.mean(axis=0), np.eye(len(classes))[labels]
        weights = np.linalg.lstsq(seen - centre, share - share.mean(axis=0), rcond=None)[0]
        model = linear(weights, share.mean(axis=0) - centre @ weights, operator)
        save_classifier(run, name, model, evaluate(model, dataset.unit(choose.x), held)[1])
