"""SIGTERM, SIGINT and SIGHUP as events of a loop that waits on descriptors."""

import os
import signal
import threading
from typing import Any, Dict, List


class Signals(object):
    """While entered, signals go to the list ``came``; ``handle`` becomes readable when one comes."""

    def __init__(self) -> None:
        self.came: List[int] = []
        self.handle, self._wake = os.pipe()
        self._old: Dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                self._old[number] = signal.signal(number, self._mark)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        os.close(self.handle)
        os.close(self._wake)

    def _mark(self, number: int, _frame: Any) -> None:
        self.came.append(number)
        os.write(self._wake, b"!")
