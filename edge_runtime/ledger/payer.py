"""Spend, then release: which releases of a bundle are paid for, each of them exactly once.

What was reserved on the disk and not released is lost, never given back.
"""

import collections
from typing import Callable, Counter, List, Optional, Sequence

from edgeveil.edge_runtime.ledger.book import Price
from edgeveil.edge_runtime.ledger.ledger_file import Ledger
from edgeveil.edge_runtime.ledger.paid_draws import PaidDraws
from edgeveil.edge_runtime.uptime import up_s

AHEAD = 64  # releases that are reserved at once: SD cards wear


class Payer(object):
    """Pays for the releases of a file, in the order in which they leave.

    ``by_subject``: each track is a unit of its own; otherwise they are all one unit. ``clock`` is the device's uptime.
    """

    def __init__(self, ledger: Ledger, price: Price, *, by_subject: bool, clock: Callable[[], float] = up_s) -> None:
        self._ledger, self._price, self._by_subject, self._clock = ledger, price, by_subject, clock
        self._paid: Counter[Optional[int]] = collections.Counter()
        self._draws = PaidDraws()
        self._until_s: Optional[float] = None

    def pay(self, tracks: Sequence[int], more: int = 0, drawn: Sequence[int] = ()) -> List[bool]:
        """Which of these releases, by their tracks, may leave. ``more`` follow soon: some of them are paid for, too.

        ``drawn`` has the names of their draws, where those are charged: each is paid for once, and none ahead. Raises
        ``LedgerUnfit`` or ``DeviceFailed``: then none of them may.
        """
        if self._until_s is not None and self._clock() >= self._until_s:
            self._paid.clear()  # they were charged to a period that is over
        units: List[Optional[int]] = list(tracks) if self._by_subject else [None] * len(tracks)
        names = list(drawn) or [0] * len(tracks)
        fresh = self._fresh(names)
        short = collections.Counter(unit for unit, is_fresh in zip(units, fresh) if is_fresh)
        short.subtract({unit: self._paid[unit] for unit in short})
        wanted = {unit: count for unit, count in short.items() if count > 0}
        if wanted:
            if not self._by_subject and not any(names):
                wanted[None] = max(wanted[None], min(wanted[None] + more, AHEAD))
            charge = self._ledger.charge(wanted, *self._price)
            self._paid.update(charge.paid)
            self._until_s = charge.until_s
        return [self._leaves(*one) for one in zip(units, names, fresh)]

    def _fresh(self, names: Sequence[int]) -> List[bool]:
        """Which releases are to be paid for: of each draw that was not paid for, the first."""
        seen, found = set(), []
        for name in names:
            found.append(not name or (name not in self._draws and name not in seen))
            seen.add(name)
        return found

    def _leaves(self, unit: Optional[int], name: int, is_fresh: bool) -> bool:
        if not is_fresh:
            return name in self._draws
        if not self._take(unit):
            return False
        self._draws.add([name])
        return True

    def _take(self, unit: Optional[int]) -> bool:
        if self._paid[unit] <= 0:
            return False
        self._paid[unit] -= 1
        return True
