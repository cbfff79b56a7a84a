"""What the fourth slice changed: the note on pages with records from before, and the page that compares both.

    python -m scripts.reproduce.pages.four_slices_page --keep FOLDER

keeps the figures of FOLDER's records that were made with three slices, in docs/results/privacy/three-slices.json:
``write_pages`` sets those of today beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce import record
from scripts.reproduce.pages.rendering import render

PRIVACY = Path("docs/results/privacy")
NAME = "four-slices"
PAGE = Path("docs/results/four-slices.md")
OLD = PRIVACY / "three-slices.json"
CODEBOOKS = ("mnist", "wifi", "faces", "depth")
TABLE_2 = tuple(f"{data}-prgan" for data in CODEBOOKS)
LESS_IS_WORSE = ("y right", "kept")
NOTE = (
    "> **Recorded with three slices**{which}.\n"
    "> These perturbers had a third of the rows to train on, not a quarter, and\n"
    "> adversaries learned on rows that trained the perturber, except where other folds of the test slice are named.\n"
    "> Both flatter the perturber; see [four slices](four-slices.md).\n"
)
Figures = dict[str, dict[str, list[float]]]  # by recipe and name, one value for each seed


def noted(page: str, *records: Any, which: str = "") -> str:
    """``page`` with the note below its title, if any of its records does not say what adversaries learned on."""
    if all(of_four(one) for one in records):
        return page
    title, rest = page.split("\n", 1)
    return f"{title}\n\n{NOTE.format(which=which)}{rest}"


def of_four(one: Any) -> bool:
    """Whether a record was made with four slices: it says what adversaries learned on, or what leaks on each slice."""
    text = json.dumps(one)
    return '"learned_on"' in text or '"by_slice"' in text


def figures(folder: Path, *, four: bool) -> Figures:
    """What the records of a folder say of codebooks and of PR-GAN; those with (or without) a fourth slice."""
    found: Figures = {}
    for name in CODEBOOKS:
        seeds = [one for one in record.read(folder / f"codebook-{name}.json").get("seeds", []) if of_four(one) == four]
        if seeds:
            found[f"{name}-codebook"] = dict(_codebook(seeds))
    rows = record.read(folder / "digits.json").get("rows", {})
    for kind, row in rows.items():
        if of_four(row["audit"]) == four:
            found[f"digits-{kind}"] = dict(_audited([row["audit"]]))
    for name in TABLE_2:
        paths = sorted((folder / "table-2").glob(f"{name}-*.json"))
        audits = [one for one in (record.read(path)["audit"] for path in paths) if of_four(one) == four]
        if audits:
            found[name] = dict(_audited(audits))
    return found


def leaks(folder: Path = PRIVACY) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Recipe, seed, and what its codes tell about z on each slice."""
    for name in CODEBOOKS:
        for one in record.read(folder / f"codebook-{name}.json").get("seeds", []):
            for artefact in one["artefacts"].values():
                if "by_slice" in artefact:
                    yield f"{name}-codebook", one["seed"], artefact["by_slice"]
    row = record.read(folder / "digits.json")["rows"]["codebook"]
    if "by_slice" in row:
        yield "digits-codebook", 0, row["by_slice"]


def compared(old: Figures, new: Figures) -> Iterator[dict[str, Any]]:
    """Every figure that both have: the means over seeds, and whether it became worse."""
    for recipe, before in old.items():
        for name in (name for name in before if name in new.get(recipe, {})):
            was, now = float(np.mean(before[name])), float(np.mean(new[recipe][name]))
            worse = now < was if name.startswith(LESS_IS_WORSE) else now > was
            yield {"recipe": recipe, "figure": name, "was": was, "now": now, "worse": worse}


def _codebook(seeds: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[float]]]:
    rows = [one["artefacts"]["tflite-int8"] for one in seeds]
    yield "y right, %", [100 * row["label_accuracy"] for row in rows]
    yield (
        "z, counting attack over chance, points",
        [100 * (row["attack"]["accuracy"] - row["chance"]["majority"]) for row in rows],
    )
    yield "z, bits over null, thousandths", [1000 * row["bits_over_null"] for row in rows]
    yield (
        "z, AUC of counting",
        [max(row[name]["auc"] for name in ("code_counts", "code_counts_crossed")) for row in rows],
    )
    yield "z, bound of the certificate, %", [100 * row["certificate"]["bound"] for row in rows]
    for name in rows[0]["kept"]:
        yield f"kept: {name}", [row["kept"][name] for row in rows]


def _audited(audits: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[float]]]:
    yield "y right, %", [100 * one["target"]["accuracy"] for one in audits]
    yield "z, best attack, %", [100 * one["worst_adaptive"]["accuracy"] for one in audits]
    yield "z, most bits, thousandths", [1000 * one["most_bits"]["bits_counted"] for one in audits]


def page() -> str:
    """The page on what the fourth slice changed as Markdown."""
    old = json.loads(OLD.read_text())["figures"]
    new = figures(PRIVACY, four=True)
    return render("four-slices", leaks=leaks(), rows=list(compared(old, new)))


def write() -> None:
    """Write the page."""
    write_atomic(PAGE, page().encode())


def main() -> None:
    """Keep the figures of before, next to those that are kept already."""
    script = record.Script(__file__, __doc__, f"--keep {PRIVACY}")
    script.add_argument("--keep", type=Path, required=True, help="folder of records with three slices")
    asked = script.parse_args()
    kept = {**record.read(OLD).get("figures", {}), **figures(asked.keep, four=False)}
    record.write(OLD, script.path, {"what": "figures of records with three slices", "figures": kept})


if __name__ == "__main__":
    record.run(main)
