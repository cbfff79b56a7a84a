"""How the perturbed lines of a file leave: each if it is paid for."""

from typing import Any

from edgeveil.edge_runtime.ipc.counters import DROP, Counters
from edgeveil.edge_runtime.ipc.record import Record
from edgeveil.edge_runtime.ledger.book import SPENT
from edgeveil.edge_runtime.ledger.paid_draws import PaidDraws


class FileLines(object):
    """``allowance`` has ``take_one``, ``sinks`` has ``write_set``."""

    def __init__(self, allowance: Any, sinks: Any, counters: Counters) -> None:
        self._allowance, self._sinks, self._counters = allowance, sinks, counters
        self._draws = PaidDraws()

    def release(self, record: Record) -> None:
        """Let it leave, or count why not."""
        self._counters.add("sets-in")
        if record.frame.drawn in self._draws or self._allowance.take_one():
            self._draws.add([record.frame.drawn])
            self._sinks.write_set([record.frame])
            self._counters.add("frames-out")
        else:
            self._counters.add(DROP + SPENT)
