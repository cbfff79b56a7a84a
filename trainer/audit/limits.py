"""A recipe's privacy limits against the figures of an audit (exit code 3 where one is exceeded)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeveil.trainer.audit.verdict import guess
from edgeveil.trainer.recipe.schema import Limits

_WORDS = {
    "attack_points": "The best attack found is {found:.1f} points over chance: the recipe allows {asked:g} "
    "(limits.attack_points), exceeded by {by:.1f}.",
    "bits": "The attack with most bits learns {found:.3f} bits per reading beyond y: the recipe allows {asked:g} "
    "(limits.bits), exceeded by {by:.3f}.",
}


def check(limits: Limits, document: Mapping[str, Any]) -> dict[str, Any]:
    """The ``limits`` section: what was asked, what was found, and ``exceeded``, a list with what was and by how much.

    Points are those of the best attack found over the better of both chances; bits those of the attack with most of
    them beyond counting z given y. The limit applies to estimates, not to the ends of their intervals.
    """
    asked = {"attack_points": limits.attack_points, "bits": limits.bits}
    points = 100 * (document["worst_adaptive"]["accuracy"] - guess(document))
    found = {"attack_points": round(points, 3), "bits": round(float(document["most_bits"]["bits_counted"]), 6)}
    exceeded = [
        {"limit": name, "asked": asked[name], "found": found[name], "by": round(found[name] - limit, 6)}
        for name, limit in asked.items()
        if limit is not None and found[name] > limit
    ]
    return {"asked": asked, "found": found, "exceeded": exceeded}


def sentences(section: Mapping[str, Any]) -> list[str]:
    """One sentence for each limit that was exceeded."""
    return [_WORDS[row["limit"]].format(**row) for row in section["exceeded"]]
