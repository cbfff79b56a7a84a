"""A codebook: its section of a recipe, its facts and its code; how it is fitted is in ``fit``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from edgeveil.edge_runtime.stages import reads_and_writes
from edgeveil.edge_runtime.stages.preprocess import to_raw
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.recipe.perturber import Perturber
from edgeveil.trainer.runs.fitted import FittedPerturber

MOST_CODES = 1024  # of a class: more have too few readings each to be counted
MOST_DESIGNED = 2048  # of all classes, in a table of so many rows and columns
SMALL_DATA = 0.1  # the `dropout` from which data count as small
# Key: the values with which the recipe of an older run is still opened, and what is done now.
DELETED: dict[str, tuple[tuple[Any, ...], str]] = {
    "tokens": ((1,), "a code is one number, so set more `codes`"),
    "channel": (("none",), "a code is sent as it is, or drawn anew where `hold` is a track or a period"),
    "bound": ((0.1,), "no channel has a bound on all information: set `pufferfish`, a bound on information about z"),
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
FIXED = ("pixels", "moments", "ink", "slant", "stroke")  # of `keep`: bounded, and nothing of them is fitted
FIRST = r"first:[1-9][0-9]{0,2}(/[1-9][0-9]{0,3}s)?"  # of `hold`
CODES = 4  # of each class, where there are few rows
SMALL = 5000  # rows of the second slice: below that every step of a codebook sees all of them

CODEBOOK = """\
# The class and one of a few codes are sent, so they can be counted: see [certificate].
[perturber]
kind = "codebook"
{keep}
codes = {codes:<13} # of each class; more keep more, and need more rows{held}
price = 4.0           # the cost of information about z in a code; larger hides more
steps = {steps}{small}{width}
{synthesis}

# The bound is shared by all configurations that are ever compared on the test rows: count them here.
[certificate]
tried = 1
"""
PIXELS = """\
# What the codes should keep of a sample: "pixels" (its values), "moments" of pictures, attributes.
keep = ["pixels"]"""
MOTION = """\
# What the codes should keep of a window: these, or "pixels" (its values).
keep = ["energy", "tempo"]"""
LITTLE = "\ndropout = 0.3         # for small data: every step sees all rows"
HELD = """
hold = "period:600s"  # a stream: a class keeps one code for ten minutes (docs/explanation/streams.md)"""
DONOR = 'synthesis = "donor"   # a sample of a person who consents (array `consent`) is sent in place of another\'s'
CENTROID = """\
synthesis = "centroid" # the mean of samples of at least so many different people is sent
fewest_subjects = {fewest}"""


