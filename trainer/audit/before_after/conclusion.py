"""The verdict of an audit of pairs: the rule of a bundle's audit, and what it cannot be given for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeveil.trainer.audit.text import percent
from edgeveil.trainer.audit.verdict import CANNOT_TELL, DEFAULT, HOLDS, LEAKS, guess, judge


def concluded(document: Mapping[str, Any], fewest: Mapping[str, int]) -> dict[str, Any]:
    """The ``verdict`` of docs/reference/schemas/audit.schema.json, at the default limits.

    It is *cannot tell* also where there are fewer than ``fewest`` rows or units, too few to attack, and where no attack
    reads z in the samples before.
    """
    data, count = document["data"], document["data"]["units"]["count"]
    kind = data["units"]["kind"]
    if document["worst_adaptive"] is None:
        total = fewest["rows" if kind == "rows" else "units"]
        return {
            "word": CANNOT_TELL,
            "limit": {"points": DEFAULT.points, "bits": DEFAULT.bits},
            "reasons": [
                f"at least {fewest['rows']} rows of {fewest['units']} {kind} are needed to attack at all, and there "
                f"are {data['rows']['after']} rows of {count}; to say that z is hidden takes hundreds"
            ],
            "upper": {"points": None, "bits": None},
            "fresh": False,
            "needed": {"unit": kind, "total": total, "more": max(1, total - count)},
        }
    tested = document["test"]
    clusters = None if kind == "rows" else {"kind": kind.removesuffix("s"), "test": tested["units"]}
    found = judge(document, {}, {"rows": {"test": tested["rows"]}, "clusters": clusters})
    if found["word"] != LEAKS and document["raw"]["sensitive"]["low"] <= guess(document):
        reason = (
            f"no attack surely reads {data['sensitive']} in the rows before, so finding nothing after says nothing "
            "about the mechanism"
        )
        return {**found, "word": CANNOT_TELL, "reasons": [reason], "needed": None}
    return found


def sentence(document: Mapping[str, Any]) -> str:
    """The verdict, its reasons, and what the best attack found reads."""
    found, worst, data = document["verdict"], document["worst_adaptive"], document["data"]
    why = "; ".join(found["reasons"])
    within = f"{found['limit']['points']:g} points and {found['limit']['bits']:g} bits"
    needed = found["needed"]
    more = "" if needed is None else f"; about {needed['more']:,} more {needed['unit']} would be needed"
    if worst is None:
        return f"Cannot tell: {why}{more}."
    attack = (
        f"the best attack found ({worst['name']}, retrained on {worst['train_samples']:,} rows after) reads "
        f"{data['sensitive']} right {percent(worst['accuracy'])} of the time (95 % interval "
        f"{100 * worst['low']:.1f} to {percent(worst['high'])}), where guessing from {data['target']} alone is right "
        f"{percent(guess(document))} and an attack on rows before {percent(document['raw']['sensitive']['accuracy'])}"
    )
    clean = [row["accuracy"] for row in document["adversaries"] if row["kind"] == "transfer"]
    if clean and max(clean) > worst["accuracy"]:
        attack += f", and one who learned on rows before alone {percent(max(clean))}"
    if found["word"] == LEAKS:
        return f"It leaks: {attack}; {why}."
    if found["word"] == HOLDS:
        return f"It holds to within {within}: {attack}. A lower bound on what leaks, not a guarantee."
    return f"Cannot tell whether it holds to within {within}: {attack}; {why}{more}."
