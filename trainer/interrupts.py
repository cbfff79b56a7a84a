"""Ctrl-C between two steps: TensorFlow can crash where an exception comes up in the middle of one of its calls."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WAITS = "Interrupted: this step is finished first. Press Ctrl-C again to end at once."


_checks: list[Callable[[], None]] = []


def point() -> None:
    """A place within a long step where it may end: raises ``KeyboardInterrupt`` where Ctrl-C came, in any thread.

    For code of ours between two calls of a library: per row of a calibration, or per frame. Outside a block of
    ``whole_steps`` nothing happens.
    """
    if _checks:
        _checks[-1]()


@contextmanager
def whole_steps() -> Iterator[Callable[[], None]]:
    """Within the block the first SIGINT only sets a mark; yield ``check``, which then raises ``KeyboardInterrupt``.

    Call ``check`` after each step. The second SIGINT has its usual effect, at once.
    """
    came = False

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    # Only the main thread may set handlers, and a handler that is not Python's could not be put back.
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield check
        return

    def mark(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            usual(number, frame)
            return
        came = True
        os.write(2, f"{WAITS}\n".encode())  # a handler may interrupt a print, and print must not be entered twice

    signal.signal(signal.SIGINT, mark)
    _checks.append(check)
    try:
        yield check
        check()
    finally:
        _checks.pop()
        signal.signal(signal.SIGINT, usual)
