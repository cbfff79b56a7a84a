"""A recipe's privacy limits against what an audit found: so that a build can hold a model to them (exit code 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.recipe import Limits

FAR = 5.0  # points: an interval that reaches further to a side cannot see what most limits ask for


def check(limits: Limits, document: Mapping[str, Any]) -> dict[str, Any]:
    """The ``limits`` section: what was asked, what was found, and ``exceeded``, a list with what was and by how much.

    Points are those of the best attack found over the better of both chances; bits those of the attack with most of
    them beyond counting z given y. Estimates are held to the limit, not the ends of their intervals.
    """
    asked = {"attack_points": limits.attack_points, "bits": limits.bits}
    points = 100 * (document["worst_adaptive"]["accuracy"] - max(document["chance"].values()))
    found = {"attack_points": round(points, 3), "bits": round(float(document["most_bits"]["bits_counted"]), 6)}
    exceeded = [
        {"limit": name, "asked": asked[name], "found": found[name], "by": round(found[name] - limit, 6)}
        for name, limit in asked.items()
        if limit is not None and found[name] > limit
    ]
    return {"asked": asked, "found": found, "exceeded": exceeded}


def sentences(section: Mapping[str, Any]) -> list[str]:
    """One sentence for each limit that was exceeded."""
    words = {
        "attack_points": ("The best attack found is {found:.1f} points over chance", "{asked:g} points", "{by:.1f}"),
        "bits": ("The attack with most bits learns {found:.3f} bits per reading beyond y", "{asked:g} bits", "{by:.3f}"),
    }
    return [
        "{}: the recipe allows {} (limits.{}), exceeded by {}.".format(
            *(part.format(**row) for part in words[row["limit"]][:2]), row["limit"], words[row["limit"]][2].format(**row)
        )
        for row in section["exceeded"]
    ]


def resolution(document: Mapping[str, Any]) -> dict[str, Any]:
    """How small a leak this many test readings can show, and how many would show ``FAR`` points.

    ``points`` is half the width of the best attack's interval; ``needed`` how many independent units like these make it
    ``FAR`` points, None where it is smaller already.
    """
    worst, clusters = document["worst_adaptive"], document["data"]["clusters"]
    points = 50 * (worst["high"] - worst["low"])
    units = document["data"]["rows"]["test"] if clusters is None else clusters["test"]
    of = "readings" if clusters is None else f"{clusters['kind']}s"
    needed = int(-(-units * (points / FAR) ** 2 // 1)) if points > FAR else None
    text = f"The test slice has {units:,} {of}: the best attack is known to {points:.1f} points either way"
    if needed is not None:
        text += f", so a smaller leak would not be seen; about {needed:,} {of} in it are needed for {FAR:g} points"
    return {"points": round(points, 3), "units": units, "of": of, "needed": needed, "sentence": f"{text}."}

