"""The page on Table 2 in words: every cell of docs/results/table-2.md, from the records alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scripts.reproduce.pages.papers import table_2_floors, table_2_rows
from scripts.reproduce.pages.papers.table_2_rows import PAPER, ROWS, TARGETS, TRAINED, Record, Spread

MISSING = "not recorded"
WEAK = 0.9  # of what the fixed D_z reads of raw samples: a network that reads less is no test of x'
NAMES = {"mnist": "MNIST", "wifi": "WiFi", "faces": "Faces", "depth": "Depth"}
WHAT = {
    "mnist": "y = parity, z = less than five.",
    "wifi": "UJIIndoorLoc, an access point seen or not, random slices: y = floor, z = which of its 8 regions.",
    "faces": "Extended Yale B: y = where the light is, z = which of 38 people.",
    "depth": "UTD-MHAD, slices by recording: y = group of actions, z = which of 5 people.",
}


def sections(
    records: Sequence[Record], codebooks: Mapping[str, Record], floors: Sequence[Record] = ()
) -> dict[str, dict[str, Any]]:
    """What the template shows of each data set, by its name; only ``paper`` where nothing was recorded of it."""
    return {
        NAMES[data]: _section(records, data, codebooks.get(data)) | table_2_floors.section(floors, records, data)
        for data in PAPER
    }


def made_with(records: Sequence[Record]) -> list[str]:
    """Budgets, machines and versions, each with the data sets and seeds it was of."""
    found: dict[str, set[str]] = {}
    for record in records:
        versions = ", ".join(f"{name} {version}" for name, version in sorted(record["versions"].items()))
        machine = f"{record['machine']['cores']} cores, {record['machine']['architecture']}"
        found.setdefault(f"{record['audit']['budget']} budget; {machine}; {versions}", set()).add(NAMES[record["data"]])
    return [f"* {', '.join(sorted(names))}: {text}." for text, names in found.items()]


def percent(value: Spread | None) -> str:
    """A share over seeds in %, with the ends of its intervals."""
    return MISSING if value is None else f"{100 * value.mean:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def number(value: Spread | None) -> str:
    """A number over seeds, with the ends of its intervals."""
    return MISSING if value is None else f"{value.mean:.2f} [{value.low:.2f}, {value.high:.2f}]"


def _section(records: Sequence[Record], data: str, codebook: Record | None) -> dict[str, Any]:
    mine = [record for record in records if record["data"] == data]
    if not mine:
        return {"paper": PAPER[data], "rows": []}
    properties = table_2_rows.attributes(records, data)
    liked = [row for row in TRAINED if table_2_rows.collaterals(records, data, row)]
    kept = table_2_rows.properties_kept(records, data)
    return {
        "paper": PAPER[data],
        "sentence": f"{WHAT[data]} {_chance(mine)}",
        "rows": [_row(records, data, row) for row in ROWS] + ([] if codebook is None else [_codebook(codebook)]),
        "lines": list(_lines(records, data, codebook)),
        "seeds": [_seed(record) for row in ROWS for record in mine if record["row"] == row],
        "properties": [_name(mine, name, about) for name, about in properties.items()],
        "useful": [_useful(title, found, properties) for title, found in table_2_rows.useful(records, data)],
        "kept": kept,
        "alike": [_alike(records, data, row, kept) for row in liked],
    }


def _chance(mine: Sequence[Record]) -> str:
    prior, majority = (
        100 * float(np.mean([record["audit"]["chance"][name] for record in mine])) for name in ("prior", "majority")
    )
    by_age = sorted(mine, key=lambda record: "learned_on" in str(record["audit"]["adversaries"]))
    raw = {record["seed"]: record["audit"]["raw"] for record in by_age}  # of today's classifiers, where there are some
    y, z = (percent(table_2_rows.spread([one[name] for one in raw.values()])) for name in ("target", "sensitive"))
    return (
        f"Chance, knowing y alone: prior {prior:.1f}, majority {majority:.1f}. On raw samples D_y is right {y}, and "
        f"D_z, knowing y, {z}."
    )


def _row(records: Sequence[Record], data: str, row: str) -> list[str]:
    known = table_2_rows.audits(records, data, row)
    if not known:
        return [ROWS[row], MISSING, "", _paper(data, row), *[""] * 5]
    best = [audit["worst_adaptive"] for audit in known]
    auc = [one["auc"] for one in best if one["auc"] is not None]
    spent = table_2_rows.training_s(records, data, row)["perturber"]
    bits = table_2_rows.spread([audit["most_bits"] for audit in known], "bits", ("bits_low", "bits_high"))
    return [
        ROWS[row],
        percent(table_2_rows.spread([audit["target"] for audit in known])),
        percent(table_2_rows.of_kind(known, "fixed")),
        _paper(data, row),
        percent(table_2_rows.of_kind(known, "transfer")),
        f"**{percent(table_2_rows.spread(best))}**",
        f"{np.mean(auc):.3f}" if auc else "-",
        number(bits),
        f"{np.mean(spent):.0f}" if spent else "-" if row not in TRAINED else MISSING,
    ]


def _codebook(codebook: Record) -> list[str]:
    """The recommended perturber from its own record; networks on its x' where they were run."""
    seeds, over = codebook["seeds"], codebook["over_seeds"]
    right = np.mean([one["artefacts"]["tflite-int8"]["label_accuracy"] for one in seeds])
    spent = np.mean([one["training_s"]["perturber"] for one in seeds])
    tried = [one["networks"] for one in seeds if "networks" in one]
    fixed, transfer = (
        percent(table_2_rows.spread([table_2_rows.strongest(found, kind) for found in tried])) if tried else "-"
        for kind in ("fixed", "transfer")
    )
    best = f"**{100 * over['attack']['mean']:.1f}**, worst seed {100 * over['attack']['worst']:.1f}"
    if tried:
        budgets = ", ".join(sorted({found["budget"] for found in tried}))
        best += f"; networks ({budgets}) {percent(table_2_rows.spread([found['worst_adaptive'] for found in tried]))}"
    return [
        "**codebook** (counting attacks, [its own page](codebooks.md))",
        f"{100 * right:.1f}",
        fixed,
        "-",
        transfer,
        best,
        f"{over['auc']['mean']:.3f}",
        f"{over['bits_over_null']['mean']:.3f} over the null",
        f"{spent:.0f}",
    ]


