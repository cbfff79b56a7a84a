"""Samples and curves as data URIs, so that the report is one file."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.audit.findings import LABEL_ONLY, RAW, SENT, Finding, attacks, best, findings, guess
from edgeveil.trainer.audit.findings import kept as kept_by
from edgeveil.trainer.audit.verdict import BOUNDED, CANNOT_TELL, LEAKS, NOTHING_FOUND, judge, percent, verdict
from edgeveil.trainer.datasets.base import InputSpec

INKS = ("#2b5d8a", "#b3372b", "#1d7a55", "#9a6700", "#6b4c9a", "#4a4f54", "#0f8a9d", "#a8447a")

# Light and dark change places, and colours stay the colours that a legend or the text names.
DARK = b"@media (prefers-color-scheme: dark){svg{filter:invert(.9) hue-rotate(180deg)}}"


def style() -> Any:
    """Matplotlib's settings for all pictures: paths look alike everywhere, and a fixed salt gives the same bytes."""
    import matplotlib

    return matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "edgeveil", "font.size": 9})


def saved(figure: Any, kind: str = "svg", **options: Any) -> bytes:
    """A figure as SVG or PNG, without a date: the same figure gives the same bytes. An SVG follows dark pages."""
    data = io.BytesIO()
    figure.savefig(data, format=kind, metadata={"Date" if kind == "svg" else "Software": None}, **options)
    return data.getvalue().replace(b"</style>", DARK + b"</style>", 1) if kind == "svg" else data.getvalue()


MOST_SIDE = (
    120  # pixels of a picture on a page, which shows it no larger: a dozen pairs of any size weigh 1.4 MB at most
)


def png(picture: np.ndarray, low: float, high: float) -> str:
    """A picture (height, width, channels) as a PNG data URI; one channel in grey, three in colour, else the first.

    A larger one is brought to ``MOST_SIDE`` by the means of squares.
    """
    return _uri("image/png", _png(_small(picture, low, high)))


def strip(pictures: np.ndarray, low: float, high: float) -> bytes:
    """Pictures (n, height, width, channels) next to each other as a PNG, a line apart, each as in ``png``."""
    small = [_small(one, low, high) for one in pictures]
    return _png(np.concatenate([np.pad(one, ((0, 0), (0, 1), (0, 0)), constant_values=0.5) for one in small], axis=1))


