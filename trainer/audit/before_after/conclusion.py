"""The verdict of an audit of pairs: leaks, holds to within five points, or cannot tell and what would be needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from edgeveil.trainer.audit.text import percent
from edgeveil.trainer.audit.verdict import HIDDEN, gained, guess, verdict

LEAKS, HOLDS, CANNOT_TELL = "leaks", "holds", "cannot tell"
WITHIN = 0.05  # above chance: what "holds" allows at the upper end of the interval


def concluded(document: Mapping[str, Any], fewest: Mapping[str, int]) -> dict[str, Any]:
    """The word, a sentence, and ``needed``: how many units (or rows) would allow another word, None where none is.

    *leaks*: by the rule of a bundle's audit z is not hidden, or in part only. *holds*: the best attack found is at most
    ``WITHIN`` above chance even at the upper end of its interval. *cannot tell* is the rest: too few units, or a z that
    no attack reads in the samples before either. ``fewest`` rows and units are needed to attack at all.
    """
    data, worst = document["data"], document["worst_adaptive"]
    kind, count = data["units"]["kind"], data["units"]["count"]
    if worst is None:
        return _said(
            CANNOT_TELL,
            f"Cannot tell: at least {fewest['rows']} rows of {fewest['units']} {kind} are needed to attack; there are "
            f"{data['rows']['after']} rows of {count}. So many show a leak; to say that z is hidden takes hundreds.",
            needed=fewest["rows"] if kind == "rows" else fewest["units"],
        )
    chance, raw = guess(document), document["raw"]["sensitive"]
    above = worst["high"] - chance
    attack = (
        f"the best attack found ({worst['name']}, retrained on {worst['train_samples']:,} rows after) reads "
        f"{data['sensitive']} right {percent(worst['accuracy'])} of the time (95 % interval "
        f"{100 * worst['low']:.1f} to {percent(worst['high'])}), where guessing from {data['target']} alone is right "
        f"{percent(chance)} and an attack on rows before {percent(raw['accuracy'])}"
    )
    if verdict(document, raw["accuracy"]) != HIDDEN:
        share = (worst["accuracy"] - chance) / max(raw["accuracy"] - chance, 1e-9)
        if worst["low"] <= chance:
            how = f"{document['most_bits']['name']} gains at least {gained(document):.2f} bits per row"
        else:
            how = f"it keeps {min(1.0, share):.0%} of what rows before give".replace("%", " %")
        return _said(LEAKS, f"It leaks: {attack}; {how}.")
    if raw["low"] <= chance:
        return _said(
            CANNOT_TELL,
            f"Cannot tell: {attack}. No attack reads {data['sensitive']} in the rows before either, so finding nothing "
            "after says nothing about the mechanism. Give more rows, or check z.",
            needed=_enough(count, raw["high"] - chance),
        )
    if above > WITHIN:
        needed = _enough(count, above)
        return _said(
            CANNOT_TELL,
            f"Cannot tell: {attack}. {count:,} {kind} do not exclude {100 * above:.0f} points above chance; about "
            f"{needed:,} {kind} are needed to exclude {100 * WITHIN:.0f}.",
            needed=needed,
        )
    return _said(
        HOLDS,
        f"It holds to within {100 * WITHIN:.0f} points: {attack}. A lower bound on what leaks, not a guarantee.",
    )


def _enough(count: int, above: float) -> int:
    """Units for an interval whose end is ``WITHIN`` above chance, where ``count`` give ``above``."""
    scaled = count * max(2.0, (above / WITHIN) ** 2)
    digits = max(0, math.floor(math.log10(scaled)) - 1)
    return int(math.ceil(scaled / 10**digits) * 10**digits)


def _said(word: str, sentence: str, needed: int | None = None) -> dict[str, Any]:
    return {"word": word, "sentence": sentence, "needed": needed, "within": WITHIN}
