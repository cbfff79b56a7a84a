"""Does D_y read y at all? A perturber that is trained against a dead one costs minutes and keeps nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.progress import say
from edgeveil.trainer.runs.run import Run

MARGIN = 0.05  # of what is left above the commonest class, that D_y must read of it
LOOK_POINTS = 0.10  # that it may lie below the look of `recipe new`
ANOTHER = {"table1-wifi": "normed-mlp", "normed-mlp": "table1-wifi", "normed-cnn": "small"}  # else "normed-cnn"


def commonest(labels: np.ndarray) -> float:
    """The accuracy of always guessing the commonest class of ``labels`` (n,)."""
    return float(np.bincount(labels).max() / len(labels))


def beats_guessing(accuracy: float, guessing: float) -> bool:
    """Whether an accuracy is above that of always guessing the commonest class, by the margin."""
    return accuracy >= guessing + MARGIN * (1 - guessing)


def unseen_accuracy(dataset: Dataset, model: Any, *, most: int | None = None) -> tuple[float, float]:
    """The accuracy of a classifier of y, and that of guessing, on the (first ``most``) rows of the second slice."""
    part = dataset.part("perturber")
    part = part.take(np.arange(min(len(part), most or len(part))))
    right = predict(model, dataset.unit(part.x)).argmax(axis=1) == part.y
    return float(right.mean()), commonest(part.y)


def check_reads_y(run: Run, model: Any) -> None:
    """Raise ``LimitNotMet`` where D_y does no better than guessing, or lies far below the recipe's own look.

    It is asked of the second slice, which neither D_y nor the look's forest was trained on. Under the quick budget, and
    for a recipe that does not ask for y in each release, it is only said.
    """
    recipe = run.recipe
    found, guessing = unseen_accuracy(run.dataset().for_training(), model)
    look = recipe.classifiers.look
    far = look is not None and found < look - LOOK_POINTS
    if beats_guessing(found, guessing) and not far:
        return
    seen = "" if look is None else f", and the look of `recipe new` read {look:.1%}"
    another = ANOTHER.get(recipe.classifiers.architecture, "normed-cnn")
    smaller = " or, if that is enough for your use, lower `classifiers.look`" if far else ""
    sentence = (
        f"D_y reads y in {found:.1%} of the second slice; always guessing the commonest class is right in "
        f"{guessing:.1%}{seen}."
    )
    if run.facts["budget"] == "quick" or recipe.limits.target_accuracy <= guessing:
        say(sentence)
        return
    raise LimitNotMet(
        f"{sentence} Training stops before the perturber: in another folder, take `classifiers.architecture = "
        f'"{another}"`, more `budget.classifier_epochs` or more rows{smaller}.'
    )
