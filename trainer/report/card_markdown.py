"""publication.md: the card of a publication as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.audit.verdict import percent
from edgeveil.trainer.report.card_page import TONES, page

# The facts of a publication in the words that its page and its text share.


COUNTED = {
    "person": "people whose rows, linked by a pseudonym, are alike",
    "none": "different people in each class of equal rows",
    "rows": "rows, each of them another's",
}
VIEWS = {"columns": "columns alone", "frames": "frames", "both": "frames and columns"}
OF_FRAMES = (
    "Frames are covered by the audit of their bundle alone, and by the attack on this publication where there is one. "
    "Both are lower bounds on what leaks: a stronger attack may find more."
)
OF_STATISTICS = (
    "The epsilon is of the statistics alone, not of the rows with them. Every further publication of the same people "
    "adds its own."
)
NOT_ATTACKED = "What can be read of people from all of it was not tried: the plan asks for no attack."


def facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values for a template, of a table's publication.json or of an archive's."""
    one = _flat(document)
    attack, statistics, bundle = one.get("attack"), one.get("statistics"), one.get("bundle")
    limits = [*one["limits"], *([OF_FRAMES] if one["frames"] else []), *([OF_STATISTICS] if statistics else [])]
    return {
        "recipient": one["recipient"],
        "size": one["size"],
        "link": COUNTED[one["link"]],
        "suppressed": one["suppressed_people"],
        "criteria": [(name, f"{one['asked'][name]:g}", f"{value:g}") for name, value in one["found"].items()],
        "columns": [
            (name, became, _decimals(one["loss"]["columns"].get(name))) for name, became in one["columns"].items()
        ],
        "loss": f"{one['loss']['mean']:.3f}",
        "unique": [
            ("all together", percent(one["unique_before"]["all"]), _percent(one.get("unique_after"))),
            *((", ".join(few["columns"]), percent(few["share"]), "") for few in one["unique_before"]["most_telling"]),
        ],
        "attack": None if attack is None else _attack(attack),
        "not_attacked": NOT_ATTACKED,
        "statistics": None if statistics is None else _statistics(statistics),
        "bundle": None if bundle is None else list(_bundle(bundle)),
        "dropped": one.get("dropped"),
        "hashes": [(name, one[key]) for name, key in _HASHES if key in one],
        "limits": limits,
    }


_HASHES = (("Plan", "plan_sha256"), ("Pipeline", "pipeline_hash"))


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """An archive's publication.json in the form of a table's."""
    if "statement" not in document:
        table = document["table"]
        return {**document, "frames": False, "size": f"{counted(table['rows'], 'row')} in {table['file']}"}
    anonymity = document["anonymity"]
    return {
        **document["statement"],
        **{key: value for key, value in document.items() if key not in ("statement", "anonymity")},
        **{key: anonymity[key] for key in ("link", "asked", "found")},
        "suppressed_people": anonymity["suppressed"],
        "frames": bool(document["frames"]),
        "size": f"{counted(document['rows'], 'row')} in {counted(len(document['parts']), 'file')}",
    }


def _attack(attack: Mapping[str, Any]) -> dict[str, Any]:
    about = attack["sensitive"] + (f", beyond {attack['target']}" if attack["target"] else "")
    rows = []
    for name, part in attack["views"].items():
        best = part["best"]
        right = f"{percent(best['accuracy'])} [{100 * best['low']:.1f}, {100 * best['high']:.1f}]"
        what = part["verdict"]["word"]
        rows.append((VIEWS[name], best["name"], right, percent(part["chance"]), f"{best['bits_counted']:+.3f}", what))
    units = max(part["units"] for part in attack["views"].values())
    limit = attack["limit"]
    return {
        "tone": TONES.get(attack["verdict"], "good"),
        "word": f"{attack['verdict'][0].upper()}{attack['verdict'][1:]}",
        "sentence": (
            f"{about}: attacked on {units:,} {_UNITS[attack['unit']]}, none of whom an adversary had learned on "
            f"({attack['budget']} budget). The plan allows {limit['points']:g} points above y alone and "
            f"{limit['bits']:g} bits, and no upper end of a 95 % interval is above."
        ),
        "rows": rows,
        "notes": list(_notes(attack)),
    }


_UNITS = {"person": "people, each by all rows of their pseudonym", "row": "rows, each next to the others of its person"}


