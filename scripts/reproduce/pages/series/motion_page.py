"""Rows of the page on a worn motion sensor, from its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.reproduce.pages.rendering import write_from
from scripts.reproduce.series import motion

NAME = "motion"
PAGE = Path("docs/results/motion.md")
HEAD = """# Motion

A worn sensor on 8 people who do 27 actions (`utd-mhad`): windows of 2 s, one every half second. The action is kept,
the person hidden. Attacks are those of a {budget} audit, on int8 artefacts; chance is {prior}, or {majority} by counted
P(z | y). `python -m scripts.reproduce.series.motion` records it.

| what leaves | seed | y read from it | best attack on the person | by | energy read from it | tempo |
| --- | --- | --- | --- | --- | --- | --- |
"""
ADD_UP = """
**A code for every window adds up.** {windows} windows of one recording together name the person {right} of the time
(chance {chance}).

**Not all can be kept.** The correlation, within an action, of a window's property with what tells nothing of the person
is bounded: {bounds}. The target is 0.5 for each.

Raw windows: D_y is right {y}, and D_z, one small network, {z}. The codebook's target, y within 2 % of raw and attacks
within 3 points of chance, is {met}.
"""
NEAR = 0.03  # of chance, and of raw y in shares: the target


def page(record: Mapping[str, Any]) -> str:
    """The page as Markdown."""
    first = next(iter(record["seeds"].values()))["codebook"]
    chance = first["chance"]
    head = HEAD.format(budget=first["budget"], prior=_percent(chance["prior"]), majority=_percent(chance["majority"]))
    rows = [line for seed, found in record["seeds"].items() for line in _rows(seed, found)]
    return head + "\n".join(rows) + "\n" + _added_up(first, record["most_kept"])


def _rows(seed: str, found: Mapping[str, Any]) -> Iterator[str]:
    for name, row in found.items():
        yield _line(name, seed, row)
    if "label-only" not in found:
        yield _line("label-only, a class's mean", seed, found["codebook"]["floor"])


def _line(name: str, seed: str, row: Mapping[str, Any]) -> str:
    """A row: of raw windows, for which no recipient is trained, y is what D_y reads."""
    useful = row.get("collateral") or {}
    read = (useful.get("perturbed") or useful.get("label_only_mean") or {}).get("read_from_it", {})
    known = read.get("attributes", {})
    kept = [f"{known[one]['correlation']:.2f}" if one in known else "" for one in ("energy", "tempo")]
    best, y = row["worst_adaptive"], read.get("y", row["target"])
    return f"| {name} | {seed} | {_rate(y)} | {_rate(best)} | {best['name']} | {kept[0]} | {kept[1]} |"


def _added_up(row: Mapping[str, Any], most_kept: Mapping[str, float]) -> str:
    ran = [one for one in row["streams"]["tracks"] if "right" in one]
    last, raw = ran[-1], row["raw"]
    near = row["worst_adaptive"]["accuracy"] <= row["chance"]["prior"] + NEAR
    read = row["collateral"]["perturbed"]["read_from_it"]["y"]
    whole = read["accuracy"] >= 0.98 * raw["target"]["accuracy"]
    return ADD_UP.format(
        windows=last["releases"],
        right=_percent(max(last["right"].values())),
        chance=_percent(last["chance"]),
        y=_percent(raw["target"]["accuracy"]),
        z=_percent(raw["sensitive"]["accuracy"]),
        bounds=", ".join(f"{name} at most {value:.2f}" for name, value in most_kept.items()),
        met="met" if near and whole else "not met",
    )


def _rate(value: Mapping[str, Any]) -> str:
    return f"{_percent(value['accuracy'])} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def write() -> None:
    """Write the page, where its record is."""
    write_from(motion.RESULT, PAGE, page)
