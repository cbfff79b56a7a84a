"""The rows of membership for an attacker who holds what is audited: the network that decides y, asked as it ships."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.problem import Budget
from edgeveil.trainer.audit.probes import artefact_membership
from edgeveil.trainer.audit.probes.answer import not_run
from edgeveil.trainer.audit.probes.artefact_membership import Training
from edgeveil.trainer.audit.subject import KERAS, Subject, running
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.private import cover
from edgeveil.trainer.runs.run import Run

NAME = "membership from the artefact"


def rows(subject: Subject, run: Run, dataset: Dataset, target: Any, budget: Budget, seed: int) -> list[dict[str, Any]]:
    """None of a bundle without networks. ``target`` is D_y, of which label-only may send what it says itself."""
    import keras

    if not subject.manifest["models"]:
        return []
    found = artefact_membership.network(subject.manifest, cover.HEAD)
    if found is not None:
        model = run.perturber().models[found.model]
        logits = model.outputs[model.output_names.index(found.output)]
    if found is None or logits.shape[-1] != len(dataset.y_names):
        return [not_run(NAME, f"no network of it decides {run.recipe.data.target}, whose logits this attack reads")]
    shipped = keras.Model(model.inputs[0], logits)
    training = _as_trained(run, itself=_same_weights(model, target))
    attack = artefact_membership.run
    if subject.artefact == KERAS:
        return attack(lambda x: predict(shipped, dataset.unit(x)), shipped, dataset, training, budget, seed)
    manifest = artefact_membership.only_logits(subject.manifest, found, len(dataset.y_names))
    with running(replace(subject, manifest=manifest), run) as ask:
        return attack(lambda x: ask(x)["logits"], shipped, dataset, training, budget, seed)


def _as_trained(run: Run, *, itself: bool) -> Training:
    """How the network was trained; ``itself``: it is D_y."""
    recipe = run.recipe
    settings = recipe.classifiers.learning_rate, recipe.budget.batch
    if itself:
        return Training("classifiers", *settings, recipe.budget.classifier_epochs)
    if (private := recipe.private) is not None:
        epochs = max(1, round(private.steps * private.lot / run.facts["private"]["units"]))
        return Training("perturber", private.learning_rate, private.lot, epochs)
    return Training("perturber", *settings, recipe.budget.epochs)


def _same_weights(one: Any, other: Any) -> bool:
    mine, theirs = one.get_weights(), other.get_weights()
    return len(mine) == len(theirs) and all(map(np.array_equal, mine, theirs))
