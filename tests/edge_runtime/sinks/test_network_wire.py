"""sinks.network.wire: what leaves is the frame and its tick, in one size, and comes back the same."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks import wire
from tests.support import network_receivers


def test_there_and_back():
    form = wire.Format(network_receivers.OUTPUTS, network_receivers.MANIFEST)
    frame = network_receivers.frame(7, slot=2)
    record = form.decode(form.encode(frame, b"streamid", 41))
    assert record[:4] == (b"streamid".hex() + "-41", 7, 10**18 + 7 * 10**8, 2)
    for name, value in frame.outputs.items():
        assert np.array_equal(record.outputs[name], value)
        assert record.outputs[name].dtype == value.dtype


def test_the_layout_is_the_one_that_is_written_down():
    form = wire.Format(network_receivers.OUTPUTS)
    data = form.encode(network_receivers.frame(5, slot=1), b"12345678", 3)
    assert data[:4] == b"EVF1"
    assert data[4:8].hex() == form.document["key"]
    assert data[8:16] == b"12345678"
    assert [
        int.from_bytes(data[a:b], "big") for a, b in ((16, 24), (24, 32), (32, 40), (40, 42), (42, 44), (44, 48))
    ] == [
        3,
        5,
        10**18 + 5 * 10**8,
        1,
        0,
        28,
    ]
    assert data[48:] == bytes([5] * 20) + (1).to_bytes(8, "little")


def test_another_bundle_is_another_format():
    one = wire.Format(network_receivers.OUTPUTS, network_receivers.MANIFEST)
    other = wire.Format(network_receivers.OUTPUTS, network_receivers.MANIFEST._replace(security_version=2))
    record = one.encode(network_receivers.frame(0), b"12345678", 0)
    assert one.mine(record)
    assert not other.mine(record)
    for wrong in (record[:-1], record + b"\0", b"", b"EVF2" + record[4:]):
        with pytest.raises(BadInput, match="expected a record"):
            one.decode(wrong)
