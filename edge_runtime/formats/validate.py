"""Small checks of one value each, which say where it stands, what was expected there and what came.

``at`` is the place, as in ``stages[1].model``. Types are exact: True is no number here, 1.0 no whole number. A value is
shown cut short and in ASCII, so that no text of a bundle can play tricks on a terminal.
"""

import math
import re
from typing import Any, Dict, Iterable, List, NoReturn

from edgeveil.edge_runtime.errors import BundleRefused

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9._-]*")
HEX_64 = re.compile(r"[0-9a-f]{64}")
MAX_IDENTIFIER = 80
MAX_ELEMENTS = 2**26  # of one array; with float32 that is the size of the largest bundle
MAX_RANK = 6


def refuse(reason: str, at: str, problem: str) -> NoReturn:
    """Raise ``BundleRefused`` for the place ``at``, with a word for programs and a sentence for people."""
    message = "The manifest is not one to follow: {}: {}. Export and seal it again with this version of EdgeVeil."
    raise BundleRefused(reason, message.format(at, problem))


def show(value: Any) -> str:
    """A value for a message: short, in ASCII, without control characters."""
    if isinstance(value, (dict, list)):
        return "{} of {}".format("an object" if isinstance(value, dict) else "a list", len(value))
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _wrong_type(at: str, expected: str, value: Any) -> NoReturn:
    refuse("wrong-type", at, "expected {}, got {}".format(expected, show(value)))


def record(value: Any, at: str, keys: Iterable[str]) -> Dict[str, Any]:
    """An object with exactly these keys."""
    if type(value) is not dict:
        _wrong_type(at, "an object", value)
    wanted = set(keys)
    for key in sorted(value):
        if key not in wanted:
            refuse("unknown-key", at, "the key {} is not known here".format(show(key)))
    for key in sorted(wanted):
        if key not in value:
            refuse("missing-key", at, "the key '{}' is missing".format(key))
    return value


def mapping(value: Any, at: str, low: int = 0, high: int = 64) -> Dict[str, Any]:
    """An object whose keys are identifiers of the bundle's own."""
    if type(value) is not dict:
        _wrong_type(at, "an object", value)
    _count(value, at, low, high)
    for key in value:
        identifier(key, "{} (a key of it)".format(at))
    return value


def sequence(value: Any, at: str, low: int = 0, high: int = 64) -> List[Any]:
    """A list of so many entries, whatever they are."""
    if type(value) is not list:
        _wrong_type(at, "a list", value)
    _count(value, at, low, high)
    return value


def _count(value: Any, at: str, low: int, high: int) -> None:
    if not low <= len(value) <= high:
        refuse("bad-count", at, "expected {} to {} entries, got {}".format(low, high, len(value)))


def truth(value: Any, at: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        _wrong_type(at, "true or false", value)
    return value


def whole(value: Any, at: str, low: int = 0, high: int = 2**53) -> int:
    """A whole number from ``low`` to ``high``."""
    if type(value) is not int:
        _wrong_type(at, "a whole number", value)
    if not low <= value <= high:
        refuse("bad-value", at, "expected {} to {}, got {}".format(low, high, value))
    return value


def real(value: Any, at: str, low: float = -1e30, high: float = 1e30) -> float:
    """A finite number from ``low`` to ``high``, whole or not."""
    if type(value) not in (int, float):
        _wrong_type(at, "a number", value)
    if not (math.isfinite(value) and low <= value <= high):
        refuse("bad-value", at, "expected {:g} to {:g}, got {}".format(low, high, show(value)))
    return value


def text(value: Any, at: str, high: int = 200) -> str:
    """Printable text: no control characters, no direction marks, no halves of surrogate pairs."""
    if type(value) is not str:
        _wrong_type(at, "text", value)
    if len(value) > high or not value.isprintable():
        refuse("bad-value", at, "expected at most {} printable characters, got {}".format(high, show(value)))
    return value


def identifier(value: Any, at: str) -> str:
    """A name that the bundle gives to something of its own."""
    if type(value) is not str:
        _wrong_type(at, "a name", value)
    if len(value) > MAX_IDENTIFIER or not IDENTIFIER.fullmatch(value):
        expected = "at most {} of a-z 0-9 . _ -, the first a letter or digit".format(MAX_IDENTIFIER)
        refuse("bad-value", at, "expected {}, got {}".format(expected, show(value)))
    return value


def one_of(value: Any, at: str, options: Iterable[str]) -> str:
    """One of some words."""
    if type(value) is not str:
        _wrong_type(at, "text", value)
    if value not in options:
        refuse("bad-value", at, "expected one of {}, got {}".format(", ".join(options), show(value)))
    return value


def sha256(value: Any, at: str) -> str:
    """A SHA-256 as 64 lower-case hexadecimal digits."""
    if type(value) is not str:
        _wrong_type(at, "a SHA-256 in hexadecimal", value)
    if not HEX_64.fullmatch(value):
        refuse("bad-value", at, "expected 64 lower-case hexadecimal digits, got {}".format(show(value)))
    return value


def shape(value: Any, at: str, low_rank: int = 1, high_rank: int = MAX_RANK) -> List[int]:
    """The shape of an array: positive whole numbers whose product is bounded."""
    sequence(value, at, low_rank, high_rank)
    elements = 1
    for place, size in enumerate(value):
        elements *= whole(size, "{}[{}]".format(at, place), 1, MAX_ELEMENTS)
    if elements > MAX_ELEMENTS:
        refuse("bad-value", at, "expected at most {} elements, got {}".format(MAX_ELEMENTS, elements))
    return value


def bounds(owner: Dict[str, Any], at: str, features: int) -> None:
    """``low`` and ``high`` of a range: two numbers, or two lists with one number per feature; low below high.

    Both null: no range, x goes through as it is.
    """
    low, high = owner["low"], owner["high"]
    if low is None and high is None:
        return
    if type(low) is not list and type(high) is not list:
        pairs = [(real(low, at + ".low"), real(high, at + ".high"))]
    else:
        for side, values in (("low", low), ("high", high)):
            sequence(values, "{}.{}".format(at, side), features, features)
            for place, number in enumerate(values):
                real(number, "{}.{}[{}]".format(at, side, place))
        pairs = list(zip(low, high))
    for below, above in pairs:
        if not below < above:
            refuse("bad-value", at, "expected low below high, got {} and {}".format(show(below), show(above)))
