"""Probes: attacks other than attribute inference (linkage, membership, copies, codes), one class a file.

The registry finds them. A probe returns findings; in the document's ``probes`` they stand under what it ``asks``, where
the text, the card and the page take them from. ``attacks.rows.places`` says which of the rows of all slices are to
learn on and to test on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from edgeveil.edge_runtime.registry import Registry
from edgeveil.trainer.audit.document import short
from edgeveil.trainer.audit.sections import About
from edgeveil.trainer.measures.intervals import Interval


@dataclass(frozen=True)
class Finding:
    """A rate or an area with its 95 % interval, ``n`` rows, pairs or tracks behind it, and ``chance``, what an attacker
    reaches who knows y alone; or, ``not_run``, why there is none on these data and what it needs."""

    name: str
    value: Interval | None = None
    n: int = 0
    chance: float | None = None
    meaning: str = ""
    not_run: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As ``probe_row`` of docs/reference/schemas/audit.schema.json."""
        if self.value is None:
            return {"name": self.name, "not_run": self.not_run}
        if not math.isfinite(self.value.estimate):
            reason = f"{self.n} rows or pairs are too few or too similar for a figure: give more data"
            return {"name": self.name, "not_run": reason}
        ends = dict(zip(("value", "low", "high"), map(short, self.value), strict=True))
        return {"name": self.name, **ends, "n": self.n, "chance": self.chance, "meaning": self.meaning}


class Probe:
    """A probe by its ``name``; of those that ask the same, the ones with a lower ``order`` come first."""

    name: str
    asks: str
    order = 1

    def run(self, about: About) -> list[Finding]:
        """What it finds."""
        raise NotImplementedError


PROBES = Registry(__name__, key="name", word="probe")


def run_all(about: About) -> dict[str, list[dict[str, Any]]]:
    """The findings of every probe by what it asks: {"codes": [...], "copies": [...], ...}."""
    found: dict[str, list[dict[str, Any]]] = {}
    for kind in sorted(PROBES.kinds().values(), key=lambda kind: (kind.facts["asks"], kind.facts.get("order", 1))):
        findings = kind.load()().run(about)
        found.setdefault(kind.facts["asks"], []).extend(finding.as_dict() for finding in findings)
    return found
