"""What an audit found, as one record: a question, how it was asked, one figure with its interval, and what it rests on.

Probes, sections and attacks return findings; the document, the terminal, the card and the page walk them. One attack
gives several findings, one for each figure, with the same ``question``, ``name``, ``learned_on`` and ``seed``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edgeveil.trainer.measures.intervals import Interval

SENT, LABEL_ONLY, RAW, DONOR = "sent", "label-only", "raw", "donor"
FIXED = "D_y"  # the reader of y that learned on raw samples


class Figure(NamedTuple):
    """A kind of figure: the range of its value and of both ends, how it is written, and what it is in words."""

    low: float
    high: float
    form: str
    words: str


FIGURES: Mapping[str, Figure] = {
    "right": Figure(0, 1, ".1%", "rows read right"),
    "balanced": Figure(0, 1, ".1%", "balanced accuracy within y"),
    "auc": Figure(0, 1, ".3f", "area under the ROC curve within y"),
    "eer": Figure(0, 1, ".1%", "equal error rate"),
    "bits": Figure(-1000, 1000, "+.3f", "bits per sample beyond theta_y"),
    "bits-counted": Figure(-1000, 1000, "+.3f", "bits per sample beyond the counted P(z|y)"),
    "recognised": Figure(0, 1, ".1%", "most exposed samples recognised at 1 % false positives"),
    "worst-class": Figure(0, 1, ".1%", "recall of the most exposed class"),
    "correlation": Figure(-1, 1, "+.3f", "correlation within y"),
    "share": Figure(0, 1, ".2%", "share of rows"),
    "gain": Figure(-1000, 1000, "+.3f", "bits gained, by a permutation test"),
    "epsilon": Figure(0, math.inf, ".4g", "privacy loss epsilon"),
    "mu": Figure(0, math.inf, ".4g", "Gaussian privacy parameter mu"),
    "factor": Figure(1, math.inf, ".2f", "factor by which a chance may rise"),
    "number": Figure(-math.inf, math.inf, ".4g", "number"),
}


@dataclass(frozen=True)
class Finding:
    """One figure about an output.

    ``question`` is what was asked: the name of z, of y, of another label or property, or one of linkage, membership,
    copies, tracks, training, channel. ``name`` is the attack, reader or law that answered. ``figure`` is a key of
    ``FIGURES``; ``value``, the ends of its 95 % ``interval`` (None: not known) and ``null``, what y alone reaches, are
    in its unit. ``rows`` are the test rows, pairs, units or runs behind it, ``learned_on`` those of
    ``attacks.findings.Row``. ``of`` is whose output it is: what is sent, label-only, raw samples or donors.
    ``chosen_by`` is the same figure on validation rows, ``p`` the p-value of the finding's own test. ``bound``: the
    value is an upper bound under the assumptions in ``text``, else it is what an attack or a reader reached.
    ``not_run`` is why there is no figure, and what it would need. ``more`` are further facts, as JSON.
    """

    question: str
    name: str
    figure: str = ""
    value: float | None = None
    interval: tuple[float | None, float | None] = (None, None)
    null: float | None = None
    rows: int = 0
    learned_on: str = ""
    of: str = SENT
    seed: int | None = None
    chosen_by: float | None = None
    p: float | None = None
    bound: bool = False
    text: str = ""
    not_run: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def measured(cls, question: str, name: str, figure: str, value: Interval, **facts: Any) -> Finding:
        """The finding of an estimate with its interval; ends that are not finite are not known."""
        known = [float(one) if math.isfinite(one) else None for one in value]
        return cls(question, name, figure, known[0], (known[1], known[2]), **facts)

    def as_json(self) -> dict[str, Any]:
        """As audit.json has it: what is at its default is left out, and floats have six decimals."""
        found = {}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            default = {} if one.name == "more" else one.default
            if value != default:
                found[one.name] = _rounded(value)
        return found

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Finding:
        """The finding of a record of ``as_json``. Raises ``TypeError`` for a key that no finding has."""
        facts = dict(record)
        if "interval" in facts:
            facts["interval"] = tuple(facts["interval"])
        return cls(**facts)

    @property
    def over_null(self) -> float | None:
        """How far the upper end is above the null, None where either is not known."""
        high = self.interval[1]
        return None if high is None or self.null is None else high - self.null

    def shown(self) -> str:
        """The figure with its interval, as text; a dash where it was not measured."""
        form = FIGURES[self.figure].form if self.figure else ""
        if self.value is None:
            return "-"
        ends = [None if end is None else _written(end, form) for end in self.interval]
        return _written(self.value, form) + ("" if None in ends else f" [{ends[0]}, {ends[1]}]")


def _written(value: float, form: str) -> str:
    return format(value, form).replace("%", " %")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, tuple):
        return [_rounded(one) for one in value]
    return value
