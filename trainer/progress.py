"""Progress on stderr: one line that moves on a terminal, a line every 10 s where there is none."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LINE_EVERY_S = 10.0

Advance = Callable[..., None]


@contextmanager
def progress(title: str, *, total: int, done: int = 0) -> Iterator[Advance]:
    """Yield ``advance(**figures)``: one more of ``total`` is done, with numbers worth showing."""
    shown = _bar(title, total, done) if sys.stderr.isatty() else _counted(title, total, done)
    with shown as advance:
        yield advance


def say(text: str) -> None:
    """One line of prose on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def transfer(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield ``report(bytes there, bytes in all)``: rate and time left, on stderr."""
    if sys.stderr.isatty():
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with _moving(*columns) as bar:
            task = bar.add_task(title, total=None)
            yield lambda there, total: bar.update(task, completed=there, total=total)
        return
    state = [0, 0]
    begun = time.monotonic()

    def line() -> str:
        there, total = state
        rate = max(there, 1) / max(time.monotonic() - begun, 1e-9)
        left = f", {(total - there) / rate:.0f} s left" if there else ""
        return f"{title}: {there} of {total} bytes, {rate / 1000:.1f} kB/s{left}"

    def report(there: int, total: int) -> None:
        state[:] = there, total

    with _lines(line):
        yield report


def _figures(figures: dict[str, float]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in figures.items())


def _moving(*columns: Any) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True))


@contextmanager
def _bar(title: str, total: int, done: int) -> Iterator[Advance]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with _moving(*columns) as bar:
        task = bar.add_task(title, total=total, completed=done, figures="")

        def advance(**figures: float) -> None:
            bar.update(task, advance=1, figures=_figures(figures))

        yield advance


@contextmanager
def _counted(title: str, total: int, done: int) -> Iterator[Advance]:
    begun, count, shown = time.monotonic(), done, ""

    def line() -> str:
        return f"{title}: {count}/{total}, {time.monotonic() - begun:.0f} s{shown}"

    def advance(**figures: float) -> None:
        nonlocal count, shown
        count += 1
        shown = f"  {_figures(figures)}" if figures else ""

    with _lines(line):
        yield advance
    say(line())


@contextmanager
def _lines(line: Callable[[], str]) -> Iterator[None]:
    """``line()`` on stderr every ``LINE_EVERY_S``, however long one piece of the work takes."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(LINE_EVERY_S):
            say(line())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
