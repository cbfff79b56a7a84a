"""A stream whose codes are not those of the audit any more: said, and what the owner's policy says is done."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.policy import OnShift, read_policy
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, PrivacyStop
from edgeveil.edge_runtime.ext.shift.outside import ShiftWatch
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from tests.support import network_receivers

AUDIT = {"histogram": {"output": "label", "counts": [900, 100], "effective": 1000.0, "blank": None}}


@pytest.fixture
def watched():
    """A function to a watch of a stream, what it said and what it told sinks."""

    def made(demand=None, audit=AUDIT):
        stream = SimpleNamespace(now=0.0, said=[], told=[])
        bundle = SimpleNamespace(manifest=network_receivers.MANIFEST)
        policy = None if demand is None else SimpleNamespace(on_shift=demand)
        stream.watch = ShiftWatch(
            SimpleNamespace(bundle=bundle, policy=policy, audit=audit),
            clock=lambda: stream.now,
            say=lambda event, message, **facts: stream.said.append(message),
            looked=stream.told.append,
        )
        return stream

    return made


def frame(value, label):
    outputs = {"frame": np.full((4, 5, 1), value, np.uint8), "label": np.int64(label)}
    return PerturbedFrame(0, outputs, _PIPELINE)


FLAT = [frame(255, 0)]


def run(stream, share, minutes=30, seed=0):
    """So many minutes with a frame a second, of which ``share`` are of class 1; what left."""
    left = []
    for label in np.random.default_rng(seed).random(60 * minutes) < share:
        left += stream.watch.guard([frame(7, int(label))], FLAT)
        stream.now += 1.0
    return left


def test_a_stream_as_audited_goes_on_unchanged(watched):
    stream = watched(OnShift("stop", 0.25))
    left = run(stream, 0.1)
    assert all(one.data[0, 0, 0] == 7 for one in left)
    assert stream.watch.document()["state"] == "as audited"
    assert stream.said == []
    assert len(stream.told) == 29


def test_without_a_policy_a_shift_is_said_once_and_told_each_minute(watched):
    stream = watched()
    left = run(stream, 0.9)
    assert all(one.data[0, 0, 0] == 7 for one in left)
    assert [message[:43] for message in stream.said] == ["the codes of the last hour are not those of"]
    assert stream.watch.document()["state"] == stream.told[-1]["state"] == "shifted"
    run(stream, 0.1, minutes=70)
    assert stream.said[1:] == ["the codes are as audited again"]


def test_a_policy_ends_the_service(watched):
    with pytest.raises(PrivacyStop, match="the policy says to stop"):
        run(watched(OnShift("stop", 0.25)), 0.9)


def test_a_policy_falls_back_to_label_only_for_good(watched):
    stream = watched(OnShift("label-only", 0.25))
    run(stream, 0.9)
    assert stream.watch.label_only
    told, document = list(stream.told), stream.watch.document()
    left = run(stream, 0.1, minutes=70)
    assert {int(one.data[0, 0, 0]) for one in left} == {255}  # the flat frame, whatever is seen
    assert {int(one.outputs["label"]) for one in left} == {0, 1}
    assert document["label_only"] is True
    assert (stream.told, stream.watch.document()) == (told, document)  # no figure is of codes that do not leave


def test_a_bundle_whose_audit_counted_nothing_is_not_watched(watched):
    stream = watched(audit={})
    assert len(run(stream, 0.9, minutes=2)) == 120
    assert stream.watch.document() == {"state": "not watched", "label_only": False}
    assert stream.told == []


def policy(**on_shift):
    return read_policy(json.dumps({"schema": 1, "hide": [], "on_shift": on_shift}).encode())


def test_a_policy_may_ask_for_this_alone():
    found = policy(do="label-only", most_shift=0.3)
    assert found.on_shift == OnShift("label-only", 0.3)


@pytest.mark.parametrize(
    ("on_shift", "words"),
    [
        ({"do": "wait", "most_shift": 0.3}, "expected one of label-only, stop"),
        ({"do": "stop", "most_shift": 1}, "between 0 and 1"),
        ({"do": "stop", "most_shift": True}, "expected a number"),
        ({"do": "stop"}, "the key 'most_shift' is missing"),
    ],
)
def test_a_policy_that_says_something_else_is_refused(on_shift, words):
    with pytest.raises(BadInput, match=words):
        policy(**on_shift)


def test_a_bundle_that_cannot_be_held_to_it_is_refused():
    with pytest.raises(BundleRefused, match="how often each code left"):
        policy(do="stop", most_shift=0.3).check(network_receivers.MANIFEST, {})
