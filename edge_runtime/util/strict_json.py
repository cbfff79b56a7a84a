"""Strict JSON (RFC 8259) with limits: a text has one meaning, and none can exhaust the parser.

Python's own parser takes the last of two equal keys, NaN and Infinity, numbers that overflow to infinity, UTF-16, and
any depth. Two parsers must not read one signed text differently, so all of these are refused.
"""

import json
import math
import re
from typing import Any, Dict, List, Tuple

MAX_DEPTH = 16
MAX_DIGITS = 32  # of one number as it is written

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # closed or not, so that each byte is looked at once
_BRACKET = re.compile(r"[][{}]")


class BadJson(ValueError):
    """A text is not strict JSON. ``reason`` is ``json-syntax``, ``json-duplicate-key``, ``json-number``,
    ``json-depth`` or ``json-encoding``; the message says what is wrong with it."""

    def __init__(self, reason: str, message: str) -> None:
        super(BadJson, self).__init__(message)
        self.reason = reason


def loads(data: bytes) -> Any:
    """The value of a JSON text, whose size the caller limits. Raises :class:`BadJson`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJson("json-encoding", "it is not UTF-8 from byte {} on".format(error.start)) from None
    _check_depth(text)
    try:
        return json.loads(
            text, object_pairs_hook=_distinct, parse_int=_whole, parse_float=_real, parse_constant=_no_constant
        )
    except BadJson:
        raise
    except ValueError as error:
        raise BadJson("json-syntax", "it is not JSON: {}".format(error)) from None


def dumps(value: Any) -> bytes:
    """The canonical spelling of a value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise BadJson("json-depth", "it is nested more than {} deep".format(MAX_DEPTH))


def _distinct(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise BadJson("json-duplicate-key", "it has the key {} twice in one place".format(ascii(key[:80])))
            seen.add(key)
    return result


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise BadJson("json-number", "a number has more than {} digits".format(MAX_DIGITS))
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if len(digits) > MAX_DIGITS or not math.isfinite(number):
        raise BadJson("json-number", "{}... is out of range or has more than {} digits".format(digits[:20], MAX_DIGITS))
    return number


def _no_constant(name: str) -> Any:
    raise BadJson("json-number", "{} is no JSON number".format(name))
