"""The outside: gives perturbed sets to the sinks, on ticks that the inside cannot hurry, delay or skip.

Each tick emits as many records as the schedule has slots: the next set from the inside, else the previous one again or
the flat one, as the manifest says. So number, size and time of the records are the same for an empty scene, a busy one
and a broken camera. A set leaves at the first tick that is due a slack or more after it was ready, and within the slack
the outside does nothing else, so that no work on a set delays a tick. A lasting fault is announced at the end of a
coarse period, and no sooner. A set that is not paid for does not leave (``ledger.allowance``): ticks go on with what a
fault would hold, which costs nothing, and a spent budget is announced as a fault is.
"""

import collections
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from edgeveil.edge_runtime import ext
from edgeveil.edge_runtime.bundle.board_state import board_of, read_state
from edgeveil.edge_runtime.bundle.opened import Opened
from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.errors import SPENT, BadInput, DeviceFailed, PrivacyStop
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.ipc.counters import COUNTS, DROP, SLACK_S, Counters, Schedule
from edgeveil.edge_runtime.ipc.record import FLAT, Counted, PaidDraws, Record
from edgeveil.edge_runtime.machine import CLOCKS_FROM_S
from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.edge_runtime.manifest.manifest import Price
from edgeveil.edge_runtime.manifest.spending import repeats_paid
from edgeveil.edge_runtime.paths import service_of
from edgeveil.edge_runtime.sinks.count_report import COUNTED, MISSING, PART, CountReport
from edgeveil.edge_runtime.sinks.count_report import SPENT as count_report_SPENT
from edgeveil.edge_runtime.sinks.group import OnFailure, SinkGroup

FEWEST_WAITING = 2  # sets, of a backlog of 1: one that comes a moment too late for its tick does not push out the next
MAKE_UP_S = 1.0
CLOCK_JUMP_S = 1.0  # how far the wall clock may drift from ``clock`` before timestamps follow it


_MESSAGES = {
    "running": "something new again",
    "degraded": "nothing new for a whole period",
    "spent": "nothing new for a whole period: the budget is spent",
    "aiming": "nothing new: a person on the board sees edges of the raw picture, to aim the camera (edgeveil-edge aim)",
}


