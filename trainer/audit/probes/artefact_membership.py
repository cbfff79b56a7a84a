"""Membership from the artefact: was this row among those that the network was trained on?

The third attacker of ``membership`` holds the bundle, and so runs its network on any row: the logits of y that come
before the class. Two attacks: the loss alone, and LiRA with shadow networks of the same shape, each trained on half of
the rows (``attacks.training_data.membership_inference``). Shadows are trained plainly, also where the network was
trained privately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.model_inversion import confidence, halves, likelihood_ratio
from edgeveil.trainer.attacks.problem import Budget
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.probes import Probe
from edgeveil.trainer.audit.probes.areas import Scored
from edgeveil.trainer.audit.probes.membership import ASKED, FEWEST, FEWEST_UNITS, MOST, not_run
from edgeveil.trainer.audit.sections import About
from edgeveil.trainer.audit.subject import KERAS, Subject, running
from edgeveil.trainer.datasets.base import Dataset, Part, SliceName
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.ext.private import HEAD
from edgeveil.trainer.graphs.macs import keras_macs
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.runs.run import Run

NAME, LOSS, LIRA = "from the artefact", "from the artefact, by loss", "from the artefact, by LiRA"
SHADOWS = {"quick": 8, "thorough": 32}
MEANING = "whether a row trained the network whose logits the attacker reads; interval by resampled units"

Logits = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Network:
    """Where a manifest decides the class of y: the tensor ``logits`` that ``model`` makes as ``output``."""

    model: str
    output: str
    logits: str


@dataclass(frozen=True)
class Training:
    """How the network was trained, as far as an attacker who knows the recipe does the same: the slice by its name, and
    Adam's ``rate``, the ``batch`` and the ``epochs``."""

    slice: SliceName
    rate: float
    batch: int
    epochs: int


def network(manifest: Mapping[str, Any], head: str) -> Network | None:
    """The network that ships and reads y off the sample, but for the ``head``; None where there is none."""
    networks = {
        name: Network(stage["model"], output, name)
        for stage in manifest["stages"]
        if stage["stage"] == "artefact" and stage["model"] != head
        for output, name in stage["outputs"].items()
    }
    decided = (stage["input"] for stage in manifest["stages"] if stage.get("op") == "argmax")
    return next((networks[name] for name in decided if name in networks), None)


def only_logits(manifest: Mapping[str, Any], found: Network, classes: int) -> dict[str, Any]:
    """The manifest whose one output are the logits: it ends with the stage that makes them."""
    stages = manifest["stages"]
    last = next(n for n, stage in enumerate(stages) if found.logits in dict(stage.get("outputs") or {}).values())
    output = {"name": "logits", "kind": "code", "tensor": found.logits, "shape": [classes], "dtype": "float32"}
    return {**manifest, "stages": stages[: last + 1], "outputs": [output], "stream": None}


@dataclass(frozen=True)
class Attacked:
    """The score (n,) of each attack, by its name, of rows ``part``; which are ``member``, and the ``unit`` of each.

    ``rng`` has drawn them, and draws on.
    """

    part: Part
    member: np.ndarray
    unit: np.ndarray
    scores: Mapping[str, np.ndarray]
    rng: np.random.Generator

    def findings(self) -> list[Finding]:
        """AUC and true positives at 1 % false ones, of each attack."""
        rows = self.member, np.zeros(len(self.member), np.int64), self.unit, self.unit
        return [
            Scored(score, *rows).finding(ASKED, attack, figure, self.rng, text=MEANING)
            for attack, score in self.scores.items()
            for figure in ("auc", "recognised")
        ]


def attacked(
    logits: Logits,
    shipped: Any,
    dataset: Dataset,
    training: Training,
    budget: Budget,
    seed: int,
    *,
    seen: Logits | None = None,
) -> Attacked | str:
    """Scores of the attack by the loss and of LiRA; as text, why there are none.

    ``logits`` asks the artefact, of raw samples (n, ...); ``shipped`` is the same network in Keras, from what it has
    ``seen`` of them (None: the unit cube) to the logits alone, of which shadows take the shape. As many others as
    members, so that a shadow, trained on half of both, sees as many rows as the network did.
    """
    rng = np.random.default_rng([seed, 7])
    members = fit_and_validation(dataset, training.slice)[0].index
    others = np.concatenate([dataset.slices.attack, dataset.slices.test])
    most = min(MOST, len(members), len(others))
    sides = [rng.permutation(side)[:most] for side in (members, others)]
    part = dataset.rows(np.concatenate(sides))
    member = np.repeat([True, False], [len(side) for side in sides])
    unit = np.arange(len(member)) if part.cluster is None else part.cluster
    units = [len(np.unique(unit[member == side])) for side in (True, False)]
    if min(map(len, sides)) < FEWEST or min(units) < FEWEST_UNITS:
        return (
            f"{len(members)} rows of {units[0]} units trained the network and {len(others)} of {units[1]} did not; "
            f"at least {FEWEST} of {FEWEST_UNITS} of each are needed"
        )
    target = confidence(logits(part.x), part.y)
    inside = halves(len(member), SHADOWS[budget.name], rng)
    shadows = _shadows(shipped, (seen or dataset.unit)(part.x), part.y, inside, training, budget, seed)
    scores = {LOSS: target, LIRA: likelihood_ratio(target, shadows, inside)}
    return Attacked(part, member, unit, scores, rng)


