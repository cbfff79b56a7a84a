"""The ``spending`` section of an audit: what one release costs, as claimed, as the shipped integers say, as enumerated.

Unlike an attack's figure this is a guarantee, whatever the attacker knows: it needs no data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.spending import MICRO, check_covered, epsilon_of, repeats
from edgeveil.edge_runtime.stages.rappor import epsilon_of_one, instantaneous
from edgeveil.trainer.measures import exact_law

CONDITIONS = (
    "for readings clipped to {bounds}, a generator of the operating system that is sound, and an attacker who does not "
    "see inside the board"
)
BOUNDS = {"public": "the public bounds", "from-training": "bounds that are extremes of training rows, and ship"}
ON_BOARD = "checked by the runtime in the shipped integers"
HERE = "computed from the shipped integers; the bundle does not claim it, so no runtime checks it"


def section(
    manifest: Mapping[str, Any], tables: Mapping[str, np.ndarray], *, from_training: bool
) -> dict[str, Any] | None:
    """What is promised of one release; None where something leaves that is not covered, or where nothing is promised.

    ``tables`` are the manifest's arrays, ``from_training``: the recipe takes its bounds from training rows.
    """
    claim = manifest.get("spending")
    stages, outputs = manifest["stages"], outlets.values(manifest)
    try:
        check_covered(stages, outputs)
    except BundleRefused:
        return None
    cost = epsilon_of(stages, outputs, tables)
    if not cost or not cost.is_finite():
        return None
    bounds = "from-training" if from_training else "public"
    claimed = None if claim is None else claim["micro_epsilon"] / MICRO
    law = exact_law.largest_ratio(stages, outputs, tables)
    return {
        "claimed": claimed,
        "recomputed": float(cost),
        "enumerated": law.as_dict(),
        "spending": None if claim is None else dict(claim),
        "bounds": bounds,
        "sentence": sentence(float(cost) if claimed is None else claimed, claim, bounds, **_kept(stages, outputs)),
    }


def _kept(stages: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Whether an answer is kept, and what one instantaneous answer of it tells where no other is seen."""
    law = instantaneous(stages)
    return {"held": repeats(stages, outputs), "once": None if law is None else epsilon_of_one(law)}


def sentence(
    alpha: float, claim: Mapping[str, Any] | None, bounds: str, *, once: float | None = None, held: bool = False
) -> str:
    """The guarantee in words, with its conditions. ``held``: an answer is kept and charged once; ``once``: what one
    instantaneous answer of it tells."""
    what, of = ("answers", "its readings") if held else ("releases", "its reading")
    stops = f"{what} add up, and nothing counts them"
    if claim is not None:
        most = f"{claim['most_micro_epsilon'] / MICRO:g}"
        again = "" if claim["period_s"] is None else f" in {claim['period_s']:g} s that the board is on"
        whose = "" if claim["unit"] == "release" else f"of one {claim['unit']} "
        stops = f"{what} {whose}add up, and the ledger stops them at {most}{again}"
    kept = ", however often it is released while its track or period lasts" if held else ""
    alone = "" if once is None else f", and one release alone by e^{once:.4g}"
    return (
        f"One {what[:-1]} of this bundle changes the odds of anything about {of} by a factor of at most "
        f"e^{alpha:g}{kept}{alone} "
        f"(alpha-local differential privacy, alpha = {alpha:g}, {HERE if claim is None else ON_BOARD}), "
        f"{CONDITIONS.format(bounds=BOUNDS[bounds])}; {stops}."
    )


def as_lines(found: Mapping[str, Any]) -> list[str]:
    """The section for a terminal."""
    law = found["enumerated"]
    counted = f"{law['epsilon']:.9f} over {law['draws']:,} draws" if "epsilon" in law else f"not run: {law['not_run']}"
    claimed = "none" if found["claimed"] is None else f"{found['claimed']:g}"
    lines = [
        found["sentence"],
        f"  Claimed {claimed}, recomputed from the integers {found['recomputed']:.9f}, enumerated {counted}.",
    ]
    run = found.get("measured", {})
    if "epsilon" in run:
        broken = run["epsilon"] > found["recomputed"]
        lines.append(
            f"  At least {run['epsilon']:.3f} is spent, with {run['confidence']:.1%} confidence: {run['runs']:,} runs "
            f"of each of two readings show it ({run['neighbours']})."
            + (" That is more than the integers promise: do not ship this, and report it." if broken else "")
        )
    return lines
