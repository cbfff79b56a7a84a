"""What a stream may still release: reserved on the disk ahead of time, by a thread that no tick waits for.

What was reserved and not released is lost, never given back.
"""

import collections
import threading
import time
from typing import Any, Callable, Counter, List, Optional, Sequence, Tuple

from edgeveil.edge_runtime.errors import EdgeVeilError, PrivacyStop, describe
from edgeveil.edge_runtime.ext.ledger.book import Ledger, LedgerUnfit
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ipc.record import PaidDraws
from edgeveil.edge_runtime.machine import up_s
from edgeveil.edge_runtime.manifest.manifest import AHEAD, Price

# The inside counts too: at its start it reads the remaining limit, and it makes no more reports than that.
#
# So an outside that was taken over gains at most one restart. The limit is written to the page of counters, which both
# processes share, and is read once. Each limit begins its next period by the inside's own clock.


_LEFT, _RENEWS = "left:{}", "renews-s:{}"
INSIDE_SPENT = "inside-spent"  # 1 while it makes no more
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


# Spend, then release: which releases of a bundle are paid for, each of them exactly once.
#
# What was reserved on the disk and not released is lost, never given back.


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
        for unit in units:
            self._ledger.join(unit)
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
        seen, fresh = set(), []
        for name in names:
            fresh.append(not name or (name not in self._draws and name not in seen))
            seen.add(name)
        return fresh

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


AHEAD_S = 60.0  # the most time that reserved releases are worth, but for one tick's
AGAIN_S = 60.0  # how often a spent budget is looked at again: its next period may have begun


class Allowance(object):
    """Pays for the releases of a stream, which are all of one unit: nothing tells the outside whose they are.

    ``slots`` are the releases of a tick, ``tick_s`` the seconds from one to the next. ``clock`` is the device's uptime,
    in seconds; ``of`` is what is released, where the inside counts that apart (``ledger.inside_count``). ``repeats``:
    most releases repeat a draw, and cost nothing.
    """

    def __init__(
        self,
        ledger: Ledger,
        price: Price,
        *,
        slots: int,
        tick_s: float,
        clock: Callable[[], float] = up_s,
        of: str = "",
        repeats: bool = False,
    ) -> None:
        self._of = of
        self._ledger, self._price, self._slots, self._clock = ledger, price, slots, clock
        # Of draws that last, no more than may begin at one tick: what is reserved is lost by a restart.
        self._ahead = slots if repeats else max(min(AHEAD, int(AHEAD_S / tick_s) * slots), slots)
        self._left = 0
        self._until_s: Optional[float] = None
        self._lock, self._reserving, self._low = threading.Lock(), threading.Lock(), threading.Event()
        self._failed: Optional[EdgeVeilError] = None
        self._page = Counters()
        self._spent = False

    def start(self, page: Counters) -> None:
        """Reserve the first releases, then go on in a thread. Raises ``PrivacyStop``.

        ``page`` is the one that the inside reads: it is always told there what is left, for its next start.
        """
        self._page = page
        self._try_reserve()
        self._stop_if_failed()
        threading.Thread(target=self._reserve_on, name="ledger", daemon=True).start()

    def take(self, releases: int) -> bool:
        """Whether so many are paid for and may leave now. Raises ``PrivacyStop`` where the ledger cannot be charged."""
        self._stop_if_failed()
        with self._lock:
            self._expire()
            enough = self._left >= releases
            if enough:
                self._left -= releases
            if (not enough or self._left <= self._ahead // 2) and not self._spent:
                self._low.set()
        return enough

    def take_one(self) -> bool:
        """As ``take`` one, but wait for the disk first where nothing was reserved: for what has no ticks."""
        if self.take(1):
            return True
        self._try_reserve()
        return self.take(1)

    def spent(self) -> bool:
        """Whether the limits allow less than one tick's now, or the inside made all that it was told of."""
        return self._spent or self._page.get(self._of + INSIDE_SPENT) > 0

    def _reserve(self) -> None:
        with self._reserving:
            with self._lock:
                self._expire()
                missing = self._ahead - self._left
            charge = self._ledger.charge({None: missing}, *self._price) if missing > 0 else None
            with self._lock:
                self._expire()
                if charge is not None:
                    self._left += charge.paid[None]
                    self._until_s = charge.until_s
                self._spent = self._left < self._slots
                reserved = self._left
        micro_epsilon, limits = self._price
        balances = self._ledger.left(limits)
        tell(self._page, [(left // micro_epsilon + reserved, renews_s) for left, renews_s in balances], self._of)

    def _expire(self) -> None:
        """Forget what was charged to a period that is over."""
        if self._until_s is not None and self._clock() >= self._until_s:
            self._left, self._until_s = 0, None

    def _try_reserve(self) -> None:
        try:
            self._reserve()
        except EdgeVeilError as error:
            self._failed = error
        except Exception as error:
            self._failed = PrivacyStop("an unexpected {}; please report this line".format(describe(error)))

    def _stop_if_failed(self) -> None:
        if self._failed is not None:
            raise PrivacyStop("what is sent cannot be counted, so nothing is sent: {}".format(self._failed))

    def _reserve_on(self) -> None:
        while self._failed is None:
            if self._spent:
                time.sleep(AGAIN_S)
            else:
                self._low.wait()
            self._low.clear()
            self._try_reserve()


def open_allowance(path: str, price: Price, known: str = "", **options: Any) -> Allowance:
    """The allowance on the ledger at ``path``. Raises ``PrivacyStop`` where there is none that can be charged.

    ``known`` as ``Ledger``.
    """
    try:
        return Allowance(Ledger(path, known=known), price, **options)
    except LedgerUnfit as error:
        raise PrivacyStop(str(error)) from None
