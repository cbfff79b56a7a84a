"""For how many frames of a stream a bound holds, of bundles that are for a camera or a series.

It comes from the manifest's dataflow (``edge_runtime.manifest.stream_bound``), which the runtime reads as well. Here
answers that a promise covers are added up as tightly as can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.spending import charged
from edgeveil.edge_runtime.manifest.stream_bound import ANSWERS, BOUNDED, stream_bound
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages.channel import Response, same_of
from edgeveil.trainer.audit.findings import STREAM_BOUND, Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.sections.streams import TRACKS
from edgeveil.trainer.audit.subject import KERAS
from edgeveil.trainer.measures.composition import epsilon_of_all

NAME = "frames that a bound holds for"
DELTA = 1e-6


def section(manifest: Mapping[str, Any], tables: Mapping[str, np.ndarray] | None = None) -> list[Finding]:
    """The one finding: a bound with its assumptions, or why there is none for more than one frame. ``tables`` are the
    manifest's arrays, by which answers of k-RR add up to less."""
    found = stream_bound(manifest)
    more: dict[str, Any] = {"kind": STREAM_BOUND, "of": found.kind, "frames": found.frames, "line": found.line}
    if found.kind not in BOUNDED:
        return [Finding(TRACKS, NAME, not_run=found.text, more=more)]
    if found.kind != ANSWERS:
        return [Finding(TRACKS, NAME, bound=True, text=found.text, more=more)]
    all_together = epsilon_of_all(found.epsilon, found.draws, DELTA, same=_same(manifest, tables or {}))
    text = f"{found.text[:-1]}. Together they are ({up(all_together)}, {DELTA:g})-differentially private as well."
    more |= {"answers": found.draws, "each": found.epsilon, "delta": DELTA, "epsilon_at_delta": all_together}
    return [Finding(TRACKS, NAME, "epsilon", found.draws * found.epsilon, bound=True, text=text, more=more)]


def _same(manifest: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> float:
    """How often an answer says nothing of two categories, whichever: of k-RR alone, else 0."""
    stages = charged(manifest["stages"], outlets.values(manifest))
    table = tables.get(stages[0].get("table", "")) if len(stages) == 1 else None
    return 0.0 if table is None or not isinstance(kind_of(stages[0]), Response) else same_of(table)


def up(number: float) -> str:
    """Three decimals, never below."""
    return f"{-(-round(1000 * number, 6) // 1) / 1000:g}"


class Bound(Section):
    """The frames of a stream for which a bound holds."""

    name = "stream bound"  # a literal, STREAM_BOUND
    order = 13

    def applies(self, about: About) -> bool:
        """As ``Streams``, and of boards too: it reads the manifest alone."""
        manifest = about.subject.manifest
        return (manifest.get("stream") or manifest.get("capture")) is not None

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``."""
        subject = about.subject
        return section(subject.manifest, {} if subject.artefact == KERAS else subject.tables())
