"""The document of an audit of pairs as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeveil.trainer.audit.document import same
from edgeveil.trainer.audit.text import HEAD, attack_line, notes, percent, what_else_lines


def as_text(document: Mapping[str, Any]) -> str:
    """The verdict first, then what it rests on."""
    data = document["data"]
    lines = [
        document["sentence"],
        "",
        f"{data['name']}: {data['rows']['after']:,} rows after of {data['units']['count']:,} {data['units']['kind']}, "
        f"{document['test']['rows']:,} of them tested, {document['budget']} audit, 95 % intervals "
        f"({document['intervals']})",
        document["order"]["sentence"],
        *document["notes"],
    ]
    if document["worst_adaptive"] is not None:
        chance = document["chance"]
        lines += [
            "",
            *utility_lines(document),
            f"{data['sensitive']} right before, {_range(document['raw']['sensitive'])}; chance: prior "
            f"{percent(chance['prior'])}, majority {percent(chance['majority'])}; after:",
            HEAD,
            *(attack_line(row, best=same(row, document["worst_adaptive"])) for row in document["adversaries"]),
            *notes(document),
            *what_else_lines(document),
        ]
    return "\n".join(lines)


def utility_lines(document: Mapping[str, Any]) -> list[str]:
    """How well y is read before and after."""
    target, found = document["data"]["target"], document["utility"]
    lines = [
        f"{target} right before: {_range(found['before'])} (guessing: {percent(found['chance'])})",
        f"{target} right after: {_range(found['after'])} ({found['after']['by']}, trained on rows after)",
    ]
    if found["trained_on_before"] is not None:
        lines.append(
            f"{target} right after, by a classifier trained on rows before: {_range(found['trained_on_before'])}"
        )
    return lines


def _range(rate: Mapping[str, float]) -> str:
    return f"{percent(rate['accuracy'])} [{percent(rate['low'])}, {percent(rate['high'])}]"
