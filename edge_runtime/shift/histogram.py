"""How often each code left a stream, by minutes, and what these releases are worth.

A person who stands still, or whose code is held, sends the same code again and again. So releases are worth no more
than the design effect of minutes says, and no more than runs of one code in one slot (Kish 1965): a single long run is
worth one release.
"""

import collections
from typing import Any, Callable, Counter, Deque, Dict, List, Sequence

import numpy as np

from edgeveil.edge_runtime.shift.distance import Reference, effective_number

BLOCK_S = 60.0


class _Block(object):
    """One minute: how often each code left, and the lengths and squared lengths of the runs that ended in it."""

    __slots__ = ("counts", "lengths", "number", "squares")

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts: Counter[int] = collections.Counter()
        self.lengths = self.squares = 0


class Histogram(object):
    """Counts the codes of sets of frames. ``most_blocks`` minutes are kept, those without a release aside.

    ``clock`` gives seconds, which never run back.
    """

    def __init__(self, reference: Reference, *, clock: Callable[[], float], most_blocks: int) -> None:
        self._reference, self._clock = reference, clock
        self._blocks: Deque[_Block] = collections.deque(maxlen=most_blocks)
        self._runs: Dict[int, List[int]] = {}  # slot -> code, length

    def add(self, frames: Sequence[Any]) -> None:
        """Count a set that left: one frame a slot. Codes that the audit never saw count as one."""
        known = len(self._reference.counts)
        for frame in frames:
            code = int(frame.outputs[self._reference.output])
            if code == self._reference.blank:
                continue
            self._add(frame.slot, code if 0 <= code < known else known - 1)

    def _add(self, slot: int, code: int) -> None:
        number = int(self._clock() // BLOCK_S)
        if not self._blocks or self._blocks[-1].number != number:
            self._blocks.append(_Block(number))
        block = self._blocks[-1]
        block.counts[code] += 1
        run = self._runs.setdefault(slot, [code, 0])
        if run[0] == code:
            run[1] += 1
            return
        block.lengths += run[1]
        block.squares += run[1] ** 2
        run[:] = [code, 1]

    def counts(self) -> List[int]:
        """How often each code left."""
        total = sum((block.counts for block in self._blocks), collections.Counter())
        return [total[code] for code in range(len(self._reference.counts))]

    def effective(self) -> float:
        """The number of independent releases that these are worth."""
        if not self._blocks:
            return 0.0
        codes = sorted(set().union(*(block.counts for block in self._blocks)))
        clusters = np.array([[block.counts[code] for code in codes] for block in self._blocks])
        lengths = sum(block.lengths for block in self._blocks) + sum(run[1] for run in self._runs.values())
        squares = sum(block.squares for block in self._blocks) + sum(run[1] ** 2 for run in self._runs.values())
        return min(effective_number(clusters), lengths**2 / float(squares))
