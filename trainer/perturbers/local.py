"""Locally private reports (paper 002, Definition 3): of a vector, of the class that D_y predicts, or of a code.

One report tells little of anything to any reader; a collector who gets many estimates means and shares from them.
So that a run can be judged, and a receiver has a sample, a report ships with a decoder: x~ of a vector is unbiased, and
x~ of a class or code is made of mean pictures. ``edgeveil.edge_runtime.stages`` has one file for each mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages import STAGES, kind_of
from edgeveil.edge_runtime.stages.draw import MOST_PLACES
from edgeveil.edge_runtime.stages.mechanism import REPORT, Design, held
from edgeveil.edge_runtime.stages.preprocess import to_raw
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.perturbers.codebook import FIRST, Codebook, stream_codes
from edgeveil.trainer.perturbers.label_only import class_means, class_of
from edgeveil.trainer.recipe.perturber import Perturber
from edgeveil.trainer.recipe.training_sections import MOST_EPSILON, Budget
from edgeveil.trainer.runs.fitted import FittedPerturber, preprocess_stage

if TYPE_CHECKING:
    from edgeveil.trainer.runs.run import Log


def named(of: str) -> dict[str, Any]:
    """Each mechanism that a recipe may name for a ``mean`` (of vectors) or a ``share`` (of categories)."""
    kinds = [kind for kind in STAGES.kinds().values() if kind.facts.get("mechanism") and kind.facts["of"] == of]
    return {kind.facts["mechanism"]: kind.load()() for kind in kinds}


def of_vector(name: str, input_: str, d: int, alpha: float, *, radius: float = 1.0) -> Design:
    """A mechanism for ``input_``, u of d values in the unit cube. ``radius`` is that of duchi-l2, in half ranges.

    Raises ``BadInput`` for more than 4096 values.
    """
    if d > MOST_PLACES:
        raise BadInput(f"{name} takes at most {MOST_PLACES} values, and a reading has {d}: report fewer of them.")
    return named("mean")[name].design(input_, d, alpha, radius=radius)


def automatic(k: int, alpha: float) -> str:
    """The one of smallest error: randomised response for few categories (Wang et al., USENIX Security 2017)."""
    kinds = [(name, kind) for name, kind in named("share").items() if kind.automatic and k <= kind.most]
    return min((kind.variance(k, alpha), name) for name, kind in kinds)[1] if kinds else "cms"


def of_category(name: str, input_: str, k: int, alpha: float, *, once: float | None = None, seed: int = 0) -> Design:
    """A mechanism for ``input_``, an index below k. ``once``: alpha of one answer of one that is kept. ``seed``: of a
    sketch's hash functions, which ship.

    Raises ``BadInput`` for fewer than 2 or more than 4096 categories, of a sketch 2^20.
    """
    name = automatic(k, alpha) if name == "auto" else name
    kind = named("share")[name]
    if not 2 <= k <= kind.most:
        raise BadInput(f"{name} takes 2 to {kind.most} categories; got {k}. Report something else, or merge them.")
    return kind.design(input_, k, alpha, once=once, seed=seed)


DECODER = "decoder"
_KINDS = [kind.facts for kind in STAGES.kinds().values() if kind.facts.get("mechanism")]
VECTOR_MECHANISMS = tuple(one["mechanism"] for one in _KINDS if one["of"] == "mean")
CATEGORY_MECHANISMS = ("auto", *(one["mechanism"] for one in _KINDS if one["of"] == "share"))
KEPT_MECHANISMS = tuple(one["mechanism"] for one in _KINDS if one["once"])  # their permanent answer is kept
MECHANISMS = VECTOR_MECHANISMS + CATEGORY_MECHANISMS
DRAFT = """\
# Of {of}: one report tells little of anything; a collector who gets many estimates {what}.
[perturber]
kind = "local"
of = "{of}"
mechanism = "{mechanism}"
epsilon = 1.0         # alpha: the odds of anything about a reading change by at most e^alpha

