"""The live loop: the newest frame wins, the late one is dropped, and what was used up is zeros."""

import functools
import io
import sys
import threading
import time

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import FrameDropped, PrivacyStop, Unsupported
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.ipc.counters import Counters, Schedule, drops
from edgeveil.edge_runtime.lut import Flow, LutArray
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.handoff import Handoff, Newest
from edgeveil.edge_runtime.pipeline.live import LiveLoop
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.sandbox.watchdog import Watchdog
from edgeveil.edge_runtime.sources.base import Source, now_ns
from tests.support import bundles
from tests.support.promised import held_examples


class Given(Source):
    """Frames of a list, one every ``every_s``; a function in it is called."""

    live = True

    def __init__(self, *turns, every_s=0.03):
        self.turns, self.every_s = list(enumerate(turns)), every_s

    def next(self):
        if not self.turns:
            return None
        time.sleep(self.every_s)
        index, turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return RawFrame(turn, index, now_ns())


class Whole:
    """A capture that hands the frame on, in as many slots as it says in its first value."""

    ended = ()
    slots = 1

    def frames(self, frame):
        return [(slot, RawFrame(frame._data.copy(), frame.index)) for slot in range(min(frame._data[0], self.slots))]

    def restart(self):
        self.restarted = True


@pytest.fixture(scope="module")
def perturber(tmp_path_factory):
    made = bundles.make_bundle(tmp_path_factory.mktemp("b"))
    with Perturber.open(str(made.path), trust=str(made.trust)) as opened:
        yield opened


def reading(people=1, largest=2):
    data = np.array([people, 0, 0, 0], np.uint8)
    data[largest] = 16
    return data


def loop(perturber, sent, counters, slots=1, on_fault="previous", backlog=1, **options):
    capture = Whole()
    capture.slots = slots
    settings = {"max_latency_s": 5.0, "recheck_s": 1e9, "open_source": None, **options}
    return LiveLoop(
        perturber,
        Schedule(0.001, slots, on_fault, 60.0, backlog),
        capture=capture,
        send=lambda made: sent.append([int(frame.outputs["label"]) for frame in made]),
        counters=counters,
        watchdog=Watchdog(60, put_off=lambda _: None),
        note=lambda *_: None,
        **settings,
    )


def test_every_frame_comes_out_or_is_counted_and_is_zeros_afterwards(perturber):
    sent, counters, raw = [], Counters(), [reading(largest=n % 3 + 1) for n in range(12)]
    live = loop(perturber, sent, counters)
    live.flat()
    live.run(Given(*raw[:5], FrameDropped("unreadable"), np.zeros(9, np.uint8) + 1, *raw[5:]))
    counts = counters.all()
    assert counts["frames-in"] == 14 == len(sent) + sum(drops(counts).values())
    assert drops(counts)["unreadable"] == 1
    assert drops(counts).get("shape", 0) + drops(counts).get("newer-frame", 0) >= 1
    assert all(not data.any() for data in raw)


def test_of_a_burst_the_newest_come_out_as_many_as_may_wait(perturber):
    sent, counters, raw = [], Counters(), [reading(largest=n % 3 + 1) for n in range(12)]
    live = loop(perturber, sent, counters, backlog=12)
    live.flat()
    live.run(Given(*raw))
    assert len(sent) == 12 == counters.get("frames-in")
    assert not drops(counters.all())
    assert all(not data.any() for data in raw)


def test_a_blank_frame_begins_no_period(tmp_path):
    made = bundles.make_bundle(tmp_path, example=held_examples.example("oue", "period"))
    with Perturber.open(str(made.path), trust=str(made.trust)) as held:
        (flat,) = loop(held, [], Counters()).flat()
        drawn = [held.perturb(RawFrame(reading(), place)).drawn for place in range(3)]
    assert 0 != flat.drawn != drawn[0] == drawn[1] == drawn[2]


class Quantising:
    """A model on an interpreter that takes bytes: what it is given holds the reading in another form."""

    def preprocess(self, inputs):
        return [np.rint(inputs["image"] * 255).astype(np.uint8)]

    def infer(self, feeds):
        return [255 - feed for feed in feeds]

    def postprocess(self, values):
        return Flow({"output": LutArray(np.linspace(0, 1, 256, dtype=np.float32), values[0])})

    def run(self, inputs):
        return self.postprocess(self.infer(self.preprocess(inputs)))


