"""A live table of boards on a terminal; elsewhere a line for each change of state."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgeveil.devices.fleet import FAILED, IN_PROGRESS, NOT_TRIED, REFUSED, WAITING, Tell
from edgeveil.trainer.progress import say

if TYPE_CHECKING:
    pass


_COLOURS = {IN_PROGRESS: "cyan", FAILED: "red", REFUSED: "red", NOT_TRIED: "yellow", WAITING: "dim"}


@contextmanager
def table(names: Sequence[str]) -> Iterator[Tell]:
    """Yield ``tell(board, state, text)``, which any thread may call; shown on stderr."""
    with _live(names) if sys.stderr.isatty() else _lines() as tell:
        yield tell


@contextmanager
def _lines() -> Iterator[Tell]:
    lock = threading.Lock()
    states: dict[str, str] = {}

    def tell(board: str, state: str, text: str) -> None:
        with lock:
            # Every step of a board is too much for a log; that it began and how it ended is not.
            if states.get(board) != state:
                states[board] = state
                say(f"{board}: {state}{': ' + text if text and state != IN_PROGRESS else ''}")

    yield tell


@contextmanager
def _live(names: Sequence[str]) -> Iterator[Tell]:
    from rich.console import Console
    from rich.live import Live

    lock = threading.Lock()
    rows = dict.fromkeys(names, (WAITING, ""))
    with Live(_drawn(rows), console=Console(stderr=True), refresh_per_second=4) as live:

        def tell(board: str, state: str, text: str) -> None:
            with lock:
                rows[board] = (state, text)
                live.update(_drawn(rows))

        yield tell


def _drawn(rows: dict[str, tuple[str, str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False)
    for title in ("board", "state", ""):
        drawn.add_column(title, overflow="fold")
    for board, (state, text) in rows.items():
        # As plain text: what a board says is no markup of ours.
        drawn.add_row(Text(board), Text(state, style=_COLOURS.get(state, "green")), Text(text))
    return drawn
