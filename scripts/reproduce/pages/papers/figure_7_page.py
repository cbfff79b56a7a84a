"""Figure 7 of paper 001: what was taken off Acc(D_z) for what was given up of Acc(D_y), as printed and under attack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.report.frontier import label, measured
from edgeveil.trainer.report.pictures import INKS, saved, style
from scripts.reproduce.pages.four_slices_page import noted
from scripts.reproduce.pages.rendering import render, write_from
from scripts.reproduce.papers import figure_7

NAME = "figure-7"
RECORD, PAGE = Path("docs/results/privacy/frontier-fig-7.json"), Path("docs/results/figure-7.md")
PICTURE = Path("docs/results/figure-7.svg")

NAMES = {
    "prgan": "PR-GAN",
    "ngp": "NGP",
    "ap": "AP",
    "laplace": "DP (Laplace)",
    "minimax": "minimax",
    "codebook": "codebook",
    "label-only": "label-only (the floor)",
}
GREY = "#4a4f54"
COLOURS = {**dict(zip(NAMES, (ink for ink in INKS if ink != GREY), strict=False)), "label-only": GREY}
SHAPES = dict(zip(NAMES, "o^vDP*s", strict=True))  # points that lie on each other are told apart without colour, too
ATTACKS = {"fixed": "Attacker who never saw x' (as the paper shows)", "leak": "Attacker who retrains on x'"}


class Lost(NamedTuple):
    """Points (0 to 1) of accuracy that a perturber took off, with the ends of its interval."""

    mean: float
    low: float
    high: float


def lost(row: Mapping[str, Any], of: str) -> Lost:
    """What is off Acc(D_y) (``target``), or Acc(D_z) as ``fixed`` or ``leak`` has it, against raw readings.

    The interval is that of the perturbed rate; raw rates are on the same rows and are taken as they are.
    """
    raw = row["raw"]["target" if of == "target" else "sensitive"]["accuracy"]
    rate = row[of]
    return Lost(raw - rate["accuracy"], raw - rate["high"], raw - rate["low"])


def lines(frontier: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Measured points by kind of perturber, in the order of ``NAMES``, each from the least given up to the most."""
    rows = [row for row in measured(frontier) if row.get("fixed")]
    kinds = {kind: [row for row in rows if row["perturber"] == kind] for kind in NAMES}
    return {kind: sorted(mine, key=lambda row: lost(row, "target").mean) for kind, mine in kinds.items() if mine}


def cells(frontier: Mapping[str, Any]) -> Iterator[list[str]]:
    """The rows of a table, one for each checkpoint that was chosen; what failed says why."""
    for rows in lines(frontier).values():
        for same in _same(rows):
            row = same[0]
            given, fixed, leak = (lost(row, of) for of in ("target", "fixed", "leak"))
            chance = row["raw"]["sensitive"]["accuracy"] - row["chance"]["majority"]
            yield [
                _names(same) + ("" if row.get("limit_met", True) else " (no checkpoint kept the floor)"),
                str(row["seed"]),
                _points(given),
                _points(fixed),
                f"**{_points(leak)}** {row['leak']['name']}",
                f"{100 * chance:.1f}",
                f"{row['training_s']:.0f}",
            ]
    for row in frontier["points"]:
        if "failed" in row:
            yield [_names([row]), str(row["seed"]), f"not trained: {row['failed']}", "", "", "", ""]


def over_seeds(frontier: Mapping[str, Any]) -> Iterator[list[str]]:
    """The rows of a table, one for each setting: the mean over its seeds, and the least and most of them."""
    for rows in lines(frontier).values():
        settings = dict.fromkeys(_names([row]) for row in rows)
        for name in settings:
            seeds = [row for row in rows if _names([row]) == name]
            rates = [[lost(row, of).mean for row in seeds] for of in ("target", "fixed", "leak")]
            spread = [f"{100 * np.mean(one):.1f} ({100 * min(one):.1f} to {100 * max(one):.1f})" for one in rates]
            yield [name, str(len({row["seed"] for row in seeds})), *spread]


