"""The Laplace mechanism: discrete noise on every value of a sample, differentially private (paper 001, section 6.2).

A sample's values are rounded to a grid of ``levels`` steps (whole numbers lie on one), and a whole number of steps is
added to each, k with probability proportional to exp(-|k| / scale). Two samples that differ in one value then give any
x' with probabilities that differ by a factor of at most exp(eps), eps = levels / scale. All values may differ, so for
whole samples it is eps times their number. Values outside the range are clipped to its end, which costs no privacy.

The board draws the noise in exact integers (``random_draws.discrete_laplace``); here OpenDP computes its eps.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.progress import progress
from edgeveil.trainer.recipe.perturber import Perturber
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage

if TYPE_CHECKING:
    from edgeveil.trainer.runs.run import Log

# From little noise to much; five in every factor of 1.8. Paper 001 goes from 10: small data may not bear even that.
SWEPT = np.geomspace(100.0, 0.01, 81)
DENOMINATOR = 2**10  # scales are whole multiples of 1/1024, so that a float holds them exactly
MOST_LEVELS = 2**16
FEWEST_JUDGED = 2000  # samples behind each accuracy; a small validation cut is perturbed several times
SPARE = 2.0  # standard errors of that accuracy above the floor: the final check draws other noise


class Laplace(Perturber):
    """Discrete Laplace noise on every value: differentially private, and the same for y as for z."""

    kinds = ("laplace",)
    streams = True
    titles = ("Laplace noise",)
    baseline = True
    promised = True

    kind: Literal["laplace"] = Field(description="The Laplace mechanism.")
    eps: float | None = Field(
        default=None,
        ge=1e-3,
        le=100,
        description="Epsilon of one value; that of a whole sample is this times the number of values. Left out: the "
        "smallest of 0.01 to 100 at which Acc(D_y) stays above `limits.target_accuracy` on validation.",
    )
    levels: int = Field(
        default=255,
        ge=1,
        le=65536,
        description="Steps between the smallest and the largest value; integers of one range have their own.",
    )

    def fit(self, dataset: Dataset, *, goal: Goal, log: Log, **_: Any) -> FittedPerturber:
        """The recipe's ``eps``, or else the largest noise of eps 100 to 0.01 at which Acc(D_y) on validation is kept.

        The noise is the operating system's, so two fits may differ by a step. Records eps, that of a whole sample, and
        the scale. Raises ``BadInput`` for samples without a range.
        """
        levels = grid(dataset.input, self.levels)
        scale = scale_for(self.eps, levels) if self.eps is not None else _largest_scale(dataset, levels, goal, log)
        eps = eps_of(scale, levels)
        values = int(np.prod(dataset.input.shape))
        log.record(
            laplace={
                "eps": eps,
                "eps_reading": eps * values,
                "values": values,
                "levels": levels,
                "scale": [scale.numerator, scale.denominator],
            }
        )
        return perturber(dataset.input, scale, levels)

    @classmethod
    def draft(cls, kind: str, dataset: Dataset, *, apart: float, stream: bool) -> str:
        """See ``Perturber.draft``."""
        why = "# eps is searched: the smallest at which D_y stays above the floor of [limits].\n"
        return why + super().draft(kind, dataset, apart=apart, stream=stream)


def grid(spec: InputSpec, levels: int) -> int:
    """How many steps lie between low and high: those of whole numbers, where all values have the same range, or else
    the recipe's ``levels``. Raises ``BadInput`` where there is no range."""
    if spec.low is None:
        raise BadInput("The Laplace mechanism needs a range of every value; these vectors have none.")
    if np.dtype(spec.dtype).kind in "iu" and spec.span.min() == spec.span.max() <= MOST_LEVELS:
        return int(spec.span.max())
    return levels


def scale_for(eps: float, levels: int) -> Fraction:
    """The scale in steps at which a change of all ``levels`` steps costs at most ``eps``."""
    return Fraction(math.ceil(Fraction(levels) / Fraction(eps) * DENOMINATOR), DENOMINATOR)


def eps_of(scale: Fraction, levels: int) -> float:
    """eps of one value, as OpenDP accounts for its own discrete Laplace of that scale."""
    return float(measurement(scale).map(levels))


def measurement(scale: Fraction) -> Any:
    """OpenDP's discrete Laplace of ``scale`` on vectors of whole numbers: a measurement, to call or to ask ``map``."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=float(scale))


def perturber(spec: InputSpec, scale: Fraction, levels: int) -> FittedPerturber:
    """The mechanism's stages; there is no network. It may leave a sample unchanged: eps covers that."""
    scaled = {"numerator": scale.numerator, "denominator": scale.denominator}
    return FittedPerturber(
        kind="laplace",
        input=spec,
        stages=(
            preprocess_stage(spec),
            {"stage": "draw", "distribution": "laplace", "output": "noise", "shape": list(spec.shape), **scaled},
            {"stage": "add", "input": "u", "noise": "noise", "levels": levels, "output": "v"},
            output_stage(spec),
        ),
        outputs=(frame_output(spec),),
        identity_allowed=True,
    )


def _largest_scale(dataset: Dataset, levels: int, goal: Goal, log: Log) -> Fraction:
    """The scale of the smallest eps before Acc(D_y) falls below the recipe's floor, or else that of eps 100."""
    _, choose = fit_and_validation(dataset, "perturber")
    floor = goal.limits.target_accuracy
    needed = min(1.0, floor + SPARE * math.sqrt(floor * (1 - floor) / len(choose)))
    x, y = (np.concatenate([values] * math.ceil(FEWEST_JUDGED / len(choose))) for values in (choose.x, choose.y))
    largest = scale_for(float(SWEPT[0]), levels)
    with progress("eps from 100 downwards", total=len(SWEPT), done=0) as advance:
        for number, eps in enumerate(SWEPT, 1):
            scale = scale_for(float(eps), levels)
            sent = perturber(dataset.input, scale, levels).perturb(x)["frame"]
            accuracy = float((predict(goal.target, dataset.unit(sent)).argmax(axis=1) == y).mean())
            log.metric(stage="perturber", step=number, eps=float(eps), validation_target_accuracy=accuracy)
            advance(eps=float(eps), acc_y=accuracy)
            if accuracy < needed:
                break
            largest = scale
    return largest
