"""What docs/results/privacy/table-2/*.json say, put together over seeds: Tables 2 and 5 of paper 001, and beyond."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROWS = {
    "original": "original: x itself",
    "prgan": "PR-GAN",
    "ngp": "NGP: no discriminator",
    "ap": "AP: no target classifier",
    "laplace": "DP: Laplace noise",
    "minimax": "minimax: adversaries that keep training",
    "pass": "PASS: another sample in its place, drawn",
    "random": "random: noise that does not depend on x",
    "label-only": "label-only: the predicted y alone",
}
TRAINED = ("prgan", "ngp", "ap", "laplace", "minimax")


class Paper(NamedTuple):
    """What paper 001 prints of one data set, in %: Table 2 (fixed D_z at Acc(D_y) >= ``floor``) and Table 5."""

    name: str
    floor: float
    chance: float  # "Random": the best guess from the prior
    fixed: Mapping[str, float]
    raw: tuple[float, float]  # y, z
    inference: float
    training: float


# Faces and depth stand in for PubFig and OccuTherm: other pictures of other people, so their figures are no targets.
PAPER = {
    "mnist": Paper(
        "MNIST",
        95,
        60.0,
        {"prgan": 65.3, "ngp": 67.2, "ap": 67.1, "laplace": 80.6, "original": 98.4},
        (99.2, 98.4),
        95.19,
        96.72,
    ),
    "wifi": Paper(
        "WiFi",
        75,
        12.5,
        {"prgan": 23.6, "ngp": 31.3, "ap": 37.7, "laplace": 50.0, "original": 84.6},
        (92.6, 84.6),
        79.80,
        72.06,
    ),
    "faces": Paper(
        "PubFig",
        95,
        13.3,
        {"prgan": 20.6, "ngp": 28.1, "ap": 61.9, "laplace": 78.3, "original": 80.7},
        (98.3, 80.7),
        95.47,
        98.84,
    ),
    "depth": Paper(
        "OccuTherm",
        95,
        5.0,
        {"prgan": 3.6, "ngp": 7.2, "ap": 23.6, "laplace": 37.6, "original": 99.8},
        (99.95, 99.8),
        99.82,
        99.73,
    ),
}
# Acc(z) of the fixed D_z at most, at Acc(D_y) at least: what PR-GAN should reach here.
SEEDS = 3  # of a whole row
TARGETS = {"mnist": (0.62, 0.95), "wifi": (0.236, 0.75)}

Record = Mapping[str, Any]


class Spread(NamedTuple):
    """The mean over seeds, the ends of all seeds' own 95 % intervals, and the seeds' values."""

    mean: float
    low: float
    high: float
    seeds: tuple[float, ...]


class Target(NamedTuple):
    """Whether one seed's fixed adversary and y are where they should be."""

    seed: int
    fixed: float
    target: float
    met: bool


def read(folder: Path) -> list[Record]:
    """All records of a folder, by data set, row and seed."""
    found = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    return sorted(found, key=lambda record: (record["data"], record["row"], record["seed"]))


def audits(records: Sequence[Record], data: str, row: str) -> list[Record]:
    """The audits of one row by seed; label-only is also known from the audits it stands beside."""
    found = {r["seed"]: r["audit"] for r in records if (r["data"], r["row"]) == (data, row)}
    if row == "label-only":
        for record in records:
            beside = record["audit"].get("label_only")
            if record["data"] == data and beside and record["row"] in TRAINED:
                found.setdefault(record["seed"], beside)
    return [found[seed] for seed in sorted(found)]


def spread(
    values: Sequence[Mapping[str, Any]], key: str = "accuracy", ends: tuple[str, str] = ("low", "high")
) -> Spread:
    """Over seeds, of records that hold an estimate under ``key`` and the ends of its interval."""
    seeds = tuple(float(value[key]) for value in values)
    low, high = (_end(value.get(end) for value in values) for end in ends)
    return Spread(
        sum(seeds) / len(seeds),
        min(seeds) if low is None else min(low),
        max(seeds) if high is None else max(high),
        seeds,
    )


def strongest(audit: Record, kind: str) -> Record:
    """The adversary of that kind (``fixed``, ``transfer``) which was right most often."""
    return max((row for row in audit["adversaries"] if row["kind"] == kind), key=lambda row: row["accuracy"])


def of_kind(audits: Sequence[Record], kind: str) -> Spread | None:
    """``strongest`` over those audits in which one of that kind ran: the one beside a perturber has no transfer."""
    ran = [one for one in audits if any(row["kind"] == kind for row in one["adversaries"])]
    return spread([strongest(one, kind) for one in ran]) if ran else None


def over(records: Sequence[Record], data: str, row: str, of: Callable[[Record], Mapping[str, Any] | None]) -> Any:
    """``spread`` of what ``of`` takes out of each seed's audit; None where no seed has it."""
    found = [value for audit in audits(records, data, row) if (value := of(audit)) is not None]
    return spread(found) if found else None


