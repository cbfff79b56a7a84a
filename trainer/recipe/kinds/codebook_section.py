"""``[perturber]`` of a codebook."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from edgeveil.trainer.recipe.section import MOST_EPSILON, Section

MOST_CODES = 1024  # of a class: more have too few readings each to be counted


class Codebook(Section):
    """A codebook: an encoder's class and one of its codes, a channel on the code, and a picture of it."""

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
    codes: int = Field(default=32, ge=2, le=MOST_CODES, description="Codes of each class of y; of each token.")
    tokens: int = Field(
        default=1,
        ge=1,
        le=4,
        description="funnel: numbers that make up a code, each one of `codes`. Each describes what those before leave "
        f"of T, and all are priced together. A class has `codes` to the power of `tokens` codes, at most {MOST_CODES}.",
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
    code_batch: int = Field(default=1024, ge=0, description="Rows per step; 0: all rows in every step, for small data.")
    shrinkage: float = Field(
        default=4.0, ge=0, description="Weight in rows of P(c|y) in P(c|z, y); 4 to 8 on small data."
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Of the code head; about 0.3 on small data.")
    learning_rate: float = Field(default=2e-3, gt=0, le=1, description="AdamW's first rate for the trunk.")
    weight_decay: float = Field(default=0.01, ge=0, description="AdamW's decay; about 0.1 on small data.")
    width: int = Field(default=16, ge=1, le=4096, description="First channels (images) or hidden units (vectors).")
    features: int = Field(default=128, ge=1, le=4096, description="Outputs of the trunk.")
    label_from: Literal["first", "both"] = Field(
        default="first",
        description='Training slices that y-hat is learned from. "both": by a network of its own, built as D_y is; '
        "where data are few it reads y better, and it about doubles the cost on the board.",
    )
    codes_from: Literal["second", "both"] = Field(
        default="second",
        description='funnel: training slices that codes are learned from. "both": twice the rows to count z by, for a '
        "trunk that reads its own rows hardly better than new ones, by `copies`.",
    )
    width_of_head: int = Field(default=128, ge=1, le=4096, description="Hidden units of the code head.")
    channel: Literal["none", "lp", "independent"] = Field(
        default="none",
        description='How c becomes c\': "none" sends c, "lp" adds the least noise under `bound`, "independent" draws '
        'anew. Where `hold` is a track or a period it is "independent" and may be left out.',
    )
    epsilon: float | None = Field(
        default=None,
        gt=0,
        le=MOST_EPSILON,
        description="alpha of randomised response (k-rr) behind the code, over the codes of all classes: as of "
        "label-only. It is a channel of its own, so it goes with no other `channel` or `merge_below`. Where `hold` is "
        "a track or a period it is behind the class, and the answer is kept and charged once: that of a track before "
        "its vote and that of after it, that of a period's first frame.",
    )
    merge_below: int = Field(
        default=0,
        ge=0,
        description="Codes that fewer subjects have than this (samples, where the data name none) are sent as the "
        "nearest of their class, so that the bound for every code has units for each; 0: all stay.",
    )
    bound: float = Field(default=0.1, ge=0, description="lp: largest distance of log P(z|c') from log P(z), in nats.")
    synthesis: Literal["centroid", "donor", "decoder"] = Field(
        default="centroid",
        description='"centroid": the mean of a code; "donor": a real sample of it; "decoder": pictures that a network '
        "drew from the code and noise.",
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
        description="donor, decoder: pictures of each code, a power of two. Donors are the most typical samples of "
        "their code and z, so few keep more of T, and many train better models (docs/explanation/perturbers.md).",
    )
    decoder_steps: int = Field(default=1500, ge=1, le=1_000_000, description="decoder: steps of its training.")
    latent: int = Field(default=8, ge=1, le=256, description="decoder: random numbers behind each picture.")
    public_data: bool = Field(default=False, description="donor: the data are public, so receivers may see samples.")
    copies: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Images: copies of each training sample; all but the first are changed by the next three keys.",
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
    def _channel_of_streams(cls, table: Any) -> Any:
        held = isinstance(table, dict) and str(table.get("hold", "")).startswith(("track", "period"))
        return {"channel": "independent", **table} if held else table

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
        if hold.startswith(("track", "period")) and info.data.get("channel") != "independent":
            raise ValueError('"none" or "frame" with this `channel`: what is held is drawn by "independent" alone')
        return hold

    @property
    def codes_of_class(self) -> int:
        """Codes of each class of y, of all tokens together."""
        return int(self.codes**self.tokens)

    @property
    def bare(self) -> bool:
        """Whether every sample's code is sent as it is."""
        return self.channel == "none" and not self.merge_below and self.epsilon is None and self.hold == "none"

    @model_validator(mode="after")
    def _one_channel(self) -> Codebook:
        held = self.hold.startswith(("track", "period"))  # its code is drawn of the answer, whatever the class was
        if self.epsilon is not None and ((self.channel != "none" and not held) or self.merge_below):
            raise ValueError("no `channel` and no `merge_below` with `epsilon`, which is a channel of its own")
        if self.epsilon is not None and self.hold.startswith("bout"):
            raise ValueError("`hold` by track or period with `epsilon`: the classes of a bout leave as they are read")
        return self

    @model_validator(mode="after")
    def _rows_are_learned_from(self) -> Codebook:
        if self.codes_from == "both" and (self.method != "funnel" or self.hold.startswith(("track", "period"))):
            raise ValueError('codes_from = "second" here: by "residual" or held, codes are not learned on a head')
        return self

    @model_validator(mode="after")
    def _tokens_are_learned(self) -> Codebook:
        if self.codes_of_class > MOST_CODES:
            raise ValueError(
                f"at most {MOST_CODES} codes of a class, `codes` to the power of `tokens`; got {self.codes_of_class}"
            )
        if self.tokens > 1 and self.method != "funnel":
            raise ValueError('method = "funnel" with several `tokens`: "residual" has one')
        if self.tokens > 1 and self.hold.startswith(("track", "period")):
            raise ValueError("one of `tokens` with this `hold`: what is held is drawn of the class alone")
        return self
