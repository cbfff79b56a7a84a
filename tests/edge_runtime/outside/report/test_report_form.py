"""A report has one size, one spelling and one signature."""

import copy
import os

import pytest

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.outside.report import report_form as form
from edgeveil.edge_runtime.signing import envelope
from edgeveil.edge_runtime.signing.device_key import DeviceKey
from tests.support.reporting.board_reports import document

KEY = DeviceKey(bytes(range(32)))


def test_what_is_read_is_what_was_sealed():
    report = form.read(form.sealed(document(number=7), KEY))
    assert report.key == KEY.public
    assert {**report.document, "logs": [], "pad": ""} == {**document(number=7), "logs": [], "pad": ""}


def test_its_size_says_nothing():
    least = document()
    for part in ("release", "update", "health"):
        least[part] = dict.fromkeys(least[part])
    least.update(floor=None, runtime=None, index_age_s=None)
    most = document(number=10**15, unsent=10**9)
    most["release"] = {"sha256": "a" * 64, "name": '"' * 120, "security_version": 10**18}
    most["update"] = {"outcome": "trial-failed", "reason": "x" * 120, "at_s": 10**10}
    most.update(board="b" * 64, runtime="c" * 120)
    assert {len(form.sealed(one, KEY)) for one in (least, document(), most)} == {form.BYTES}
    assert {len(form.sealed(one, KEY, logs)) for one in (least, most) for logs in ([], ["x"] * 10**4)} == {
        form.BYTES_WITH_LOGS
    }


def test_of_the_log_the_last_lines_are_taken():
    lines = [strict_json.dumps({"event": "tick", "n": n}).decode() for n in range(2000)]
    taken = form.read(form.sealed(document(), KEY, lines)).document["logs"]
    assert 100 < len(taken) < 2000
    assert taken == lines[-len(taken) :]
    assert form.read(form.sealed(document(), KEY, lines[:3])).document["logs"] == lines[:3]


def test_any_byte_that_is_changed_is_seen():
    data = form.sealed(document(), KEY)
    for place in (30, 150, 900, form.BYTES - 200, form.BYTES - 20):
        changed = bytearray(data)
        changed[place] = ord("1") if changed[place] != ord("1") else ord("2")
        with pytest.raises(BundleRefused):
            form.read(bytes(changed))


def test_a_signature_of_another_kind_of_text_does_not_serve():
    payload = strict_json.dumps({**document(), "logs": [], "pad": ""})
    size = form.BYTES - len(envelope.wrap(payload, KEY.public, bytes(64)))
    payload = strict_json.dumps({**document(), "logs": [], "pad": "." * size})
    forged = envelope.wrap(payload, KEY.public, KEY.sign(envelope.message("index", payload)))
    assert len(forged) == form.BYTES
    with pytest.raises(BundleRefused) as refused:
        form.read(forged)
    assert refused.value.reason == "bad-signature"


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": "1"},
        {"number": True},
        {"board": 3},
        {"schema": 2},
        {"floor": "0"},
        {"release": None},
        {"health": {"service": "active"}},
        {"update": {"outcome": "\x1b[2J", "reason": "", "at_s": 0}},
        {"update": {"outcome": "x" * 121, "reason": "", "at_s": 0}},
        {"faces": 3},
    ],
)
def test_what_a_device_may_not_say(wrong):
    with pytest.raises(BundleRefused):
        form.read(form.sealed({**copy.deepcopy(document()), **wrong}, KEY))


@pytest.mark.parametrize("data", [b"", b"x" * form.BYTES, b"x" * (form.BYTES + 1)])
def test_other_bytes(data):
    with pytest.raises(BundleRefused):
        form.read(data)
    with pytest.raises(BundleRefused):
        form.read(os.urandom(form.BYTES_WITH_LOGS))
