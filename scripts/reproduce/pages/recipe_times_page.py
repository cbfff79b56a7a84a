"""What docs/results/bench/recipes.json says: how long each recipe takes, and its size beside Table 3 of paper 001."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce.pages.rendering import render, write_from

NAME = "recipe-times"
RECORD, PAGE = Path("docs/results/bench/recipes.json"), Path("docs/results/recipe-times.md")

STAGES = ("classifier_target", "classifier_sensitive", "perturber")


class Cost(NamedTuple):
    """Multiply-adds and parameters of one forward pass."""

    macs: float
    parameters: float


# Table 3, by data set; faces stand in for PubFig, depth for OccuTherm.
TABLE_3 = {
    "mnist": Cost(1.6e6, 235.4e3),
    "wifi": Cost(2.1e6, 1.1e6),
    "faces": Cost(232e6, 644.2e3),
    "depth": Cost(96.4e6, 420.3e3),
}


def rows(record: Mapping[str, Any]) -> Iterator[list[str]]:
    """The cells of each recipe; those that were not recorded are said to be."""
    known = {row["recipe"]: row for row in record["rows"]}
    for name in Recipe.names():
        yield [f"`{name}`", *(_cells(known[name]) if name in known else ["not recorded", *[""] * 8])]


def _cells(row: Mapping[str, Any]) -> list[str]:
    whole = f"{row['wall_s']:.0f}" if row["verdict"] == "VALID" else f"{row['wall_s']:.0f} (INVALID: other work ran)"
    stages = (row["stages_s"].get(stage) for stage in STAGES)
    paper = TABLE_3.get(row["recipe"].partition("-")[0])
    cost = Cost(row["macs"], row["parameters"])
    return [
        whole,
        *("-" if seconds is None else f"{seconds:.0f}" for seconds in stages),
        f"{row['use']['own_cores']:.2f}",
        "yes" if row["limit_met"] else "no",
        f"{cost.macs / 1e6:,.3f}" if cost.macs else "-",
        f"{cost.parameters / 1e3:,.1f}" if cost.parameters else "-",
        _share(cost, paper) if paper and cost.macs else "-",
    ]


def _share(cost: Cost, paper: Cost) -> str:
    return f"{100 * cost.macs / paper.macs:.0f} %, {100 * cost.parameters / paper.parameters:.0f} %"


def page(record: dict[str, Any]) -> str:
    """The page on what each recipe takes as Markdown."""
    made_with = {
        f"* {row['machine']['cores']} cores, {row['machine']['architecture']}; "
        + ", ".join(f"{name} {version}" for name, version in sorted(row["versions"].items()))
        + "."
        for row in record["rows"]
    }
    return render("recipe-times", rows=list(rows(record)), made_with=sorted(made_with))


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
