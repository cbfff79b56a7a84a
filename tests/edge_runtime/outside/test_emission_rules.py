"""What leaves, and when: the same for a good camera, an empty scene, and every fault."""

from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import DeviceFailed, PrivacyStop
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.ipc.counters import Counters, Schedule, schedule
from edgeveil.edge_runtime.ipc.record import FLAT, RELEASED, Layout, Record, RecordBroken
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.edge_runtime.outside.emission import FEWEST_WAITING, Emission, count_failures
from edgeveil.edge_runtime.sinks.base import Sink
from edgeveil.edge_runtime.sinks.group import SinkGroup
from edgeveil.edge_runtime.sinks.network_base import ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.wire import HEADER_BYTES

OUTPUTS = [Output("frame", "frame", "x", (3,), "uint8", None), Output("label", "label", "y", (), "int64", None)]


def frame(value, slot=0):
    outputs = {"frame": np.full(3, value, np.uint8), "label": np.int64(value)}
    return PerturbedFrame(0, outputs, _PIPELINE, slot=slot)


class Kept(Sink):
    def __init__(self):
        self.left, self.told, self.full = [], [], False

    def _write(self, one):
        if self.full:
            raise DeviceFailed("the disk is full")
        self.left.append((one.index, one.tick_ns, one.slot, int(one.data[0])))

    def announce(self, state, tick_ns):
        self.told.append((state, tick_ns))


class Away(NetworkSink):
    """What it sends to cannot be reached."""

    def _connect(self):
        raise ConnectionLost("nothing answers")


NOW = 1_800_000_000.0  # 2027


class Stage:
    """An emission with clocks of our own: ``run`` lets time pass and hands sets over as they come."""

    def __init__(self, slots=1, on_fault="previous", tick_s=0.1, degraded_after_s=60.0, backlog=1):
        self.now, self.wall_ahead, self.said, self.synchronised = 100.0, NOW, [], True
        self.sink, self.counters = Kept(), Counters()
        on_failure = count_failures(self.counters, lambda event, **_: self.said.append(event))
        self.sinks = SinkGroup({"kept": self.sink}, on_failure)
        self.plan = Schedule(tick_s, slots, on_fault, degraded_after_s, backlog)
        self.emission = Emission(
            self.plan,
            self.sinks,
            self.counters,
            lambda event, **facts: self.said.append(event),
            clock=lambda: self.now,
            wall=lambda: self.now + self.wall_ahead,
            synchronised=lambda: self.synchronised,
        )
        self.number = 0
        self.give(255, FLAT)
        self.emission.begin()

    def give(self, value, state=RELEASED):
        for slot in range(self.plan.slots):
            self.emission.take(Record(self.number, slot, state, frame(value, slot)))
        self.number += 1

    def run(self, seconds, every_s=0.1, step_s=0.01):
        """``seconds`` of ticks, with a new set ``every_s``; None: nothing comes."""
        end, came = self.now + seconds, self.now
        while self.now < end - 1e-9:
            if every_s and self.now >= came - 1e-9:
                self.give(self.number % 200)
                came += every_s
            while self.now >= self.emission.due_s() - 1e-9:
                self.emission.tick()
            self.now += step_s


def test_an_aim_is_announced_at_its_next_tick_and_so_is_its_end():
    stage, aimed = Stage(), []
    stage.emission._aiming = lambda: bool(aimed)
    stage.run(2)
    aimed.append(True)
    stage.run(5, every_s=None)
    began = [tick_ns for state, tick_ns in stage.sink.told if state == "aiming"]
    assert [state for state, _ in stage.sink.told] == ["aiming"]
    assert began[0] <= stage.sink.left[21][1]
    aimed.clear()
    stage.run(130)
    assert [state for state, _ in stage.sink.told] == ["aiming", "degraded", "running"]
    assert stage.said == ["aiming", "degraded", "running"]


def test_what_the_guard_gives_leaves_in_place_of_a_new_set_and_of_its_repeats():
    stage = Stage()
    seen = []
    stage.emission._guard = lambda new, flat: seen.append((int(new[0].data[0]), int(flat[0].data[0]))) or flat
    stage.run(2)
    stage.run(1, every_s=None)
    assert {value for _, _, _, value in stage.sink.left} == {255}
    assert len(seen) >= 15
    assert {flat for _, flat in seen} == {255}
    assert 255 not in {new for new, _ in seen}