def run(logits: Logits, shipped: Any, dataset: Dataset, training: Training, budget: Budget, seed: int) -> list[Finding]:
    """The findings of both attacks, of ``attacked``."""
    found = attacked(logits, shipped, dataset, training, budget, seed)
    return [not_run(attack, found) for attack in (LOSS, LIRA)] if isinstance(found, str) else found.findings()


def _shadows(
    shipped: Any, u: np.ndarray, labels: np.ndarray, inside: np.ndarray, training: Training, budget: Budget, seed: int
) -> np.ndarray:
    """Confidences (shadows, n) of networks of the same shape, each trained on its half of the rows."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(seed)
    model, optimizer = keras.models.clone_model(shipped), keras.optimizers.Adam(training.rate)
    optimizer.build(model.trainable_variables)
    untouched = [np.asarray(variable) for variable in optimizer.variables]
    x, y = tf.constant(u), tf.constant(labels, tf.int32)

    @tf.function
    def step(rows: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            logits = model(tf.gather(x, rows), training=True)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(y, rows), logits)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    half = len(labels) // 2
    batch = min(training.batch, half)
    # All shadows together cost what one network's training may.
    most = budget.macs / (len(inside) * max(1, keras_macs(shipped).macs) * half)
    epochs = max(1, min(training.epochs, budget.epochs, int(most)))
    confidences = []
    for number, mine in enumerate(inside):
        rng = np.random.default_rng([seed, number])
        model.set_weights(keras.models.clone_model(shipped).get_weights())  # drawn anew
        for variable, value in zip(optimizer.variables, untouched, strict=True):
            variable.assign(value)
        rows = np.flatnonzero(mine)
        for _ in range(epochs):
            order = rng.permutation(rows)[: len(rows) // batch * batch]
            for lot in order.reshape(-1, batch):
                step(tf.constant(lot))
        confidences.append(confidence(predict(model, u), labels))
    return np.array(confidences)


class ArtefactMembership(Probe):
    """An attacker who holds what is audited: the network that decides y, asked as it ships."""

    name = "artefact membership"
    asks = "membership"
    order = 2

    def run(self, about: About) -> list[Finding]:
        """None of a bundle without networks, nor of a board's outputs."""
        subject, dataset, effort = about.subject, about.dataset, (about.budget, about.seed)
        if not subject.manifest["models"] or about.there is not None:
            return []
        decided = decider(subject, about.run, about.classifiers["target"], dataset)
        if decided is None:
            target = about.run.recipe.data.target
            return [not_run(NAME, f"no network of it decides {target}, whose logits this attack reads")]
        found, shipped, training = decided
        if subject.artefact == KERAS:
            return run(lambda x: predict(shipped, dataset.unit(x)), shipped, dataset, training, *effort)
        manifest = only_logits(subject.manifest, found, len(dataset.y_names))
        with running(replace(subject, manifest=manifest), about.run) as ask:
            return run(lambda x: ask(x)["logits"], shipped, dataset, training, *effort)


def decider(subject: Subject, run: Run, target: Any, dataset: Dataset) -> tuple[Network, Any, Training] | None:
    """The network that decides y, but for the head, the same in Keras up to its logits, and how it was trained.

    ``target`` is D_y, which it may be itself. None where no network decides y.
    """
    import keras

    found = network(subject.manifest, HEAD)
    if found is None:
        return None
    model = run.perturber().models[found.model]
    logits = model.outputs[model.output_names.index(found.output)]
    if logits.shape[-1] != len(dataset.y_names):
        return None
    mine, theirs = model.get_weights(), target.get_weights()
    itself = len(mine) == len(theirs) and all(map(np.array_equal, mine, theirs))
    return found, keras.Model(model.inputs[0], logits), _as_trained(run, itself=itself)


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
