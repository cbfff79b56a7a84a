"""Label-only: only the predicted y is sent, as that class's mean training sample.

The floor that every perturber is compared with: beyond y it leaks only the errors of y-hat. Sent as a *random donor*,
any real sample of the class, it even trains models and looks real: these two measures alone prove nothing.

Under [private] the network comes of DP-SGD and the means of a Gaussian mechanism. With an ``epsilon`` the
class passes randomised response first, and all that leaves is made of its answer.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages.channel import channel_of
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.datasets.samples import Stored, pieces
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.networks.base import network
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.perturbers.codebook.stream_codes import donors_within, draw_stage
from edgeveil.trainer.perturbers.codebook.synthesis import check_consent
from edgeveil.trainer.recipe import networks as recipe_networks
from edgeveil.trainer.recipe.perturber import Perturber
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.recipe.training_sections import MOST_EPSILON, Budget
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage

if TYPE_CHECKING:
    from edgeveil.trainer.runs.run import Log

SENT = "label"  # the class that leaves, and what pictures are drawn of


if TYPE_CHECKING:
    Shipped = str
else:
    Shipped = Annotated[(Literal["target", "small", "table1-wifi"], *recipe_networks.OR_OWN)]


class LabelOnly(Perturber):
    """The floor: only the predicted y is sent, drawn as that class's mean training sample or as a donor's."""

    kinds = ("label-only",)
    titles = ("Label-only",)
    certified = True
    streams = True
    distributes = True
    private_slices = ("perturber",)

    kind: Literal["label-only"] = Field(description="The predicted label is sent and nothing else.")
    network: Shipped = Field(
        default="target",
        description="The classifier that ships: D_y itself, or one of its own, trained on the second slice: named, or "
        "yours, `mine.py:build`.",
    )
    width: int = Field(default=16, ge=1, le=512, description="Channels of the first layer; `small` only.")
    picture: Literal["mean", "donor"] = Field(
        default="mean",
        description='"mean": the mean of the class. "donor": a real sample of the class, drawn anew each time.',
    )
    donors: int = Field(default=256, ge=1, le=4096, description="donor: samples of each class, a power of two.")
    public_data: bool = Field(default=False, description="donor: the data are public, so receivers may see samples.")
    epsilon: float | None = Field(
        default=None,
        gt=0,
        le=MOST_EPSILON,
        description="alpha of randomised response (k-rr) behind the class: one release changes the odds of anything "
        "about its reading by a factor of at most e^alpha. Goes with `[spending]`. Left out: the class is sent as it "
        "is.",
    )

    def resolved(self, folder: Path) -> LabelOnly:
        """See ``Perturber.resolved``."""
        return self.model_copy(update={"network": recipe_networks.resolved(self.network, folder)})

    def files(self) -> list[Path]:
        """See ``Perturber.files``."""
        own = recipe_networks.file_of(self.network)
        return [] if own is None else [own]

    def check(self, dataset: Dataset) -> None:
        """See ``Perturber.check``."""
        if self.files():
            network(self.network, dataset.input).build(dataset.input, settings=None, classes=len(dataset.y_names))

    @property
    def own_network(self) -> bool:
        """See ``Perturber``."""
        return self.network != "target"

    def check_private(self) -> None:
        """See ``Perturber``."""
        if self.network == "target":
            raise ValueError(
                'perturber.network = "small" (pictures) or "table1-wifi" (vectors) with [private]: D_y itself is '
                "chosen by validation, without noise"
            )
        if self.picture == "donor":
            raise ValueError('perturber.picture = "mean" with [private]: a donor is somebody\'s own sample')

    def fit(
        self, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
    ) -> FittedPerturber:
        """Label-only with D_y, or with the small network that the section asks for.

        Raises ``LimitNotMet`` where training diverges, ``BadInput`` for donors without consent.
        """
        if self.picture == "donor":
            check_consent(dataset.consent, public=self.public_data)  # before the slow part
        if self.network == "target":
            return _draw(dataset, goal.target, self, rng)
        import keras

        from edgeveil.trainer.networks import training as classifiers

        keras.utils.set_random_seed(int(rng.integers(2**32)))
        model = classifiers.build(self.network, dataset.input, len(dataset.y_names), width=self.width)
        if goal.private is not None:
            means, training = _learn_privately(dataset, model, goal.private, log)
            return replace(with_means(dataset, model, means, epsilon=self.epsilon), training=training)
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
        return _draw(dataset, model, self, rng)

    @classmethod
    def draft(cls, kind: str, dataset: Dataset, *, apart: float, stream: bool) -> str:
        """See ``Perturber.draft``."""
        why = "# The floor: D_y ships, and its prediction is all that is sent, drawn as that class's mean.\n"
        return why + super().draft(kind, dataset, apart=apart, stream=stream)


def _learn_privately(dataset: Dataset, model: Any, asked: Private, log: Log) -> tuple[np.ndarray, dict[str, Any]]:
    """Train ``model`` in place; the pictures, float32 (classes of y, *shape), and the manifest's ``training``.

    Raises ``BadInput`` where the budget does not fit the data, or the network mixes the examples of a lot.
    """
    from edgeveil.trainer.ext import private

    part, rows, plan = private.guarded(dataset, asked)
    u, noise = dataset.unit(part.x), private.Secret()
    steps = private.train_encoder(model, u, part.y, rows, plan, noise=noise, log=log)
    count, sigma = len(dataset.y_names), plan.pictures.sigma
    pictures = private.noisy_pictures(u, part.y, count, rows, sigma=sigma, noise=noise, log=log)
    unit = "row" if dataset.units is None else dataset.units.kind
    log.record(
        private={
            "unit": unit,
            "units": plan.units,
            "encoder": {**plan.encoder.claim.as_dict(), "clip": asked.clip, "lot": asked.lot, **steps},
            "pictures": plan.pictures.as_dict(),
        }
    )
    marks = {
        "models": {"classifier": private.mark("DP-SGD", 1 - asked.pictures)},
        "tables": {"means": private.mark("Gaussian mechanism", asked.pictures), "response": private.PUBLIC},
        "range": private.PUBLIC,
    }
    return pictures, private.promise(asked, unit, marks)


def from_classifier(dataset: Dataset, model: Any, *, epsilon: float | None = None) -> FittedPerturber:
    """Label-only with a given classifier (a Keras model from the unit cube to logits (n, classes of y))."""
    part = dataset.part("perturber")
    means = class_means(dataset.unit(part.x), part.y, len(dataset.y_names))
    return with_means(dataset, model, means, epsilon=epsilon)


def class_means(u: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """The mean of samples u (n, *shape) of each class y (n,), float32 (classes, *shape)."""
    if not isinstance(u, Stored):
        return np.stack([u[y == label].mean(axis=0) for label in range(classes)]).astype(np.float32)
    sums = np.zeros((classes, *u.shape[1:]))
    for at, some in pieces(u):
        for label in range(classes):
            sums[label] += some[y[at : at + len(some)] == label].sum(axis=0, dtype=np.float64)
    return (sums / np.bincount(y, minlength=classes).reshape(-1, *[1] * (u.ndim - 1))).astype(np.float32)


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
        "pictures": np.asarray(dataset.unit(part.x[np.concatenate(rows)])),
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
