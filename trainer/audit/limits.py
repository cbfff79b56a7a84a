"""A recipe's privacy limits against the figures of an audit (exit code 3 where one is exceeded)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeveil.trainer.recipe.training_sections import Limits

_WORDS = {
    "attack_points": "The best attack found is {found:.1f} points over chance: the recipe allows {asked:g} "
    "(limits.attack_points), exceeded by {by:.1f}.",
    "bits": "The attack with most bits learns {found:.3f} bits per sample beyond y: the recipe allows {asked:g} "
    "(limits.bits), exceeded by {by:.3f}.",
}
_UPPER = {
    "attack_points": "Attacks may reach {found:.1f} points over chance (upper end of 95 %): the recipe allows "
    "{asked:g} (limits.attack_points), exceeded by {by:.1f}.",
    "bits": "Attacks may learn {found:.3f} bits per sample beyond y (upper end of 95 %): the recipe allows {asked:g} "
    "(limits.bits), exceeded by {by:.3f}.",
}
_UNKNOWN = (
    "The recipe allows {asked:g} (limits.{limit}), and the audit has no upper end to compare: too few test units."
)


def check(limits: Limits, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The ``limits`` section: what was asked, what was ``found``, and ``exceeded``, a list with what and by how much.

    ``verdict`` is the document's. What is found are upper ends of the attacks' 95 % intervals: points over the better
    of both chances, also of balanced accuracy, and bits beyond counting z given y. A limit is met where they show it.
    """
    asked, upper = limits_of(limits), verdict["upper"]
    both = [upper[name] for name in ("points", "balanced") if name in upper]
    found = {"attack_points": None if None in both else max(both), "bits": upper.get("bits")}
    exceeded = []
    for name, limit in asked.items():
        high = found[name]
        if limit is not None and (high is None or high > limit):
            by = None if high is None else round(high - limit, 6)
            exceeded.append({"limit": name, "asked": limit, "found": high, "by": by, "upper_end": True})
    return {"asked": asked, "found": found, "exceeded": exceeded}


def limits_of(limits: Limits) -> dict[str, float | None]:
    """What the recipe asks of attacks; None where it asks nothing."""
    return {"attack_points": limits.attack_points, "bits": limits.bits}


def sentences(section: Mapping[str, Any]) -> list[str]:
    """One sentence for each limit that was exceeded; audits of before compared estimates."""
    found = []
    for row in section["exceeded"]:
        words = _WORDS if "upper_end" not in row else _UPPER
        found.append((_UNKNOWN if row["found"] is None else words[row["limit"]]).format(**row))
    return found
