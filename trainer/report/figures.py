"""Figures as plain coordinates, which ``figures.html`` draws as inline SVG.

They follow the colours of the page and need no library; each of their values is shown on hover and read aloud.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from edgeveil.trainer.audit.findings import LABEL_ONLY, RAW, SENT, attacks, findings, guess
from edgeveil.trainer.audit.verdict import percent

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 10, 36
ENDS = {"left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM}
BOX = {"width": WIDTH, "height": HEIGHT, **ENDS}
INKS = 8  # of style.html
MOST_DOTS = 60  # of a line: values on hover, as far apart as a finger or a pointer can tell


class Scale(NamedTuple):
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value, to a tenth."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, count: int = 5, form: str = "{:.6g}") -> list[tuple[float, str]]:
        """Round values with their pixels, about ``count`` of them."""
        step = 10 ** math.floor(math.log10((self.high - self.low) / count))
        step *= next(by for by in (1, 2, 5, 10) if (self.high - self.low) / (step * by) <= count)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(self.at(n * step), form.format(n * step)) for n in range(first, last + 1)]


def span(values: Iterable[float], margin: float = 0.05) -> tuple[float, float]:
    """The ends of an axis for these values, a little apart even where they are all alike."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    more = margin * (high - low) or 0.5 * abs(low) or 0.5
    return low - more, high + more


