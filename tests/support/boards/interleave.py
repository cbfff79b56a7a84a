"""Two commands at once, in an order that the test decides: each waits for its turn before it changes the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable

from edgeveil.edge_runtime.util import root_lock
from tests.support.boards.power_cut import WrittenDown, WrittenDownOs

PATIENCE_S = 60


class Turns:
    """Lets one of two threads go on at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._state = ["starting", "starting"]
        self._granted: int | None = None

    def wait(self, me: int, state: str = "ready") -> None:
        """Called by a thread before an operation; ``state`` is ``blocked`` where another one must end first."""
        with self._changed:
            self._state[me] = state
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._granted == me, PATIENCE_S)
            self._granted, self._state[me] = None, "running"

    def end(self, me: int) -> None:
        """Called by a thread at its end."""
        with self._changed:
            self._state[me] = "over"
            self._changed.notify_all()

    def _all_wait(self) -> bool:
        return all(state in ("ready", "blocked", "over") for state in self._state)

    def play(self, plan: list[tuple[int, int]]) -> list[int]:
        """Grant turns by ``plan``, pairs of thread and number of turns; then the first to its end. Who had a turn."""
        wanted = [who for who, count in plan for _ in range(count)]
        went = []
        while True:
            with self._changed:
                assert self._changed.wait_for(self._all_wait, PATIENCE_S), self._state
                if self._state == ["over", "over"]:
                    return went
                who = wanted.pop(0) if wanted else 0
                if self._state[who] in ("over", "blocked") and self._state[1 - who] != "over":
                    who = 1 - who
                if self._state[who] == "over":
                    continue
                went.append(who)
                self._granted, self._state[who] = who, "running"
                self._changed.notify_all()


def run_both(
    commands: list[Callable[[WrittenDown], None]], plan: list[tuple[int, int]], patch, *, with_lock: bool = True
) -> tuple[list[tuple], list[int]]:
    """Run two commands, each with a disk; returns the log of both and who went when."""
    turns, log, recorded = Turns(), [], WrittenDownOs()
    whose = threading.local()
    patch.setattr("edgeveil.edge_runtime.util.atomic.os", recorded)
    patch.setattr(root_lock, "pause", lambda _: turns.wait(whose.me, "blocked"))
    if not with_lock:
        patch.setattr(root_lock, "_taken", lambda _: True)

    def run(me: int) -> None:
        whose.me = me
        recorded.here.disk = WrittenDown(log=log, turn=lambda: turns.wait(me))
        try:
            turns.wait(me)
            commands[me](recorded.here.disk)
        finally:
            turns.end(me)

    threads = [threading.Thread(target=run, args=(me,), daemon=True) for me in (0, 1)]
    for thread in threads:
        thread.start()
    went = turns.play(plan)
    for thread in threads:
        thread.join(PATIENCE_S)
    return log, went
