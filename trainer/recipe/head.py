"""The ``[head]`` section of a recipe: a private linear classifier of y that ships beside the perturber."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.recipe.private import MOST_EPSILON
from edgeveil.trainer.recipe.section import Section


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
        description="Replacing one row (dp-sgd: adding or removing one) changes the odds of its coefficients by "
        "e^epsilon. It is fitted on the first slice, whose people train nothing else that ships.",
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
        description="Weight of half w's squared norm beside the mean loss; no choice of these data.",
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


Head = Annotated[LogisticHead | HuberHead | FunctionalHead | SgdHead, Field(discriminator="kind")]


def check_head(head: Any, perturber: Any, *, promises: bool) -> None:
    """Raise ``ValueError`` where a recipe's head and its perturber do not fit.

    ``promises``: one release has an epsilon, which a label of the reading itself would not be part of.
    """
    if perturber.unbounded:
        raise ValueError(f'no [head] for perturber.kind = "{perturber.kind}", whose samples have no range to rest on')
    if perturber.kind == "local":
        raise ValueError('no [head] for perturber.kind = "local": a report leaves, and no sample')
    held = isinstance(perturber, Codebook) and perturber.hold.startswith(("track", "period"))
    if head.of == "reading" and (promises or held):
        why = "what is promised of a release covers no label of the reading" if promises else "the stream is held"
        raise ValueError(f'head.of = "sent", since {why}')
