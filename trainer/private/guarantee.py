"""What a differentially private result promises: one sentence, with what it rests on and what it leaves out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edgeveil.edge_runtime.errors import BadInput

Neighbours = Literal["add or remove", "replace"]
AROUND = {
    "add or remove": "adding or removing one {unit}",
    "replace": "replacing one {unit} by any other",
}
ALWAYS_OUTSIDE = "what floating-point rounding of the noise may tell"


@dataclass(frozen=True)
class Guarantee:
    """``epsilon`` and ``delta`` of ``covers``, between data sets that differ in one ``unit``.

    ``given`` is what it rests on, ``outside`` what it leaves out: both stand in the sentence.
    """

    epsilon: float
    delta: float
    unit: str
    neighbours: Neighbours
    covers: str
    given: Sequence[str] = ()
    outside: Sequence[str] = ()

    def sentence(self) -> str:
        """All of it."""
        around = AROUND[self.neighbours].format(unit=self.unit)
        size = f"epsilon {self.epsilon:.4g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        but = f", but for a chance of {self.delta:.3g}" if self.delta else ""
        given = f", given {_listed(self.given)}" if self.given else ""
        outside = _listed([*self.outside, ALWAYS_OUTSIDE])
        return (
            f"{around.capitalize()} of the training data changes the odds of {self.covers} by a factor of at most "
            f"e^{self.epsilon:.4g}{but} ({size}){given}; this leaves out {outside}."
        )

    def __str__(self) -> str:
        return self.sentence()


def together(promised: Sequence[Guarantee | None]) -> Guarantee:
    """What results promise that learned of the same people, as the fits of a cross-validation: the sums of all epsilons
    and deltas (Dwork et al. 2006).

    Raises ``BadInput`` where one of them promises nothing, or where they are not of the same neighbours.
    """
    known = [one for one in promised if one is not None]
    if not known or len(known) < len(promised):
        raise BadInput(f"Expected a guarantee of each result; {len(known)} of {len(promised)} have one.")
    first = known[0]
    around = list(dict.fromkeys(AROUND[one.neighbours].format(unit=one.unit) for one in known))
    if len(around) > 1:
        raise BadInput(f"Expected guarantees of the same neighbours; got {_listed(around)}: their sum says nothing.")
    kinds = list(dict.fromkeys(one.covers for one in known))
    return Guarantee(
        math.fsum(one.epsilon for one in known),
        math.fsum(one.delta for one in known),
        first.unit,
        first.neighbours,
        f"{_listed(kinds)} of {len(known)} results",
        list(dict.fromkeys(part for one in known for part in one.given)),
        list(dict.fromkeys(part for one in known for part in one.outside)),
    )


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
