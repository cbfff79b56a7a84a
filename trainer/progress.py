"""Progress on stderr: a live bar on a terminal, else a line every 10 s."""

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
    """Yield ``advance(**figures)``, which counts one more of ``total`` and shows the figures."""
    shown = _bar(title, total, done) if sys.stderr.isatty() else _counted(title, total, done)
    with shown as advance:
        yield advance


def say(text: str) -> None:
    """Print a line to stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def transfer(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield ``report(bytes sent, bytes in all)``, which shows rate and remaining time on stderr."""
    if sys.stderr.isatty():
        from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

        with _moving(DownloadColumn(), TimeRemainingColumn(), TransferSpeedColumn()) as bar:
            task = bar.add_task(title, total=None)
            yield lambda there, total: bar.update(task, completed=there, total=total)
        return
    there = total = 0
    begun = time.monotonic()

    def line() -> str:
        rate = max(there, 1) / max(time.monotonic() - begun, 1e-9)
        left = f", {(total - there) / rate:.0f} s left" if there else ""
        return f"{title}: {there} of {total} bytes, {rate / 1000:.1f} kB/s{left}"

    def report(sent: int, size: int) -> None:
        nonlocal there, total
        there, total = sent, size

    with _lines(line):
        yield report


def _figures(figures: dict[str, float]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in figures.items())


def _moving(*columns: Any) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    shown = (TextColumn("{task.description}"), BarColumn(), *columns)
    return Progress(*shown, console=Console(stderr=True))


@contextmanager
def _bar(title: str, total: int, done: int) -> Iterator[Advance]:
    from rich.progress import MofNCompleteColumn, TextColumn, TimeRemainingColumn

    with _moving(MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[figures]}")) as bar:
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
    """Print ``line()`` to stderr every ``LINE_EVERY_S``, also while one piece of the work runs."""
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