def training_s(records: Sequence[Record], data: str, row: str) -> dict[str, list[float]]:
    """Seconds of the perturber and of both classifiers, by seed; these are in the record of whoever trained them."""
    found: dict[str, list[float]] = {"perturber": [], "classifiers": []}
    for record in records:
        spent = record["training"].get("wall_time_s", {}) if (record["data"], record["row"]) == (data, row) else {}
        if "perturber" in spent:
            found["perturber"].append(spent["perturber"])
        both = [spent[name] for name in ("classifier_target", "classifier_sensitive") if name in spent]
        if both:
            found["classifiers"].append(sum(both))
    return found


class Missed(NamedTuple):
    """A seed without a checkpoint at the floor of Acc(D_y): what it kept on validation, and the floor if recorded."""

    seed: int
    kept: float
    floor: float | None


def missed_floor(records: Sequence[Record], data: str, row: str) -> list[Missed]:
    """Seeds of which no checkpoint met the recipe's floor on validation."""
    mine = [(r["seed"], r["training"]) for r in records if (r["data"], r["row"]) == (data, row)]
    return [
        Missed(seed, training["validation"]["target_accuracy"], training.get("floor"))
        for seed, training in mine
        if training.get("limit_met") is False
    ]


def below_the_paper(records: Sequence[Record], data: str) -> dict[str, float]:
    """Rows that the paper has too and that keep less of y on test than its floor, with what they keep."""
    known = {row: audits(records, data, row) for row in TRAINED if row in PAPER[data].fixed}
    right = {row: spread([one["target"] for one in found]).mean for row, found in known.items() if found}
    return {row: share for row, share in right.items() if share < PAPER[data].floor / 100}


def of_few_seeds(records: Sequence[Record], data: str) -> dict[str, int]:
    """The rows that were recorded with fewer than three seeds, and with how many."""
    counted = {row: sum((r["data"], r["row"]) == (data, row) for r in records) for row in ROWS}
    return {row: count for row, count in counted.items() if 0 < count < SEEDS}


def not_exported(records: Sequence[Record], data: str, row: str) -> list[int]:
    """Seeds whose perturber export refused, because it leaves samples as they are."""
    mine = [r for r in records if (r["data"], r["row"]) == (data, row)]
    return [r["seed"] for r in mine if "not_exported" in r["audit"]]


def targets(records: Sequence[Record], data: str) -> list[Target]:
    """PR-GAN's fixed figures, seed by seed, held against ``TARGETS``."""
    most, least = TARGETS[data]
    found = []
    for record in records:
        if (record["data"], record["row"]) == (data, "prgan"):
            fixed = strongest(record["audit"], "fixed")["accuracy"]
            target = record["audit"]["target"]["accuracy"]
            found.append(Target(record["seed"], fixed, target, fixed <= most and target >= least))
    return found


def attributes(records: Sequence[Record], data: str) -> dict[str, Mapping[str, Any]]:
    """The properties that no recipe of the table named, ``{name: {"classes": int, ...}}``, of those in every audit.

    Audits of before read ink, slant and stroke off any picture; today's do it where they are digits.
    """
    found = [one for row in TRAINED for one in collaterals(records, data, row)]
    if not found:
        return {}
    known = set.intersection(*(set(one["attributes"]) for one in found))
    first = found[0]["attributes"]
    return {name: about for name, about in first.items() if name in known and not about["named_by_recipe"]}


def collaterals(records: Sequence[Record], data: str, row: str) -> list[Record]:
    """The ``collateral`` sections of one row, by seed."""
    found = [audit.get("collateral") or {} for audit in audits(records, data, row)]
    return [collateral for collateral in found if "perturbed" in collateral]


def properties_kept(records: Sequence[Record], data: str) -> list[str]:
    """The properties of x whose correlation with those of x' is in every audit that has any.

    Audits of before read ink, slant and stroke off any picture, so off faces too.
    """
    found = [list(one["kept"]) for row in TRAINED for one in collaterals(records, data, row)]
    return [name for name in found[0] if all(name in other for other in found)] if found else []


def useful(records: Sequence[Record], data: str) -> Iterator[tuple[str, list[Record]]]:
    """Title and, by seed, ``train_on_it`` and the like: of raw readings, of every row, of label-only's two forms."""
    beside = list(_beside(records, data))
    if beside:
        yield "raw samples", [one["raw"] for one in beside]
    for row in TRAINED:
        if found := collaterals(records, data, row):
            yield ROWS[row], [one["perturbed"] for one in found]
    for key, title in (("label_only_mean", "label-only, as mean"), ("label_only_donor", "label-only, as random donor")):
        if beside:
            yield title, [one[key] for one in beside]


def property_of(found: Sequence[Record], part: str, name: str) -> Spread:
    """Accuracy, or correlation, of one property over seeds; ``part`` is ``train_on_it`` or ``read_from_it``."""
    values = [one[part]["attributes"][name] for one in found]
    return spread(values, "accuracy" if "accuracy" in values[0] else "correlation")


def _beside(records: Sequence[Record], data: str) -> Iterator[Record]:
    seen: set[int] = set()
    for record in records:
        found = (record["audit"].get("label_only") or {}).get("collateral")
        if record["data"] == data and found and record["seed"] not in seen:
            seen.add(record["seed"])
            yield found


def _end(values: Iterator[Any]) -> list[float] | None:
    found = [float(value) for value in values if value is not None]
    return found or None
