"""sinks.network.wire: what leaves is the frame and its tick, in one size, and comes back the same."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ] == [3, 5, 10**18 + 5 * 10**8, 1, 0, 28]
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


@given(st.lists(st.text(st.sampled_from("ab_-./ :ä"), min_size=1, max_size=6), min_size=2, max_size=6, unique=True))
def test_no_two_topics_and_no_two_places_share_an_identity_of_home_assistant(texts):
    for plain in ("[A-Za-z0-9/-]+", "[A-Za-z0-9_-]+"):
        words = [wire._word(text, plain) for text in texts]
        assert len(set(words)) == len(texts), words
        assert all(re.fullmatch("[A-Za-z0-9_-]+", word) for word in words)


def test_a_plain_topic_keeps_the_identity_that_it_had():
    assert wire._word("hall/door-1", "[A-Za-z0-9/-]+") == "hall_door-1"
    assert wire._word("front_door") == "front_door"
    assert wire._word("hall_door", "[A-Za-z0-9/-]+") != "hall_door"
