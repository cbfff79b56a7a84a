"""Several perturbers of the same samples in one picture: what they send, who infers z from it, and what it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.trainer.audit.text import percent
from edgeveil.trainer.audit.verdict import CANNOT_TELL, HOLDS, LEAKS, guess, verdict
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.report.pictures import INKS, saved, style

NAMES = {"prgan": "PR-GAN", "codebook": "the codebook"}
GREY, GOOD, BAD = "#4a4f54", INKS[2], INKS[1]
INK = {HOLDS: GOOD, CANNOT_TELL: GREY, LEAKS: BAD}


@dataclass(frozen=True)
class Row:
    """One perturber: its name, what it sends (n, height, width, channels), and what was found about it.

    ``part`` is its audit, or the ``label_only`` of one; None for the samples themselves. ``kept`` is the correlation
    within y between x and x' by property; None if not measured, as for the samples themselves.
    """

    title: str
    frames: np.ndarray
    part: Mapping[str, Any] | None = None
    kept: Mapping[str, float] | None = None


def kept(part: Mapping[str, Any]) -> dict[str, float]:
    """By property the correlation within y between x and x' that an audit found."""
    return {name: found["correlation"] for name, found in part["collateral"]["kept"].items()}


def why(document: Mapping[str, Any], recommended: Mapping[str, Any]) -> str:
    """Whether ``recommended`` is recommended over ``document``, from two audits of the same data, in two sentences."""
    z, raw = document["data"]["sensitive"], document["raw"]["sensitive"]["accuracy"]
    chance = guess(document)
    ours, theirs = (part["worst_adaptive"]["accuracy"] for part in (recommended, document))
    fixed = fixed_accuracy(document)
    fooled = (
        f" fools the adversary it was trained against ({percent(fixed)}), and" if fixed < (chance + raw) / 2 else ":"
    )
    floor = document["label_only"]["worst_adaptive"]["accuracy"]
    paper, other = (NAMES.get(part["perturber"], part["perturber"]) for part in (document, recommended))
    told = (
        f"{paper}{fooled} the best attack found reads {z} right {percent(theirs)} of the time. On {other} it is "
        f"{percent(ours)}, on label-only {percent(floor)}; guessing from {document['data']['target']} alone is right "
        f"{percent(chance)}"
    )
    some = ", ".join(f"{name} {value:.2f}" for name, value in kept(recommended).items())
    keeps = f". Beyond the label, where label-only keeps nothing, it keeps {some} (correlation between x and x')"
    word = verdict(recommended)["word"]
    if word == HOLDS:
        return f"{told}{keeps}. So {other} is recommended."
    if word == CANNOT_TELL and ours < theirs:
        return f"{told}{keeps}. It hides more; whether it hides enough, too few test rows can tell."
    if ours < theirs:
        return f"{told}{keeps}. It hides more, but not all: look at the certificate before you rely on it."
    return f"{told}{keeps}. Here it hides no more: neither is recommended."


def fixed_accuracy(part: Mapping[str, Any]) -> float:
    """The accuracy of the adversary of the training."""
    return max(row["accuracy"] for row in part["adversaries"] if row["kind"] == "fixed")


def draw(spec: InputSpec, rows: Sequence[Row], *, target: str, sensitive: str, raw: Mapping[str, Any]) -> bytes:
    """The picture as PNG. ``raw`` are the rates of D_y and D_z on the samples themselves, as an audit has them."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    count = len(rows[0].frames)
    with style():
        figure = Figure(figsize=(3.0 + 0.62 * count + 4.6, 0.95 * len(rows) + 1.15), layout="constrained")
        grid = figure.subplots(len(rows), count + 2, squeeze=False, width_ratios=[2.6, *[0.62] * count, 4.6])
        for axes, row in zip(grid, rows, strict=True):
            _words(axes[0], row, target, raw)
            for place, picture in zip(axes[1:-1], row.frames, strict=True):
                _picture(place, picture, spec)
            _rates(axes[-1], row, raw, last=row is rows[-1])
        grid[0][-1].set_title(f"{sensitive} read right, % (95 % interval)", loc="left", fontsize=9)
        marks = [
            ("o", "white", GREY, "fixed: trained against (non-adaptive)"),
            ("o", GREY, GREY, "best attack found: trained on perturbed samples"),
            ("|", INKS[0], INKS[0], f"chance, knowing {target}"),
        ]
        handles = [
            Line2D([], [], marker=m, markerfacecolor=face, color=ink, linestyle="", label=text)
            for m, face, ink, text in marks
        ]
        figure.legend(handles=handles, loc="outside lower right", frameon=False, fontsize=8, ncols=3)
        return saved(figure, "png", dpi=130)


def _words(axes: Any, row: Row, target: str, raw: Mapping[str, Any]) -> None:
    right = (raw if row.part is None else row.part)["target"]["accuracy"]
    lines = f"{target} right {percent(right)}"
    if row.kept is not None:
        few = "  ".join(f"{name} {value:.2f}" for name, value in row.kept.items())
        lines += f"\nkept beyond it: {few or 'nothing'}"
    axes.text(0, 0.72, row.title, fontweight="bold", va="center")
    axes.text(0, 0.30, lines, va="center", fontsize=7.5, color=GREY)
    axes.axis("off")


def _picture(axes: Any, picture: np.ndarray, spec: InputSpec) -> None:
    unit = np.clip((picture - np.asarray(spec.low, np.float64)) / spec.span, 0.0, 1.0)
    axes.imshow(unit if unit.shape[-1] == 3 else unit[..., 0], cmap="gray", vmin=0.0, vmax=1.0)
    axes.axis("off")


def _rates(axes: Any, row: Row, raw: Mapping[str, Any], *, last: bool) -> None:
    axes.set_xlim(0, 104)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelbottom=last)
    if row.part is None:
        rate = raw["sensitive"]
        _rate(axes, rate, 0.5, BAD, f"on raw samples {percent(rate['accuracy'])}")
        return
    best = row.part["worst_adaptive"]
    axes.axvline(100 * max(row.part["chance"].values()), color=INKS[0], linestyle="--", linewidth=1, zorder=0)
    ink = INK[verdict(row.part)["word"]]
    _rate(axes, best, 0.32, ink, f"best attack {percent(best['accuracy'])}")
    fixed = fixed_accuracy(row.part)
    axes.plot([100 * fixed], [0.75], "o", markerfacecolor="white", markeredgecolor=GREY, markersize=5)
    _note(axes, fixed, 0.75, GREY, f"fixed {percent(fixed)}")


def _rate(axes: Any, rate: Mapping[str, Any], y: float, ink: str, text: str) -> None:
    axes.plot([100 * rate["low"], 100 * rate["high"]], [y, y], color=ink, linewidth=3, alpha=0.4)
    axes.plot([100 * rate["accuracy"]], [y], "o", color=ink, markersize=6)
    _note(axes, rate["low"], y, ink, text)


def _note(axes: Any, share: float, y: float, ink: str, text: str) -> None:
    """To the left of its dot: the largest leaks are furthest right, where there is no room."""
    axes.text(100 * share - 3, y, text, va="center", ha="right", color=ink, fontsize=8)
