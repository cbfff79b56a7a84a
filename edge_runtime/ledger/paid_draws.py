"""Which draws of a stream were paid for: to release one again costs nothing.

A draw is known by its name (``PerturbedFrame.drawn``); 0 names none, and is always paid for. Names are forgotten, the
oldest first: such a draw is then paid for again.
"""

import collections
from typing import Iterable

MOST = 4096  # as many as tracks are remembered


class PaidDraws(object):
    """The names of the draws that were paid for last."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._names: "collections.OrderedDict[int, None]" = collections.OrderedDict()

    def __contains__(self, name: int) -> bool:
        return name in self._names

    def unpaid(self, names: Iterable[int]) -> int:
        """How many releases these are that must be paid for: each 0, and each other name once."""
        names = list(names)
        return names.count(0) + len({name for name in names if name and name not in self._names})

    def add(self, names: Iterable[int]) -> None:
        """Count these as paid for, from now on."""
        for name in names:
            if name:
                self._names[name] = None
                self._names.move_to_end(name)
        while len(self._names) > self._most:
            self._names.popitem(last=False)
