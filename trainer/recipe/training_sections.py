"""Sections of a recipe on how it is trained, how long, and what the result must meet."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgeveil.trainer.recipe.section import Section

MOST_SECONDS = 10 * 366 * 86_400


class TablePrior(Section):
    """What the public knows, written down. What is left out is spread evenly (eq. 3)."""

    kind: Literal["table"] = Field(description="The prior is written in `table`.")
    table: dict[str, dict[str, float]] = Field(
        description="One table per class of y: class of z = P(z|y). May be partial; a class of y left out says nothing."
    )


class TrainingPrior(Section):
    """P(z|y) from the two training slices."""

    kind: Literal["counted", "uniform"] = Field(
        description='"counted": as counted there. "uniform": even over the z that occur with each y there.'
    )


Architecture = Literal["small", "normed-cnn", "table1-mnist", "normed-mlp", "table1-wifi", "series", "linear"]


class Classifiers(Section):
    """D_y and D_z, trained on the first slice and fixed from then on (section 5.3)."""

    architecture: Architecture = Field(
        description="`table1-*` are Table 1 of the paper; `small` and `normed-cnn` suit any image; `normed-mlp` and "
        "`table1-wifi` are for vectors; `normed-*` have batch norm, for data of any scale. `series` (strided "
        "convolutions over time) is for series; `linear` (least squares) is for cleaners; there D_y sees the output "
        "of the kept operator."
    )
    look: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Accuracy of y in the look of `recipe new`, on the second slice. Training stops after D_y where it "
        "lies ten points below. Left out: D_y must only beat the commonest class.",
    )
    learning_rate: float = Field(
        default=1e-3, gt=0, le=1, description="Adam's first rate; it falls to 0 along a cosine."
    )
    shift: int = Field(
        default=0, ge=0, le=8, description="Images: training samples are moved by up to this many pixels each way."
    )
    patience: int = Field(default=10, ge=1, description="Epochs without a better validation loss before it stops.")


class Quick(Section):
    """Replaces ``[budget]`` under ``--budget quick``: a trial in seconds."""

    rows: int = Field(default=3000, ge=100, description="At most this many rows of data.")
    classifier_epochs: int = Field(default=3, ge=1, description="Epochs of D_y and of D_z.")
    epochs: int = Field(default=3, ge=1, description="Epochs of the perturber.")


class Spending(Section):
    """What a unit may spend in all: every release or kept answer costs its epsilon, and the ledger stops at `most`."""

    unit: Literal["release", "track", "subject"] = Field(
        description='Whose releases add up: "release" (all of the device), "track" (those of one track), "subject" '
        "(those of one person, whom the source names)."
    )
    most: float = Field(gt=0, le=1e6, description="Epsilon that one unit may spend in a period.")
    period_s: int | None = Field(
        default=None,
        ge=1,
        le=MOST_SECONDS,
        description="Seconds that the device was on after which a unit may spend `most` again. Left out: never again.",
    )


class Budget(Section):
    """How long to train."""

    rows: int | None = Field(default=None, ge=100, description="At most this many rows of data; left out: all of them.")
    classifier_epochs: int = Field(ge=1, le=10000, description="Epochs of D_y and of D_z, at most.")
    epochs: int = Field(ge=1, le=100000, description="Epochs of the perturber; unused where D_y itself ships.")
    batch: int = Field(default=128, ge=2, le=65536, description="Rows per training step.")
    quick: Quick = Field(default=Quick(), description="The budget under `--budget quick`.")


class Certificate(Section):
    """Asks for a certificate. Only a perturber that sends one of finitely many codes has one."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="Confidence with which the bound holds.")
    tried: int = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Configurations ever compared on the test slice of this seed; they share the confidence.",
    )
    strata: list[str] = Field(
        default=[],
        description="Attributes within which z is balanced by design (each light once per person). The "
        "certificate's null shuffles z within them.",
    )


class Limits(Section):
    """What the result must meet. Otherwise the command ends with exit code 3; the run is kept."""

    target_accuracy: float = Field(
        gt=0, le=1, description="Acc(D_y) that a checkpoint must reach on validation: the utility floor of section 6.2."
    )
    attack_points: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="`edgeveil audit`: points over chance that attacks may reach, upper end. Left out: no limit.",
    )
    bits: float | None = Field(
        default=None,
        ge=0,
        description="`edgeveil audit`: bits per sample beyond y that attacks may learn, upper end. Left out: no limit.",
    )
    unseen_accuracy: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="codebook: accuracy of y-hat on the worst person, by an encoder trained without that person.",
    )
