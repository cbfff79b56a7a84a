"""The counts of each period leave at the first tick after its end that is due, whatever was seen or went wrong.

The inside has a moment to hand a period in; one that comes later, or never, leaves as missing, in as many bytes. Both
processes number periods by the same clock, so that neither tells the other when one is over.
"""

from typing import Callable, Optional, Union

from edgeveil.edge_runtime.ipc.counted import Counted
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ledger.allowance import Allowance
from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.edge_runtime.outside.budget import Unlimited
from edgeveil.edge_runtime.sinks.count_report import COUNTED, MISSING, PART, SPENT, CountReport
from edgeveil.edge_runtime.sinks.group import SinkGroup

GRACE_S = 1.5  # from the end of a period: the inside looks for it several times a second


class CountEmission(object):
    """Gives one ``CountReport`` a period to the sinks. ``last`` is the latest, None before the first.

    ``clock`` is the one that the inside counts periods by. ``take`` says whether one record is paid for, ``spent``
    whether none can be.
    """

    def __init__(
        self,
        rules: CountRules,
        sinks: SinkGroup,
        counters: Counters,
        *,
        clock: Callable[[], float],
        take: Callable[[int], bool],
        spent: Callable[[], bool],
    ) -> None:
        self._rules, self._sinks, self._counters, self._clock = rules, sinks, counters, clock
        self._take, self._spent = take, spent
        self._came: Optional[Counted] = None
        self._next = self._over() + 1
        self.last: Optional[CountReport] = None

    def begin(self) -> None:
        """Make the period that runs now the first."""
        self._next, self._came = int(self._clock() // self._rules.period_s), None

    def take(self, counted: Counted) -> None:
        """Take a period from the inside. One that is too late or in the future is dropped."""
        if counted.period == self._next:
            self._came = counted
        else:
            self._counters.add("fault:count-late")

    def tick(self, number: int, tick_ns: Optional[int]) -> None:
        """Emit the period that is over, if there is a new one, with the tick that was just emitted."""
        over = self._over()
        if over < self._next:
            return
        came = self._came if self._came is not None and self._came.period == over else None
        self._next, self._came = over + 1, None
        state, values = MISSING, None
        if came is not None and self._take(1):
            state, values = (COUNTED if came.whole else PART), came.values
        elif self._spent():
            state = SPENT
        self._counters.add("counts-" + state)
        self.last = CountReport(over, state, values, number, tick_ns)
        self._sinks.write_count(self.last)

    def _over(self) -> int:
        """The last period that ended ``GRACE_S`` ago or earlier."""
        return int((self._clock() - GRACE_S) // self._rules.period_s) - 1


def open_count_emission(
    rules: Optional[CountRules],
    sinks: SinkGroup,
    counters: Counters,
    allowance: Union[Allowance, Unlimited],
    *,
    clock: Callable[[], float],
) -> Optional[CountEmission]:
    """What emits the counts of people as far as ``allowance`` goes; None where the bundle has no rules for them."""
    if rules is None:
        return None
    return CountEmission(rules, sinks, counters, clock=clock, take=allowance.take, spent=allowance.spent)