[spending]
unit = "release"      # all releases of a device add up; "subject" where the source says whose each is
most = 10.0           # epsilon, then nothing leaves any more
"""


class Local(Perturber):
    """A report that is alpha-locally differentially private (paper 002, Definition 3): of many, a collector learns."""

    kinds = ("local",)
    titles = ("A locally private report",)
    promised = True
    reports = True
    streams = True

    kind: Literal["local"] = Field(description="A locally private report, from which a collector estimates.")
    of: Literal["reading", "label", "code"] = Field(
        description='What is reported: "reading", the vector itself; "label", the class that D_y predicts; "code", the '
        "code of a `codebook`."
    )
    mechanism: Literal[MECHANISMS] = Field(  # type: ignore[valid-type]
        description='Of a reading: "duchi-linf" (the minimax one for vectors in a cube), "duchi-l2" (in a '
        'ball), "laplace", "hybrid" (smallest error). Of classes and codes: "k-rr", "oue", "hrr", or "auto": k-rr '
        'below 3 e^alpha + 2 of them, else oue, and above 4,096 cms. "cms" and "hcms", Apple\'s count-mean sketch and '
        "its one-bit form, hash up to 1,048,576 of them to 132 or 8 bytes. "
        '"rappor" keeps a permanent answer for as long as `hold` says, and '
        "sends an instantaneous one of it with every frame."
    )
    epsilon: float = Field(
        gt=0,
        le=MOST_EPSILON,
        description="alpha: one release changes the odds of anything about its reading by a factor of at most e^alpha.",
    )
    radius: float = Field(
        default=1.0,
        gt=0,
        le=1e6,
        description="reading: how far from the middle of `data.low` and `data.high` a value may be, in half ranges "
        "(duchi-l2: the length of all of them together); what is further is clipped. Smaller has less noise.",
    )
    codebook: Codebook | None = Field(default=None, description="code: the codebook whose codes are reported.")
    hold: str = Field(
        default="none",
        pattern=rf"^(none|track|period:[1-9][0-9]{{0,3}}s|{FIRST})$",
        description='label, code: "track" or "period:600s" answers once for a track or clock period, of its first '
        'frame; "first:4" or "first:4/600s" of its first four, then the last is kept. The ledger is charged for each '
        'answer, and what is sent of it again costs nothing. "none": every frame is answered anew, and charged.',
    )
    instantaneous: float | None = Field(
        default=None,
        gt=0,
        lt=MOST_EPSILON,
        description="rappor: alpha of one instantaneous answer where no other is seen. All those of a permanent answer "
        "together tell at most `epsilon`, which must be larger, and which is what is charged.",
    )

    @model_validator(mode="after")
    def _belongs_together(self) -> Local:
        wants_vector = self.of == "reading"
        if (self.mechanism in VECTOR_MECHANISMS) != wants_vector:
            known = VECTOR_MECHANISMS if wants_vector else CATEGORY_MECHANISMS
            names = ", ".join(f'"{one}"' for one in known)
            raise ValueError(f'one of {names} with `of = "{self.of}"`; got "{self.mechanism}"')
        if self.of != "reading" and self.radius != 1.0:
            raise ValueError("no `radius` but with readings: classes have no distance")
        self._keeps(wants_vector)
        if (self.of == "code") != (self.codebook is not None):
            wanted = "a section [perturber.codebook]" if self.of == "code" else "no section [perturber.codebook]"
            raise ValueError(f'{wanted} with `of = "{self.of}"`')
        if self.codebook is not None and self.codebook.hold != "none":
            raise ValueError("no `hold` in [perturber.codebook]: its code is reported")
        if self.codebook is not None and self.codebook.pufferfish is not None:
            raise ValueError("no `pufferfish` in [perturber.codebook]: `epsilon` bounds its report")
        return self

    def _keeps(self, is_vector: bool) -> None:
        """Raise ``ValueError`` where what is kept does not fit the mechanism."""
        if is_vector and self.hold != "none":
            raise ValueError(f'no `hold` with `of = "{self.of}"`: a vector that is kept is no stream; report classes')
        keeps_answer = self.mechanism in KEPT_MECHANISMS
        if keeps_answer and self.hold == "none":
            raise ValueError(
                f'`hold` of "track" or "period:600s" with "{self.mechanism}", which keeps its permanent answer so long'
            )
        if keeps_answer != (self.instantaneous is not None):
            raise ValueError(f'{"" if keeps_answer else "no "}`instantaneous` with `mechanism = "{self.mechanism}"`')
        if self.instantaneous is not None and self.instantaneous >= self.epsilon:
            raise ValueError(
                f"`instantaneous` below `epsilon`, which all answers together tell, {self.epsilon:g}; got "
                f"{self.instantaneous:g}"
            )

    def fit(
        self, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
    ) -> FittedPerturber:
        """The mechanism asked for, behind what it reports. Raises ``BadInput`` where the data do not fit."""
        if self.of == "reading":
            fitted = reading(self, dataset.input)
        elif self.codebook is None:
            fitted = _label(self, dataset, goal.target, rng)
        else:
            learned = self.codebook.fit(dataset, goal=goal, rng=rng, budget=budget, log=log)
            fitted = _code(self, dataset, learned, len(dataset.y_names) * self.codebook.codes, rng)
        log.record(local={"of": self.of, "mechanism": _name(fitted), "report": fitted.outputs[0]["shape"]})
        return fitted

    @classmethod
    def draft(cls, kind: str, dataset: Dataset, *, apart: float, stream: bool) -> str:
        """See ``Perturber.draft``."""
        if dataset.input.kind == "vector":
            return DRAFT.format(of="reading", what="means", mechanism="duchi-linf")
        return DRAFT.format(of="label", what="shares of classes", mechanism="auto")


def _name(fitted: FittedPerturber) -> str:
    reports = [kind for stage in fitted.stages if (kind := kind_of(stage)).reports and kind.mechanism]
    return reports[-1].mechanism


def reading(section: Local, spec: InputSpec) -> FittedPerturber:
    """A vector's report, with the decoder of its unbiased x~. Raises ``BadInput`` for pictures."""
    if spec.kind != "vector":
        raise BadInput(
            f'`perturber.of`: "reading" is for vectors; these are pictures of shape {spec.shape}: take of = "label".'
        )
    if "radius" not in named("mean")[section.mechanism].fields:
        spec = within(spec, section.radius)
    low, high = np.asarray(spec.low, np.float64), np.asarray(spec.high, np.float64)
    design = of_vector(section.mechanism, "u", spec.shape[0], section.epsilon, radius=section.radius)
    decoder = design.decoder(np.diag((high - low) / 2), (high + low) / 2)
    return reported(spec, (preprocess_stage(spec),), design, decoder=decoder)


