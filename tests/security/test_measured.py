"""What was measured and what is allowed agree: no call that an interpreter or a source made and needs is refused."""

import json

from edgeveil.edge_runtime.sandbox import allowed_calls
from tests.security.measure import RECORD

# ONNX Runtime would keep a database of its own use; it runs as well without.
REFUSED = {"chmod", "mkdir", "openat"}


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