def draw(frontier: Mapping[str, Any], out: Path) -> None:
    """Two panels, SVG: the fixed adversary and the best attack found. The same points are the same bytes."""
    from matplotlib.figure import Figure

    found = lines(frontier)
    with style():
        figure = Figure(figsize=(8.4, 3.9), layout="constrained")
        for axes, (of, title) in zip(figure.subplots(1, 2, sharey=True), ATTACKS.items(), strict=True):
            for kind, rows in found.items():
                _line(axes, kind, rows, of)
            nothing = [row["raw"]["sensitive"]["accuracy"] - row["chance"]["majority"] for row in _all(found)]
            if nothing:
                most = 100 * float(np.mean(nothing))
                axes.axhline(most, color="#b3372b", linewidth=1, linestyle="--", zorder=0, label="attacker at chance")
            axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
            axes.set_xlabel("Accuracy on the target attribute that is given up, points")
            axes.grid(color="#dedbd2", linewidth=0.8)
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("Accuracy on the sensitive attribute\nthat the attacker loses, points")
        handles, names = figure.axes[0].get_legend_handles_labels()
        hollow = figure.axes[0].plot([], [], "o", color=GREY, markerfacecolor="none", markersize=5)
        handles, names = [*handles, *hollow], [*names, "hollow: y was not kept as asked"]
        figure.legend(handles, names, loc="outside lower left", frameon=False, fontsize=8, ncols=4)
        write_atomic(out, saved(figure))


def _line(axes: Any, kind: str, rows: Sequence[Mapping[str, Any]], of: str) -> None:
    """The points of one kind, joined along each axis they were swept on; hollow where no checkpoint kept the floor."""
    several = len({row["seed"] for row in rows}) > 1
    shape, small = SHAPES[kind], {"markersize": 5, "markeredgewidth": 1}
    # A floor that others lie on is drawn first, and what few points there are last.
    drawn = {
        "color": COLOURS[kind],
        "linewidth": 1,
        "elinewidth": 0.8,
        "zorder": 2 + list(NAMES).index(kind) % 6,
        **small,
    }
    for swept in dict.fromkeys(tuple(_set(row)) for row in rows):
        mine = [row for row in rows if tuple(_set(row)) == swept]
        x, y = (np.array([lost(row, name) for row in mine]).T * 100 for name in ("target", of))
        if not several and kind != "label-only":
            axes.plot(x[0], y[0], "-", color=COLOURS[kind], linewidth=1)
        for kept in (True, False):
            some = np.array([row.get("limit_met", True) is kept for row in mine])
            if some.any():
                face = COLOURS[kind] if kept else "none"
                ends = {"xerr": _around(x[:, some]), "yerr": _around(y[:, some])}
                axes.errorbar(x[0, some], y[0, some], **ends, fmt=shape, markerfacecolor=face, **drawn)
    joined = shape if several else shape + "-"
    axes.plot([], [], joined, color=COLOURS[kind], label=NAMES[kind], **small)


def _around(values: np.ndarray) -> np.ndarray:
    return np.maximum(np.stack([values[0] - values[1], values[2] - values[0]]), 0)


def _all(found: Mapping[str, list[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    return [row for rows in found.values() for row in rows]


def _same(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Points of one recipe and seed with the same rates to the last row: another setting, the same checkpoint."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        key = (row["recipe"], row["seed"], sorted(_set(row)), *(row[of] for of in ("target", "fixed", "leak")))
        found.setdefault(repr(key), []).append(row)
    return list(found.values())


def _set(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row["settings"].items() if key != "seed"}


def _names(rows: Sequence[Mapping[str, Any]]) -> str:
    """The recipe and what was set in it, all of ``rows`` in one; the seed has a column of its own.

    Label-only has nothing to set, and stands once for each pair of data and classifiers.
    """
    if rows[0].get("perturber") == "label-only":
        return f"label-only on {rows[0]['data']}"
    values = {key: ", ".join(f"{_set(row)[key]}" for row in rows) for key in _set(rows[0])}
    return label({**rows[0], "settings": values}) + (": one checkpoint" if len(rows) > 1 else "")


def _points(value: Lost) -> str:
    return f"{100 * value.mean:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def page(record: dict[str, Any]) -> str:
    """The page on figure 7 as Markdown; its picture is drawn beside it."""
    kinds = {row.get("perturber") for row in record["points"]}
    found = {(row["recipe"], key) for row in record["points"] for key in row["settings"]}
    missing = [
        f"{kind} along {axis.key}"
        for swept, axis in figure_7.SWEEPS.values()
        for kind in swept
        if (f"wifi-{kind}", axis.key) not in found
    ]
    tables = {"rows": list(cells(record)), "over_seeds": list(over_seeds(record))}
    return noted(render("figure-7", record=record, kinds=kinds, missing=missing, **tables), record)


def write() -> None:
    """Write the page and its picture, where the record is."""
    if (found := write_from(RECORD, PAGE, page)) is not None:
        draw(found, PICTURE)