def schedule_of(stage):
    return [(index, tick_ns, slot) for index, tick_ns, slot, _ in stage.sink.left]


@pytest.mark.parametrize("on_fault", ["previous", "flat"])
@pytest.mark.parametrize("slots", [1, 3])
def test_number_and_times_do_not_tell_of_a_fault(slots, on_fault):
    good, faulty, dead, fast = (Stage(slots, on_fault) for _ in range(4))
    good.run(8)
    faulty.run(3)
    faulty.run(2, every_s=None)
    faulty.run(3)
    dead.run(8, every_s=None)
    fast.run(8, every_s=0.03)
    assert len(good.sink.left) == 80 * slots
    assert schedule_of(good) == schedule_of(faulty) == schedule_of(dead) == schedule_of(fast)
    times = sorted({tick_ns for _, tick_ns, _, _ in good.sink.left})
    assert set(np.diff(times)) == {100_000_000}
    assert times[0] % 100_000_000 == 0  # of the tick, not of the frame


@pytest.mark.parametrize("tick_s", [0.04, 0.1, 1.0])
def test_a_set_leaves_at_the_first_tick_that_is_a_slack_away(tick_s):
    for before_s, leaves_at in ((1.1, 1), (0.9, 2), (0.0, 2)):
        stage = Stage(tick_s=tick_s)
        stage.run(tick_s / 2, every_s=None, step_s=tick_s / 10)  # tick 0
        stage.now = stage.emission.due_s() - before_s * min(0.02, tick_s / 4)
        stage.give(7)
        for _ in range(3):
            stage.now = stage.emission.due_s()
            stage.emission.tick()
        assert next(index for index, _, _, value in stage.sink.left if value == 7) == leaves_at


def test_a_late_tick_takes_what_was_ready_when_it_was_due():
    stage = Stage()
    stage.emission.tick()
    stage.now = stage.emission.due_s() + 0.05
    stage.give(7)
    for _ in range(2):
        stage.emission.tick()
    assert [value for *_, value in stage.sink.left] == [255, 255, 7]


@pytest.mark.parametrize(("backlog", "there"), [(1, [3, 4]), (4, [1, 2, 3, 4])])
def test_of_a_burst_the_newest_leave_one_a_tick(backlog, there):
    stage = Stage(backlog=backlog)
    for value in range(5):
        stage.give(value)
    stage.run(1, every_s=None)
    assert [value for *_, value in stage.sink.left if value != 255][: len(there)] == there
    assert stage.counters.get("drop:newer-set") == 5 - len(there)


def test_what_a_fault_holds_is_as_the_manifest_says():
    for on_fault in ("previous", "flat"):
        stage = Stage(on_fault=on_fault)
        stage.run(1)
        last = (stage.number - 1) % 200
        stage.run(1, every_s=None)
        assert {value for *_, value in stage.sink.left[-5:]} == {last if on_fault == "previous" else 255}
    stage = Stage(on_fault="previous")
    stage.run(1, every_s=None)
    assert {value for *_, value in stage.sink.left} == {255}  # nothing was there before


def test_every_set_that_came_left_or_was_counted():
    stage = Stage()
    stage.run(5, every_s=0.03)
    left, counts = stage.counters.get("frames-out"), stage.counters.all()
    stage.emission.drain()
    counts = stage.counters.all()
    assert stage.number - 1 == left + counts["drop:newer-set"] + counts["drop:stopped"]
    assert counts["drop:stopped"] <= FEWEST_WAITING


def test_a_lasting_fault_is_told_at_the_end_of_a_period_and_no_sooner():
    stage = Stage()
    stage.run(70)
    stage.run(49, every_s=None, step_s=0.05)
    assert stage.sink.told == []
    stage.run(70, every_s=None, step_s=0.05)
    (state, tick_ns), *others = stage.sink.told
    assert state == "degraded"
    assert tick_ns / 1e9 == pytest.approx(NOW + 280, abs=0.2)
    assert others == []
    stage.run(90)
    assert [state for state, _ in stage.sink.told] == ["degraded", "running"]
    assert stage.emission.state == "running"


def test_a_short_fault_is_never_told():
    stage = Stage()
    for _ in range(6):
        stage.run(10)
        stage.run(50, every_s=None, step_s=0.05)
    assert stage.sink.told == []


