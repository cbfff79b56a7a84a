"""Samples and curves as data URIs, so that the report is one file."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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


def png(picture: np.ndarray, low: float, high: float) -> str:
    """A picture (height, width, channels) as a PNG data URI; one channel in grey, three in colour, else the first."""
    from matplotlib import image

    unit = np.clip((picture.astype(np.float64) - low) / (high - low), 0.0, 1.0)
    data = io.BytesIO()
    if unit.shape[-1] == 3:
        image.imsave(data, unit, format="png")
    else:
        image.imsave(data, unit[..., 0], format="png", cmap="gray", vmin=0.0, vmax=1.0)
    return _uri("image/png", data.getvalue())


def file(path: Path) -> str:
    """A PNG file as a data URI."""
    return _uri("image/png", path.read_bytes())


def svg(data: bytes) -> str:
    """An SVG as a data URI."""
    return _uri("image/svg+xml", data)


def curves(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Figures of metrics.jsonl, each ``{"image": data URI, "alt": text}``: accuracies, losses and the rest by stage.

    A line has ``stage``, ``step`` (an epoch) and numbers by name; lines of one stage may hold different numbers.
    """
    figures = []
    for stage in dict.fromkeys(str(line["stage"]) for line in lines):
        series: dict[str, list[tuple[float, float]]] = {}
        for line in lines:
            if line["stage"] == stage:
                for name, value in line.items():
                    if name not in ("stage", "step", "time_s") and isinstance(value, (int, float)):
                        series.setdefault(name, []).append((line["step"], value))
        for what in ("accuracy", "loss", "further measures"):
            chosen = {name: points for name, points in series.items() if _panel(name) == what}
            if chosen:
                figures.append(_figure(stage, what, chosen))
    return figures


def _panel(name: str) -> str:
    return next((what for what in ("accuracy", "loss") if what in name.split("_")), "further measures")


def _figure(stage: str, what: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, str]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with style():
        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        axes = figure.subplots()
        for ink, (name, points) in zip(INKS * (1 + len(series) // len(INKS)), series.items(), strict=False):
            steps, values = zip(*points, strict=True)
            marker = "o" if len(points) < 3 else ""
            axes.plot(steps, values, color=ink, linewidth=1.5, label=_words(name), marker=marker, markersize=3)
        axes.set_title(f"{stage}: {what}", loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y", color="#dedbd2", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        if what == "accuracy":
            axes.set_ylim(-0.02, 1.02)
        figure.legend(loc="outside lower left", frameon=False, fontsize=8, ncols=2)
        data = saved(figure, transparent=True)
    ends = ", ".join(f"{_words(name)} {points[-1][1]:.3g}" for name, points in series.items())
    return {"image": svg(data), "alt": f"{stage}, {what} by epoch; at the end {ends}"}


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _words(name: str) -> str:
    return name.replace("_", " ")