def curves(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Figures of metrics.jsonl: accuracies, losses and the rest, by stage.

    A line has ``stage``, ``step`` (an epoch) and numbers by name; lines of one stage may hold different numbers.
    """
    drawn = []
    for stage in dict.fromkeys(str(line["stage"]) for line in lines):
        series: dict[str, list[tuple[float, float]]] = {}
        for line in lines:
            if line["stage"] == stage:
                for name, value in line.items():
                    if name not in ("stage", "step", "time_s") and isinstance(value, (int, float)):
                        series.setdefault(name.replace("_", " "), []).append((line["step"], value))
        for what in ("accuracy", "loss", "further measures"):
            chosen = {name: points for name, points in series.items() if _panel(name) == what}
            if chosen:
                drawn.append(_curves(f"{stage}: {what}", chosen, (-0.02, 1.02) if what == "accuracy" else None))
    return drawn


def _panel(name: str) -> str:
    return next((what for what in ("accuracy", "loss") if what in name.split()), "further measures")


def _curves(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], ends: tuple[float, float] | None
) -> dict[str, Any]:
    every = [value for points in series.values() for _, value in points]
    x = Scale(*span((step for points in series.values() for step, _ in points), 0.01), LEFT, WIDTH - RIGHT)
    y = Scale(*(ends or span(every)), HEIGHT - BOTTOM, TOP)
    drawn = []
    for number, (name, points) in enumerate(series.items()):
        finite = [(step, value) for step, value in points if math.isfinite(value)]
        place = [(x.at(step), y.at(value)) for step, value in finite]
        apart = max(1, math.ceil(len(finite) / MOST_DOTS))
        shown = [n for n in range(len(finite)) if n % apart == 0 or n == len(finite) - 1]
        drawn.append(
            {
                "name": name,
                "ink": number % INKS + 1,
                "path": " ".join(f"{a},{b}" for a, b in place),
                "dots": [(*place[n], f"{name}, epoch {finite[n][0]}: {finite[n][1]:.4g}") for n in shown],
                "single": len(finite) < 3,
            }
        )
    end = ", ".join(f"{name} {points[-1][1]:.3g}" for name, points in series.items())
    return {
        "title": title,
        "says": f"{title} by epoch; at the end {end}",
        **BOX,
        **{"x_label": "epoch", "x_ticks": x.ticks(), "y_ticks": y.ticks(), "lines": drawn},
    }


# Who reads z from what is sent: a line for each attack, with its interval, next to what y alone reaches.

ROW, SIDE, NARROW = 30, 8, 360  # a name stands above its line, so that a phone shows both


def readers(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The attacks on z of an audit, each in the setting that was best on validation rows, the best on label-only, and
    who reads raw samples, with their intervals; None where nothing was attacked."""
    y, z = document["data"]["target"], document["data"]["sensitive"]
    ran = [one for one in attacks(document) if "right" in one.figures]
    if not ran or not any(one.kind == "guess" for one in findings(document, SENT)):
        return None
    by_name: dict[str, Any] = {}
    for one in ran:
        earlier = by_name.get(one.name)
        if earlier is None or _rank(one.figures["right"]) > _rank(earlier.figures["right"]):
            by_name[one.name] = one
    rows = [
        _row(one.label if one.kind == "adaptive" else f"{one.name} (non-adaptive)", one.figures["right"], one.kind)
        for one in by_name.values()
    ]
    floor = [one.figures["right"] for one in attacks(document, LABEL_ONLY) if "right" in one.figures]
    rows += [_row("label-only: best attack found", one, "other") for one in floor if one.more.get("chosen")]
    raw = [one for one in findings(document, RAW) if one.question == z and one.figure == "right"]
    rows += [_row(f"raw samples: {one.name}", one, "other") for one in raw[:1]]
    alone = guess(document)
    x = Scale(*_shares([alone, *(row[end] for row in rows for end in ("low", "high"))]), SIDE, NARROW - SIDE)
    bottom = ROW * len(rows) + 8
    drawn = [
        {**row, "y": ROW * n + 24, "x": x.at(row["value"]), "from": x.at(row["low"]), "to": x.at(row["high"])}
        for n, row in enumerate(rows)
    ]
    ticks = [(at, f"{100 * float(text):.0f}") for at, text in x.ticks()]
    return {
        "title": f"Who reads {z}, and how often",
        "says": f"{z} read right: {'; '.join(row['text'] for row in rows)}; y alone {percent(alone)}",
        **{"width": NARROW, "height": bottom + BOTTOM, "left": SIDE, "right": NARROW - SIDE, "top": 2},
        **{"bottom": bottom, "x_label": f"right, %, 95 % intervals; dashed: {y} alone", "x_ticks": ticks},
        **{"y_ticks": [], "rows": drawn, "mark": x.at(alone), "mark_text": f"{y} alone: {percent(alone)}"},
    }


def _rank(one: Any) -> tuple[bool, float]:
    """The attack that the verdict names first; else that with most on validation rows."""
    return bool(one.more.get("chosen")), one.chosen_by if one.chosen_by is not None else one.value or 0.0


def _shares(values: Sequence[float]) -> tuple[float, float]:
    low, high = span(values)
    return max(0.0, low), min(1.0, high)


def _row(name: str, one: Any, kind: str) -> dict[str, Any]:
    value = one.value or 0.0
    low, high = (value if end is None else end for end in one.interval)
    look = "best" if one.more.get("chosen") and kind == "adaptive" else "" if kind == "adaptive" else "non"
    return {"name": name, "value": value, "low": low, "high": high, "look": look, "text": f"{name} {one.shown()}"}


# The frontier of a sweep: leakage against utility, or against what is kept beyond the label.


def points(
    rows: Sequence[Mapping[str, Any]], label: Callable[[Mapping[str, Any]], str], by: str
) -> dict[str, Any] | None:
    """A point for each setting: the best attack on z across; up, ``by``: ``target``, how often y is read right, or
    ``kept``, the mean correlation between x and x' of the properties that all points have. None where no point has."""
    shared = [set(row["kept"]) for row in rows if not row.get("floor")]
    names = sorted(set.intersection(*shared)) if shared else []
    known = [(n, row) for n, row in enumerate(rows) if by == "target" or (names and set(names) <= set(row["kept"]))]
    if not known:
        return None
    up = [
        100 * row["target"]["accuracy"]
        if by == "target"
        else sum(row["kept"][name]["correlation"] for name in names) / len(names)
        for _, row in known
    ]
    ends = [100 * row["leak"][end] for _, row in known for end in ("low", "high")]
    chance = 100 * max(row["chance"]["majority"] for _, row in known)
    x = Scale(*span([*ends, chance]), LEFT, WIDTH - RIGHT)
    y = Scale(*span(up), HEIGHT - BOTTOM, TOP)
    recipes = list(dict.fromkeys(str(row["recipe"]) for row in rows))
    unit = "y right, %" if by == "target" else f"kept ({', '.join(names)})"
    dots = [
        {
            **{"number": n, "x": x.at(100 * row["leak"]["accuracy"]), "y": y.at(value)},
            **{"from": x.at(100 * row["leak"]["low"]), "to": x.at(100 * row["leak"]["high"])},
            "ink": recipes.index(str(row["recipe"])) % INKS + 1,
            "text": f"{label(row)}: z read right {100 * row['leak']['accuracy']:.1f} %, {unit} {value:.4g}"
            + (f"; {row['verdict']['word']}" if "verdict" in row else ""),
        }
        for (n, row), value in zip(known, up, strict=True)
    ]
    return {
        "title": f"{unit}, against leakage",
        "says": f"{unit} against the best attack on z, {len(dots)} points",
        **BOX,
        **{"x_label": "best attack found on z right, %", "x_ticks": x.ticks(), "y_ticks": y.ticks(), "dots": dots},
        **{"mark": x.at(chance), "mark_text": f"chance: {chance:.1f} %"},
        "lines": [{"name": name, "ink": n % INKS + 1} for n, name in enumerate(recipes)],
    }
