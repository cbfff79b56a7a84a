"""The outside: gives perturbed sets to the sinks, on ticks that nothing inside can hurry, hold up or leave out.

At every tick as many records leave as the schedule has slots: the next set that came from the inside, else the previous
one once more or the flat one, as the manifest says. So number, size and time of what leaves are the same for an empty
scene, a busy one and a broken camera. A lasting fault is announced at the end of a coarse period, and no sooner.
"""

import collections
from typing import Callable, Deque, Dict, List, Optional

from edgeveil.edge_runtime.errors import DeviceFailed, PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.ipc.counters import DROP, Counters
from edgeveil.edge_runtime.ipc.record import FLAT, Record
from edgeveil.edge_runtime.ipc.schedule import Schedule
from edgeveil.edge_runtime.sinks.group import SinkGroup

MOST_WAITING = 2  # sets in hand: one that comes a moment too late for its tick does not push out the next
MAKE_UP_S = 1.0
CLOCK_JUMP_S = 1.0  # how far the wall clock may wander from our own before timestamps follow it


class Emission(object):
    """What leaves at which tick. ``take`` records as they come; ``tick`` when one is due.

    ``clock`` never goes back; ``wall`` is the time of day; both in seconds. Tick ``n`` is due at ``due_s(n)``.
    """

    def __init__(
        self,
        plan: Schedule,
        sinks: SinkGroup,
        counters: Counters,
        say: Callable[..., None],
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.plan, self._sinks, self._counters, self._say = plan, sinks, counters, say
        self._clock, self._wall = clock, wall
        self._coming: Dict[int, List[PerturbedFrame]] = {}
        self._waiting: Deque[List[PerturbedFrame]] = collections.deque()
        self._flat: List[PerturbedFrame] = []
        self._last: List[PerturbedFrame] = []
        self._start_s = clock()
        self._epoch_s = self._whole_tick(wall())
        self.number = 0  # of the next tick
        self.state = "running"
        self.fresh_s = self._start_s  # when something new left
        self._period, self._fresh_in_period = 0, True

    def take(self, record: Record) -> None:
        """One record from the inside; a set counts when its last slot is there."""
        coming = self._coming.setdefault(record.number, [])
        if record.slot != len(coming) or record.slot >= self.plan.slots:
            raise PrivacyStop("the inside sent the slots of a set out of order; nothing more leaves")
        coming.append(record.frame)
        if len(coming) < self.plan.slots:
            return
        self._coming.clear()
        if record.state == FLAT:
            self._flat = coming
            return
        self._counters.add("sets-in")
        if len(self._waiting) == MOST_WAITING:
            self._waiting.popleft()
            self._counters.add(DROP + "newer-set")
        self._waiting.append(coming)

    @property
    def ready(self) -> bool:
        """Whether there is anything to give at a tick."""
        return bool(self._flat)

    @property
    def began_s(self) -> float:
        """When the first tick was due, by ``clock``."""
        return self._start_s

    def due_s(self) -> float:
        """When the next tick is due, by ``clock``."""
        return self._start_s + self.number * self.plan.tick_s

    def begin(self) -> None:
        """The first tick is now: until then nothing was there to leave."""
        self._start_s = self._clock()
        self._epoch_s = self._whole_tick(self._wall())
        self.number = 0
        self.fresh_s = self._start_s

    def tick(self) -> None:
        """Emit the records of the tick that is due. A process that was held up for a moment makes up for its ticks;
        after a sleep of more than a second and some ticks they are counted as missed."""
        now = self._clock()
        missed = int((now - self.due_s()) / self.plan.tick_s)
        if now - self.due_s() > MAKE_UP_S + 5 * self.plan.tick_s:
            self._counters.add("ticks-missed", missed)
            self.number += missed
        self._follow_the_clock(now)
        tick_ns = int(self._epoch_s * 1e3) * 10**6 + int(self.number * self.plan.tick_s * 1e9)
        frames = self._next_frames(now)
        self._sinks.write_set([frame.at(self.number, tick_ns) for frame in frames])
        self._counters.add("ticks")
        self.number += 1
        self._announce_state(now, tick_ns)

    def drain(self) -> None:
        """The end: sets that still wait will not leave, and are counted."""
        self._counters.add(DROP + "stopped", len(self._waiting))
        self._waiting.clear()

    def forget_coming(self) -> None:
        """The inside that was sending has ended; what it had begun is not to be mixed with what the next one sends."""
        self._coming.clear()

    def _next_frames(self, now: float) -> List[PerturbedFrame]:
        if self._waiting:
            self._last = self._waiting.popleft()
            self.fresh_s, self._fresh_in_period = now, True
            self._counters.add("frames-out")
            return self._last
        self._counters.add("ticks-repeated")
        return self._last if self._last and self.plan.on_fault == "previous" else self._flat

    def _announce_state(self, now: float, tick_ns: int) -> None:
        period = int((now - self._start_s) / self.plan.degraded_after_s)
        if period == self._period:
            return
        state = "running" if self._fresh_in_period else "degraded"
        self._period, self._fresh_in_period = period, False
        if state != self.state:
            self.state = state
            self._counters.add("announced-" + state)
            self._sinks.announce(state, tick_ns)
            self._say(state, message="nothing new for a whole period" if state == "degraded" else "something new again")

    def _follow_the_clock(self, now: float) -> None:
        """Timestamps are ticks from one reading of the wall clock, until that is set again."""
        wander = self._wall() - now - (self._epoch_s - self._start_s)
        if abs(wander) > max(CLOCK_JUMP_S, self.plan.tick_s):
            self._epoch_s = self._whole_tick(self._epoch_s + wander)
            self._counters.add("fault:clock-jump")
            self._say("clock-jump", message="the clock was set by {:+.0f} s; timestamps follow it".format(wander))

    def _whole_tick(self, wall: float) -> float:
        """Rounded to a whole tick, so that a timestamp tells no more than that."""
        return int(wall / self.plan.tick_s) * self.plan.tick_s


class SinkFailures(object):
    """``on_failure`` of the service's sinks: lost frames are counted, and a failure is logged once."""

    def __init__(self, counters: Counters, say: Callable[..., None]) -> None:
        self._counters, self._say = counters, say

    def __call__(self, name: str, error: Optional[DeviceFailed], frames: int, first: bool) -> None:
        """See ``sinks.group.OnFailure``."""
        if error is None:
            self._say("sink-again", sink=name)
            return
        self._counters.add("sink-dropped", frames)
        if first:
            self._counters.add("fault:sink")
            self._say("sink", sink=name, message=str(error))