def test_timestamps_follow_a_clock_that_is_set_and_ticks_do_not():
    stage = Stage()
    stage.run(1)
    stage.wall_ahead += 3600
    stage.run(1)
    assert "clock-jump" in stage.said
    assert stage.counters.get("fault:clock-jump") == 1
    assert [index for index, *_ in stage.sink.left] == list(range(20))
    assert stage.sink.left[-1][1] - stage.sink.left[0][1] == pytest.approx(3601.9e9, abs=0.2e9)
    stage.wall_ahead -= 7200
    stage.run(1)
    assert stage.counters.get("fault:clock-jump") == 2
    assert len(stage.sink.left) == 30


def test_ticks_have_no_time_until_the_clock_is_set_and_receivers_hear_of_it():
    stage = Stage(degraded_after_s=1.0)
    stage.wall_ahead, stage.synchronised = 1000.0, False
    stage.emission.begin()
    stage.run(2)
    stage.wall_ahead = NOW
    stage.run(1)
    times = [tick_ns for _, tick_ns, _, _ in stage.sink.left]
    assert times[:20] == [None] * 20
    assert [index for index, *_ in stage.sink.left] == list(range(30)), "their numbers go on"
    assert times[20:] == [pytest.approx(times[20] + n * 1e8, abs=1) for n in range(10)]
    assert times[20] == pytest.approx((NOW + 102) * 1e9, abs=1e8)
    stage.run(3, every_s=None)
    *others, before = stage.sink.told
    assert before == ("degraded", pytest.approx((NOW + 105) * 1e9, abs=2e9))
    stage.synchronised = True
    stage.run(2, every_s=None)
    assert stage.sink.told == [*others, before, before], "again, with the state of the clock"


def test_a_moment_is_made_up_for_and_a_long_sleep_is_not():
    stage = Stage()
    stage.run(1)
    stage.now += 0.5
    stage.run(1)
    assert [index for index, *_ in stage.sink.left] == list(range(25))
    stage.now += 60
    stage.run(1)
    assert stage.counters.get("ticks-missed") == 600
    assert len(stage.sink.left) == 35


def test_a_full_disk_costs_its_own_frames_and_is_said_once():
    stage = Stage()
    stage.run(1)
    stage.sink.full = True
    stage.run(1)
    stage.sink.full = False
    stage.run(1)
    assert len(stage.sink.left) == 20
    assert stage.counters.get("sink-dropped") == 10
    assert stage.said == ["sink", "sink-again"]


def test_records_that_a_full_spool_drops_are_counted_and_said_once():
    """Of a broker that is away: the loop goes on, and the counter is that of the sink's own records."""
    stage = Stage()
    record_bytes = HEADER_BYTES + 11
    settings = {"spool_size": 3 * record_bytes, "say": lambda _: None, "backoff": {"first_s": 60.0}}
    sink = stage.sinks.sinks["away"] = Away("away", OUTPUTS, None, settings)
    stage.run(2)
    sink.close()
    assert stage.counters.get("sink-dropped") == sink._spool.count("full") == 17
    assert stage.counters.get("fault:sink") == 1
    assert stage.said == ["sink"]
    assert len(stage.sink.left) == 20


def test_a_set_of_draws_that_were_paid_for_leaves_without_another_payment():
    paid, budget = [], [2]

    def take(releases):
        may = budget[0] >= releases
        if may:
            budget[0] -= releases
            paid.append(releases)
        return may

    stage = Stage(slots=2)
    stage.emission._take, stage.emission._spent = take, lambda: budget[0] == 0

    def give(*drawn):
        for slot, name in enumerate(drawn):
            one = PerturbedFrame(0, frame(7).outputs, _PIPELINE, slot=slot, drawn=name)
            stage.emission.take(Record(stage.number, slot, RELEASED, one))
        stage.number += 1
        stage.now = stage.emission.due_s() + 1e-6
        stage.emission.tick()
        stage.now = stage.emission.due_s()
        stage.emission.tick()

    give(5, 5)
    give(5, 6)
    assert paid == [1, 1]
    give(6, 8)  # what is not paid for does not leave, and does not when it comes again
    give(8, 6)
    assert stage.counters.get("drop:budget-spent") == 2
    give(6, 5)
    assert (paid, stage.counters.get("frames-out")) == ([1, 1], 3)


def test_sets_out_of_order_stop_everything():
    stage = Stage(slots=2)
    with pytest.raises(PrivacyStop):
        stage.emission.take(Record(7, 1, RELEASED, frame(1, 1)))


