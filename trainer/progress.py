"""Progress on stderr: a live bar on a terminal, else a line every 10 s."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from edgeveil.edge_runtime.errors import shown

LINE_EVERY_S = 10.0
QUIET_S, AVERAGE_S = 2.0, 10.0  # no rate before, and over how long it is taken


class Rate:
    """How fast something goes: the moving average of its last ``AVERAGE_S``, once it has been seen for ``QUIET_S``.

    The first moments say nothing: they are spent on connections and caches.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, float]] = deque()

    def see(self, there: float) -> None:
        """``there`` is done by now; less than before is the beginning of another piece."""
        now = self._clock()
        if self._seen and there < self._seen[-1][1]:
            self._seen.clear()
        while len(self._seen) > 2 and self._seen[1][0] <= now - AVERAGE_S:
            self._seen.popleft()
        self._seen.append((now, there))

    def per_s(self) -> float | None:
        """Done in a second, 0 where it stands still; None where it is too early to say."""
        if len(self._seen) < 2 or self._clock() - self._seen[0][0] < QUIET_S:
            return None
        (since, at), (_, latest) = self._seen[0], self._seen[-1]
        return (latest - at) / (self._clock() - since)

    def left(self, total: float) -> str:
        """The time left, for the end of a line; empty where it is not known."""
        per_s = self.per_s()
        return f", {(total - self._seen[-1][1]) / per_s:.0f} s left" if per_s else ""


class Steps:
    """Counts the pieces of a work; says which runs, for how long, and how long the others may take.

    Call it for each piece that is done, with figures to show.
    """

    def __init__(self, total: int, done: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.count, self._clock = total, done, clock
        self._begun = self._since = self._last = clock()
        self._took: list[float] = []
        self._name = self._figures = ""

    def begin(self, name: str) -> None:
        """The piece, or a part of it, that runs from now on."""
        self._name, self._since = name, self._clock()

    def __call__(self, **figures: float) -> None:
        now = self._clock()
        self._took.append(now - self._last)
        self._last, self._name = now, ""
        self.count += 1
        self._figures = _figures(figures)

    def text(self) -> str:
        """Seconds so far, what runs, the time left and the last figures."""
        now = self._clock()
        running = f", {self._name} for {now - self._since:.0f} s" if self._name else ""
        figures = f"  {self._figures}" if self._figures else ""
        return f"{now - self._begun:.0f} s{running}{self._left(now)}{figures}"

    def _left(self, now: float) -> str:
        """A range, for pieces differ: by the quicker and by the slower half of those that took any time.

        Empty again once the piece that runs has alone taken longer than all that is left was to take.
        """
        took = sorted(seconds for seconds in self._took if seconds > 0.01)
        left = self.total - self.count
        if len(took) < 4 or now - self._begun < QUIET_S or left <= 0:
            return ""
        half = len(took) // 2
        low, high = (left * sum(part) / len(part) for part in (took[:half], took[half:]))
        return f", {low:.0f} to {high:.0f} s left" if now - self._last <= high else ""


@contextmanager
def progress(title: str, *, total: int, done: int = 0) -> Iterator[Steps]:
    """Yield ``Steps``, to be called for each piece of ``total`` that is done, and show them."""
    steps = Steps(total, done)
    with _bar(title, steps) if sys.stderr.isatty() else _counted(title, steps):
        yield steps


def say(text: str) -> None:
    """Print a line to stderr."""
    print(shown(text), file=sys.stderr, flush=True)


@contextmanager
def transfer(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield ``report(bytes sent, bytes in all)``, which shows rate and remaining time on stderr."""
    rate = Rate()

    def pace(total: int) -> str:
        per_s = rate.per_s()
        return "" if per_s is None else f", {per_s / 1000:.1f} kB/s{rate.left(total)}"

    if sys.stderr.isatty():
        from rich.progress import DownloadColumn, TextColumn

        with _moving(DownloadColumn(), TextColumn("{task.fields[pace]}")) as bar:
            task = bar.add_task(title, total=None, pace="")

            def move(there: int, total: int) -> None:
                rate.see(there)
                bar.update(task, completed=there, total=total, pace=pace(total))

            yield move
        return
    there = total = 0

    def line() -> str:
        # Before, between and after what is sent, other steps run, and say so.
        return f"{title}: {there} of {total} bytes{pace(total)}" if there < total else ""

    def report(sent: int, size: int) -> None:
        nonlocal there, total
        there, total = sent, size
        rate.see(sent)

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
def _bar(title: str, steps: Steps) -> Iterator[None]:
    from rich.progress import MofNCompleteColumn, ProgressColumn, Task
    from rich.text import Text

    class State(ProgressColumn):
        """What ``steps`` say, drawn again as time goes by."""

        def render(self, task: Task) -> Text:
            task.completed = steps.count
            return Text(steps.text())

    bar = _moving(MofNCompleteColumn(), State())
    with bar:
        task = bar.add_task(title, total=steps.total, completed=steps.count)
        try:
            yield
        finally:
            bar.update(task, completed=steps.count)


@contextmanager
def _counted(title: str, steps: Steps) -> Iterator[None]:
    def line() -> str:
        return f"{title}: {steps.count}/{steps.total}, {steps.text()}"

    with _lines(line):
        yield
    say(line())


@contextmanager
def _lines(line: Callable[[], str]) -> Iterator[None]:
    """Print ``line()`` to stderr every ``LINE_EVERY_S``, also while one piece of the work runs; nothing for ""."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(LINE_EVERY_S):
            if text := line():
                say(text)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
