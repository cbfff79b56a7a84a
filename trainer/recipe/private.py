"""The ``[private]`` section of a recipe: how much a bundle may tell of the people it was trained on."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.perturber import Codebook, LabelOnly
from edgeveil.trainer.recipe.section import Section

MOST_EPSILON = 50.0
FIXED = ("pixels", "moments", "ink", "slant", "stroke")  # of `keep`: bounded, and nothing of them is fitted
SEEN_AGAIN = ("prgan", "ngp", "ap", "minimax")


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


def epsilon_and_delta(text: str) -> dict[str, float]:
    """``epsilon`` and ``delta`` of a text as 8,1e-5. Raises ``BadInput``."""
    try:
        epsilon, delta = (float(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f'Expected --private EPSILON,DELTA, as in --private 8,1e-5; got "{text}".') from None
    return {"epsilon": epsilon, "delta": delta}


def check_private(perturber: Any, prior: str, *, from_training: bool, unseen: bool = False) -> None:
    """Raise ``ValueError`` where something of the recipe would ship what no budget pays for.

    ``prior`` is its kind; ``from_training``: bounds are extremes of training rows; ``unseen``: unseen people are asked
    for.
    """
    if isinstance(perturber, Codebook):
        _check_codebook(perturber)
    elif isinstance(perturber, LabelOnly):
        _check_label_only(perturber)
    else:
        why = (
            "a generator sees the readings again in every step"
            if perturber.kind in SEEN_AGAIN
            else "what it takes from training data carries no noise"
        )
        raise ValueError(
            f'no [private] for perturber.kind = "{perturber.kind}", since {why}. Take "label-only" or "codebook", or '
            "leave it out"
        )
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


def _check_label_only(perturber: LabelOnly) -> None:
    if perturber.network == "target":
        raise ValueError(
            'perturber.network = "small" (pictures) or "table1-wifi" (vectors) with [private]: D_y itself is chosen by '
            "validation, without noise"
        )
    if perturber.picture == "donor":
        raise ValueError('perturber.picture = "mean" with [private]: a donor is somebody\'s own sample')


def _check_codebook(perturber: Codebook) -> None:
    """Of what a codebook may take from data, refuse that for which no mechanism is built, with the reason."""
    if perturber.synthesis != "centroid":
        raise ValueError(
            'perturber.synthesis = "centroid" with [private]: a donor is somebody\'s own sample. Where receivers need '
            "no picture, `edgeveil export --emit code` sends the code alone"
        )
    if perturber.method != "funnel":
        raise ValueError('perturber.method = "funnel" with [private]: the usual T of a class is counted without noise')
    if unbounded := [name for name in perturber.keep if name not in FIXED]:
        known = ", ".join(f'"{name}"' for name in FIXED)
        raise ValueError(f'`perturber.keep` of {known} with [private]: "{unbounded[0]}" has no public bounds')
    if perturber.hold != "none":
        raise ValueError('perturber.hold = "none" with [private]: what is held is drawn from k-means, without noise')