def _paper(data: str, row: str) -> str:
    figure = PAPER[data].fixed.get(row)
    return "-" if figure is None else f"{figure:g}"


def _lines(records: Sequence[Record], data: str, codebook: Record | None) -> Iterator[str]:
    if data in TARGETS:
        most, least = TARGETS[data]
        yield f"* Target for PR-GAN: fixed at most {100 * most:g} at y right at least {100 * least:g}."
        held = table_2_rows.targets(records, data)
        shown = "; ".join(
            f"seed {one.seed} {'holds' if one.met else 'does not hold'} "
            f"({100 * one.fixed:.1f} at {100 * one.target:.1f})"
            for one in held
        )
        yield f"  {(shown or MISSING).capitalize()}."
    yield from _readers(records, data)
    for row in TRAINED:
        seeds = table_2_rows.missed_floor(records, data, row)
        if seeds:
            missed = "; ".join(
                f"seed {seed} kept {100 * kept:.1f}" + (f" of {100 * asked:.1f}" if asked else "")
                for seed, kept, asked in seeds
            )
            yield (
                f"* {ROWS[row]}: no checkpoint kept y on validation as its recipe asks: {missed} (the paper asks for "
                f"{PAPER[data].floor:g})."
            )
        refused = table_2_rows.not_exported(records, data, row)
        if refused:
            yield (
                f"* {ROWS[row]}: `edgeveil export` refused it, because it leaves samples as they are, for seed "
                f"{', '.join(map(str, refused))}; attacked as it was trained."
            )
    low = table_2_rows.below_the_paper(records, data)
    if low:
        named = ", ".join(f"{ROWS[row].partition(':')[0]} ({100 * right:.1f})" for row, right in low.items())
        yield (
            f"* Of y they keep less than the paper's {PAPER[data].floor:g}: {named}. Their z does not compare with the "
            "paper's."
        )
    few = table_2_rows.of_few_seeds(records, data)
    if few:
        named = "; ".join(f"{ROWS[row].partition(':')[0]} ({count})" for row, count in few.items())
        yield f"* Of fewer than {table_2_rows.SEEDS} seeds: {named}."
    spent = [s for row in TRAINED for s in table_2_rows.training_s(records, data, row)["classifiers"]]
    if spent:
        yield (
            f"* Training time is that of the perturber alone, on one core of a machine with other work. D_y and D_z "
            f"together took {np.mean(spent):.0f} s more for each seed."
        )
    if data == "wifi":
        yield (
            "* *y right* is what D_y reads from x'. Label-only's class mean is rounded to seen or not seen, and D_y "
            "often misreads it; the label sent with it is right as often as D_y is on raw samples."
        )
    if codebook is not None and data == "wifi":
        yield "* The codebook takes signal strengths as a phone measures them, the other rows whether a point was seen."


