"""What was measured and what is allowed agree: no call that an interpreter or a source made and needs is refused."""

import json

from edgeveil.edge_runtime.sandbox import allowed_calls
from tests.security.measure import RECORD

# ONNX Runtime would keep a database of its own use, OpenBLAS its memory near its processor; both run as well without.
REFUSED = {"chmod", "mbind", "mkdir", "openat"}


# Of the resolver, which would ask a cache on this machine; and of OpenCV, which looks for the limits of its group.
REFUSED_FETCHING = {"socket", "openat"}


def test_every_call_of_what_fetches_frames_is_allowed():
    found = json.loads(RECORD.read_text())["fetching"]
    assert set(found) == {"http", "rtsp"}
    rules = allowed_calls.fetching(1)
    for kind, made in found.items():
        assert set(made["refused"]) <= REFUSED_FETCHING, kind
        assert set(made["calls"]) - {"clone3"} <= rules.allowed | set(rules.checked), kind


def test_every_call_that_was_measured_is_allowed():
    cases = json.loads(RECORD.read_text())["cases"]
    assert len(cases) >= 10
    backends = {"tflite": "ai-edge-litert", "onnx": "onnxruntime", "numpy": "numpy"}
    for case, found in cases.items():
        words, source = case.split(" ")
        kind = "simulate" if source == "threads" else source
        rules = allowed_calls.rules(kind + ":x", [backends[words.split("-")[0]]], "cpu", 1, settled=False)
        assert set(found["refused"]) <= REFUSED, case
        # clone3 is answered with "no such call", and clone is used then.
        assert set(found["calls"]) - set(found["refused"]) - {"clone3"} <= rules.allowed | set(rules.checked), case
