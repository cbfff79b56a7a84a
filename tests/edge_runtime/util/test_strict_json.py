"""One text, one meaning: what Python's reader lets through and this one does not."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.edge_runtime.util.strict_json import MAX_DEPTH, BadJson, dumps, loads

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(values)
@settings(deadline=None)
def test_what_was_written_is_read(value):
    for data in (dumps(value), json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")):
        try:
            again = loads(data)
        except BadJson:
            assert not data.isascii()  # half of a surrogate pair, which UTF-8 has no way to write
            continue
        assert again == value
        assert dumps(again) == dumps(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a":1,"a":2}', "json-duplicate-key"),
        (b'[{"a":{"b":1,"\\u0062":1}}]', "json-duplicate-key"),
        (b"NaN", "json-number"),
        (b"-Infinity", "json-number"),
        (b"1e400", "json-number"),
        (b"-1e400", "json-number"),
        (b"0." + b"1" * 40, "json-number"),
        (b"9" * 33, "json-number"),
        (b"\xff", "json-encoding"),
        (b"\xed\xa0\x80", "json-encoding"),
        ("[1]".encode("utf-32"), "json-encoding"),
        ("[1]".encode("utf-16-le"), "json-syntax"),
        (b"", "json-syntax"),
        (b"[1,]", "json-syntax"),
        (b"{'a':1}", "json-syntax"),
        (b'"\n"', "json-syntax"),
        (b"01", "json-syntax"),
        (b"[1] 2", "json-syntax"),
        (b"\xef\xbb\xbf[]", "json-syntax"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "json-depth"),
        (b'{"a":' * 500_000, "json-depth"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_refused(text, reason):
    with pytest.raises(BadJson) as error:
        loads(text)
    assert error.value.reason == reason


def test_depth_is_counted_outside_strings_only():
    assert loads(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert loads(b'["' + b"[{" * 99 + b'\\"[[[[[[[[[[[[[[[[["]')
    with pytest.raises(BadJson, match="nested"):
        loads(b'["\\\\", ' + b"[" * MAX_DEPTH)


@pytest.mark.parametrize("text", [b'"\\' * 2**19, b'\\"' * 2**19, b'"' * 2**20, b"[]" * 2**19, b'"a' * 2**19])
def test_no_text_keeps_it_busy(text):
    started = time.process_time()
    with pytest.raises(BadJson):
        loads(text)
    assert time.process_time() - started < 3
