"""The part ``per_code`` of a certificate: the bound for every received code, next to attacks on linked codes.

Who knows y learns most where y-hat is wrong. A code comes with a wrong y seldom, so most such pairs are rare and have
no bound, however many codes are merged. Who has y-hat alone, which is sent, meets every code in its own class: there
every code is bounded, where each has rows enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.document import short
from edgeveil.trainer.measures.per_code import PerCode, per_code

FEWEST = 30  # units of a pair of y and code; with fewer its bound is close to certainty, whatever the code tells
COVERED = 0.9  # of the samples, by pairs of that many units; below, there is no bound worth the name
ALMOST = 0.5  # of the way from P(z | y) to certainty; beyond, a factor says little


def section(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    shape: tuple[int, int, int],
    cluster: np.ndarray | None,
    confidence: float,
    tried: int,
    linked: Sequence[Mapping[str, Any]],
    unit: str,
    slices: str,
    seed: int,
    sendable: np.ndarray | None = None,
) -> dict[str, Any]:
    """Bound the received codes (n,) of rows y, z (n,) that training never saw.

    ``shape`` is (classes of y, codes, classes of z). ``sendable`` (codes,) are those that can leave at all, where those
    of each y-hat are together, so that a code tells it; None: a code does not, or tells nothing else.
    ``linked`` are the attack's figures on linked codes, ``unit`` names the independent units, ``cluster`` (n,), and
    ``slices`` those that the rows are of.
    """
    asked: dict[str, Any] = {"shape": shape, "cluster": cluster, "confidence": confidence, "tried": tried}
    every = per_code(y, code, z, rng=np.random.default_rng([seed, 11]), **asked)
    often = None
    if every.fewest < FEWEST:
        try:
            often = per_code(y, code, z, rng=np.random.default_rng([seed, 11]), fewest=FEWEST, **asked)
        except BadInput:  # no pair has as many
            often = None
    bound = every if often is None else often
    given = every.fewest >= FEWEST or (often is not None and often.share >= COVERED)
    needed = None if every.fewest >= FEWEST else _rounded_up(every.units * FEWEST / max(every.fewest, 1))
    attacks = {one["releases"]: one.get("accuracy") for one in linked}
    text = _sentence(every, bound, given=given, needed=needed, unit=unit, slices=slices, tried=tried)
    of_class = None
    if sendable is not None:
        predicted = code // (shape[1] // shape[0])
        found = per_code(predicted, code, z, rng=np.random.default_rng([seed, 13]), **asked)
        of_class = _of_class(found, int(sendable.sum()))
        text += f" {_sentence_of_class(found, of_class, unit)}"
    return {
        "given": given,
        "sentence": text,
        "of_class": of_class,
        "factor": short(bound.factor),
        "estimate": short(bound.estimate),
        "leakage_bits": short(math.log2(bound.factor)),
        "certainty": short(bound.certainty),
        "confidence": confidence,
        "tried": tried,
        "units": bound.units,
        "worst": {"y": bound.worst[0], "code": bound.worst[1], "units": short(bound.at_worst)},
        "pairs": {"bounded": bound.pairs, "rare": bound.rare, "unseen": bound.unseen},
        "share": short(bound.share),
        "over_all_seen": short(every.factor),
        "fewest": every.fewest,
        "needed": needed,
        "capacity": short(bound.capacity),
        "capacity_high": short(bound.capacity_high),
        "linked": [{"releases": t, "factor": short(bound.linked(t)), "attack": attacks[t]} for t in attacks],
    }


def _sentence(
    every: PerCode, bound: PerCode, *, given: bool, needed: int | None, unit: str, slices: str, tried: int
) -> str:
    """The claim with its assumptions, or that too few were counted for one."""
    if not given:
        over_all = "some z may never come with its y, and then no factor bounds its chance"
        if math.isfinite(every.factor):
            certainty = f"certainty about z is a factor of {_up(every.certainty)}"
            over_all = f"over all codes F = {_up(every.factor)} where {certainty}"
        return (
            f"No bound for every code: the {every.units:,} {unit} counted are too few. The rarest code has "
            f"{every.fewest:,} of them, so {over_all}. About {needed:,} {unit} would be needed."
        )
    text = (
        f"No code raises the chance of any value of z, given y, by more than a factor F = {_up(bound.factor)}, with "
        f"{100 * bound.confidence:g} % confidence, for {unit} drawn like those counted ({bound.units:,} {unit} of "
        f"{slices}, which no training saw" + (f", {tried} configurations tried)" if tried > 1 else ")")
    )
    prior = 1 / bound.certainty
    if bound.factor * prior > prior + ALMOST * (1 - prior):
        text += f"; certainty about that z would be a factor of {_up(bound.certainty)}, so this says little"
    if needed is None:
        return f"{text}."
    return (
        f"{text}. This leaves out codes that came with a y for fewer than {FEWEST} {unit}, "
        f"{100 * (1 - bound.share):.1f} % of the samples: for these F = {_up(every.factor)} says almost nothing, and "
        f"about {needed:,} {unit} would be needed."
    )


def _of_class(found: PerCode, codes: int) -> dict[str, Any]:
    """The bound given y-hat alone; it holds for every code where the rarest has enough units."""
    unseen = codes - found.pairs
    fewest = 0 if unseen else found.fewest
    return {
        "given": fewest >= FEWEST,
        "factor": short(found.factor),
        "codes": codes,
        "unseen": unseen,
        "fewest": fewest,
    }


def _sentence_of_class(found: PerCode, of_class: Mapping[str, Any], unit: str) -> str:
    codes, fewest = of_class["codes"], of_class["fewest"]
    if not of_class["given"]:
        return (
            f"Given the class that is sent in place of y, not every code has a bound either: the rarest of {codes:,} "
            f"was counted for {fewest:,} {unit}. Fewer `perturber.codes` give each more."
        )
    return (
        f"Given the class that is sent in place of y, F = {_up(found.factor)} for every one of the {codes:,} codes "
        f"(the rarest was counted for {fewest:,} {unit})."
    )


def _up(factor: float) -> str:
    """Two decimals, never below the bound; with very few units there is none."""
    if not math.isfinite(factor):
        return "infinity"
    return f"{math.ceil(round(100 * factor, 6)) / 100:,.2f}"


def _rounded_up(number: float) -> int:
    """To two digits, never below."""
    step = 10 ** max(0, int(math.log10(number)) - 1)
    return math.ceil(number / step) * step
