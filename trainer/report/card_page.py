"""The page of a privacy card: one self-contained file, made from privacy.json alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import file_place, write_atomic
from edgeveil.trainer.audit import verdict
from edgeveil.trainer.audit.compare import utility_lines
from edgeveil.trainer.audit.document import identity, same
from edgeveil.trainer.audit.sections.linear_section import Predictors
from edgeveil.trainer.audit.sections.retained import retained_table, score
from edgeveil.trainer.audit.verdict import (
    CANNOT_TELL,
    HOLDS,
    LEAKS,
    part_lines,
    percent,
    span,
    what_else_lines,
    what_else_sentence,
    worst_first,
)

FOLDER = Path(__file__).parent / "templates"
GROUPS = (
    ("adaptive", "Adaptive: trained on perturbed samples. The evidence."),
    ("fixed", "Fixed: the classifier the perturber was trained against. Shows that training worked, nothing more."),
    ("transfer", "Transfer: another architecture, trained on clean samples."),
)


def render(card: Mapping[str, Any]) -> str:
    """The page of a card (docs/reference/schemas/privacy.schema.json); every value is escaped."""
    shown = {
        **card,
        "artefacts": [
            {
                **one,
                "title": verdict.column_title(one),
                "board": list(verdict.board_lines(one)),
                "useful": retained_table(one),
            }
            for one in card["artefacts"]
        ],
    }
    return environment().get_template("card.html").render(card=shown, **shown)


def environment() -> Any:
    """Jinja with the filters of all pages."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False
    )
    made.filters.update(
        percent=percent,
        bare=lambda share: f"{100 * share:.1f}",
        place=lambda share: f"{100 * share:.2f}%",
        area=lambda auc: "\N{EN DASH}" if auc is None else f"{auc:.3f}",
        factor=lambda factor: "\N{EN DASH}" if factor is None else f"{factor:.2f}",
        bits=lambda bits: "\N{EN DASH}" if bits is None else f"{bits:+.3f}".replace("-", "\N{MINUS SIGN}"),
        thousands=lambda n: f"{n:,}",
        spread=spread,
        score=score,
        by_reader=verdict.by_reader,
        probe=probe,
        span=span,
        what_else=what_else_sentence,
        worst_first=worst_first,
    )
    return made


def spread(value: Mapping[str, Any] | None, form: str = ".3g") -> str:
    """A mean with its interval."""
    if value is None or value["mean"] is None:
        return "\N{EN DASH}"
    if value["low"] is None or value["high"] is None:
        return f"{value['mean']:{form}}"
    return f"{value['mean']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"


def probe(row: Mapping[str, Any]) -> str:
    """The value of a probe, with its interval and chance if it has them."""
    ends = "" if row["low"] is None else f" [{row['low']:.3g}, {row['high']:.3g}]"
    chance = "" if row["chance"] is None else f"; chance {row['chance']:.3g}"
    return f"{row['value']:.3g}{ends}{chance}"


# A privacy card for a terminal.

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
            yield f"  {verdict.column_title(part)}: {part['verdict']}"
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
        f"  {verdict.column_title(part)}: {part['verdict']}: right about {card['sensitive']['name']} {score(worst)} "
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
    yield from (f"  {line}" for line in verdict.board_lines(part))
    yield f"  keeps {target}: {score(part['target'])}{verdict.by_reader(part)}; label-only {score(floor['target'])}"
    yield "  adversaries not trained on perturbed samples; one that retrains may do better:"
    for row in part["adversaries"]:
        if row["kind"] != "adaptive":
            yield f"    non-adaptive ({row['kind']}, {row['name']}): {score(row)}"
    certificate = part.get("certificate")
    for found in (certificate or {}).get("per_code"), certificate:
        if found and not found["given"]:
            yield f"  {found['sentence']}"
    if "headline" in part.get("streams", {}):
        yield f"  {part['streams']['headline']}"
    for row in part.get("streams", {}).get("tracks", []):
        if "right" in row:
            most = percent(max(row["right"].values()))
            nothing = percent(max(row["people_shuffled"].values())) if "people_shuffled" in row else "not tried"
            yield f"  tracks of {row['releases']}: best attack right {most}, where people are shuffled {nothing}"
    yield from (f"  {line}" for line in what_else_lines(part))
    yield from part_lines(part)
    yield from _collateral(part)
    for title, rows in part.get("probes", {}).items():
        for row in rows:
            yield f"  {title}, {row['name']}: " + (f"not tried: {row['not_run']}" if "not_run" in row else probe(row))
    if "predictors" in part:
        yield from (f"  {line}" if line else "" for line in Predictors().lines(part["predictors"], part))
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


# audit.json and report.html of an audit of samples before and after a mechanism.

TONES = {LEAKS: ("bad", "It leaks"), HOLDS: ("good", "No attack found reads it"), CANNOT_TELL: ("some", "Cannot tell")}


def grouped(audit: Mapping[str, Any], floor: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """The rows of the table by kind, each with label-only's row (``floor``) of the same adversary."""
    beside = {identity(row): row for row in floor}
    seeds = Counter((row["name"], row.get("learned_on")) for row in audit["adversaries"])
    made = []
    for kind, title in GROUPS:
        rows = [
            {
                **row,
                "best": same(row, audit["worst_adaptive"]),
                "seeds": seeds[row["name"], row.get("learned_on")],
                "floor": beside.get(identity(row)),
            }
            for row in audit["adversaries"]
            if row["kind"] == kind
        ]
        if rows:
            rows.sort(key=lambda row: -row["accuracy"])
            made.append({"title": title, "rows": rows, "non_adaptive": kind != "adaptive"})
    return made


def made_with(audit: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What an audit was made with, as names and values."""
    machine = audit["machine"]
    return [
        ("Adversaries", f"{audit['budget']} budget, seed {audit['seed']}, {audit['wall_time_s']:.0f} s"),
        ("Machine", f"{machine['system']} {machine['architecture']}, {machine['cores']} cores"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in sorted(audit["versions"].items()))),
    ]


def render_pairs(document: Mapping[str, Any]) -> str:
    """The page, one file without pictures of samples; every value is escaped."""
    tone, words = TONES[document["verdict"]["word"]]
    facts = [
        ("Rows", f"{document['data']['rows']['before']:,} before, {document['data']['rows']['after']:,} after"),
        ("Units", f"{document['data']['units']['count']:,} {document['data']['units']['kind']}"),
        ("Order", document["order"]["sentence"]),
        *(("Note", note) for note in document["notes"]),
        *(("Too little", warning) for warning in document["warnings"]),
        *made_with(document),
    ]
    return (
        environment()
        .get_template("pairs.html")
        .render(
            audit=document,
            data=document["data"],
            tone=tone,
            verdict=words,
            groups=grouped(document),
            utility=[] if document["utility"] is None else utility_lines(document),
            facts=facts,
        )
    )


def write_pairs_report(document: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write both files into ``folder``, which is made where it is not there; earlier ones get a dated name.

    Raises ``BadInput``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out: the folder {folder} cannot be made ({error.strerror}). Name another.") from None
    data, page = folder / "audit.json", folder / "report.html"
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    file_place(page)
    write_atomic(data, text.encode(), keep_old=True)
    write_atomic(page, render_pairs(document).encode(), keep_old=True)
    return data, page
