"""The ``[private]`` section of a recipe: how much a bundle may tell of the people it was trained on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from edgeveil.trainer.recipe.perturber import Perturber
from edgeveil.trainer.recipe.training_sections import Section

MOST_EPSILON = 50.0


class Private(Section):
    """Differential privacy for the people behind the training data, of all that ships: label-only or a codebook."""

    epsilon: float = Field(
        gt=0, le=MOST_EPSILON, description="Adding or removing one unit changes the odds of what ships by e^epsilon."
    )
    delta: float = Field(gt=0, lt=1, description="But for a chance of this; below one unit's share.")
    unit: Literal["subject", "row"] | None = Field(
        default=None,
        description='Whom it guards. Left out: "subject" where the data name people, else "row", which such data must '
        "write down.",
    )
    clip: float = Field(default=1.0, gt=0, le=1e6, description="The largest norm of one unit's gradient.")
    lot: int = Field(default=512, ge=1, description="Units of a step on average: each is in it by a draw of its own.")
    steps: int = Field(
        default=400,
        ge=1,
        le=1_000_000,
        description="Steps of training; of a codebook's trunk, and as many of its codes.",
    )
    learning_rate: float = Field(default=8e-3, gt=0, le=1, description="Adam's rate for these steps.")
    average: bool = Field(
        default=True, description="The mean weights of the second half of the steps ship; false: the last ones."
    )
    pictures: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="Share of epsilon and delta for the pictures of classes or codes; the rest is the encoder's.",
    )


def check_private(perturber: Perturber, prior: str, *, from_training: bool, unseen: bool = False) -> None:
    """Raise ``ValueError`` where something of the recipe would ship what no budget pays for.

    ``prior`` is its kind; ``from_training``: bounds are extremes of training rows; ``unseen``: unseen people are asked
    for.
    """
    perturber.check_private()
    if unseen:
        raise ValueError("no `limits.unseen_accuracy` with [private]: encoders of its own are trained without noise")
    if prior == "counted":
        raise ValueError(
            'prior.kind = "table" or "uniform" with [private]: "counted" counts people of the training data'
        )
    if from_training:
        raise ValueError(
            "no `data.bounds` with [private]: extremes of training rows are somebody's own values. Set `data.low` and "
            "`data.high`"
        )


# The ``[head]`` section of a recipe: a private linear classifier of y that ships next to the perturber.


class _Head(Section):
    """What all of them are asked."""

    of: Literal["reading", "sent"] = Field(
        default="reading",
        description='What it classifies: "reading", the sample in the unit cube, or "sent", what is sent of it.',
    )
    epsilon: float = Field(
        default=1.0,
        gt=0,
        le=MOST_EPSILON,
        description="Replacing one row (pate: one person; dp-sgd: adding or removing a row) changes the odds of its "
        "coefficients by e^epsilon. It is fitted on the first slice, whose people train nothing else that ships.",
    )
    fit_intercept: bool = Field(default=True, description="Whether scores have a constant.")
    random_state: int | None = Field(
        default=None,
        ge=0,
        le=2**32 - 1,
        description="A seed makes its noise repeatable, for tests: then nothing is promised, and export refuses it. "
        "Left out: secret noise.",
    )


class _WithinNorm(_Head):
    data_norm: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="A public bound on the Euclidean norm of a sample in the unit cube; longer ones are shortened. "
        "Left out: that of the cube's far corner.",
    )


class _PerturbedRisk(_WithinNorm):
    regularization: float = Field(
        default=1e-3,
        gt=0,
        le=1e6,
        description="Weight of half w's squared norm next to the mean loss; no choice of these data.",
    )
    method: Literal["objective", "output"] = Field(default="objective", description="What the noise is added to.")


class LogisticHead(_PerturbedRisk):
    """Logistic regression by objective or output perturbation (paper 003)."""

    kind: Literal["logistic"] = Field(description="Logistic regression.")


class HuberHead(_PerturbedRisk):
    """A support vector machine on the Huber loss, by objective or output perturbation (paper 003)."""

    kind: Literal["huber-svm"] = Field(description="A support vector machine.")
    h: float = Field(default=0.5, gt=0, le=1, description="Half-width of the parabola at the loss's corner.")


class FunctionalHead(_Head):
    """Logistic regression by the functional mechanism (paper 004), for few values."""

    kind: Literal["functional-logistic"] = Field(description="Logistic regression on noisy coefficients.")
    sensitive: list[Annotated[int, Field(ge=0)]] | None = Field(
        default=None, description="Columns whose coefficients get 1 / `gamma` times the noise."
    )
    gamma: float = Field(default=1.0, gt=0, le=1, description="Share of epsilon for `sensitive`.")


class SgdHead(_WithinNorm):
    """Logistic regression by DP-SGD (paper 002)."""

    kind: Literal["dp-sgd"] = Field(description="Logistic regression by noisy gradient steps.")
    delta: float | None = Field(
        default=None, gt=0, lt=1, description="But for a chance of this. Left out: a tenth of one row's share."
    )
    clip: float = Field(default=0.5, gt=0, le=1e6, description="The largest norm of one row's gradient.")
    rate: float = Field(default=4.0, gt=0, le=1e6, description="Length of a step.")
    lot: int | None = Field(
        default=None, ge=1, description="Rows of a step on average. Left out: the square root of all, at least 64."
    )
    steps: int = Field(default=300, ge=1, le=1_000_000, description="Steps of its training.")
    average: bool = Field(default=True, description="The mean of the second half of the steps; false: the last.")


class PateHead(_Head):
    """A student of the noisy votes of teachers, each of people of its own; for [private] that guards people."""

    kind: Literal["pate"] = Field(description="Logistic regression on noisy votes of teachers (GNMax).")
    delta: float | None = Field(
        default=None, gt=0, lt=1, description="But for a chance of this. Left out: a tenth of one person's share."
    )
    teachers: int = Field(
        default=50, ge=2, le=100_000, description="How many vote; one person moves one vote of each row."
    )
    students: float = Field(
        gt=0,
        lt=1,
        description="Share of the people of the first slice whose readings count as public: the student learns from "
        "them, by votes. Their labels are not used.",
    )
    queries: int | None = Field(
        default=None, ge=1, description="Public readings that are voted on; more need more noise. Left out: all."
    )
    regularization: float = Field(
        default=1e-2, gt=0, le=1e6, description="Weight of half the squared weights next to the mean loss, of each."
    )


Head = Annotated[LogisticHead | HuberHead | FunctionalHead | SgdHead | PateHead, Field(discriminator="kind")]


def check_head(head: Any, perturber: Perturber) -> None:
    """Raise ``ValueError`` where a recipe's head and its perturber do not fit.

    What is promised of a release covers no label of the reading itself.
    """
    if perturber.unbounded:
        raise ValueError(f'no [head] for perturber.kind = "{perturber.kind}", whose samples have no range to rest on')
    if perturber.reports:
        raise ValueError(f'no [head] for perturber.kind = "{perturber.kind}": a report leaves, and no sample')
    if head.of == "reading" and (perturber.promises or perturber.held):
        covers = "what is promised of a release covers no label of the reading"
        why = covers if perturber.promises else "the stream is held"
        raise ValueError(f'head.of = "sent", since {why}')
