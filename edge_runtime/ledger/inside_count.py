"""The inside counts too: told at its start what is left, it makes no more, whoever reads its pipe.

So an outside that was taken over gains at most by a restart. What is told goes through the page of counters, which both
have, and is read once. Each limit begins its next period by the inside's own clock.
"""

import time
from typing import Callable, List, Optional, Sequence, Tuple

from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ledger.book import Price

_LEFT, _RENEWS = "left:{}", "renews-s:{}"
INSIDE_SPENT = "inside-spent"  # 1 while it makes no more
COUNTS = "count:"  # of counts of people, which are released apart from frames
_NEVER = -1


def tell(page: Counters, told: Sequence[Tuple[int, Optional[int]]], of: str = "") -> None:
    """Write what is left under each limit, and the seconds until it renews, for the next start of the inside.

    ``of`` is what is released, where a bundle releases more than frames.
    """
    for number, (left, renews_s) in enumerate(told):
        page.set(of + _LEFT.format(number), left)
        page.set(of + _RENEWS.format(number), _NEVER if renews_s is None else renews_s)


class InsideCount(object):
    """How many releases this process may still make. ``page`` is read now; ``clock`` gives seconds; ``of`` as in
    ``tell``."""

    def __init__(
        self, page: Counters, price: Price, *, clock: Callable[[], float] = time.monotonic, of: str = ""
    ) -> None:
        self._page, self._price, self._clock, self._spent = page, price, clock, of + INSIDE_SPENT
        self._left: List[int] = []
        self._renews_s: List[Optional[float]] = []
        for number, limit in enumerate(price.limits):
            # Never more than the bundle and the policy allow, whatever the other side says.
            self._left.append(min(page.get(of + _LEFT.format(number)), limit.most_micro_epsilon // price.micro_epsilon))
            renews_s = page.get(of + _RENEWS.format(number))
            self._renews_s.append(clock() + renews_s if limit.period_s is not None and renews_s > 0 else None)

    def take(self, releases: int) -> bool:
        """Whether so many may be made now; they are counted if so."""
        now = self._clock()
        for number, limit in enumerate(self._price.limits):
            if limit.period_s is None:
                continue
            renews_s = self._renews_s[number]
            if renews_s is not None and now >= renews_s:
                self._left[number] = limit.most_micro_epsilon // self._price.micro_epsilon
                renews_s = None
            # A period begins with its first release.
            self._renews_s[number] = now + limit.period_s if renews_s is None else renews_s
        enough = all(left >= releases for left in self._left)
        self._page.set(self._spent, int(not enough))
        if not enough:
            return False
        self._left = [left - releases for left in self._left]
        return True
