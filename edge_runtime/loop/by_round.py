"""The lines of a file, one for each round of a training: the gradient of the next line at the round's parameters.

A line is used once, in order, whatever comes of it: what leaves and when depends on the rounds and not on the lines. A
line that is dropped, or whose subject has no budget here, is followed by the next one.
"""

import select
from typing import Any, Callable, Iterator, Tuple

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.ipc.counters import DROP, Counters
from edgeveil.edge_runtime.ipc.rounds import RoundReader
from edgeveil.edge_runtime.ledger.book import SPENT

_WAIT_S = 0.25


def answer(
    source: Any,
    perturber: Any,
    rounds: RoundReader,
    emit: Callable[[PerturbedFrame, int], None],
    *,
    counters: Counters,
    may_make: Callable[[int], bool],
    stopped: Callable[[], bool],
    beat: Callable[[], None],
) -> None:
    """Call ``emit`` with one report for each round, and its subject, until the lines or the rounds end.

    The report has the number of its round. ``may_make`` says whether a subject has a budget left here, ``beat`` feeds
    the watchdog.
    """
    source.total = perturber.promises
    reports = _reports(source, perturber, may_make, counters)
    while not (stopped() or rounds.ended):
        beat()
        one = rounds.newest()
        if one is None:
            perturber.draw_ahead()
            select.select([rounds.handle], [], [], _WAIT_S)
            continue
        perturber.set_parameters(one.theta)
        found = next(reports, None)
        if found is None:
            return
        report, subject = found
        emit(report.at(one.question, None), subject)
        counters.add("sets-out")


def _reports(
    source: Any, perturber: Any, may_make: Callable[[int], bool], counters: Counters
) -> Iterator[Tuple[PerturbedFrame, int]]:
    """The reports of the lines, each made when it is asked for, at the parameters of that moment."""
    for frame in _lines(source, counters):
        try:
            report = perturber.perturb(frame)
        except FrameDropped as drop:
            counters.add(DROP + drop.reason)
            continue
        finally:
            frame.erase()
        if may_make(frame.track):
            yield report, frame.track
        else:
            counters.add(DROP + SPENT)


def _lines(source: Any, counters: Counters) -> Iterator[RawFrame]:
    """The frames of a source, with or without blocks; what it refuses is counted."""
    while True:
        try:
            frames = source.next_block() if source.blocks else [source.next()]
        except FrameDropped as drop:
            counters.add("frames-in")
            counters.add(DROP + drop.reason)
            continue
        refused = len(source.refused()) if source.blocks else 0
        if refused:
            counters.add("frames-in", refused)
            counters.add(DROP + "unreadable", refused)
        if frames is None or frames == [None]:
            return
        for frame in frames:
            counters.add("frames-in")
            yield frame
