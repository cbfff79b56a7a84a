"""One spelling of an identifier, so that two spellings of one person are one person."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Literal

Step = Literal["nfkc", "case", "spaces", "date"]
FORMATS = ("%d.%m.%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%m-%Y")  # whose day and month no reader confuses, after ISO


def normalised(text: str, steps: Sequence[Step]) -> str:
    """``text`` after the steps, in their order.

    ``nfkc`` is Unicode's compatibility form, ``case`` folds case, ``spaces`` leaves single ones within, ``date`` writes
    a date as ISO 8601 does. Raises ``ValueError`` for a text that is no date, or that nothing is left of.
    """
    for step in steps:
        text = _STEPS[step](text)
    if not text:
        raise ValueError("nothing is left")
    return text


def _date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    for form in FORMATS:
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    raise ValueError("no date")


_STEPS: Mapping[str, Callable[[str], str]] = {
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "case": str.casefold,
    "spaces": lambda text: " ".join(text.split()),
    "date": _date,
}