@pytest.mark.parametrize("late", [False, True])
def test_nothing_that_was_made_of_a_frame_on_its_way_is_left_in_memory(perturber, monkeypatch, late):
    manifest, members = bundles.numpy_example()
    model = {"stage": "artefact", "model": "g", "inputs": {"image": "u"}, "outputs": {"output": "w"}}
    manifest["stages"].insert(1, model)
    manifest["stages"][2]["input"] = "w"
    tables = {name: np.load(io.BytesIO(members[entry["file"]])) for name, entry in manifest["tables"].items()}
    means = tables["means"].copy()
    monkeypatch.setattr(perturber, "pipeline", Pipeline(parse(manifest), tables=tables, runners={"g": Quantising()}))
    sent, left = [], []

    def keep(in_flight, last):
        flow = in_flight.flow
        left.extend([flow[name] for name in flow] + (list(flow.between) if flow.between else []))
        return last(in_flight)

    for part in ("infer", "postprocess"):
        monkeypatch.setattr(perturber, part, functools.partial(keep, last=getattr(perturber, part)))
    live = loop(perturber, sent, Counters(), max_latency_s=-1.0 if late else 5.0)
    live._last = [None]
    live.run(Given(reading(largest=3)))
    assert len(sent) == (0 if late else 1)
    assert len(left) >= 4  # x, u, what the model takes and what it gives
    assert not any(array.any() for array in left)
    assert np.array_equal(tables["means"], means)


@pytest.mark.parametrize("on_fault", ["previous", "flat"])
def test_an_empty_scene_sends_as_much_as_a_full_one(perturber, on_fault):
    sent, counters = [], Counters()
    live = loop(perturber, sent, counters, slots=2, on_fault=on_fault)
    live.flat()
    calls = []
    counted = perturber.infer
    perturber.infer = lambda in_flight: calls.append(1) or counted(in_flight)
    try:
        live.run(Given(reading(2, 3), reading(1, 2), reading(0, 2), every_s=0.1))
    finally:
        del perturber.infer
    assert sent == [[3, 3], [2, 3], [2, 3]] if on_fault == "previous" else [[3, 3], [2, 0], [0, 0]]
    assert len(calls) == 6  # as much is computed for nobody as for two


def test_the_blank_frame_of_an_empty_place_stays_as_it_is(perturber):
    live = loop(perturber, [], Counters(), slots=2, on_fault="flat")
    live._blank[:] = 7  # a range that begins elsewhere than at 0
    live.flat()
    live.run(Given(reading(0), reading(1)))
    assert (live._blank == 7).all()


def test_a_late_result_is_dropped(perturber):
    sent, counters = [], Counters()
    live = loop(perturber, sent, counters, max_latency_s=1e-9)
    live.flat()
    live.run(Given(reading(), reading()))
    assert sent == []
    assert drops(counters.all())["late"] >= 1


def test_draws_are_made_ahead_where_no_frame_waits(perturber, monkeypatch):
    ahead = []
    monkeypatch.setattr(perturber, "draw_ahead", lambda: ahead.append(len(sent)))
    sent, counters = [], Counters()
    live = loop(perturber, sent, counters)
    live.flat()
    live.run(Given(*[reading() for _ in range(5)]))
    assert ahead


def test_golden_vectors_that_fail_in_the_middle_end_it(perturber, monkeypatch):
    def fails():
        raise PrivacyStop("the golden vectors fail")

    monkeypatch.setattr(perturber, "recheck", fails)
    sent, counters = [], Counters()
    live = loop(perturber, sent, counters, recheck_s=0.1)
    live.flat()
    with pytest.raises(PrivacyStop, match="golden"):
        live.run(Given(*[reading() for _ in range(50)]))
    assert len(sent) < 20


def test_a_recheck_of_a_sound_perturber_passes_and_of_another_does_not(perturber, monkeypatch):
    perturber.recheck()
    golden = dict(perturber._golden)
    golden["golden/numpy.label.npy"] = bundles.npy(np.array([0, 0, 0, 0]))
    monkeypatch.setattr(perturber, "_golden", golden)
    with pytest.raises(PrivacyStop, match="in the middle of a run"):
        perturber.recheck()


