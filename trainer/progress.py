"""Progress on stderr: a bar on a terminal, a line now and then where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_EVERY_S = 10.0

Advance = Callable[..., None]


@contextmanager
def progress(
    title: str, *, total: int, done: int = 0, clock: Callable[[], float] = time.monotonic
) -> Iterator[Advance]:
    """Yield ``advance(**figures)``: one more of ``total`` is done, with numbers worth showing."""
    shown = _bar(title, total, done) if sys.stderr.isatty() else _lines(title, total, done, clock)
    with shown as advance:
        yield advance


def _figures(figures: dict[str, float]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in figures.items())


@contextmanager
def _bar(title: str, total: int, done: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, completed=done, figures="")

        def advance(**figures: float) -> None:
            bar.update(task, advance=1, figures=_figures(figures))

        yield advance


@contextmanager
def _lines(title: str, total: int, done: int, clock: Callable[[], float]) -> Iterator[Advance]:
    said = clock()
    count = done

    def advance(**figures: float) -> None:
        nonlocal said, count
        count += 1
        if clock() - said >= LINE_EVERY_S or count == total:
            said = clock()
            print(f"{title}: {count}/{total}  {_figures(figures)}", file=sys.stderr, flush=True)

    yield advance


def say(text: str) -> None:
    """One line of prose on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def transfer(title: str, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[int, int], None]]:
    """Yield ``report(bytes there, bytes in all)``: rate and time left, on stderr."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(title, total=None)
            yield lambda there, total: bar.update(task, completed=there, total=total)
        return
    begun, said = clock(), clock()

    def report(there: int, total: int) -> None:
        nonlocal said
        if clock() - said >= LINE_EVERY_S:
            said = clock()
            rate = there / max(said - begun, 1e-9)
            left = (total - there) / max(rate, 1e-9)
            say(f"{title}: {there} of {total} bytes, {rate / 1000:.1f} kB/s, {left:.0f} s left")

    yield report
