"""What docs/results/privacy/streams.json says of a target, put together over its splits of people.

A ``Record`` here is one of the file's ``targets``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.trainer.measures.intervals import Interval, mean
from scripts.reproduce.pages.rendering import interval, render, write_from

NAME = "streams"
RECORD, PAGE = Path("docs/results/privacy/streams.json"), Path("docs/results/streams.md")

WAYS = {
    "held": "**class held for the track, code drawn once**",
    "held, true class": "the same with the true class: nothing to learn",
    "independent": "code drawn for every frame, y-hat not held",
    "independent, true class": "the same with the true class: nothing to learn",
    "lp": "distance-minimising channel (LP 0), drawn for every frame",
    "learned": "learned code for every frame, no channel",
    "learned, people permuted": "the same with people shuffled within y: nothing to learn",
}
BASELINE = {
    "held": "held, true class",
    "independent": "independent, true class",
    "lp": "independent, true class",
    "learned": "learned, people permuted",
}
LENGTHS = ("T=1", "T=4", "T=16", "linked")
WORST = (0.75, 0.85)  # shares of y-hat right of the worst person never seen, between which splits are put together
POPULATIONS = ("calibrated", "unseen")

Record = Mapping[str, Any]


class Best(NamedTuple):
    """The family of attackers that was right most often on average over the splits, and how often that was."""

    family: str
    right: Interval


def best(record: Record, population: str, way: str, length: str) -> Best:
    """Over all splits; the interval is over splits, which share people and so are less sure than it says."""
    return _best([one["populations"][population]["ways"][way][length] for one in record["splits"].values()], max)


def linkage(record: Record, way: str) -> Best:
    """The lowest equal error rate of any family."""
    return _best([one["linkage"][way] for one in record["splits"].values()], min)


def over_baseline(record: Record, population: str, way: str, length: str) -> Interval:
    """How much more often the best family is right than the best on the zero-information row, split by split."""
    names = way, BASELINE[way]
    families = [best(record, population, name, length).family for name in names]
    return mean(
        np.array(
            [
                ways[names[0]][length][families[0]] - ways[names[1]][length][families[1]]
                for ways in (one["populations"][population]["ways"] for one in record["splits"].values())
            ]
        )
    )


def by_worst_person(record: Record, way: str, length: str) -> Iterator[tuple[str, int, Interval]]:
    """``over_baseline`` of people never seen, by how often y-hat is right of the worst of them: range, splits, mean."""
    group = np.searchsorted(WORST, per_split(record, "unseen", "held_right", "worst_person"), side="right")
    for number, (low, high) in enumerate(zip((0.0, *WORST), (*WORST, 1.0), strict=True)):
        splits = {key: split for (key, split), at in zip(record["splits"].items(), group, strict=True) if at == number}
        if len(splits) > 1:  # one has no interval
            over = over_baseline({**record, "splits": splits}, "unseen", way, length)
            yield f"{100 * low:.0f} to {100 * high:.0f}", len(splits), over


def without_first(record: Record, number: int) -> Record:
    """The same without its first splits of people: those that settings were chosen on."""
    return {**record, "splits": dict(list(record["splits"].items())[number:])}


def per_split(record: Record, population: str, *keys: str) -> np.ndarray:
    """One figure of every split, by its path within the population."""
    found = []
    for one in record["splits"].values():
        value: Any = one["populations"][population]
        for key in keys:
            value = value[key]
        found.append(float(value))
    return np.array(found)


def _best(rows: Sequence[Mapping[str, float]], better: Any) -> Best:
    averages = {family: float(np.mean([row[family] for row in rows])) for family in rows[0]}
    family = better(averages, key=averages.__getitem__)
    found = mean(np.array([row[family] for row in rows]))
    return Best(family, Interval(found.estimate, max(0.0, found.low), min(1.0, found.high)))


def page(record: dict[str, Any]) -> str:
    """The page on streams as Markdown."""
    looked_at = record["settings"]["looked_at"]

    def of_target(found: dict[str, Any]) -> dict[str, Any]:
        def over(population: str, way: str, *, without: int = 0) -> str:
            if way not in BASELINE:
                return ""
            left = without_first(found, without)
            if len(left["splits"]) < 2:
                return "too few splits"
            return interval(over_baseline(left, population, way, "T=16"))

        def excess(population: str) -> str:
            plug_in, null = (per_split(found, population, "certificate", key) for key in ("plug_in", "null"))
            return interval(mean(plug_in - null))

        return {
            "splits": found["splits"],
            "over": over,
            "excess": excess,
            "by_worst": list(by_worst_person(found, "held", "T=16")),
            "best": functools.partial(best, found),
            "linkage": functools.partial(linkage, found),
            "per_split": functools.partial(per_split, found),
        }

    return render(
        "streams",
        record=record,
        looked_at=looked_at,
        targets={name: of_target(found) for name, found in record["targets"].items()},
        populations=POPULATIONS,
        ways=WAYS,
        lengths=LENGTHS,
    )


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