def within(spec: InputSpec, radius: float) -> InputSpec:
    """The range shrunk (or widened) around its middle, so that ``radius`` half ranges are its ends."""
    low, high = np.asarray(spec.low, np.float64), np.asarray(spec.high, np.float64)
    half, middle = radius * (high - low) / 2, (high + low) / 2
    return replace(spec, low=tuple((middle - half).tolist()), high=tuple((middle + half).tolist()))


def _label(section: Local, dataset: Dataset, model: Any, rng: np.random.Generator) -> FittedPerturber:
    """The predicted class's report; its pictures are the class means of the second slice."""
    part, classes = dataset.part("perturber"), len(dataset.y_names)
    means = class_means(dataset.unit(part.x), part.y, classes)[:, None]
    design = _of_category(section, "predicted", classes, rng)
    fitted = reported(
        dataset.input, class_of(dataset.input, model, "predicted"), design, **_pictures(dataset, design, means)
    )
    return replace(fitted, models={"classifier": model}, stream=_stream(section))


def _code(
    section: Local, dataset: Dataset, fitted: FittedPerturber, codes: int, rng: np.random.Generator
) -> FittedPerturber:
    """The report of a codebook's code; its pictures are the codebook's own."""
    until = next(place for place, stage in enumerate(fitted.stages) if stage.get("output") == "code")
    table = fitted.tables["pictures"]
    pictures = table.reshape(codes, -1, *table.shape[1:])
    if table.dtype.kind in "iu":  # whole samples already
        pictures = dataset.unit(pictures).reshape(pictures.shape)
    design = _of_category(section, "code", codes, rng)
    told = reported(dataset.input, fitted.stages[: until + 1], design, **_pictures(dataset, design, pictures))
    return replace(told, models=fitted.models, substituted=fitted.substituted, stream=_stream(section))


def _of_category(section: Local, input_: str, k: int, rng: np.random.Generator) -> Design:
    once, seed = section.instantaneous, int(rng.integers(2**53))
    design = of_category(section.mechanism, input_, k, section.epsilon, once=once, seed=seed)
    return design if section.hold == "none" or section.instantaneous is not None else held(design)


def _stream(section: Local) -> Mapping[str, Any] | None:
    """The manifest's; the first frame of a track decides."""
    return stream_codes.stream("track:1" if section.hold == "track" else section.hold)


def _pictures(dataset: Dataset, made: Design, pictures: np.ndarray) -> dict[str, np.ndarray | None]:
    """The decoder of categories, of their pictures (k, m, *shape) in the unit cube: of an index, these; of bits, the
    mixture of mean pictures whose shares they estimate; none of Hadamard responses, whose index is not a category."""
    ends = dataset.input.low, dataset.input.high
    if made.slope is None and made.tables:
        return {"decoder": to_raw(dataset.input.dtype, *ends)(pictures.astype(np.float32))}
    means = pictures.mean(axis=1).astype(np.float64)
    raw = np.asarray(dataset.input.low) + means * dataset.input.span
    return {"decoder": made.decoder(raw.reshape(len(raw), math.prod(dataset.input.shape)))}


def reported(
    spec: InputSpec, before: tuple[dict[str, Any], ...], made: Design, *, decoder: np.ndarray | None = None
) -> FittedPerturber:
    """The stages ``before`` and those of the mechanism, and its report as the one output."""
    output = {"name": REPORT, "kind": "code", "tensor": REPORT, "shape": list(made.shape), "dtype": made.dtype}
    tables = dict(made.tables or {})
    if decoder is not None:
        output[DECODER], tables[DECODER] = DECODER, decoder
    return FittedPerturber(kind="local", input=spec, stages=(*before, *made.stages), outputs=(output,), tables=tables)
