"""What an audit found, as one record: a question, how it was asked, one figure with its interval, and what it rests on.

Probes, sections and attacks return findings; the document, the terminal, the card and the page walk them. One attack
gives several findings, one for each figure, with the same ``question``, ``name``, ``learned_on`` and ``seed``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bundle import audit_figures
from edgeveil.edge_runtime.bundle.audit_figures import ATTACKS, DONOR, FIGURES, LABEL_ONLY, RAW, SENT
from edgeveil.trainer.measures.intervals import Interval

UNATTACKED = "outlets"  # the kind of findings that name outlets which were not attacked
STREAM_BOUND = "stream bound"  # the kind of the finding that says for how many frames of a stream a bound holds
FIXED = "D_y"  # the reader of y that learned on raw samples


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
    ``not_run`` is why there is no figure, and what it would need. ``more`` are further facts, as JSON: ``kind`` is what
    kind of finding it is (adaptive, fixed and transfer attacks; reader, guess, test, counting, part, curve, label,
    side, probe, kept or hidden attribute, or the section that made it), ``about`` distinguishes findings of one kind
    and name.
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
        document = {}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            default = {} if one.name == "more" else one.default
            if value != default:
                document[one.name] = plain(value)
        return document

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Finding:
        """The finding of a record of ``as_json``. Raises ``TypeError`` for a key that no finding has."""
        facts = dict(record)
        if "interval" in facts:
            facts["interval"] = tuple(facts["interval"])
        return cls(**facts)

    @property
    def kind(self) -> str:
        """What kind of finding it is."""
        return str(self.more.get("kind", ""))

    @property
    def about(self) -> str:
        """What distinguishes findings of one kind and name."""
        return str(self.more.get("about", ""))

    def shown(self) -> str:
        """The figure with its interval, as text; a dash where it was not measured."""
        form = FIGURES[self.figure].form if self.figure else ""
        if self.value is None:
            return "-"
        ends = [None if end is None else written(end, form) for end in self.interval]
        return written(self.value, form) + ("" if None in ends else f" [{ends[0]}, {ends[1]}]")


@dataclass(frozen=True)
class Answer:
    """Findings of one attack, reader or law on one question, by figure."""

    question: str
    name: str
    kind: str
    about: str
    of: str
    learned_on: str
    seed: int | None
    figures: dict[str, Finding]

    @property
    def label(self) -> str:
        """Its name, and what it learned on where it is an attack that learned."""
        return f"{self.name} on {self.learned_on} rows" if self.kind == "adaptive" and self.learned_on else self.name

    @property
    def first(self) -> Finding:
        """The first of its findings; the facts of an attack are with it."""
        return next(iter(self.figures.values()))


def findings(document: Mapping[str, Any], of: str | None = None) -> list[Finding]:
    """The findings of a document of schema 2, of one output or of all."""
    all_findings = [Finding.from_json(one) for one in document["findings"]]
    return [one for one in all_findings if of is None or one.of == of]


def about_label_only(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The findings of a document about label-only, as JSON, for an audit of the same run."""
    floor = [one for one in document["findings"] if one.get("of") in (LABEL_ONLY, DONOR, RAW)]
    return [one for one in floor if one["more"]["kind"] == "collateral" or one["of"] == LABEL_ONLY]


def answers(found: Iterable[Finding], *kinds: str) -> list[Answer]:
    """Findings as answers, in their order; of some kinds, or of all. What did not run has no figure."""
    grouped: dict[tuple[Any, ...], Answer] = {}
    for one in found:
        if kinds and one.kind not in kinds:
            continue
        key = (one.question, one.name, one.kind, one.about, one.of, one.learned_on, one.seed)
        grouped.setdefault(key, Answer(*key, {})).figures[one.figure] = one
    return list(grouped.values())


def attacks(document: Mapping[str, Any], of: str = SENT) -> list[Answer]:
    """The attacks on z that ran, in the order in which they did."""
    z = document["data"]["sensitive"]
    ran = [one for one in findings(document, of) if one.question == z and not one.not_run]
    return answers(ran, *ATTACKS)


def best(document: Mapping[str, Any], of: str = SENT) -> Answer:
    """The best attack found: the adaptive one that is right most often on validation rows."""
    return next(one for one in attacks(document, of) if one.figures["right"].more.get("chosen"))


def most_bits(document: Mapping[str, Any], of: str = SENT) -> Answer:
    """The adaptive attack with most bits on validation rows."""
    return next(one for one in attacks(document, of) if one.figures["bits-counted"].more.get("chosen"))


def guess(document: Mapping[str, Any], of: str = SENT) -> float:
    """The better of both chances: how often the best guess from y alone is right."""
    return max(one.value or 0.0 for one in findings(document, of) if one.kind == "guess")


def kept(document: Mapping[str, Any], of: str = SENT) -> Finding:
    """How often y is read right, by the reader that was best on validation rows."""
    return Finding.from_json(audit_figures.kept(document, of))


def fixed(document: Mapping[str, Any], of: str = SENT) -> Finding:
    """How often D_y reads y right; where there is none, ``kept``."""
    found = [Finding.from_json(one) for one in audit_figures.readers(document, of) if one["name"] == FIXED]
    return found[0] if found else kept(document, of)


def written(value: float, form: str) -> str:
    """A figure in its form; shares in percent."""
    return format(value, form).replace("%", " %")


def plain(value: Any) -> Any:
    """As JSON: floats with six decimals, None where they are not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return round(float(value), 6) if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return value
