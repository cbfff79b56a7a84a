"""mcap: what the mcap library and rosbags read is what left; `recipe new` takes it as data."""

import numpy as np
import pytest
from mcap.reader import make_reader
from rosbags.typesys import Stores, get_typestore

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.util import atomic
from edgeveil.edge_runtime.util.atomic import WriteFailed
from edgeveil.trainer.datasets.columns import read_table
from tests.edge_runtime.sinks.test_forms import bundle
from tests.support import network_receivers


def messages(path):
    """Topic, time and fields of each message."""
    store = get_typestore(Stores.ROS2_JAZZY)
    with path.open("rb") as file:
        for schema, channel, message in make_reader(file, validate_crcs=True).iter_messages():
            yield channel.topic, message.log_time, store.deserialize_cdr(message.data, schema.name)


def test_a_frame_and_its_label_are_topics_of_ros(tmp_path):
    path = tmp_path / "a.mcap"
    sink = open_sink(f"mcap:{path}", network_receivers.OUTPUTS, network_receivers.MANIFEST)
    frames = [network_receivers.frame(n) for n in (0, 2, 5)]
    for frame in frames:
        sink.write(frame)
    assert not path.exists()
    sink.close()
    found = list(messages(path))
    assert [(topic, now) for topic, now, _ in found] == [
        ("/x", frames[0].tick_ns),
        ("/label", frames[0].tick_ns),
        ("/x", frames[1].tick_ns),
        ("/x", frames[2].tick_ns),
        ("/label", frames[2].tick_ns),
    ]
    assert [one.data for topic, _, one in found if topic == "/label"] == ["empty", "walking"]
    pictures = [one for topic, _, one in found if topic == "/x"]
    assert [(one.height, one.width, one.encoding, one.data[0]) for one in pictures] == [
        (4, 5, "mono8", n) for n in (0, 2, 5)
    ]
    table = read_table("mcap", path, x="/x")  # as training reads it
    assert table.arrays["/x"].stacked()[:, 0, 0, 0].tolist() == [0, 2, 5]
    assert table.columns["/label"].classes.tolist() == ["empty", "empty", "walking"]


@pytest.mark.parametrize(("shape", "dtype"), [((3,), "float32"), ((6, 2), "float32"), ((2, 3, 4), "int8")])
def test_other_arrays_keep_their_shape(tmp_path, shape, dtype):
    manifest = bundle(shape, dtype, kind="vector", low=0.0, high=1.0)
    value = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    path = tmp_path / "a.mcap"
    sink = open_sink(f"mcap:{path}?fps=4", manifest.outputs, manifest)
    for n in range(2):  # of a file source: without a time
        sink.write(PerturbedFrame(n, {"frame": value + n, "label": np.int64(7)}, _PIPELINE))
    sink.close()
    found = [(now, one) for topic, now, one in messages(path) if topic == "/x"]
    assert [now for now, _ in found] == [0, 250_000_000]
    layout = found[1][1].layout
    assert tuple(one.size for one in layout.dim) == shape
    assert layout.dim[0].stride == value.size
    assert np.array_equal(found[1][1].data.reshape(shape), value + 1)
    assert [one.data for topic, _, one in messages(path) if topic == "/label"] == ["7"]  # a class that has no name


def test_parts_rotate_and_a_privacy_stop_leaves_nothing(tmp_path):
    sink = open_sink(f"mcap:{tmp_path}/parts?rotate=1kB", network_receivers.OUTPUTS, network_receivers.MANIFEST)
    for n in range(60):
        sink.write(network_receivers.frame(n))
    sink.close()
    parts = sorted((tmp_path / "parts").glob("part-*.mcap"))
    assert len(parts) > 1
    seen = [one.data[0] for part in parts for topic, _, one in messages(part) if topic == "/x"]
    assert seen == list(range(60))
    stopped = open_sink(f"mcap:{tmp_path}/b.mcap", network_receivers.OUTPUTS, network_receivers.MANIFEST)
    stopped.write(network_receivers.frame(1))
    stopped.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_a_disk_that_is_full_is_said_before_a_message_is_cut(tmp_path, monkeypatch):
    sink = open_sink(f"mcap:{tmp_path}/a.mcap", network_receivers.OUTPUTS, network_receivers.MANIFEST)
    sink.write(network_receivers.frame(1))
    monkeypatch.setattr(atomic, "MARGIN_BYTES", 2**62)
    with pytest.raises(WriteFailed, match="space"):
        sink.write(network_receivers.frame(2))
    sink.close()
    assert [one.data[0] for topic, _, one in messages(tmp_path / "a.mcap") if topic == "/x"] == [1]


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"a name ending in \.mcap"):
        open_sink(f"mcap:{tmp_path}/a.bag", network_receivers.OUTPUTS)
