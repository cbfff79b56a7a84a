"""Figure 7 of paper 001, and beyond it: what leaks of a WiFi fingerprint for how much of the floor is given up.

    EDGEVEIL_DATA=... python -m scripts.papers.figure_7 --out runs/fig-7

PR-GAN and its baselines are given the paper's five utility budgets: the floor under which Acc(D_y) may not fall. Where
a floor does not bind, the same checkpoint is chosen again, so they are trained along another axis too, which is that of
minimax as well: the distance that costs nothing. The axis of the codebook is the price of a bit about the region. Every
point lies in OUT/points when it is done: run again, the script goes on. Writes
docs/results/privacy/frontier-fig-7.json and draws docs/results/figure-7.svg; with --draw it draws alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.ext.sweep.axes import Axis, sweep
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.report.frontier import measured
from edgeveil.trainer.report.pictures import INKS, saved, style
from scripts import record

RECORD, PICTURE = Path("docs/results/privacy/frontier-fig-7.json"), Path("docs/results/figure-7.svg")
# Acc(D_y) that may be given up (section 6.5: five values between 0.03 and 0.12) of 0.95 on raw readings.
BUDGETS = (0.03, 0.0525, 0.075, 0.0975, 0.12)
RAW = 0.95
FLOORS = tuple(round(RAW - given, 4) for given in BUDGETS)
SWEEPS: dict[str, tuple[tuple[str, ...], Axis]] = {
    "paper": (("prgan", "ngp", "ap", "laplace"), Axis("limits.target_accuracy", FLOORS)),
    "distance": (("prgan", "ngp", "ap"), Axis("perturber.distance", (2.5, 5.0, 8.0, 12.0))),
    "minimax": (("minimax",), Axis("perturber.distance", (4.0, 8.0, 12.0))),
    "codebook": (("codebook",), Axis("perturber.price", (0.25, 0.5, 1.0))),
}

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


def draw(frontier: Mapping[str, Any]) -> bytes:
    """Two panels, SVG: the fixed adversary and the best attack found. The same points are the same bytes."""
    from matplotlib.figure import Figure

    by_kind = lines(frontier)
    with style():
        figure = Figure(figsize=(8.4, 3.9), layout="constrained")
        for axes, (of, title) in zip(figure.subplots(1, 2, sharey=True), ATTACKS.items(), strict=True):
            for kind, rows in by_kind.items():
                _line(axes, kind, rows, of)
            nothing = [row["raw"]["sensitive"]["accuracy"] - row["chance"]["majority"] for row in _all(by_kind)]
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
        return saved(figure)


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
        for limit_met in (True, False):
            some = np.array([row.get("limit_met", True) is limit_met for row in mine])
            if some.any():
                face = COLOURS[kind] if limit_met else "none"
                ends = {"xerr": _around(x[:, some]), "yerr": _around(y[:, some])}
                axes.errorbar(x[0, some], y[0, some], **ends, fmt=shape, markerfacecolor=face, **drawn)
    joined = shape if several else shape + "-"
    axes.plot([], [], joined, color=COLOURS[kind], label=NAMES[kind], **small)


def _around(values: np.ndarray) -> np.ndarray:
    return np.maximum(np.stack([values[0] - values[1], values[2] - values[0]]), 0)


def _all(found: Mapping[str, list[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    return [row for rows in found.values() for row in rows]


def _set(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row["settings"].items() if key != "seed"}


def main() -> None:
    """Work the points that are missing and write the record, sweep by sweep."""
    script = record.Script(__file__, __doc__, "--seeds 0 1")
    script.add_argument("--out", type=Path, default=Path("runs/fig-7"), help="points, runs and logs")
    script.add_argument("--data", default="wifi", help="recipes DATA-KIND; figure 7 is of wifi")
    script.add_argument("--sweeps", nargs="+", choices=list(SWEEPS), default=list(SWEEPS))
    script.add_argument("--seeds", nargs="+", type=int, default=[0])
    script.add_argument("--budget", choices=["full", "quick"], default="full", help="of the trainings")
    script.add_argument("--attacks", choices=["auto", "codes", "quick", "all"], default="auto")
    script.add_argument("--jobs", type=int, default=1, help="processes")
    script.add_argument("--record", type=Path, default=RECORD)
    script.add_argument("--draw", action="store_true", help="draw the picture of the record, and train nothing")
    options = script.parse_args()
    if options.draw:
        write_atomic(str(PICTURE), draw(record.recorded(options.record)))
        return
    document: dict[str, Any] = {}
    for name in options.sweeps:
        kinds, axis = SWEEPS[name]
        recipes = [Recipe.find(f"{options.data}-{kind}") for kind in kinds]
        axes = [axis, Axis("seed", tuple(options.seeds))]
        one = sweep(recipes, axes, options.out, jobs=options.jobs, budget=options.budget, attacks=options.attacks)
        document = merged(document, one)
        record.write(options.record, script.path, document)
    write_atomic(str(PICTURE), draw(document))


def merged(before: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Two frontiers as one: the points of both, each once."""
    points = {row["point"]: row for row in [*before.get("points", []), *one["points"]]}
    return {**one, "compared": before.get("compared", 0) + one["compared"], "points": list(points.values())}


if __name__ == "__main__":
    record.run(main)
