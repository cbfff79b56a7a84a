"""The verdict on a site: does the sensor there read y and count people as it should, on codes like those of the audit?

An operator's slips count as errors of the sensor, so every figure is a lower bound on what it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.acceptance.shift import SHIFTED, UNKNOWN, reference_of, shift_of
from edgeveil.edge_runtime.bundle.audit_document import read_audit
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.trainer.accept.tallies_file import SiteTallies, TappedLine
from edgeveil.trainer.measures.intervals import rate

ACCEPTED, REFUSED, CANNOT_TELL, NOT_JUDGED = "accepted", "refused", "cannot tell", "not judged"
BELOW_AUDIT = 0.05  # of the audit's accuracy of y, where nothing else is asked for
ERROR = 0.025  # of the shift: one-sided


@dataclass(frozen=True)
class Demands:
    """The least accuracy of y (None: 5 points below the audit's) and of counts, and the most that codes may shift."""

    y: float | None = None
    counts: float = 0.9
    shift: float = 0.25


class Matched(NamedTuple):
    """Crossings of one line one way, over all periods: right ones, those missed, and those too many, by period."""

    right: np.ndarray
    missed: np.ndarray
    extra: np.ndarray


def judge(tallies: SiteTallies, bundle: Bundle, demands: Demands) -> dict[str, Any]:
    """The document of ``edgeveil accept``. Raises ``BadInput`` for tallies of another bundle."""
    if tallies.manifest_sha256 != bundle.manifest_sha256:
        raise BadInput(
            f"The tallies are of {tallies.bundle}, and not of this very bundle ({bundle.manifest.name}): name the one "
            "that ran there."
        )
    audit = read_audit(bundle.manifest, bundle.members)
    parts = {
        "y": _of_y(tallies, bundle, audit, demands),
        "counts": of_counts(tallies.counts, bundle.manifest.counts, demands),
        "shift": _of_shift(tallies, bundle, audit, demands),
    }
    words = [part["word"] for part in parts.values()]
    tapped = {parts["y"]["word"], parts["counts"]["word"]} - {NOT_JUDGED}
    clear = bool(tapped) and CANNOT_TELL not in words
    return {
        "kind": "edgeveil-accepted",
        "schema": 1,
        "bundle": {"name": bundle.manifest.name, "manifest_sha256": bundle.manifest_sha256},
        "minutes": tallies.minutes,
        "seconds": tallies.seconds,
        "taps": tallies.taps,
        **parts,
        "verdict": REFUSED if REFUSED in words else (ACCEPTED if clear else CANNOT_TELL),
    }


def _of_y(tallies: SiteTallies, bundle: Bundle, audit: Mapping[str, Any] | None, demands: Demands) -> dict[str, Any]:
    audited = None if audit is None else {key: audit["target"][key] for key in ("accuracy", "low", "high")}
    if not tallies.y:
        return {"word": NOT_JUDGED, "why": "no y was tapped", "audited": audited}
    least = demands.y
    if least is None:
        if audited is None:
            raise BadInput("This bundle has no audit to compare y with: say what is enough, with --least-y.")
        least = max(0.0, audited["low"] - BELOW_AUDIT)
    hits = np.concatenate([np.full(one.taps, one.y == one.y_hat) for one in tallies.y])
    minute = np.concatenate([np.full(one.taps, one.minute) for one in tallies.y])
    names = bundle.manifest.perturber.target_classes
    by_class = {
        name: {
            "taps": sum(one.taps for one in tallies.y if one.y == number),
            "right": sum(one.taps for one in tallies.y if one.y == one.y_hat == number),
        }
        for number, name in enumerate(names)
    }
    found = _rate(hits, minute, least)
    return {**found, "taps": len(hits), "by_class": by_class, "audited": audited}


def of_counts(counts: Sequence[TappedLine], rules: CountRules | None, demands: Demands) -> dict[str, Any]:
    """The share of crossings counted right, with its interval by period; ``rules`` are those of the bundle."""
    if rules is None:
        return {"word": NOT_JUDGED, "why": "this bundle counts nobody"}
    if rules.noise is not None:
        return {"word": NOT_JUDGED, "why": "its counts leave with noise: what is tapped is not what is sent"}
    if not any(sum(one.tapped) for one in counts):
        return {"word": NOT_JUDGED, "why": "no crossing was tapped in a whole period"}
    found = {
        f"{line} {way}": matched([one for one in counts if one.line == line], place)
        for line in dict.fromkeys(one.line for one in counts)
        for place, way in enumerate(("in", "out"))
    }
    hits, period = [], []
    for one in found.values():
        for at, (right, missed, extra) in enumerate(zip(*one, strict=True)):
            hits += [True] * int(right) + [False] * int(missed + extra)
            period += [at] * int(right + missed + extra)
    by_line = {name: {key: int(value.sum()) for key, value in one._asdict().items()} for name, one in found.items()}
    return {**_rate(np.array(hits), np.array(period), demands.counts), "by_line": by_line}


def _of_shift(
    tallies: SiteTallies, bundle: Bundle, audit: Mapping[str, Any] | None, demands: Demands
) -> dict[str, Any]:
    reference = reference_of(audit, bundle.manifest.crops)
    if reference is None or tallies.histogram is None:
        return {"word": NOT_JUDGED, "why": "the bundle's audit does not say how often each code left: audit it anew"}
    left = tallies.histogram
    if left.output != reference.output or len(left.counts) != len(reference.counts):
        raise BadInput("The histogram of the tallies is of other codes than the bundle's audit: take them anew.")
    shift = shift_of(reference, left.counts, left.effective, most=demands.shift, error=ERROR)
    word = {SHIFTED: REFUSED, UNKNOWN: CANNOT_TELL}.get(shift.state, ACCEPTED)
    return {"word": word, **shift.document(), "releases": sum(left.counts)}


def matched(periods: Sequence[TappedLine], way: int) -> Matched:
    """Taps and counts of one line one way, period by period. A tap may come a moment before or after its count, so what
    is left of one period is matched with what is missing in the next."""
    ordered = sorted(periods, key=lambda one: one.period)
    tapped = np.array([one.tapped[way] for one in ordered])
    counted = np.array([max(0, one.counted[way]) for one in ordered])
    right = np.minimum(tapped, counted)
    missed, extra = tapped - right, counted - right
    for at in range(len(ordered) - 1):
        if ordered[at + 1].period != ordered[at].period + 1:
            continue
        for early, late in ((missed, extra), (extra, missed)):
            both = min(early[at], late[at + 1])
            early[at] -= both
            late[at + 1] -= both
            right[at] += both
    return Matched(right, missed, extra)


def _rate(hits: np.ndarray, cluster: np.ndarray, least: float) -> dict[str, Any]:
    found = rate(hits, cluster)
    word = ACCEPTED if found.low >= least else (REFUSED if found.high < least else CANNOT_TELL)
    ends = {name: round(float(value), 4) for name, value in zip(("accuracy", "low", "high"), found, strict=True)}
    return {"word": word, **ends, "least": round(least, 4)}