class Emission(object):
    """Which set is emitted at which tick. ``take`` records as they come; call ``tick`` at ``due_s``.

    ``clock`` is monotonic, ``wall`` the time of day, both in seconds. ``start_s`` is when the first tick was due, by
    ``clock``; ``fresh_s`` when something new was emitted; ``number`` that of the next tick. ``take`` says whether so
    many releases are paid for, ``spent`` whether none can be, ``synchronised`` whether ``wall`` is kept right (None:
    not known). ``aiming``: whether a person has the camera, to aim it, which is announced at once.
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
        take: Callable[[int], bool] = lambda _releases: True,
        spent: Callable[[], bool] = lambda: False,
        synchronised: Callable[[], Optional[bool]] = lambda: None,
        guard: Callable[[List[PerturbedFrame], List[PerturbedFrame]], List[PerturbedFrame]] = lambda new, _flat: new,
        aiming: Callable[[], bool] = lambda: False,
    ) -> None:
        self._aiming = aiming
        self._take, self._spent, self._guard, self._draws = take, spent, guard, PaidDraws()
        self.plan, self._sinks, self._counters, self._say = plan, sinks, counters, say
        self._clock, self._wall, self._synchronised = clock, wall, synchronised
        self._kept_right, self._since_ns = synchronised(), None  # type: Optional[bool], Optional[int]
        self._coming: Dict[int, List[PerturbedFrame]] = {}
        self._waiting: Deque[Tuple[float, List[PerturbedFrame]]] = collections.deque()  # since when, and a set
        self.slack_s = min(SLACK_S, plan.tick_s / 4)
        self._flat: List[PerturbedFrame] = []
        self._last: List[PerturbedFrame] = []
        self.state = "running"
        self._period, self._fresh_in_period = 0, True
        self.begin()

    def take(self, record: Record) -> None:
        """Take one record from the inside; a set is complete with its last slot."""
        coming = self._coming.setdefault(record.number, [])
        if record.slot != len(coming) or record.slot >= self.plan.slots:
            raise PrivacyStop("the inside sent the slots of a set out of order; no more frames are emitted")
        coming.append(record.frame)
        if len(coming) < self.plan.slots:
            return
        self._coming.clear()
        if record.state == FLAT:
            self._flat = coming
            return
        self._counters.add("sets-in")
        if len(self._waiting) == max(self.plan.backlog, FEWEST_WAITING):
            self._waiting.popleft()
            self._counters.add(DROP + "newer-set")
        self._waiting.append((self._clock(), coming))

    @property
    def ready(self) -> bool:
        """Whether there is a set to emit."""
        return bool(self._flat)

    def due_s(self) -> float:
        """When the next tick is due, by ``clock``."""
        return self.start_s + self.number * self.plan.tick_s

    def quiet_s(self) -> float:
        """Seconds until nothing but the next tick may be worked on; 0 or less: from now on."""
        return self.due_s() - self.slack_s - self._clock()

    def begin(self) -> None:
        """Make now the time of the first tick."""
        self.start_s = self.fresh_s = self._clock()
        self._epoch_s = self._whole_tick(self._wall())
        self.number = 0

    def tick(self) -> Optional[int]:
        """Emit the records of the tick that is due; its time, nanoseconds since 1970, None while the clock is not set.

        After a short delay the late ticks are made up; after more than a second and some ticks they count as missed.
        """
        now = self._clock()
        missed = int((now - self.due_s()) / self.plan.tick_s)
        if now - self.due_s() > MAKE_UP_S + 5 * self.plan.tick_s:
            self._counters.add("ticks-missed", missed)
            self.number += missed
        self._follow_the_clock(now)
        tick_ns = None
        if self._epoch_s >= CLOCKS_FROM_S:
            tick_ns = int(self._epoch_s * 1e3) * 10**6 + int(self.number * self.plan.tick_s * 1e9)
        frames = self._next_frames(now)
        self._sinks.write_set([frame.at(self.number, tick_ns) for frame in frames])
        self._counters.add("ticks")
        self.number += 1
        self._announce_state(now, tick_ns)
        return tick_ns

    def drain(self) -> None:
        """Discard and count the sets that still wait."""
        self._counters.add(DROP + "stopped", len(self._waiting))
        self._waiting.clear()

    def forget_coming(self) -> None:
        """Discard the set that an inside had begun when it ended: the next inside must not complete it."""
        self._coming.clear()

    def _next_frames(self, now: float) -> List[PerturbedFrame]:
        # Of a late tick, what counts is when it was due.
        due = bool(self._waiting) and self._waiting[0][0] <= self.due_s() - self.slack_s
        if due and self._draws.pay([frame.drawn for frame in self._waiting[0][1]], self._take):
            _, new = self._waiting.popleft()
            self._last = self._guard(new, self._flat)
            self.fresh_s, self._fresh_in_period = now, True
            self._counters.add("frames-out")
            return self._last
        if due and self._spent():
            self._waiting.popleft()
            self._counters.add(DROP + SPENT)
        self._counters.add("ticks-repeated")
        return self._last if self._last and self.plan.on_fault == "previous" else self._flat

    def _announce_state(self, now: float, tick_ns: Optional[int]) -> None:
        period = int((now - self.start_s) / self.plan.degraded_after_s)
        aiming = self._aiming()
        if period == self._period and aiming == (self.state == "aiming"):
            return
        state = "running" if self._fresh_in_period else ("spent" if self._spent() else "degraded")
        if aiming or self.state == "aiming":
            state = "aiming" if aiming else "degraded"  # until something new comes
        self._period, self._fresh_in_period = period, False
        if state != self.state:
            self.state, self._since_ns = state, tick_ns
            self._counters.add("announced-" + state)
            self._sinks.announce(state, tick_ns)
            self._say(state, message=_MESSAGES[state])
        kept_right = self._synchronised()
        if kept_right != self._kept_right:
            self._kept_right = kept_right
            self._sinks.announce(self.state, self._since_ns)

    def _follow_the_clock(self, now: float) -> None:
        """Count timestamps from one wall-clock time, until the wall clock is set again."""
        drift = self._wall() - now - (self._epoch_s - self.start_s)
        if abs(drift) > max(CLOCK_JUMP_S, self.plan.tick_s):
            self._epoch_s = self._whole_tick(self._epoch_s + drift)
            self._counters.add("fault:clock-jump")
            self._say("clock-jump", message="the clock was set by {:+.0f} s; timestamps follow it".format(drift))

    def _whole_tick(self, wall: float) -> float:
        """Round to a whole tick, so that a timestamp reveals no more than that."""
        return int(wall / self.plan.tick_s) * self.plan.tick_s


def count_failures(counters: Counters, say: Callable[..., None]) -> OnFailure:
    """The ``on_failure`` of the service's sinks: lost frames are counted, and a failure is logged once."""

    def on_failure(name: str, error: Optional[DeviceFailed], frames: int, first: bool) -> None:
        if error is None:
            say("sink-again", sink=name)
            return
        counters.add("sink-dropped", frames)
        if first:
            counters.add("fault:sink")
            say("sink", sink=name, message=str(error))

    return on_failure