def test_records_are_of_one_size_and_a_broken_one_is_refused():
    layout = Layout(OUTPUTS)
    one, two = layout.pack(frame(0), -5), layout.pack(frame(200, 3), 2**40, slot=3, state=FLAT)
    assert len(one) == len(two) == layout.size
    back = layout.unpack(two)
    assert (back.number, back.slot, back.state) == (2**40, 3, FLAT)
    assert back.frame.slot == 3
    assert back.frame.data.tolist() == [200] * 3
    assert back.frame.outputs["label"] == 200
    for place in (0, 4, layout.size - 1):
        broken = bytearray(one)
        broken[place] ^= 1 << 6
        with pytest.raises(RecordBroken):
            layout.unpack(bytes(broken))
    with pytest.raises(PrivacyStop):
        layout.pack(np.zeros(3, np.uint8), 0)


PICTURES, SERIES = SimpleNamespace(kind="image"), SimpleNamespace(kind="series")
RULES = SimpleNamespace(tick_hz=10.0, slots=2, on_fault="flat", degraded_after_s=30)


def test_flags_make_the_schedule_slower_at_most():
    signed = SimpleNamespace(capture=RULES, input=PICTURES)
    assert schedule(signed) == (0.1, 2, "flat", 30.0, 1)
    assert schedule(signed, 4).tick_s == 0.25
    with pytest.raises(Exception, match="--fps 10 at most"):
        schedule(signed, 11)
    assert schedule(SimpleNamespace(capture=None, input=PICTURES), 30).tick_s == pytest.approx(1 / 30)


def test_windows_of_a_series_wait_for_a_tick_each_for_a_second():
    for fps, backlog in ((10, 11), (4, 5), (0.1, 1)):
        for capture in (RULES, None):
            assert schedule(SimpleNamespace(capture=capture, input=SERIES), fps).backlog == backlog


class Purse:
    """An allowance of so many sets; ``behind``: one more is coming, but the disk is not done."""

    def __init__(self, sets, behind=False):
        self.left, self.behind, self.taken = sets, behind, 0

    def take(self, releases):
        if self.left <= 0:
            return False
        self.left, self.taken = self.left - 1, self.taken + releases
        return True

    def spent(self):
        return self.left <= 0 and not self.behind


def paid(purse, **options):
    stage = Stage(**options)
    stage.emission._take, stage.emission._spent = purse.take, purse.spent
    return stage


@pytest.mark.parametrize("on_fault", ["previous", "flat"])
@pytest.mark.parametrize("slots", [1, 3])
def test_number_sizes_and_times_do_not_tell_of_a_spent_budget(slots, on_fault):
    free, purse = Stage(slots, on_fault), Purse(30)
    spent = paid(purse, slots=slots, on_fault=on_fault)
    free.run(8)
    spent.run(8)
    assert schedule_of(free) == schedule_of(spent)
    assert purse.taken == 30 * slots
    assert spent.counters.get("frames-out") == 30
    values = [value for *_, value in spent.sink.left]
    assert len(set(values[32 * slots :])) == 1
    assert values[-1] == (values[30 * slots] if on_fault == "previous" else 255)
    counts = spent.counters.all()
    assert counts["drop:budget-spent"] + counts["frames-out"] + len(spent.emission._waiting) == spent.number - 1


def test_a_repeated_release_costs_nothing():
    purse = Purse(100)
    stage = paid(purse)
    stage.run(1)
    stage.run(0.3, every_s=None)  # the last set that came
    assert purse.taken == stage.counters.get("frames-out") == stage.number - 1
    stage.run(5, every_s=None)
    assert purse.taken == stage.number - 1


def test_a_set_waits_for_the_disk_and_is_not_lost():
    purse = Purse(0, behind=True)
    stage = paid(purse)
    stage.give(7)
    stage.run(0.3, every_s=None)
    assert {value for *_, value in stage.sink.left} == {255}
    purse.left = 1
    stage.run(0.2, every_s=None)
    assert [value for *_, value in stage.sink.left][-1] == 7
    assert stage.counters.get("drop:budget-spent") == 0


def test_a_spent_budget_is_told_at_the_end_of_a_period_and_no_sooner():
    stage = paid(Purse(5))
    stage.run(119, step_s=0.05)
    assert stage.sink.told == []
    stage.run(70, step_s=0.05)
    assert [state for state, _ in stage.sink.told] == ["spent"]
    assert stage.emission.state == "spent"
