"""A progress bar on stderr for work whose parts have names but no known length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable


@contextmanager
def bar(parts: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with each part's name as it begins; nothing is drawn where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("audit", total=parts)
        begun = 0

        def step(name: str) -> None:
            nonlocal begun
            progress.update(task, completed=begun, description=name)
            begun += 1

        yield step
