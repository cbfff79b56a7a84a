"""Writes docs/results-releases.md from the records of releases; no measured number in it is typed by hand."""

import json
from pathlib import Path
from typing import Any

from scripts.reproduce.pages import synthesis

RECORDS = Path("docs/results/privacy")
PAGE = Path("docs/results-releases.md")
# What the int8 artefact should meet: name in the record, at most or at least, factor and digits to show.
TARGETS: dict[str, dict[str, tuple[str, float]]] = {
    "mnist": {
        "label_accuracy_of_raw": (">=", 0.98),
        "attack_over_chance_points": ("<=", 1.0),
        "bits_over_null": ("<=", 0.010),
        "auc": ("<=", 0.56),
        "kept.ink": (">=", 0.80),
        "kept.slant": (">=", 0.80),
        "kept.stroke": (">=", 0.75),
    },
    "faces": {
        "label_accuracy_of_raw": (">=", 0.98),
        "attack": ("<=", 0.045),
        "bits_over_null": ("<=", 0.12),
        "kept.elevation": (">=", 0.60),
        "kept.azimuth": (">=", 0.70),
    },
    "wifi": {
        "label_accuracy_of_raw": (">=", 0.98),
        "attack_over_chance_points": ("<=", 1.5),
        "bits_over_null": ("<=", 0.11),
        "kept.access-points": (">=", 0.40),
        "kept.strongest": (">=", 0.50),
    },
    "depth": {
        "label_accuracy_of_raw": (">=", 0.98),
        "attack_over_chance_points": ("<=", 3.0),
    },
}
HEAD = """\
# Releases: what the int8 artefact leaks, and what it keeps

Written by scripts/make_release_docs.py from docs/results/privacy/codebook-*.json (scripts/reproduce_release.py). Every
figure is of the int8 artefact through the edge runtime, on the test slice of each seed. The attack is the stronger of
two that count z beside y and code: one learned on the second slice, one on other folds of the test slice. Where frames
come in recordings, these stay whole, and the second one is what it gains over itself with people dealt anew to whole
recordings (left out, a recording's own person is missing from the counts). All that leaves is a function of the code
and fresh noise, so in the long run nothing that is trained on x' does better; what networks trained on x' reach stands
below. How well each seed's attack is known stands beside it. Kept is the correlation within y between x and x';
label-only keeps 0. Settings were chosen on validation (docs/results/privacy/choice-*.json). The release on depth is a
stream's: its code is drawn from P(c | y-hat) whatever x is, so there the word is counted, each reading standing for a
whole track.

The same codes can be drawn as donors (real readings), centroids (means of many) or by a decoder (nobody's record):
docs/results/privacy/synthesis.json (scripts/measure_synthesis.py), the mean over seeds and in brackets the ends of
their 95 % intervals. What is *trained on x'* is tried on clean test readings (y and classes in %, numbers as the
correlation within y); half right is what a discriminator gets of perfect pictures, and it proves nothing of donors.
"""


def row(name: str, target: tuple[str, float], value: dict[str, Any]) -> str:
    """One line of a table: target, mean and worst over seeds, and whether the worst meets it."""
    sign, limit = target
    met = value["worst"] <= limit if sign == "<=" else value["worst"] >= limit
    what = name.replace("_", " ").replace("kept.", "kept: ")
    seeds = ", ".join(f"{one:.3f}" for one in value["seeds"])
    cells = [what, f"{sign} {limit:g}", f"{value['mean']:.3f}", f"{value['worst']:.3f}", seeds, "yes" if met else "no"]
    return f"| {' | '.join(cells)} |"


def section(data: str, record: dict[str, Any], ways: dict[str, Any]) -> str:
    """One data set: its table, int8 beside Keras, networks on x', and ways to make x' out of the same codes."""
    lines = [
        f"## {data}",
        "",
        "| figure | target | mean | worst | seeds | met by every seed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [row(name, target, record["over_seeds"][name]) for name, target in TARGETS[data].items()]
    head = "seed", "counting attack", "y-hat of int8 right less often than Keras by at most", "codes changed"
    lines += ["", f"| {' | '.join(head)} | training | bound |", "| --- | --- | --- | --- | --- | --- |"]
    for one in record["seeds"]:
        paired, certificate = one["int8_against_keras"], one["artefacts"]["tflite-int8"]["certificate"]
        worse = 100 * max(paired["label"]["worse_by_at_most"], 0)
        cells = [
            str(one["seed"]),
            percent(one["artefacts"]["tflite-int8"]["attack"]),
            f"{worse:.2f} points (p that it is worse {paired['label']['p_worse']:.2f})",
            f"{100 * paired['codes_changed']:.1f} %",
            f"{sum(one['training_s'].values()):.0f} s",
            f"{100 * certificate['bound']:.1f} %",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *networks(record)]
    if made := list(synthesis.lines(ways, data)):
        lines += ["", f"How x' is made ({data}; a star: the recipe asks for it):", "", *made]
    again = [one["artefacts"]["tflite-int8"]["same_x"] for one in record["seeds"]]
    changed = sum(one["rows_with_several_codes"] for one in again)
    lines += [
        "",
        f"The same reading released {again[0]['releases']} times sent another code for {changed} of "
        f"{sum(one['rows'] for one in again)} readings. Training was on a machine that had other work. For seed "
        f"{record['seeds'][0]['seed']}: {record['seeds'][0]['artefacts']['tflite-int8']['sentence']}",
        "",
    ]
    return "\n".join(lines)


def percent(rate: dict[str, Any]) -> str:
    """An accuracy in % with its 95 % interval."""
    return f"{100 * rate['accuracy']:.1f} [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


def networks(record: dict[str, Any]) -> list[str]:
    """What networks made of x', seed by seed, or that none were tried."""
    tried = [one for one in record["seeds"] if "networks" in one]
    if not tried:
        return ["Networks trained on x': not recorded (scripts/reproduce_release.py --networks quick)."]

    lines = [
        "| seed | budget | z, fixed (non-adaptive) | z, transfer (non-adaptive) | best network on x' | AUC | chance |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in record["seeds"]:
        if "networks" not in one:
            lines.append(f"| {one['seed']} | not recorded | | | | | |")
            continue
        found = one["networks"]
        best, chance = found["worst_adaptive"], max(found["chance"].values())
        fixed, transfer = (
            max((row for row in found["adversaries"] if row["kind"] == kind), key=lambda row: row["accuracy"])
            for kind in ("fixed", "transfer")
        )
        auc = "-" if best["auc"] is None else f"{best['auc']:.3f}"
        lines.append(
            f"| {one['seed']} | {found['budget']} | {percent(fixed)} | {percent(transfer)} | "
            f"{percent(best)} {best['name']} | {auc} | {100 * chance:.1f} |"
        )
    return lines


def page(root: Path = Path()) -> str:
    """The page on the records under ``root``, as Markdown."""
    found = {data: root / RECORDS / f"codebook-{data}.json" for data in TARGETS}
    ways = root / RECORDS / "synthesis.json"
    made = json.loads(ways.read_text()) if ways.is_file() else {"rows": []}
    parts = [section(data, json.loads(path.read_text()), made) for data, path in found.items() if path.is_file()]
    return "\n".join([HEAD, *parts])


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
