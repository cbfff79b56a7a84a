"""The page of a privacy card: one self-contained file, made from privacy.json alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.trainer.audit import board_column
from edgeveil.trainer.audit.sections.retained_table import retained_table, score
from edgeveil.trainer.audit.text import percent, span, what_else_sentence, worst_first

FOLDER = Path(__file__).parent / "templates"


def render(card: Mapping[str, Any]) -> str:
    """The page of a card (docs/reference/schemas/privacy.schema.json); every value is escaped."""
    shown = {
        **card,
        "artefacts": [
            {
                **one,
                "title": board_column.title(one),
                "board": list(board_column.as_lines(one)),
                "useful": retained_table(one),
            }
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
        percent=percent,
        bare=lambda share: f"{100 * share:.1f}",
        place=lambda share: f"{100 * share:.2f}%",
        area=lambda auc: "\N{EN DASH}" if auc is None else f"{auc:.3f}",
        factor=lambda factor: "\N{EN DASH}" if factor is None else f"{factor:.2f}",
        bits=lambda bits: "\N{EN DASH}" if bits is None else f"{bits:+.3f}".replace("-", "\N{MINUS SIGN}"),
        thousands=lambda n: f"{n:,}",
        spread=spread,
        score=score,
        probe=probe,
        span=span,
        what_else=what_else_sentence,
        worst_first=worst_first,
    )
    return made


def spread(value: Mapping[str, Any] | None, form: str = ".3g") -> str:
    """A mean with its interval."""
    if value is None or value["mean"] is None:
        return "\N{EN DASH}"
    if value["low"] is None or value["high"] is None:
        return f"{value['mean']:{form}}"
    return f"{value['mean']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"


def probe(row: Mapping[str, Any]) -> str:
    """The value of a probe, with its interval and chance if it has them."""
    ends = "" if row["low"] is None else f" [{row['low']:.3g}, {row['high']:.3g}]"
    chance = "" if row["chance"] is None else f"; chance {row['chance']:.3g}"
    return f"{row['value']:.3g}{ends}{chance}"
