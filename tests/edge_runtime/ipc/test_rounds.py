"""The pipe of rounds to the inside, and what a hostile writer gets from it."""

import os
import struct
import zlib

import numpy as np
import pytest

from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.ipc.record import Layout, RecordBroken
from edgeveil.edge_runtime.ipc.rounds import Round, RoundFormat, RoundReader, RoundRefused, RoundWriter
from tests.support.promised.gradient_examples import FORM, MOST, asked, manifest


def sealed(data):
    """With a true checksum."""
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def with_theta(*values):
    data = bytearray(asked(1))
    struct.pack_into("<2f", data, len(data) - 12, *values)
    return sealed(bytes(data))


HOSTILE = {
    "one byte short": asked(1)[:-1],
    "one byte more": asked(1) + b"\0",
    "nothing": b"",
    "another magic": sealed(b"EVR1" + asked(1)[4:]),
    "a flipped bit": asked(1)[:20] + bytes([asked(1)[20] ^ 1]) + asked(1)[21:],
    "a wrong checksum": asked(1)[:-4] + b"\0\0\0\0",
    "not a number": with_theta(float("nan"), 0),
    "infinite": with_theta(0, float("inf")),
    "minus infinite": with_theta(0, -float("inf")),
    "beyond the bound": with_theta(0, MOST * 1.01),
    "beyond the bound downwards": with_theta(-MOST * 1.01, 0),
    "round 0": asked(0),
    "run 0": asked(1, run=0),
    "a run that no report can name": asked(1, run=2**31),
    "nobody asked": asked(1, lot=0),
    "more asked than there are": asked(1, lot=3, devices=2),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_round_is_refused(name):
    with pytest.raises(RoundRefused):
        FORM.unpack(HOSTILE[name])


def test_a_round_comes_as_it_went():
    one = FORM.unpack(asked(3, (0.5, -MOST), run=9, lot=1, devices=4))
    assert one._replace(theta=None) == Round(9, 3, 1, 4, None)
    assert one.theta.tolist() == [0.5, -MOST]
    assert one.theta.dtype == np.float32
    assert one.question == 9 * 2**32 + 3
    assert RoundFormat.of(manifest()).size == FORM.size


def test_all_take_turns_and_each_lot_is_as_large():
    counts = np.zeros(50, int)
    for number in range(1, 501):
        one = Round(1, number, 14, 50, np.zeros(2))
        here = [turn for turn in range(50) if one.asks(turn)]
        assert len(here) == 14
        assert not one.asks(None)
        counts[here] += 1
    assert set(counts) == {140}
    assert Round(1, 5, 3, 3, np.zeros(2)).asks(None)


class Pipe:
    def __init__(self):
        self.end, self.ours = os.pipe()
        self.refused = []
        self.reader = RoundReader(self.end, FORM, self.refused.append)

    def send(self, data):
        os.write(self.ours, data)
        return self.reader.newest()


@pytest.fixture
def pipe():
    return Pipe()


def test_the_newest_round_counts_and_nothing_is_waited_for(pipe):
    assert pipe.reader.newest() is None
    assert pipe.send(asked(1) + asked(2) + asked(3)[:10]).number == 2
    assert pipe.reader.newest() is None
    assert pipe.send(asked(3)[10:]).number == 3
    assert pipe.send(asked(3)).number == 3  # asked again: the line before had no budget
    os.close(pipe.ours)
    assert pipe.reader.newest() is None
    assert pipe.reader.ended
    assert pipe.refused == []


def test_another_run_and_an_earlier_round_are_refused_and_counted(pipe):
    assert pipe.send(asked(5)).number == 5
    assert pipe.send(asked(6, run=8)) is None
    assert pipe.send(asked(4)) is None
    assert pipe.refused == ["it is of another run", "it is of an earlier round"]
    assert pipe.send(asked(6)).number == 6


@pytest.mark.parametrize("name", sorted(set(HOSTILE) - {"nothing"}))
def test_a_good_round_is_heard_after_a_hostile_one(pipe, name):
    assert pipe.send(asked(1)).number == 1
    pipe.send(HOSTILE[name])
    # What was cut off takes the head of the next with it, and no more.
    assert (pipe.send(asked(2)) or pipe.send(asked(3))).number in (2, 3)
    assert pipe.refused


def test_a_flood_of_nonsense_is_bounded_in_memory(pipe):
    junk = np.random.default_rng(0).bytes(1 << 14)
    for _ in range(20):
        pipe.send(junk)
        assert len(pipe.reader._left) < 4 * FORM.size
    assert len(pipe.refused) > 100
    while pipe.send(asked(2)) is None:
        pass


def test_the_writer_never_waits_and_keeps_its_place():
    end, ours = os.pipe()
    writer = RoundWriter(ours)
    heard, refused = RoundReader(end, RoundFormat(4096, 1.0), refused=None), []
    one = RoundFormat(4096, 1.0).pack(Round(1, 1, 1, 1, np.zeros(4096)))
    taken = 0
    while writer.offer(one):  # until the pipe is full, in the middle of a record
        taken += 1
    assert 2 < taken < 20
    assert not writer.offer(one)
    found = 0
    while not (writer.flush() and found):
        found += heard.newest() is not None
    assert heard.newest() is None or not refused
    os.close(end)
    assert writer.offer(one)  # under way, as far as it knows
    assert not writer.offer(one)


def test_a_record_may_say_whose_it_is_and_a_changed_one_is_broken():
    outputs = manifest().outputs
    frame = PerturbedFrame(1, {"report": np.array([1, -1], np.int8)}, _PIPELINE)
    plain, told = Layout(outputs), Layout(outputs, subjects=True)
    assert told.size == plain.size + 8
    data = told.pack(frame, 5, subject=2**64 - 3)
    record = told.unpack(data)
    assert (record.number, record.subject, record.frame.data.tolist()) == (5, 2**64 - 3, [1, -1])
    assert plain.unpack(plain.pack(frame, 5)).subject == 0
    with pytest.raises(RecordBroken):
        told.unpack(data[:22] + bytes([data[22] ^ 1]) + data[23:])


def test_a_record_may_say_which_draws_it_repeats():
    outputs = manifest().outputs
    frame = PerturbedFrame(1, {"report": np.array([1, -1], np.int8)}, _PIPELINE, drawn=2**64 - 5)
    both = Layout(outputs, subjects=True, draws=True)
    assert both.size == Layout(outputs, draws=True).size + 8 == Layout(outputs).size + 16
    record = both.unpack(both.pack(frame, 5, subject=7))
    assert (record.subject, record.frame.drawn, record.frame.data.tolist()) == (7, 2**64 - 5, [1, -1])
    assert Layout(outputs).unpack(Layout(outputs).pack(frame, 5)).frame.drawn == 0


def test_no_mutation_of_a_round_gets_past_its_bounds():
    rng, taken = np.random.default_rng(1), 0
    good = asked(3, (0.5, -1.0))
    for _ in range(4000):
        data = bytearray(good)
        for place in rng.integers(4, len(good) - 4, rng.integers(1, 5)):
            data[place] = rng.integers(0, 256)
        try:
            one = FORM.unpack(sealed(bytes(data)))
        except RoundRefused:
            continue
        taken += 1
        assert 0 < one.run < 2**31
        assert one.number > 0
        assert 0 < one.lot <= one.devices
        assert (np.abs(one.theta) <= MOST).all()
        assert FORM.unpack(FORM.pack(one)).question == one.question
    assert 100 < taken < 3900