class Codebook(Perturber):
    """A codebook: an encoder's class and one of its codes, and a picture of it."""

    kinds = ("codebook",)
    titles = ("A codebook",)
    certified = True
    streams = True
    hides_more = True
    trained = True
    tries_unseen = True
    private_slices = ("classifiers", "perturber")
    whole_pictures = True

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
    pufferfish: float | None = Field(
        default=None,
        gt=0,
        le=10,
        description="epsilon: codes go through a channel of least distortion that makes none e^epsilon times as likely "
        "for one z as for another, given y. Each code needs 30 rows of every y and z.",
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
        default="",
        description='Must be stated for `hold` by "frame", "bout" or "first:2" and more; manifest and card repeat it.',
    )
    hold: str = Field(
        default="none",
        pattern=rf"^(none|frame|bout:[1-9][0-9]{{0,2}}|track:[1-9][0-9]{{0,2}}|period:[1-9][0-9]{{0,3}}s|{FIRST})$",
        description='"none": samples that do not belong together. Of a stream: "track:7", a class by seven votes and '
        'one draw per track; "period:600s", one draw per class and clock period; "bout:4", the code of the first '
        'frame of a class, kept until four frames in a row were of others; "frame", a code for every frame; "first:4", '
        'class and code of the first four frames of a track, "first:4/600s" of a period, then the last until it ends.',
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
        several = hold.startswith("first") and not re.match("first:1(/|$)", hold)
        if several and info.data.get("acknowledge") != "code-per-frame leaks":
            raise ValueError(
                '"first:1", or several with acknowledge = "code-per-frame leaks": the codes of several frames of one '
                "track add up"
            )
        if not (several or hold.startswith(("frame", "bout"))) and info.data.get("acknowledge"):
            raise ValueError('"frame", "bout:4" or "first:4" with `acknowledge`, which is for these alone')
        return hold

    @model_validator(mode="after")
    def _designs(self) -> Codebook:
        if self.pufferfish is not None and self.hold != "none":
            raise ValueError("no `pufferfish` with `hold`: what is held is drawn for more than one frame")
        return self

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

    @property
    def holds(self) -> bool:
        """See ``Perturber``."""
        return not self.acknowledge

    @property
    def held(self) -> bool:
        """See ``Perturber``."""
        return self.hold.startswith(("track", "period", "first"))

    @property
    def follows(self) -> bool:
        """Whether codes of the first frames of a track or period follow x, and the last is kept."""
        return self.hold.startswith("first")

    def check_stream(self) -> None:
        """See ``Perturber``."""
        if self.hold == "none":
            known = '"track:7", "period:600s", "first:1", "bout:4" or "frame"'
            raise ValueError(f"`perturber.hold` to be {known}: these data are streams")

    def check_private(self) -> None:
        """Of what a codebook may take from data, refuse that for which no mechanism is built, with the reason."""
        if self.synthesis != "centroid":
            raise ValueError(
                'perturber.synthesis = "centroid" with [private]: a donor is somebody\'s own sample. Where receivers '
                "need no picture, `edgeveil export --emit code` sends the code alone"
            )
        if self.pufferfish is not None:
            raise ValueError("no `perturber.pufferfish` with [private]: its channel is counted without noise")
        if self.method != "funnel":
            raise ValueError(
                'perturber.method = "funnel" with [private]: the usual T of a class is counted without noise'
            )
        if unbounded := [name for name in self.keep if name not in FIXED]:
            known = ", ".join(f'"{name}"' for name in FIXED)
            raise ValueError(f'`perturber.keep` of {known} with [private]: "{unbounded[0]}" has no public bounds')
        if self.hold != "none":
            raise ValueError(
                'perturber.hold = "none" with [private]: what is held is drawn from k-means, without noise'
            )

    @classmethod
    def of_older_run(cls, section: dict[str, Any]) -> None:
        """See ``Perturber.of_older_run``."""
        held = section.get("hold", "none").startswith(("track", "period"))
        for key, (values, _) in DELETED.items():
            if section.get(key) in ((*values, "independent") if held else values):
                section.pop(key, None)

    def check(self, dataset: Dataset) -> None:
        """Raise ``BadInput`` where the data have no pictures for every code: no consent, or too few people."""
        from edgeveil.trainer.perturbers.codebook import fit

        fit.check(self, dataset)

    def fit(self, dataset: Dataset, **asked: Any) -> FittedPerturber:
        """See ``Perturber`` and ``edgeveil.trainer.perturbers.codebook.fit``."""
        from edgeveil.trainer.perturbers.codebook import fit

        return fit.fit(self, dataset, **asked)

    @classmethod
    def as_code(cls, fitted: FittedPerturber, x: np.ndarray, pool: np.ndarray | None = None) -> FittedPerturber:
        """Class and code alone. The table ``decoder`` (codes, pictures of each, *shape) holds samples as they would be
        sent, or those of ``pool``: a receiver draws one of the code's evenly. What it draws is a function of the code
        and fresh noise, so it tells no more than the code."""
        code, label = (
            next(output for output in fitted.outputs if output["kind"] == kind) for kind in ("code", "label")
        )
        needed: set[str] = {code["tensor"], label["tensor"]}
        stages: list[dict[str, Any]] = []
        for stage in reversed(fitted.stages):
            reads, writes = reads_and_writes(stage)
            if needed & set(writes):
                stages.insert(0, stage)
                needed |= set(reads)
        spec, pictures = fitted.input, fitted.tables["pictures"]
        copies = fitted.tables["donors"].shape[1] // len(fitted.tables["donors"]) if "donors" in fitted.tables else 1
        if pictures.dtype.kind == "f":
            pictures = to_raw(spec.dtype, spec.low, spec.high)(pictures)
        decoder = pictures.reshape(-1, copies, *spec.shape) if pool is None else pool
        tables = {stage["table"]: fitted.tables[stage["table"]] for stage in stages if "table" in stage}
        return replace(
            fitted,
            stages=tuple(stages),
            outputs=({**code, "decoder": "decoder"}, label),
            tables={**tables, "decoder": decoder},
        )

    @classmethod
    def draft(cls, kind: str, dataset: Dataset, *, apart: float, stream: bool) -> str:
        """See ``Perturber.draft``."""
        from edgeveil.trainer.perturbers.codebook import synthesis

        part = dataset.part("perturber")
        small = len(part) < SMALL
        consents = dataset.consent is not None and bool(dataset.consent[part.index].any())
        people = synthesis.fewest_drawn(dataset, stream=stream)
        if not consents:
            synthesis.check_people(people, dataset.y_names, fewest=2)
        return CODEBOOK.format(
            keep=MOTION if {"energy", "tempo"} <= set(dataset.attributes) else PIXELS,
            held=HELD if stream else "",
            codes=CODES if len(part) < 500 else 8 if small else 32,
            steps=300 if small else 1400,
            small=LITTLE if small else "",
            width=f"\nwidth = {int(np.clip(2 * dataset.input.shape[0], 64, 256))}"
            if dataset.input.kind == "vector"
            else "",
            synthesis=DONOR if consents else CENTROID.format(fewest=int(np.clip(people.min(), 2, 10))),
        )