def test_what_cannot_be_cured_ends_it_with_its_own_words(perturber):
    live = loop(perturber, [], Counters())
    live.flat()
    with pytest.raises(Unsupported, match="another size"):
        live.run(Given(reading(), Unsupported("it gives another size")))


def test_the_newest_frame_wins_and_nobody_waits():
    latest = Newest(1)
    assert latest.put(1) is None
    assert latest.put(2) == 1
    assert latest.take(0) == 2
    began = time.monotonic()
    assert latest.take(0.05) is None
    assert time.monotonic() - began >= 0.04
    threading.Timer(0.05, latest.put, [3]).start()
    assert latest.take(5) == 3
    assert time.monotonic() - began < 4


def test_the_newest_few_are_taken_in_order():
    newest = Newest(3)
    assert [newest.put(number) for number in range(5)] == [None, None, None, 0, 1]
    assert [newest.take(5) for _ in range(3)] == [2, 3, 4]
    assert newest.take(0) is None
    newest.put(5)
    newest.put(6)
    newest.end()
    assert [newest.take(5) for _ in range(3)] == [5, 6, None]


@pytest.mark.parametrize("most", [1, 4])
def test_every_frame_is_taken_or_replaced_and_a_wait_ends_only_with_one(most):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that the threads meet at every place
    latest, taken = Newest(most), []
    reader = threading.Thread(target=lambda: taken.extend(iter(lambda: latest.take(5), None)))
    reader.start()
    replaced = [latest.put(number) for number in range(20000)]
    latest.end()
    reader.join(10)
    sys.setswitchinterval(interval)
    assert taken == sorted(taken)
    assert sorted(taken + [number for number in replaced if number is not None]) == list(range(20000))
    assert taken[-1] == 19999


def test_a_baton_loses_nothing_and_a_full_hand_takes_no_other():
    baton, got = Handoff(), []
    assert baton.put(0, 0.01)
    assert not baton.put(1, 0.01)
    reader = threading.Thread(target=lambda: [got.append(baton.get()) for _ in range(500)])
    reader.start()
    for number in range(1, 500):
        assert baton.put(number, 5.0)
    reader.join(5.0)
    assert got == list(range(500))


def test_whoever_waits_is_told_that_nothing_more_comes():
    place, begun = Newest(1), time.monotonic()
    threading.Timer(0.05, place.end).start()
    assert place.take(30.0) is None
    assert place.take(30.0) is None
    assert time.monotonic() - begun < 5


class Followed(Whole):
    """Track 5 is in the first and the last frame, and ended in the one between: its number is somebody else's then."""

    def frames(self, frame):
        self.ended = (5,) if frame.index == 1 else ()
        return [] if frame.index == 1 else [(0, RawFrame(frame._data.copy(), frame.index, track=5))]


def test_a_track_is_forgotten_after_the_frame_that_shows_its_end_and_before_the_next(perturber, monkeypatch):
    told, now = [], iter(range(1000))
    monkeypatch.setattr(perturber, "infer", lambda in_flight: told.append(in_flight.frame.index))
    monkeypatch.setattr(perturber, "forget", lambda track: told.append(f"forget {track}"))
    live = loop(perturber, [], Counters(), clock=lambda: float(next(now)))
    live._capture = Followed()
    # The capturing thread is ahead of the one that runs the model.
    sets = [live._preprocess(RawFrame(reading(), index)) for index in range(3)]
    for one in sets:
        live._infer(one)
    assert told == [0, live._blank_frame().index, "forget 5", 2]


def test_a_reader_that_has_gone_ends_it_with_that_error(perturber):
    def gone(_):
        raise BrokenPipeError("nobody reads")

    live = loop(perturber, [], Counters())
    live._send = gone
    live.flat()
    with pytest.raises(BrokenPipeError):
        live.run(Given(*[reading() for _ in range(50)]))


def test_a_capture_that_breaks_is_no_end_of_the_source(perturber):
    live = loop(perturber, [], Counters())
    live.flat()
    live._capture.frames = lambda frame: 1 // 0
    with pytest.raises(ZeroDivisionError):
        live.run(Given(reading()))
