"""The document of ``edgeveil accept`` for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgeveil.trainer.accept.judge import CANNOT_TELL, NOT_JUDGED


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What was found, part by part, and the verdict."""
    yield (
        f"{document['bundle']['name']}: {document['taps']} taps in {document['seconds'] / 60:.0f} of "
        f"{document['minutes']:g} minutes"
    )
    for name, title in (("y", "y"), ("counts", "counts")):
        part = document[name]
        if part["word"] == NOT_JUDGED:
            yield f"  {title}: {NOT_JUDGED}: {part['why']}"
            continue
        yield f"  {title}: right {_span(part, 'accuracy')}, at least {_percent(part['least'])} asked: {part['word']}"
        for line, found in part.get("by_line", {}).items():
            yield f"    {line}: {found['right']} right, {found['missed']} missed, {found['extra']} too many"
        for label, found in part.get("by_class", {}).items():
            if found["taps"]:
                yield f"    {label}: {found['right']} of {found['taps']} right"
        if part.get("audited"):
            yield f"    audited: {_span(part['audited'], 'accuracy')}"
    yield _of_shift(document["shift"])
    yield f"verdict: {document['verdict']}"
    if document["verdict"] == CANNOT_TELL:
        yield "  Tap longer, or ask for less: an interval that holds what is asked tells neither way."


def _of_shift(part: Mapping[str, Any]) -> str:
    if part["word"] == NOT_JUDGED:
        return f"  shift: {NOT_JUDGED}: {part['why']}"
    if part["state"] == "unknown":
        return (
            f"  shift: {part['word']}: what left is worth {part['effective']:.0f} independent releases, 30 are needed"
        )
    return (
        f"  shift of the codes from the audit: {_span(part, 'distance')}, at most {_percent(part['most'])} allowed: "
        f"{part['word']}"
    )


def _span(part: Mapping[str, Any], name: str) -> str:
    return f"{_percent(part[name])} [{_percent(part['low'])}, {_percent(part['high'])}]"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