def _readers(records: Sequence[Record], data: str) -> Iterator[str]:
    """How well those who never saw x' read raw samples: who reads these badly says nothing about x'."""
    raw = table_2_rows.audits(records, data, "original")
    fixed, transfer = (table_2_rows.of_kind(raw, kind) for kind in ("fixed", "transfer"))
    if fixed is None or transfer is None:
        return
    paper, rates = PAPER[data].raw[1], [100 * one.mean for one in (fixed, transfer)]
    line = f"* On raw samples the fixed D_z is right {rates[0]:.1f}, the transfer network {rates[1]:.1f}"
    if transfer.mean < WEAK * fixed.mean:
        yield f"{line}: it is weak here, and its column says little."
    elif min(rates) >= paper:
        yield f"{line}: both read z at least as well as the paper's D_z ({paper:g})."
    else:
        yield f"{line}; the paper's D_z {paper:g}."


def _seed(record: Record) -> list[str]:
    audit = record["audit"]
    best = audit["worst_adaptive"]
    rates = (audit["target"], table_2_rows.strongest(audit, "fixed"), best)
    shares = (percent(table_2_rows.spread([rate])) for rate in rates)
    return [record["row"], str(record["seed"]), *shares, best["name"], audit["budget"]]


def _name(mine: Sequence[Record], name: str, about: Mapping[str, Any]) -> str:
    if not about["classes"]:
        return f"{name} (correlation)"
    chance = [record["audit"]["collateral"]["chance"][name] for record in mine if record["audit"].get("collateral")]
    return f"{name} (chance {100 * np.mean(chance):.1f})"


def _useful(title: str, found: Sequence[Record], properties: Mapping[str, Mapping[str, Any]]) -> list[str]:
    cells = [title, percent(table_2_rows.spread([one["train_on_it"]["y"] for one in found]))]
    for name, about in properties.items():
        value = table_2_rows.property_of(found, "train_on_it", name)
        cells.append(percent(value) if about["classes"] else number(value))
    return cells


def _alike(records: Sequence[Record], data: str, row: str, kept: Sequence[str]) -> list[str]:
    found = table_2_rows.collaterals(records, data, row)
    cells = [ROWS[row]]
    for name in kept:
        values = [one["kept"][name] for one in found if name in one["kept"]]
        cells.append(number(table_2_rows.spread(values, "correlation")) if values else "-")
    for name in ("ssim", "psnr_db"):
        values = [one["alike"][name] for one in found if one["alike"]]
        cells.append(number(table_2_rows.spread(values, "mean")) if values else "-")
    cells.append(number(table_2_rows.spread([one["distance"] for one in found], "mean")))
    cells.append(percent(table_2_rows.spread([one["perturbed"]["told_apart"] for one in found])))
    return cells
