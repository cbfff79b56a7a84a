"""The verdict of an audit in one sentence: the same in the demo, the report and the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeveil.trainer.audit.board_column import board_name
from edgeveil.trainer.audit.text import percent

HIDDEN, PARTLY, NOT_HIDDEN = "hidden", "partly", "not hidden"
BITS_THAT_MATTER = 0.01  # per reading, beyond what counting z given y tells; less is within reach of a null


def verdict(part: Mapping[str, Any], raw_accuracy: float) -> str:
    """How the best attack found stands between chance and raw data.

    ``not hidden``: at least half of the way from chance to ``raw_accuracy``, what D_z reaches on raw data. ``hidden``:
    no better than the better chance within its interval, and no attack surely gains more than a hundredth of a bit
    (at a skewed prior an attack can know much and still not guess better). ``partly``: between. ``part`` is the
    document or its ``label_only``.
    """
    worst, best_guess = part["worst_adaptive"], guess(part)
    if worst["low"] > best_guess:
        return NOT_HIDDEN if worst["accuracy"] >= (best_guess + raw_accuracy) / 2 else PARTLY
    return HIDDEN if gained(part) <= BITS_THAT_MATTER else PARTLY


def guess(part: Mapping[str, Any]) -> float:
    """The better of both chances: the accuracy of the best guess from y alone."""
    return max(part["chance"].values())


def gained(part: Mapping[str, Any]) -> float:
    """Bits beyond counting z given y of the attack with most of them, at the lower end of its interval."""
    low = part["most_bits"]["bits_counted_low"]
    return 0.0 if low is None else float(low)


def sentence(document: Mapping[str, Any]) -> str:
    """One sentence: what is kept, what the best attack found still learns, against what, and what that is worth."""
    data, worst, target = document["data"], document["worst_adaptive"], document["target"]
    best_guess = guess(document)
    where = f" on {board_name(document['on_board'])}" if "on_board" in document else ""
    kept = f"The {document['artefact']} artefact{where} keeps {data['target']} at {percent(target['accuracy'])}"
    attack = (
        f"the best attack found ({worst['name']}, retrained on {worst['train_samples']:,} perturbed samples) reads "
        f"{data['sensitive']} right {percent(worst['accuracy'])} of the time "
        f"(95 % interval {100 * worst['low']:.1f} to {percent(worst['high'])})"
    )
    against = f"guessing from {data['target']} alone is right {percent(best_guess)}"
    outcome = verdict(document, document["raw"]["sensitive"]["accuracy"])
    if outcome == HIDDEN:
        return f"{kept}, and {attack}, no better than chance ({against}): a lower bound on what leaks, not a guarantee."
    if worst["low"] <= best_guess:
        return (
            f"{kept}, and {attack}, no better than chance ({against}), but {document['most_bits']['name']} gains at "
            f"least {gained(document):.2f} bits about it per reading, so it hides it in part only."
        )
    meaning = "so it does not hide it" if outcome == NOT_HIDDEN else "so it hides it in part only"
    fixed = [row["accuracy"] for row in document["adversaries"] if row["kind"] == "fixed"]
    fooled = ""
    if fixed and fixed[0] < worst["low"]:
        fooled = f", although the adversary it was trained against gets only {percent(fixed[0])} (non-adaptive)"
    return f"{kept}, but {attack} where {against}, {meaning}{fooled}."
