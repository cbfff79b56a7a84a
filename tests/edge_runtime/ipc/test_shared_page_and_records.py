"""One counter read without the page, and records that come in pieces."""

import os

import numpy as np
import pytest

from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.ipc.counters import Counters, shared_page
from edgeveil.edge_runtime.ipc.record import Layout, RecordReader
from edgeveil.edge_runtime.manifest.manifest import Output


def test_one_process_reads_what_another_adds_by_name():
    page = shared_page()
    inside, outside = Counters(page), Counters(page)
    assert outside.get("frames-in") == 0
    assert outside.all() == {}  # to look is not to add
    inside.add("busy-us", 7)
    inside.add("frames-in")
    assert outside.get("frames-in") == 1
    inside.add("frames-in", 4)
    inside.set("busy-us", -3)
    assert (outside.get("frames-in"), outside.get("busy-us")) == (5, -3)
    assert outside.all() == {"busy-us": -3, "frames-in": 5}
    outside.clear()
    assert (outside.get("frames-in"), outside.all()) == (0, {})
    with pytest.raises(ValueError, match="a counter's name"):
        inside.add("Not a name")
    with pytest.raises(ValueError, match="full"):
        fill(outside)


def fill(counters):
    for number in range(400):
        counters.add(f"n{number}")


@pytest.mark.parametrize("values", [3, 400_000])  # many records in a read; a record in many reads
def test_records_are_whole_however_they_come(values):
    layout = Layout([Output("frame", "frame", "x", (values,), "uint8", None)])
    rows = np.random.default_rng(0).integers(0, 256, (9, values)).astype(np.uint8)
    frames = [PerturbedFrame(0, {"frame": row}, _PIPELINE) for row in rows]
    data = b"".join(layout.pack(frame, number) for number, frame in enumerate(frames))
    read, write = os.pipe()
    reader, came = RecordReader(read, layout), []
    for at in range(0, len(data), 50_000):
        os.write(write, data[at : at + 50_000])
        came += reader.records()
    assert [record.number for record in came] == list(range(9))
    assert np.array_equal([record.frame.data for record in came], rows)
    os.write(write, data[:20])  # cut short by the end of its writer
    os.close(write)
    assert list(reader.records()) == []
    assert reader.ended
    os.close(read)