def _notes(attack: Mapping[str, Any]) -> Iterator[str]:
    if attack["left_out_values"]:
        yield f"Values that too few people have, left out: {attack['left_out_values']}."
    copies = attack["copies"]
    if copies is not None and copies["others"]:
        yield (
            f"{copies['others']:,} of {copies['rows']:,} frames are records of other people ({copies['people']:,} of "
            "them), bit for bit: what is read of such a frame is the donor's."
        )
    if copies is not None and copies["own"]:
        yield f"{copies['own']:,} of {copies['rows']:,} frames left unchanged: they are records of their own person."
    for name, part in attack["views"].items():
        yield from (f"{VIEWS[name]}: {line}" for line in (*part["verdict"]["reasons"], *part["warnings"]))


def _statistics(statistics: Mapping[str, Any]) -> dict[str, Any]:
    unit = statistics["unit"]
    rows = []
    for one in statistics["released"]:
        what = one["kind"] + (f" of {one['column']}" if "column" in one else "")
        what += "".join(f", {name} = {value}" for name, value in one["where"].items())
        value = (
            _bins(one) if "bins" in one else f"{one['value']:.6g}" if one["kind"] == "mean" else f"{one['value']:.0f}"
        )
        rows.append(
            (one["name"], what, value, f"\N{PLUS-MINUS SIGN}{one['within']:.3g}", one["noise"], f"{one['epsilon']:g}")
        )
    return {
        "rows": rows,
        "sentence": (
            f"Numbers of the whole table, those left out of the rows included, with noise: {statistics['epsilon']:g}-"
            f"differentially private for each {unit} in all. 95 % of the time a number is off by no more than stands "
            "next to it."
        ),
    }


def _bins(one: Mapping[str, Any]) -> str:
    """A histogram's bins with their counts; of schema 1 they have names, one of which was taken for all others."""
    if isinstance(one["bins"], dict):
        return ", ".join(f"{name}: {count:.0f}" for name, count in one["bins"].items())
    bins = [
        (
            str(b["value"])
            if "value" in b
            else " to below ".join(repr(b[end]).removesuffix(".0") for end in ("from", "below")),
            b["count"],
        )
        for b in one["bins"]
    ]
    return ", ".join(f"{name}: {count:.0f}" for name, count in [*bins, ("all others", one["others"])])


def _bundle(bundle: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Artefact", str(bundle["artefact"])
    yield "Verdict of its card", str(bundle["verdict"]) if bundle["audited"] else "none: this bundle was not audited"
    yield "Manifest", f"sha256 {bundle['sha256']}"
    if bundle.get("card_sha256"):
        yield "Privacy card", f"sha256 {bundle['card_sha256']}"


def _decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "" if value is None else percent(value)


def text(document: Mapping[str, Any]) -> str:
    """The text of a publication.json."""
    return "\n".join(_lines(facts(document))) + "\n"


def _lines(one: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"# Publication for {one['recipient']}", "", f"{one['size']}. k counts {one['link']}.")
    yield f"About {one['suppressed']} people were left out (to the nearest five)."
    if one["dropped"]:
        yield f"{counted(one['dropped'], 'row was dropped with its frame', 'rows were dropped with their frames')}."
    attack = one["attack"]
    if attack is None:
        yield from ("", one["not_attacked"])
    else:
        yield from ("", f"## {attack['word']}", "", attack["sentence"], "")
        yield from _table(("read from", "best attack found", "right", "y alone", "bits", "verdict"), attack["rows"])
        yield from ("", *(f"* {note}" for note in attack["notes"]))
    yield from ("", "## Columns", "")
    yield from _table(("column", "what became of it", "loss"), one["columns"])
    yield from ("", f"Mean loss {one['loss']} (0: as it was; 1: nothing is left).", "")
    yield from _table(("criterion", "asked", "found"), one["criteria"])
    yield from ("", "## People who are alone", "")
    yield from _table(("quasi-identifiers", "before", "after"), one["unique"])
    if one["statistics"] is not None:
        yield from ("", "## Statistics", "", one["statistics"]["sentence"], "")
        yield from _table(("name", "what", "value", "within", "noise", "epsilon"), one["statistics"]["rows"])
    if one["bundle"] is not None:
        yield from ("", "## The bundle that perturbed the frames", "")
        yield from (f"* {name}: {value}" for name, value in one["bundle"])
    yield from ("", "## What is not promised", "", *(f"* {limit}" for limit in one["limits"]))
    yield from ("", *(f"{name}: sha256 {value}" for name, value in one["hashes"]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)


# card.html of a publication: one file, which nothing of the publication is loaded into but its statement.


def render(document: Mapping[str, Any]) -> str:
    """The page of a publication.json; every value is escaped."""
    return page("publication.html", facts(document))
