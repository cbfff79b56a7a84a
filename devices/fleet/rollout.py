"""The same work on many boards: the first alone, then several at a time, until too many have failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgeveil.devices.fleet.inventory import FleetBoard
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError

WAITING, IN_PROGRESS = "waiting", "in progress"
DONE, ALREADY, WOULD = "done", "already", "would"  # success; nothing to do; a dry run
REFUSED, FAILED, NOT_TRIED = "refused", "failed", "not tried"
WELL = (DONE, ALREADY, WOULD)


@dataclass(frozen=True)
class Outcome:
    """The result for one board, as a word and as a sentence."""

    board: str
    state: str
    said: str
    seconds: float = 0.0


Tell = Callable[[str, str, str], None]  # (board, state, text): the live row of a board
Work = Callable[[FleetBoard, Callable[[str], None]], tuple[str, str]]


def roll_out(
    boards: Sequence[FleetBoard],
    work: Work,
    *,
    parallel: int,
    most_failures: int,
    canary: bool = True,
    tell: Tell = lambda *_: None,
    keep: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Do ``work(board, say)``, which returns a state and a sentence, on every board; outcomes in the boards' order.

    With ``canary`` the first board goes alone, and where it fails no other is tried. Then ``parallel`` go at a time;
    once more than ``most_failures`` have failed, no other is started, and the running ones finish. ``keep`` is called
    with each outcome, one at a time. Ctrl-C starts no other, waits for the running ones and is then raised.
    """
    run = _Run(boards, work, tell, keep)
    first = run.next(0) if canary else None
    if first is not None:
        run.stop = not run.run_board(first)
    ended = [threading.Event() for _ in range(parallel)]
    for event in ended:
        threading.Thread(target=run.run_queue, args=(most_failures, event), daemon=True).start()
    interrupted = False
    for event in ended:
        # Not by join(): an interrupted join takes its thread for one that has ended.
        while not event.is_set():
            try:
                event.wait(0.2)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = run.stop = True
    if run.broken is not None:
        raise run.broken
    if interrupted:
        raise KeyboardInterrupt
    left = [board for board in boards if board.name not in run.outcomes]
    for board in left:
        run.outcomes[board.name] = Outcome(board.name, NOT_TRIED, "too many others failed before its turn")
        tell(board.name, NOT_TRIED, run.outcomes[board.name].said)
    return [run.outcomes[board.name] for board in boards]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 if all succeeded; 4 if a board or its connection failed; 2 if boards only refused."""
    states = {outcome.state for outcome in outcomes}
    if FAILED in states:
        return DeviceFailed.exit_code
    return BadInput.exit_code if REFUSED in states else 0


class _Run:
    """The state that the threads share."""

    def __init__(self, boards: Sequence[FleetBoard], work: Work, tell: Tell, keep: Callable[[Outcome], None]) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.stop = False
        self.broken: BaseException | None = None
        self._queue, self._work, self._tell, self._keep = list(boards), work, tell, keep
        self._lock = threading.Lock()

    def next(self, most_failures: int) -> FleetBoard | None:
        """The next board; None if there is none, or if too many have failed."""
        with self._lock:
            failed = sum(outcome.state not in WELL for outcome in self.outcomes.values())
            self.stop = self.stop or failed > most_failures
            return None if self.stop or not self._queue else self._queue.pop(0)

    def run_queue(self, most_failures: int, ended: threading.Event) -> None:
        """Boards one after another, as long as ``next`` gives any; then ``ended`` is set."""
        try:
            while (board := self.next(most_failures)) is not None:
                self.run_board(board)
        except BaseException as error:  # a bug: nothing else is started, and the caller gets it
            self.broken, self.stop = error, True
        finally:
            ended.set()

    def run_board(self, board: FleetBoard) -> bool:
        """Do the work on a board; returns whether it succeeded."""
        begin = time.monotonic()
        self._tell(board.name, IN_PROGRESS, "begins")
        try:
            state, said = self._work(board, lambda text: self._tell(board.name, IN_PROGRESS, text))
        except EdgeVeilError as error:
            state, said = (FAILED if isinstance(error, DeviceFailed) else REFUSED), str(error)
        outcome = Outcome(board.name, state, said, round(time.monotonic() - begin, 1))
        with self._lock:
            self.outcomes[board.name] = outcome
            self._keep(outcome)
        self._tell(board.name, state, said)
        return state in WELL
