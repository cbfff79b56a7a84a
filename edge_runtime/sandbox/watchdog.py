"""Ends a process that hangs, even in C code that never returns: a kernel alarm that is put off while all is well.

A thread puts the alarm off while every watched thread sends heartbeats. When one stops, or a call holds Python's lock
so that the watching thread cannot run, the alarm goes off and ends the process.
"""

import signal
import threading
import time
from typing import Callable, Dict, Tuple


def put_off_alarm(seconds: float) -> None:
    """Let the kernel end this process in ``seconds``, unless this is called again before; 0: never."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


class Progress(object):
    """While its block runs, a thread calls ``beat`` each second: Python runs, whatever else waits or computes."""

    def __init__(self, beat: Callable[[], None], every_s: float = 1.0) -> None:
        self._beat, self._every_s = beat, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self._beat()


class Watchdog(object):
    """Watches heartbeats by name; after one, the next must come in time, unless ``rest`` is called."""

    def __init__(
        self,
        hang_after_s: float,
        put_off: Callable[[float], None] = put_off_alarm,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hang_after_s, self._put_off, self._clock = hang_after_s, put_off, clock
        self._hearts: Dict[str, Tuple[float, float]] = {}
        self._ended = threading.Event()

    def beat(self, name: str, within_s: float = 0.0) -> None:
        """A heartbeat of ``name``; the next is due in ``within_s`` or the watchdog's own time, whichever is longer."""
        self._hearts[name] = (self._clock(), max(within_s, self._hang_after_s))

    def rest(self, name: str) -> None:
        """Stop watching ``name`` until its next heartbeat."""
        self._hearts.pop(name, None)

    def well(self) -> bool:
        """Whether no heartbeat is late."""
        now = self._clock()
        return all(now - since <= within for since, within in list(self._hearts.values()))

    def start(self) -> None:
        """Start watching, in a daemon thread."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._put_off(self._hang_after_s)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._ended.set()
        self._put_off(0)

    def _watch(self) -> None:
        while not self._ended.wait(self._hang_after_s / 4.0):
            if self.well():
                self._put_off(self._hang_after_s)
