"""A privacy card for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgeveil.trainer.audit import board_column
from edgeveil.trainer.audit.sections import linear_section
from edgeveil.trainer.audit.sections.retained_table import score
from edgeveil.trainer.audit.text import part_lines, percent, what_else_lines, what_else_sentence
from edgeveil.trainer.report.card_page import probe

MOST = 3  # of a kind, where a card is told in brief


def as_lines(card: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a card: guarantees, measurements by artefact, and what was not tested."""
    for line in card["warnings"]:
        yield f"  WARNING  {line}"
    for one in card["guarantees"]:
        yield f"  certified ({one['artefact']}): {one['sentence']}"
    for part in card["artefacts"]:
        if len(card["artefacts"]) > 1:
            yield ""
            yield f"  {board_column.title(part)}: {part['verdict']}"
        yield from _numbers(part, card["target"]["name"], card["sensitive"]["name"])
    yield "  not tested:"
    yield from (f"    {line}" for line in card["not_tested"])
    yield f"  {card['statement']}"


def brief_lines(card: Mapping[str, Any]) -> Iterator[str]:
    """What a card says first, in ten lines at most: warnings, what leaks by artefact, what is certified."""
    yield from _first(MOST, [f"  WARNING  {line}" for line in card["warnings"]], "warnings")
    yield from _first(MOST, [_verdict(card, part) for part in card["artefacts"]], "artefacts")
    for one in card["guarantees"][:1]:
        yield f"  certified ({one['artefact']}): {one['sentence']}"
    yield from (f"  {what_else_sentence(part)}" for part in card["artefacts"][:1] if part.get("what_else"))


def _first(most: int, lines: Sequence[str], what: str) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"  and {len(lines) - most} more {what}"


def _verdict(card: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    worst, floor = part["worst_adaptive"], part["label_only"]["worst_adaptive"]
    return (
        f"  {board_column.title(part)}: {part['verdict']}: right about {card['sensitive']['name']} {score(worst)} "
        f"(best attack found: {worst['name']}), label-only {score(floor)}; keeps {card['target']['name']} "
        f"{score(part['target'])}"
    )


def _numbers(part: Mapping[str, Any], target: str, sensitive: str) -> Iterator[str]:
    worst, chance = part["worst_adaptive"], part["chance"]
    yield f"  best attack found (adaptive, {worst['name']}): right about {sensitive} {score(worst)}{_more(worst)}"
    guesses = f"{percent(chance['prior'])} (prior), {percent(chance['majority'])} (majority)"
    yield f"    a lower bound on what leaks; chance is {guesses}"
    floor = part["label_only"]
    worst = floor["worst_adaptive"]
    yield f"  label-only, the floor (adaptive, {worst['name']}): {score(worst)}{_more(worst)}"
    yield from (f"  {line}" for line in board_column.as_lines(part))
    yield f"  keeps {target}: {score(part['target'])}; label-only {score(floor['target'])}"
    yield "  adversaries not trained on perturbed samples; one that retrains may do better:"
    for row in part["adversaries"]:
        if row["kind"] != "adaptive":
            yield f"    non-adaptive ({row['kind']}, {row['name']}): {score(row)}"
    certificate = part.get("certificate")
    for found in (certificate or {}).get("per_code"), certificate:
        if found and not found["given"]:
            yield f"  {found['sentence']}"
    for row in part.get("streams", {}).get("tracks", []):
        if "right" in row:
            most, nothing = (percent(max(row[key].values())) for key in ("right", "people_shuffled"))
            yield f"  tracks of {row['releases']}: best attack right {most}, where people are shuffled {nothing}"
    yield from (f"  {line}" for line in what_else_lines(part))
    yield from part_lines(part)
    yield from _collateral(part)
    for title, rows in part.get("probes", {}).items():
        for row in rows:
            yield f"  {title}, {row['name']}: " + (f"not tried: {row['not_run']}" if "not_run" in row else probe(row))
    if "predictors" in part:
        yield from (f"  {line}" if line else "" for line in linear_section.as_lines(part["predictors"]))
    if "diagnostic" in part:
        shift = part["diagnostic"]["gamma"]
        yield f"  {part['diagnostic']['title']}: mean {shift['perturbed']['mean']:.3f}, raw {shift['raw']['mean']:.3f}"


def _collateral(part: Mapping[str, Any]) -> Iterator[str]:
    useful = part.get("collateral")
    if not useful:
        return
    found = useful["perturbed"]
    yield f"  trained on perturbed samples, y on clean samples: {score(found['train_on_it']['y'])}"
    yield f"  told apart from raw samples: {score(found['told_apart'])} (50 % is perfect; for donors it proves nothing)"
    for row in part["leakage_about_others"]:
        kept = "" if row["kept"] is None else f", x to x' {score(row['kept'])}"
        asked = ", asked for by the recipe" if row["named_by_recipe"] else ""
        yield (
            f"  tells of {row['attribute']}: {score(row['read_from_it'])}, label-only {score(row['label_only'])}"
            f"{kept}{asked}"
        )


def _more(row: Mapping[str, Any]) -> str:
    auc = "" if row["auc"] is None else f", AUC {row['auc']:.3f}"
    return auc + ("" if row["bits"] is None else f", {row['bits']:+.3f} bits beyond y")
