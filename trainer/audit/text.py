"""Attacks and probes of an audit as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    for warning in part.get("warnings", ()):
        yield f"  Too little: {warning}"


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
