"""The page of a privacy card: one file, whole in itself, made of privacy.json and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.audit import column

FOLDER = Path(__file__).parent
KINDS_OF_DATA = (
    ("raw", "raw readings"),
    ("perturbed", "this perturber"),
    ("label_only_mean", "label-only, a class's mean"),
    ("label_only_donor", "label-only, a random reading of the class"),
)


def render(card: Mapping[str, Any]) -> str:
    """The page of a card (docs/reference/schemas/privacy.schema.json); every value is escaped."""
    shown = {
        **card,
        "artefacts": [
            {**one, "title": column.title(one), "board": list(column.as_lines(one)), "useful": useful(one)}
            for one in card["artefacts"]
        ],
    }
    return environment().get_template("card.html").render(card=shown, **shown)


def environment() -> Any:
    """Jinja with the filters of all pages."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False
    )
    made.filters.update(
        percent=lambda share: f"{100 * share:.1f} %",
        bare=lambda share: f"{100 * share:.1f}",
        place=lambda share: f"{100 * share:.2f}%",
        area=lambda auc: "\N{EN DASH}" if auc is None else f"{auc:.3f}",
        bits=lambda bits: "\N{EN DASH}" if bits is None else f"{bits:+.3f}".replace("-", "\N{MINUS SIGN}"),
        thousands=lambda n: f"{n:,}",
        spread=spread,
        score=score,
        probe=probe,
    )
    return made


def useful(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table of collateral utility of an audit: attributes, and a row for each kind of data; None where none is."""
    part = document.get("collateral")
    if not part:
        return None
    beside = document["label_only"].get("collateral", {})
    rows = []
    for key, title in KINDS_OF_DATA:
        row = part["perturbed"] if key == "perturbed" else beside.get(key)
        if row:
            rows.append({"title": title, "this": key == "perturbed", **row})
    return {"attributes": part["attributes"], "chance": part["chance"], "rows": rows, "part": part}


def score(value: Mapping[str, Any] | None) -> str:
    """A rate or a correlation with its interval: ``97.1 % [96.0, 98.0]``, ``.82 [.80, .84]``."""
    if value is None:
        return "\N{EN DASH}"
    if "accuracy" in value:
        ends = f"[{100 * value['low']:.1f}, {100 * value['high']:.1f}]"
        return f"{100 * value['accuracy']:.1f} % {ends}"
    if value["low"] is None:
        return f"{value['correlation']:.2f}"
    return f"{value['correlation']:.2f} [{value['low']:.2f}, {value['high']:.2f}]"


def spread(value: Mapping[str, Any] | None, form: str = ".3g") -> str:
    """A mean with its interval."""
    if value is None or value["mean"] is None:
        return "\N{EN DASH}"
    if value["low"] is None or value["high"] is None:
        return f"{value['mean']:{form}}"
    return f"{value['mean']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"


def probe(row: Mapping[str, Any]) -> str:
    """What a probe found, with its interval where it has one."""
    ends = "" if row["low"] is None else f" [{row['low']:.3g}, {row['high']:.3g}]"
    chance = "" if row["chance"] is None else f"; chance {row['chance']:.3g}"
    return f"{row['value']:.3g}{ends}{chance}"