# What a service may still release: an allowance on the device's ledger where its bundle promises an epsilon.


class Unlimited(object):
    """The allowance of a bundle that promises nothing of what it tells: everything may leave."""

    def start(self, _page: Counters) -> None:
        """There is nothing to reserve."""

    def take(self, _releases: int) -> bool:
        """Always."""
        return True

    def take_one(self) -> bool:
        """Always."""
        return True

    def spent(self) -> bool:
        """Never."""
        return False


def promises(opened: Opened) -> Tuple[Any, ...]:
    """What a verified bundle promises, and what its releases cost here; equal where one may replace another."""
    return opened.bundle.manifest.spending, opened.price, opened.count_price


def open_allowance(settings: Settings, opened: Opened, plan: Schedule) -> Any:
    """The allowance for a verified bundle. Raises ``PrivacyStop`` where it needs a ledger and none can be charged,
    ``BadInput`` where the settings ask to charge each subject."""
    if settings.subject_column is not None:
        raise BadInput(
            "expected --subject-column with files alone: a service counts all that leaves as one unit. Leave it out, "
            "or go from csv: to a file"
        )
    repeats = repeats_paid(opened.bundle.manifest)
    return _allowance(settings, opened.price, slots=plan.slots, tick_s=plan.tick_s, repeats=repeats)


def open_count_allowance(settings: Settings, opened: Opened) -> Any:
    """As ``open_allowance``, for one record of counts a period."""
    counts = opened.bundle.manifest.counts
    period_s = 0.0 if counts is None else float(counts.period_s)
    return _allowance(settings, opened.count_price, slots=1, tick_s=period_s, of=COUNTS)


def _allowance(settings: Settings, price: Optional[Price], **options: Any) -> Any:
    if price is None:
        return Unlimited()
    root = board_of(settings.trust)
    own = root is not None and settings.ledger == ext.book.ledger_of(service_of(root))
    known = read_state(str(root)).ledger if own else ""
    return ext.allowance.open_allowance(settings.ledger, price, known, **options)


# The counts of each period leave at the first tick after its end that is due, whatever was seen or went wrong.
#
# The inside has a moment to hand a period in; one that comes later, or never, leaves as missing, in as many bytes. Both
# processes number periods by the same clock, so that neither tells the other when one is over.


GRACE_S = 1.5  # from the end of a period: the inside looks for it several times a second


class CountEmission(object):
    """Gives one ``CountReport`` a period to the sinks. ``last`` is the latest, None before the first.

    ``clock`` is the one that the inside counts periods by. ``take`` says whether one record is paid for, ``spent``
    whether none can be, ``label_only`` whether y alone may leave: a period is missing then, and costs nothing.
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
        label_only: Callable[[], bool] = lambda: False,
    ) -> None:
        self._label_only = label_only
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
        if came is not None and not self._label_only() and self._take(1):
            state, values = (COUNTED if came.whole else PART), came.values
        elif self._spent():
            state = count_report_SPENT
        self._counters.add("counts-" + state)
        self.last = CountReport(over, state, values, number, tick_ns)
        self._sinks.write_count(self.last)

    def _over(self) -> int:
        """The last period that ended ``GRACE_S`` ago or earlier."""
        return int((self._clock() - GRACE_S) // self._rules.period_s) - 1
