"""``[perturber]`` of a codebook."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from edgeveil.trainer.recipe.training_sections import Section

MOST_CODES = 1024  # of a class: more have too few readings each to be counted
SMALL_DATA = 0.1  # the `dropout` from which data count as small
# Key: the values with which the recipe of an older run is still opened, and what is done now.
DELETED: dict[str, tuple[tuple[Any, ...], str]] = {
    "tokens": ((1,), "a code is one number, so set more `codes`"),
    "channel": (("none",), "a code is sent as it is, or drawn anew where `hold` is a track or a period"),
    "bound": ((0.1,), "no channel has a bound any more, so set a larger `price`"),
    "merge_below": ((0,), "rare codes stay, so set fewer `codes`"),
    "epsilon": ((None,), 'take kind = "local" with `of = "code"`, or kind = "label-only", for randomised response'),
    "decoder_steps": ((1500,), 'no network draws pictures, so take synthesis = "centroid" or "donor"'),
    "latent": ((8,), 'no network draws pictures, so take synthesis = "centroid" or "donor"'),
    "code_batch": ((0, 1024), "all rows from a `dropout` of 0.1 on, else 1024"),
    "weight_decay": ((0.01, 0.05, 0.1), '0.05 by "residual", 0.1 from a `dropout` of 0.1 on, else 0.01'),
    "learning_rate": ((2e-3, 3e-3), "0.003 for series, else 0.002"),
    "shrinkage": ((4.0, 8.0), "4 where z has two classes, else 8"),
    "features": ((128, 256), "they follow from `width`"),
    "width_of_head": ((128, 512), "512 from 16 `codes` on, else 128"),
    "label_from": (("first", "both"), "series have a network of their own for y, learned from both slices"),
    "codes_from": (("second", "both"), 'both slices where `copies` is above 1 and `hold` is "none", else the second'),
}


def without_deleted(table: dict[str, Any]) -> dict[str, Any]:
    """The recipe of a run without the deleted keys whose values may be left out; the others are refused later."""
    perturber = table.get("perturber", {})
    for section in (perturber, perturber.get("codebook", {})):
        if section.get("kind") == "codebook":
            held = section.get("hold", "none").startswith(("track", "period"))
            for key, (values, _) in DELETED.items():
                if section.get(key) in ((*values, "independent") if held else values):
                    section.pop(key, None)
    return table


class Codebook(Section):
    """A codebook: an encoder's class and one of its codes, and a picture of it."""

    kind: Literal["codebook"] = Field(
        description="The predicted class and one of its codes are sent, as a picture of the code."
    )
    keep: list[str] = Field(
        min_length=1,
        description='What the codes should keep: "pixels", "moments" (ink, slant, stroke) or one of these, attributes '
        "of the data set.",
    )
    weights: list[Annotated[float, Field(gt=0)]] | None = Field(
        default=None, description="How much each of `keep` counts in T. Left out: all alike."
    )
    codes: int = Field(
        default=32,
        ge=2,
        le=MOST_CODES,
        description="Codes of each class of y. From 16 on the code head has 512 hidden units, else 128.",
    )
    method: Literal["funnel", "residual"] = Field(
        default="funnel",
        description='How codes are made: "funnel" learns a head; "residual" clusters what z does not explain of T '
        "(little data, many z).",
    )
    price: float = Field(
        default=4.0,
        ge=0,
        description="lambda: squared distance of T (variance 1 in all) that a nat about z is worth. Larger hides more.",
    )
    evenness: float = Field(
        default=0.02,
        ge=0,
        description="funnel: eta, squared distance of T that a nat of H(c|y) is worth. Larger makes codes equally "
        "frequent, so that the bound for every code has rows for each; 0.2 costs little.",
    )
    steps: int = Field(default=1400, ge=1, le=1_000_000, description="Steps of learning the codes.")
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Of the code head; about 0.3 on small data. From 0.1 on every step sees all rows, with a weight "
        "decay of 0.1, else 1024 rows with 0.01.",
    )
    width: int = Field(
        default=16,
        ge=1,
        le=4096,
        description="First channels (images, series) or hidden units (vectors) of the trunk, whose outputs are 8 for "
        "each channel of images, 1 for each 8 units of vectors and 128 at least, 128 for series.",
    )
    synthesis: Literal["centroid", "donor"] = Field(
        default="centroid", description='"centroid": the mean of a code; "donor": a real sample of it.'
    )
    fewest_subjects: int = Field(
        default=10,
        ge=2,
        description="centroid: fewest different people in each mean; samples, where the data name no people.",
    )
    donors: int = Field(
        default=16,
        ge=1,
        le=4096,
        description="donor: pictures of each code, a power of two. Donors are the most typical samples of "
        "their code and z, so few keep more of T, and many train better models (docs/explanation/perturbers.md).",
    )
    public_data: bool = Field(default=False, description="donor: the data are public, so receivers may see samples.")
    copies: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Images: copies of each training sample; all but the first are changed by the next three keys. "
        'With several, and `hold = "none"`, codes are learned from both training slices: twice the rows to count z by.',
    )
    shift: int = Field(default=0, ge=0, le=32, description="Copies are moved by up to this many pixels each way.")
    scale: float = Field(default=0.0, ge=0, le=0.5, description="Copies are scaled by up to this share, up or down.")
    offset: float = Field(
        default=0.0,
        ge=0,
        le=0.5,
        description="Copies are brighter or darker by up to this share of the range; zeros stay.",
    )
    acknowledge: Literal["", "code-per-frame leaks", "code-per-bout leaks"] = Field(
        default="", description='Must be stated for `hold` by "frame" or "bout"; manifest and audit repeat it.'
    )
    hold: str = Field(
        default="none",
        pattern=r"^(none|frame|bout:[1-9][0-9]{0,2}|track:[1-9][0-9]{0,2}|period:[1-9][0-9]{0,3}s)$",
        description='"none": samples that do not belong together. Of a stream: "track:7", a class by seven votes and '
        'one draw per track; "period:600s", one draw per class and clock period; "bout:4", the code of the first '
        'frame of a class, kept until four frames in a row were of others; "frame", a code for every frame.',
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_deleted(cls, table: Any) -> Any:
        for key in DELETED.keys() & (table.keys() if isinstance(table, dict) else ()):
            raise ValueError(f"no `{key}`, a key that was deleted after commit baecb1ef: {DELETED[key][1]}")
        return table

    @field_validator("hold")
    @classmethod
    def _holds(cls, hold: str, info: ValidationInfo) -> str:
        if hold == "frame" and info.data.get("acknowledge") != "code-per-frame leaks":
            raise ValueError(
                '"track:7" or "period:600s", since a code for every frame of a stream tells who it is within seconds '
                '(docs/explanation/streams.md); or `hold = "frame"` with acknowledge = "code-per-frame leaks"'
            )
        if hold.startswith("bout") and info.data.get("acknowledge") != "code-per-bout leaks":
            raise ValueError('"bout:4" with acknowledge = "code-per-bout leaks": the codes of many bouts add up')
        if not hold.startswith(("frame", "bout")) and info.data.get("acknowledge"):
            raise ValueError('"frame" or "bout:4" with `acknowledge`, which is for these alone')
        return hold

    @property
    def code_batch(self) -> int:
        """Rows of a step that learns codes; 0: all."""
        return 0 if self.dropout >= SMALL_DATA else 1024

    @property
    def weight_decay(self) -> float:
        """Of AdamW."""
        return 0.05 if self.method == "residual" else 0.1 if self.dropout >= SMALL_DATA else 0.01

    @property
    def width_of_head(self) -> int:
        """Hidden units of the code head."""
        return 512 if self.codes >= 16 else 128

    def features(self, kind: str) -> int:
        """Outputs of the trunk, for inputs of a ``kind``."""
        return {"image": 8 * self.width, "series": 128}.get(kind, max(128, self.width // 8))

    @staticmethod
    def shrinkage(z_classes: int) -> float:
        """Weight in rows of P(c|y) in P(c|z, y): the more z there are, the fewer rows each has."""
        return 4.0 if z_classes <= 2 else 8.0
