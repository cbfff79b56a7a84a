"""Attacks and probes of an audit as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HEAD = (
    f"  {'adversary':26} {'learned on':14} {'right':>7}  {'95 % interval':15} {'AUC':>5} {'bits':>7} {'1% FPR':>7} "
    f"{'worst z':>7}  {'rows':>6}"
)


def attack_line(row: Mapping[str, Any], *, best: bool) -> str:
    """One attack; what could not be measured is a dash."""
    kind = f"{row.get('learned_on', 'old')} rows" if row["kind"] == "adaptive" else "non-adaptive"
    auc = "    -" if row["auc"] is None else f"{row['auc']:5.3f}"
    left = f"  {row['name']:26} {kind:14} {percent(row['accuracy']):>7}  [{percent(row['low'])}, "
    left += f"{percent(row['high'])}]"
    exposed = " ".join(f"{percent(row.get(name)):>7}" for name in ("tpr", "worst_class"))
    mark = "  <- best attack found" if best else ""
    return f"{left:71} {auc} {row['bits']:+7.3f} {exposed}  {row['train_samples']:6d}{mark}"


def notes(part: Mapping[str, Any]) -> Iterator[str]:
    """Families that did not run and why, the most exposed z, whether more data would help, and warnings."""
    for left in part["not_run"]:
        yield f"  {left['name']:26} not run: {left['reason']}"
    worst = part["worst_adaptive"]
    if worst.get("worst_class") is not None:
        yield (
            f"  The best attack recalls the most exposed z in {percent(worst['worst_class'])} of its "
            f"{worst['worst_class_rows']} test rows [{percent(worst['worst_class_low'])}, "
            f"{percent(worst['worst_class_high'])}]; from y alone {percent(worst['worst_class_chance'])}."
        )
    if worst.get("members"):
        yield f"  The {worst['name']} is of {worst['members']}."
    curve = part.get("learning_curve")
    if curve:
        steps = ", ".join(f"{percent(point['accuracy'])} of {point['rows']:,}" for point in curve["points"])
        rising = "still rising: more rows will do better" if curve["rising"] else "not surely rising any more"
        yield f"  {curve['name']} by its training rows: {steps}; {rising}."
    yield from part_lines(part)
    for warning in part.get("warnings", ()):
        yield f"  Too little: {warning}"


def part_lines(part: Mapping[str, Any]) -> Iterator[str]:
    """The parts of the test rows on which the attack with most bits was tested apart."""
    if part.get("parts"):
        yield f"  {part['most_bits']['name']}, on parts of the test rows (right; y alone; bits beyond y; corrected p):"
    for one in part.get("parts", ()):
        right, sure = one["right"], "-" if one["p"] is None else f"{one['p']:.3f}"
        figures = "too few" if right is None else f"{percent(right['accuracy'])}; {percent(one['chance'])}"
        yield f"    {one['name']:44} {figures}; {span(one['bits'], '+.3f')}; {sure} ({one['rows']:,} rows)"


def what_else_lines(part: Mapping[str, Any]) -> Iterator[str]:
    """The sentence on what else can be read, and each label."""
    found = part.get("what_else")
    if not found:
        return
    yield what_else_sentence(part)
    for row in worst_first(found["labels"]):
        yield (
            f"  {row['name']:26} {row['classes']} classes: {span(row['bits'], '+.3f')} bits, right "
            f"{percent(row['right']['accuracy'])}; y alone {percent(row['chance'])} ({row['attack']})"
        )
        for one in (row["worst_threshold"], row["worst_grouping"]):
            if one is not None:
                yield f"    {one['question']:40} AUC {span(one['auc'], '.3f')}, {span(one['bits'], '+.3f')} bits"
    for left in found["skipped"]:
        yield f"  {left['name']:26} not asked: {left['reason']}"


def worst_first(labels: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Labels in the order of the bits of their worst question, or of their own where there is none."""

    def bits(row: Mapping[str, Any]) -> float:
        asked = [one["bits"]["mean"] for one in (row["worst_grouping"], row["worst_threshold"]) if one is not None]
        return max(asked, default=row["bits"]["mean"])

    return sorted(labels, key=bits, reverse=True)


def what_else_sentence(part: Mapping[str, Any]) -> str:
    """The worst question in words, beside z itself."""
    found = part["what_else"]
    if len(found["labels"]) < 2:
        return "What else can be read: not known, for the data name no label beyond y and z."
    asked = f"of {found['questions']:,} questions about labels that the data know"
    worst = found["worst"]
    if worst is None:
        most = max(found["labels"][1:], key=lambda row: row["bits"]["mean"])
        return f"What else can be read: {most['name']}, {span(most['bits'], '+.3f')} bits per sample beyond y."
    if not worst["read"]:
        return f"What else can be read: nothing for sure beyond y, {asked}."
    itself = found["labels"][0]["worst_grouping"]
    beside = "" if itself is None else f"; {itself['question']}, which is to be hidden, {span(itself['auc'], '.2f')}"
    return (
        f"What else can be read: {worst['question']}, AUC {span(worst['auc'], '.2f')} and {span(worst['bits'], '.3f')} "
        f"bits beyond y, the worst {asked}{beside}."
    )


def span(value: Mapping[str, Any], form: str) -> str:
    """A mean with its interval, where there are these."""
    if value["mean"] is None:
        return "-"
    ends = "" if value["low"] is None or value["high"] is None else f" [{value['low']:{form}}, {value['high']:{form}}]"
    return f"{value['mean']:{form}}{ends}"


def probe_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The other questions, one a line."""
    for title, rows in document.get("probes", {}).items():
        yield f"{title}:"
        for row in rows:
            if "not_run" in row:
                yield f"  {row['name']:44} not run: {row['not_run']}"
                continue
            chance = "" if row["chance"] is None else f"; y alone {row['chance']:.3f}"
            ends = "" if row["low"] is None else f" [{row['low']:.3f}, {row['high']:.3f}]"
            yield f"  {row['name']:44} {row['value']:.3f}{ends}{chance} ({row['n']:,})"


def percent(share: float | None) -> str:
    """0.5 as ``50.0 %``; what was not measured is a dash."""
    return "-" if share is None else f"{100 * share:.1f} %"
