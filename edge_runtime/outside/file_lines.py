"""How the perturbed lines of a file leave: each if it is paid for, and in a training if it is of the open round."""

from typing import Any, Optional

from edgeveil.edge_runtime.ipc.counters import DROP, Counters
from edgeveil.edge_runtime.ipc.record import Record
from edgeveil.edge_runtime.ledger.book import SPENT
from edgeveil.edge_runtime.ledger.paid_draws import PaidDraws
from edgeveil.edge_runtime.outside.training.training import Training


class FileLines(object):
    """``allowance`` has ``take_of``, ``sinks`` has ``write_set``; ``by_subject``: each line is charged to its own."""

    def __init__(
        self, allowance: Any, training: Optional[Training], sinks: Any, counters: Counters, by_subject: bool
    ) -> None:
        self._allowance, self._training, self._sinks = allowance, training, sinks
        self._counters, self._by_subject = counters, by_subject
        self._draws = PaidDraws()

    def release(self, record: Record) -> None:
        """Let it leave, or count why not."""
        training = self._training
        self._counters.add("sets-in")
        if training is not None and not training.expects(record.number):
            self._counters.add(DROP + "late-round")
        elif record.frame.drawn in self._draws or self._allowance.take_of(record.subject):
            self._draws.add([record.frame.drawn])
            self._sinks.write_set([record.frame])
            self._counters.add("frames-out")
            if training is not None:
                training.answered()
        else:
            self._counters.add(DROP + SPENT)
            if training is not None and self._by_subject:
                training.ask_again()
