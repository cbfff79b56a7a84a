"""What a stream may still release: reserved on the disk ahead of time, by a thread that no tick waits for.

What was reserved and not released is lost, never given back.
"""

import threading
import time
from typing import Callable, Optional

from edgeveil.edge_runtime.errors import EdgeVeilError, PrivacyStop, describe
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ledger.book import Price
from edgeveil.edge_runtime.ledger.inside_count import INSIDE_SPENT, tell
from edgeveil.edge_runtime.ledger.ledger_file import Ledger
from edgeveil.edge_runtime.ledger.payer import AHEAD
from edgeveil.edge_runtime.uptime import up_s

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
        found = self._ledger.left(limits)
        tell(self._page, [(left // micro_epsilon + reserved, renews_s) for left, renews_s in found], self._of)

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
            raise PrivacyStop("what leaves cannot be counted, so nothing leaves: {}".format(self._failed))

    def _reserve_on(self) -> None:
        while self._failed is None:
            if self._spent:
                time.sleep(AGAIN_S)
            else:
                self._low.wait()
            self._low.clear()
            self._try_reserve()
