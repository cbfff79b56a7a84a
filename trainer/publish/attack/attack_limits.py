"""What attacks on a publication may learn by its plan, against what they may have learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.publish.requests.requested_attack import Attack


def require(found: Mapping[str, Any]) -> None:
    """Raise ``LimitNotMet`` where attacks may learn more than the plan allows."""
    for one in found["exceeded"]:
        form = _FORMS[one["limit"]] if one["found"] is not None else "there are too few people to say what they learn"
        raise LimitNotMet(
            f'Nothing was published: of "{found["sensitive"]}", from {_FROM[one["view"]]}, '
            f"{form.format(**one)}, and the plan allows {one['asked']:g} (attack.{one['limit']}). {_CURE[one['view']]}"
        )


_FROM = {"columns": "the columns alone", "frames": "the frames", "both": "frames and columns together"}
_FORMS = {
    "points": "attacks may reach {found:.1f} points over chance (upper end of 95 %)",
    "bits": "attacks may learn {found:.3f} bits (upper end of 95 %)",
}
_GENERALISE = "Drop or generalise columns that tell of it, or publish more people."
_CURE = {
    "columns": _GENERALISE,
    "frames": 'Take a perturber that hides more, or link = "none", or publish more people.',
    "both": _GENERALISE,
}


def exceeded(upper: Mapping[str, float | None], asked: Attack) -> list[dict[str, Any]]:
    """The limits that upper ends do not show to be met."""
    points = [upper[name] for name in ("points", "balanced") if name in upper]
    found = {"points": None if None in points else max(one for one in points if one is not None)}
    found["bits"] = upper.get("bits")
    limits = {"points": asked.points, "bits": asked.bits}
    return [
        {"limit": name, "asked": limits[name], "found": high}
        for name, high in found.items()
        if high is None or high > limits[name]
    ]
