"""The promise of a trained perturber: what one release costs, by the integers that ship, and what it buys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.spending import MICRO, charged, epsilon_of, repeats
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages.rappor import epsilon_of_one, instantaneous
from edgeveil.trainer.measures.intervals import expected_error
from edgeveil.trainer.recipe.training_sections import Spending
from edgeveil.trainer.runs.fitted import FittedPerturber

_WHAT = {
    "mean": "the mean, in half ranges,",
    "share": "a share",
}
EXTREMES = "The bounds are extremes of training rows, and they ship: public ones would tell nothing of anybody."


def promised(fitted: FittedPerturber, asked: Spending) -> FittedPerturber:
    """The same perturber with the manifest's ``spending``. Raises ``BadInput`` where one release costs more than a
    unit may spend, or where what leaves is not covered."""
    cost = epsilon_of(fitted.stages, fitted.outputs, fitted.tables)
    if not cost.is_finite():
        raise BadInput("What leaves has no epsilon: a category never comes of another. Leave [spending] out.")
    micro, most = micro_epsilon(cost), int(Decimal(repr(asked.most)) * MICRO)
    if micro > most:
        raise BadInput(
            f"`spending.most`: expected at least what one release costs, {micro / MICRO:g}; got {asked.most:g}."
        )
    claim = {
        "micro_epsilon": micro,
        "unit": asked.unit,
        "most_micro_epsilon": most,
        "period_s": asked.period_s,
    }
    return replace(fitted, spending=claim)


def micro_epsilon(cost: Decimal) -> int:
    """Steps of 1e-6 epsilon, rounded up."""
    return int((cost * MICRO).to_integral_value(ROUND_CEILING))


def facts(fitted: FittedPerturber, *, from_training: bool) -> dict[str, Any]:
    """What run.json says of a promise, with the error of what a collector estimates; ``spending`` must be there.

    ``from_training``: the bounds are extremes of training rows.
    """
    claim = fitted.spending or {}
    (stage, *_) = charged(fitted.stages, fitted.outputs)
    alpha = claim["micro_epsilon"] / MICRO
    kind, size = kind_of(stage), math.prod(fitted.input.shape)
    values, variance = kind.estimate(stage, fitted.stages, size, alpha, fitted.tables)
    law = instantaneous(fitted.stages)
    return {
        **claim,
        "epsilon": alpha,
        "repeats": repeats(fitted.stages, fitted.outputs),
        **({} if law is None else {"instantaneous_epsilon": epsilon_of_one(law)}),
        "bounds": "from-training" if from_training else "public",
        "of": kind.of,
        "values": values,
        "expected_error": expected_error(variance, values),
    }


def sentence(found: Mapping[str, Any]) -> str:
    """The expected error in words, for people who are about to train or to collect."""
    what = _WHAT[found["of"]]
    errors = ", ".join(f"{row['one']:g} of {int(n):,}" for n, row in found["expected_error"].items())
    largest = ", ".join(f"{row['largest']:g}" for row in found["expected_error"].values())
    unit, most = found["unit"].replace("release", "device"), found["most_micro_epsilon"] / MICRO
    extremes = f" {EXTREMES}" if found["bounds"] == "from-training" else ""
    one = "One kept answer" if found["repeats"] else "One release"
    again = ", and what is sent of it again nothing" if found["repeats"] else ""
    return (
        f"{one} costs {found['epsilon']:g} epsilon{again}; a {unit} may spend {most:g}. "
        f"Expected error of {what} from the reports of n devices: {errors}; the largest of {found['values']} values: "
        f"{largest}.{extremes}"
    )
