"""What docs/results/privacy/power.json says: which planted leaks the audit's attacks find, as a table and a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.measures.intervals import Interval, rate
from edgeveil.trainer.measures.permutation import SHUFFLES
from edgeveil.trainer.report.pictures import INKS, saved, style
from scripts.reproduce import record
from scripts.reproduce.attacks import low_fpr, planted, thorough
from scripts.reproduce.pages.rendering import render, write_from

NAME = "power"
RECORD, PAGE = Path("docs/results/privacy/power.json"), Path("docs/results/power.md")
PICTURE = Path("docs/results/power.svg")

RULES = ("before", "now")  # by which few people who are recognised for sure were a leak, and are
EDGES = (0.0, 0.003, 0.03, 0.1, 0.3, 1.0)  # bits per row: the bins of the curve


def leaks(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cases with a leak."""
    return [one for one in record["cases"] if one["strength"] > 0]


def rows_of(record: Mapping[str, Any]) -> list[int]:
    """The numbers of rows to learn on."""
    return sorted({one["rows"] for one in record["cases"]})


def strengths_of(record: Mapping[str, Any]) -> list[float]:
    """The strengths, the strongest first."""
    return sorted({one["strength"] for one in leaks(record)}, reverse=True)


def table(record: Mapping[str, Any]) -> Iterator[list[str]]:
    """A line for each kind of leak: for each strength and number of rows, how many were found and by what."""
    for kind in sorted({one["kind"] for one in leaks(record)}):
        of_kind = [one for one in leaks(record) if one["kind"] == kind]
        cells = [
            _cell([one for one in of_kind if one["strength"] == strength and one["rows"] == rows])
            for strength in strengths_of(record)
            for rows in rows_of(record)
        ]
        yield [kind, *cells]


def curve(record: Mapping[str, Any], rows: int) -> list[tuple[float, Interval, int]]:
    """The share found by bits per row: (geometric mean of the bits, share with its interval, cases) of each bin."""
    found = []
    for low, high in zip(EDGES[:-1], EDGES[1:], strict=True):
        inside = [one for one in leaks(record) if one["rows"] == rows and low < one["bits"] <= high]
        if inside:
            middle = float(np.exp(np.mean([np.log(one["bits"]) for one in inside])))
            found.append((middle, rate(np.array([one["found"] for one in inside])), len(inside)))
    return found


def false_alarms(record: Mapping[str, Any]) -> dict[str, Any]:
    """What was counted over releases without a leak: the alarms, their rate, and how likely so many are at 1 %."""
    counted = record["false_alarms"]
    at_least = stats.binom.sf(counted["fired"] - 1, counted["seeds"], counted["level"])
    beyond = stats.binom.sf(counted["allowed"], counted["seeds"], counted["level"])
    clean = [one for one in record["cases"] if one["strength"] == 0]
    return {
        **counted,
        "rate": rate(np.arange(counted["seeds"]) < counted["fired"]),
        "at_least": float(at_least),
        "beyond": float(beyond),
        "in_set": sum(one["found"] for one in clean),
        "clean": len(clean),
    }


def draw(record: Mapping[str, Any], out: Path) -> None:
    """The share found by bits per row, a line for each number of rows, SVG. The same record is the same bytes."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        for rows, ink in zip(rows_of(record), INKS, strict=False):
            points = curve(record, rows)
            x = np.array([bits for bits, _, _ in points])
            y = 100 * np.array([share for _, share, _ in points]).reshape(-1, 3)
            ends = np.maximum(np.stack([y[:, 0] - y[:, 1], y[:, 2] - y[:, 0]]), 0)
            axes.errorbar(x, y[:, 0], yerr=ends, fmt="o-", color=ink, markersize=4, linewidth=1, elinewidth=0.8)
            axes.plot([], [], "o-", color=ink, markersize=4, label=f"{rows:,} rows to learn on")
        axes.set_xscale("log")
        axes.set_xlabel(
            "planted leak: bits that each row tells of the sensitive attribute\nbeyond the target, on average"
        )
        axes.set_ylabel("planted leaks found, %")
        axes.set_ylim(-4, 104)
        axes.grid(color="#dedbd2", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="lower right")
        write_atomic(out, saved(figure))


def _both(one: Mapping[str, Any]) -> str:
    """The share of audits that leak, in %, by both rules."""
    return ", ".join(f"{100 * one[rule] / one['audits']:.1f}" for rule in RULES)


def _cell(same: Sequence[Mapping[str, Any]]) -> str:
    """How many were found, and by which attack most often."""
    if not same:
        return "-"
    by = Counter(one["by"] for one in same if one["found"])
    counted = f"{sum(by.values())} of {len(same)}"
    return f"{counted}: {by.most_common(1)[0][0]}" if by else counted


def recognition(low_fpr: Mapping[str, Any]) -> Iterator[list[str]]:
    """A line for each case: what share of the audits says *leaks*, by the rule of before and by that of now."""
    rows = dict.fromkeys(one["rows"] for one in low_fpr["cases"])
    of = {(one["case"], one["people"], one["rows"]): one for one in low_fpr["cases"]}
    for case, people in dict.fromkeys((case, people) for case, people, _ in of):
        found = [of.get((case, people, size)) for size in rows]
        shares = (
            "-" if one is None else ", ".join(f"{100 * one[rule] / one['audits']:.1f}" for rule in RULES)
            for one in found
        )
        yield [case, "people" if people else "rows", *shares]


def beside(root: Path = Path()) -> dict[str, Any]:
    """The two further records that the page shows, each empty where it is not there."""
    return {"low_fpr": record.read(root / low_fpr.RECORD), "thorough": record.read(root / thorough.RECORD)}


def page(record: dict[str, Any], *, low_fpr: Mapping[str, Any], thorough: Mapping[str, Any]) -> str:
    """The page on the power of an audit's attacks as Markdown."""
    strengths, lines = strengths_of(record), list(table(record))
    kinds = [
        (kind, str(leak.plant.__doc__).strip().rstrip("."), f"{100 * leak.share:g} %")
        for kind, leak in sorted(planted.LEAKS.items())
        if any(one["kind"] == kind for one in leaks(record))
    ]
    return render(
        "power",
        record=record,
        command=record["made_by"].removesuffix(".py").replace(".py", "").replace("/", "."),
        shuffles=SHUFFLES,
        strengths=strengths,
        rows=rows_of(record),
        table=lines,
        missing=any("-" in line for line in lines),
        kinds=kinds,
        bits=[(strength, planted.bits_of(strength)) for strength in strengths],
        alarms=false_alarms(record),
        by_verdict=record["settings"].get("found") == "verdict",
        new=sorted(set(planted.LEAKS) - {one["kind"] for one in record["cases"]}),
        low_fpr=low_fpr,
        recognised=list(recognition(low_fpr)) if low_fpr else [],
        thorough=thorough,
    )


def write() -> None:
    """Write the page and its picture, where the record is."""
    if (found := write_from(RECORD, PAGE, lambda found: page(found, **beside()))) is not None:
        draw(found, PICTURE)