def _small(picture: np.ndarray, low: float, high: float) -> np.ndarray:
    unit = np.clip((picture.astype(np.float64) - low) / (high - low), 0.0, 1.0)
    by = -(-max(unit.shape[:2]) // MOST_SIDE)
    down, across = (min(by, side) for side in unit.shape[:2])
    rows, columns = unit.shape[0] // down, unit.shape[1] // across
    squares = unit[: rows * down, : columns * across].reshape(rows, down, columns, across, -1)
    return np.asarray(squares.mean(axis=(1, 3)))


def _png(unit: np.ndarray) -> bytes:
    from matplotlib import image

    data = io.BytesIO()
    if unit.shape[-1] == 3:
        image.imsave(data, unit, format="png")
    else:
        image.imsave(data, unit[..., 0], format="png", cmap="gray", vmin=0.0, vmax=1.0)
    return data.getvalue()


def file(path: Path) -> str:
    """A PNG file as a data URI."""
    return _uri("image/png", path.read_bytes())


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


# Several perturbers of the same samples in one picture: what they send, who infers z from it, and what it keeps.

NAMES = {"prgan": "PR-GAN", "codebook": "the codebook"}
GREY, GOOD, BAD = "#4a4f54", INKS[2], INKS[1]
INK = {BOUNDED: GOOD, NOTHING_FOUND: GOOD, CANNOT_TELL: GREY, LEAKS: BAD}


@dataclass(frozen=True)
class Row:
    """One perturber: its name, what it sends (n, height, width, channels), and what was found about it.

    ``audit`` is the audit that has it, and ``of`` whose output it is there: what is sent, label-only or raw samples.
    ``kept`` is the correlation within y between x and x' by property; None if not measured, as for raw samples.
    """

    title: str
    frames: np.ndarray
    audit: Mapping[str, Any]
    of: str = SENT
    kept: Mapping[str, float] | None = None


def kept(document: Mapping[str, Any]) -> dict[str, float]:
    """By property the correlation within y between x and x' that an audit found."""
    correlations = [one for one in findings(document, SENT) if (one.name, one.figure) == ("x to x'", "correlation")]
    return {one.question: one.value for one in correlations if one.value is not None}


def why(document: Mapping[str, Any], recommended: Mapping[str, Any]) -> list[str]:
    """Whether ``recommended`` is recommended over ``document``, from two audits of the same data, in five lines."""
    z, y = document["data"]["sensitive"], document["data"]["target"]
    chance, raw, fixed = guess(document), _right_of(document, RAW), _of_training(document)
    ours, theirs = _read(recommended, SENT), _read(document, SENT)
    paper, other = (NAMES.get(part["perturber"], part["perturber"]) for part in (document, recommended))
    is_fooled = (fixed.value or 0.0) < (chance + raw) / 2
    against = f"{paper} fools" if is_fooled else f"{paper} does not fool"
    some = ", ".join(f"{name} {value:.2f}" for name, value in kept(recommended).items())
    word = verdict(recommended)["word"]
    if word in (BOUNDED, NOTHING_FOUND):
        so = f"So {other} is recommended."
    elif (ours.value or 0.0) >= (theirs.value or 0.0):
        so = "Here it hides no more: neither is recommended."
    elif word == CANNOT_TELL:
        so = "It hides more; whether it hides enough, too few test rows can tell."
    else:
        so = "It hides more, but not all: look at the certificate before you rely on it."
    return [
        f"{z} is hidden, {y} kept. {z} is right {percent(raw)} from raw samples, {percent(chance)} from {y} alone.",
        f"{against} the adversary that it was trained against: right {fixed.shown()}.",
        f"The best attack found learned from what {paper} sends: right {theirs.shown()}, {verdict(document)['word']}.",
        f"On {other} the best is right {ours.shown()}, on label-only, which sends {y} alone, "
        f"{percent(_right_of(document, LABEL_ONLY))}: {word}.",
        f"Beyond {y}, where label-only keeps nothing, {other} keeps {some} (correlation between x and x'). {so}",
    ]


def _of_training(document: Mapping[str, Any], of: str = SENT) -> Finding:
    """How often the adversary of the training is right: the best of its seeds."""
    fixed = [row.figures["right"] for row in attacks(document, of) if row.kind == "fixed"]
    return max(fixed, key=lambda one: one.value or 0.0)


def _read(document: Mapping[str, Any], of: str) -> Finding:
    """How often z is read right: by the best attack found, or by D_z of raw samples."""
    if of != RAW:
        return best(document, of).figures["right"]
    z = document["data"]["sensitive"]
    return next(one for one in findings(document, RAW) if (one.question, one.kind) == (z, "reader"))


def _right_of(document: Mapping[str, Any], of: str) -> float:
    return _read(document, of).value or 0.0


def draw(spec: InputSpec, rows: Sequence[Row], *, target: str, sensitive: str) -> bytes:
    """The picture as PNG."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    count = len(rows[0].frames)
    with style():
        figure = Figure(figsize=(3.0 + 0.62 * count + 4.6, 0.95 * len(rows) + 1.15), layout="constrained")
        grid = figure.subplots(len(rows), count + 2, squeeze=False, width_ratios=[2.6, *[0.62] * count, 4.6])
        for axes, row in zip(grid, rows, strict=True):
            _comparison_words(axes[0], row, target)
            for place, picture in zip(axes[1:-1], row.frames, strict=True):
                unit = np.clip((picture - np.asarray(spec.low, np.float64)) / spec.span, 0.0, 1.0)
                place.imshow(unit if unit.shape[-1] == 3 else unit[..., 0], cmap="gray", vmin=0.0, vmax=1.0)
                place.axis("off")
            _rates(axes[-1], row, last=row is rows[-1])
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


def _comparison_words(axes: Any, row: Row, target: str) -> None:
    right = kept_by(row.audit, row.of).value
    lines = f"{target} right {percent(right)}"
    if row.kept is not None:
        few = "  ".join(f"{name} {value:.2f}" for name, value in row.kept.items())
        lines += f"\nkept beyond it: {few or 'nothing'}"
    axes.text(0, 0.72, row.title, fontweight="bold", va="center")
    axes.text(0, 0.30, lines, va="center", fontsize=7.5, color=GREY)
    axes.axis("off")


def _rates(axes: Any, row: Row, *, last: bool) -> None:
    axes.set_xlim(0, 104)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelbottom=last)
    right = _read(row.audit, row.of)
    if row.of == RAW:
        _rate(axes, right, 0.5, BAD, f"on raw samples {percent(right.value)}")
        return
    axes.axvline(100 * guess(row.audit, row.of), color=INKS[0], linestyle="--", linewidth=1, zorder=0)
    limits = (row.audit.get("limits") or {}).get("asked", {})
    judged = verdict(row.audit) if row.of == SENT else judge(row.audit, limits, of=row.of)
    _rate(axes, right, 0.32, INK[judged["word"]], f"best attack {percent(right.value)}")
    fixed = _of_training(row.audit, row.of).value or 0.0
    axes.plot([100 * fixed], [0.75], "o", markerfacecolor="white", markeredgecolor=GREY, markersize=5)
    _note(axes, fixed, 0.75, GREY, f"fixed {percent(fixed)}")


def _rate(axes: Any, rate: Finding, y: float, ink: str, text: str) -> None:
    value, low, high = (100 * (end or 0.0) for end in (rate.value, *rate.interval))
    axes.plot([low, high], [y, y], color=ink, linewidth=3, alpha=0.4)
    axes.plot([value], [y], "o", color=ink, markersize=6)
    _note(axes, low / 100, y, ink, text)


def _note(axes: Any, share: float, y: float, ink: str, text: str) -> None:
    """To the left of its dot: the largest leaks are furthest right, where there is no room."""
    axes.text(100 * share - 3, y, text, va="center", ha="right", color=ink, fontsize=8)
