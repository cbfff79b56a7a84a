"""Exponential backoff with jitter."""

import random
from typing import Callable


class Backoff(object):
    """Waits of ``first_s``, twice that, ... up to ``most_s``, each drawn between half of it and all of it.

    The draw keeps a hundred devices from reconnecting in the same second when their broker comes back.
    """

    def __init__(self, *, first_s: float = 0.5, most_s: float = 60.0, rng: Callable[[], float] = random.random) -> None:
        self._first_s, self._most_s, self._rng = first_s, most_s, rng
        self._tries = 0  # since the last success

    def next_s(self) -> float:
        """Seconds to wait now; one more try."""
        whole = min(self._first_s * 2.0 ** min(self._tries, 30), self._most_s)
        self._tries += 1
        return whole * (0.5 + 0.5 * self._rng())

    def reset(self) -> None:
        """Start again with short waits, after a success."""
        self._tries = 0
