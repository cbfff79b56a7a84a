"""The column of an audit that a board adds, as text: the board, and where its output differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgeveil.edge_runtime.device import CPU

WORDS = {"frame": "other frames", "label": "labels flipped", "code": "codes flipped"}


def title(document: Mapping[str, Any]) -> str:
    """The title of a column of the card: the artefact, and the board where it ran on one."""
    there = document.get("on_board")
    return document["artefact"] if there is None else f"{document['artefact']} on {board_name(there)}"


def board_name(there: Mapping[str, Any]) -> str:
    """A board by its model, else by its processor and system; and its accelerator, where that ran the artefact."""
    name = there["board"] or f"{there['architecture']}, {there['system'] or 'an unknown system'}"
    return name if _device(there) == CPU else f"{name}, its {_device(there)}"


def as_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The section for people."""
    there = document.get("on_board")
    if there is None:
        return
    backends = ", ".join(f"{b['backend']} {b['version']}" for b in document["backends"].values()) or "numpy"
    where = "By a simulator, on no board" if there.get("simulated") else "On the board"
    yield f"{where} ({board_name(there)}; {backends}), {there['rows']:,} test rows beside the workstation's:"
    for row in there["compared"]:
        apart = "" if row["max_abs"] is None else f", by {row['max_abs']:g} at most"
        ends = f"[{100 * row['low']:.2f}, {100 * row['high']:.2f}]"
        yield f"  {row['what']:24} {row['differ']:6,} {WORDS[row['kind']]}: {100 * row['share']:.2f} % {ends}{apart}"
    yield f"  {there['meaning']}"


def joined(document: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The boards' columns of an export with a new one, which replaces an older one of the same board."""
    return [*(dict(one) for one in columns if _which(one) != _which(document)), dict(document)]


def _which(document: Mapping[str, Any]) -> tuple[Any, ...]:
    there = document["on_board"]
    place = (there[key] for key in ("board", "architecture", "system", "python"))
    return (document["artefact"], _device(there), *place)


def _device(there: Mapping[str, Any]) -> str:
    """The device that ran the artefact there; older audits do not name it, and ran on the processor."""
    return there.get("device", CPU)
