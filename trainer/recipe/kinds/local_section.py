"""``[perturber]`` of a locally private report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from edgeveil.trainer.recipe.kinds.codebook_section import Codebook
from edgeveil.trainer.recipe.section import MOST_EPSILON, Section

VECTOR_MECHANISMS = ("duchi-linf", "duchi-l2", "laplace", "hybrid")
CATEGORY_MECHANISMS = ("auto", "k-rr", "oue", "hrr", "rappor")


class Local(Section):
    """A report that is alpha-locally differentially private (paper 002, Definition 3): of many, a collector learns."""

    kind: Literal["local"] = Field(description="A locally private report, from which a collector estimates.")
    of: Literal["reading", "label", "code"] = Field(
        description='What is reported: "reading", the vector itself; "label", the class that D_y predicts; "code", the '
        "code of a `codebook`."
    )
    mechanism: Literal["duchi-linf", "duchi-l2", "laplace", "hybrid", "auto", "k-rr", "oue", "hrr", "rappor"] = Field(
        description='Of a reading: "duchi-linf" (the minimax one for vectors in a cube), "duchi-l2" (in a '
        'ball), "laplace", "hybrid" (smallest error). Of classes and codes: "k-rr", "oue", "hrr", or "auto": k-rr '
        'below 3 e^alpha + 2 of them, else oue. "rappor" keeps a permanent answer for as long as `hold` says, and '
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
        pattern=r"^(none|track|period:[1-9][0-9]{0,3}s)$",
        description='label, code: "track" or "period:600s" answers once for a track or clock period, of its first '
        'frame; the ledger is charged for that answer, and what is sent of it again costs nothing. "none": every '
        "frame is answered anew, and charged.",
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
        return self

    def _keeps(self, is_vector: bool) -> None:
        """Raise ``ValueError`` where what is kept does not fit the mechanism."""
        if is_vector and self.hold != "none":
            raise ValueError(f'no `hold` with `of = "{self.of}"`: a vector that is kept is no stream; report classes')
        rappor = self.mechanism == "rappor"
        if rappor and self.hold == "none":
            raise ValueError(
                '`hold` of "track" or "period:600s" with "rappor", which keeps its permanent answer so long'
            )
        if rappor != (self.instantaneous is not None):
            raise ValueError(f'{"" if rappor else "no "}`instantaneous` with `mechanism = "{self.mechanism}"`')
        if self.instantaneous is not None and self.instantaneous >= self.epsilon:
            raise ValueError(
                f"`instantaneous` below `epsilon`, which all answers together tell, {self.epsilon:g}; got "
                f"{self.instantaneous:g}"
            )
