"""Small checks of one value each, whose errors give its place, what was expected and what came.

``at`` is the place, as in ``stages[1].model``. Types are exact: True is no number here, 1.0 no whole number. Messages
show a value cut short and in ASCII, so that no text of a bundle can send control characters to a terminal.
"""

import contextlib
import math
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, NoReturn, Optional, Tuple, TypeVar

from edgeveil.edge_runtime.errors import BundleRefused

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9._-]*")
HEX_64 = re.compile(r"[0-9a-f]{64}")
MAX_IDENTIFIER = 80
MAX_ELEMENTS = 2**26  # of one array; with float32 that is the size of the largest bundle
MAX_RANK = 6

Checked = TypeVar("Checked")


class _Malformed(BundleRefused):
    """A value is not what it must be; the message is that for a manifest."""

    def __init__(self, reason: str, at: str, problem: str) -> None:
        message = "The manifest is not one to follow: {}: {}. Export and seal it again with this version of EdgeVeil."
        super(_Malformed, self).__init__(reason, message.format(at, problem))
        self.at, self.problem = at, problem


def refuse(reason: str, at: str, problem: str) -> NoReturn:
    """Raise ``BundleRefused`` for the place ``at``, with a word for programs and a sentence for readers."""
    raise _Malformed(reason, at, problem)


@contextlib.contextmanager
def reading(name: str, cure: str) -> Iterator[None]:
    """The refusals of these checks in the block are of the file ``name``; ``cure`` is the end of their sentence."""
    try:
        yield
    except _Malformed as error:
        message = "{} is not one to follow: {}: {}. {}"
        raise BundleRefused(error.reason, message.format(name, error.at, error.problem, cure)) from None


def show(value: Any) -> str:
    """A value for a message: short, in ASCII, without control characters."""
    if isinstance(value, (dict, list)):
        return "{} of {}".format("an object" if isinstance(value, dict) else "a list", len(value))
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_type(value: Any, at: str, types: Tuple[type, ...], expected: str) -> None:
    if type(value) not in types:
        refuse("wrong-type", at, "expected {}, got {}".format(expected, show(value)))


def record(value: Any, at: str, keys: Iterable[str]) -> Dict[str, Any]:
    """An object with exactly these keys."""
    _check_type(value, at, (dict,), "an object")
    wanted = set(keys)
    for key in sorted(value):
        if key not in wanted:
            refuse("unknown-key", at, "the key {} is not known here".format(show(key)))
    for key in sorted(wanted):
        if key not in value:
            refuse("missing-key", at, "the key '{}' is missing".format(key))
    return value


def mapping(value: Any, at: str, low: int = 0, high: int = 64) -> Dict[str, Any]:
    """An object of ``low`` to ``high`` entries whose keys are identifiers."""
    _check_type(value, at, (dict,), "an object")
    _count(value, at, low, high)
    for key in value:
        identifier(key, "{} (a key of it)".format(at))
    return value


def sequence(value: Any, at: str, low: int = 0, high: int = 64) -> List[Any]:
    """A list of ``low`` to ``high`` entries of any kind."""
    _check_type(value, at, (list,), "a list")
    _count(value, at, low, high)
    return value


def each(value: Any, at: str, check: Callable[[Any, str], Checked], low: int = 0, high: int = 64) -> List[Checked]:
    """What ``check(entry, place)`` returns for each entry of a list of ``low`` to ``high`` entries."""
    entries = sequence(value, at, low, high)
    return [check(entry, "{}[{}]".format(at, place)) for place, entry in enumerate(entries)]


def fields(value: Any, at: str, **checks: Callable[[Any, str], Any]) -> Dict[str, Any]:
    """An object with exactly these keys, each value as its ``check(value, place)`` returns it."""
    record(value, at, checks)
    return {key: check(value[key], "{}.{}".format(at, key)) for key, check in checks.items()}


def _count(value: Any, at: str, low: int, high: int) -> None:
    if not low <= len(value) <= high:
        refuse("bad-count", at, "expected {} to {} entries, got {}".format(low, high, len(value)))


def truth(value: Any, at: str) -> bool:
    """True or false."""
    _check_type(value, at, (bool,), "true or false")
    return value


def whole(value: Any, at: str, low: int = 0, high: int = 2**53) -> int:
    """A whole number from ``low`` to ``high``."""
    _check_type(value, at, (int,), "a whole number")
    if not low <= value <= high:
        refuse("bad-value", at, "expected {} to {}, got {}".format(low, high, value))
    return value


def real(value: Any, at: str, low: float = -1e30, high: float = 1e30) -> float:
    """A finite number from ``low`` to ``high``, whole or not."""
    _check_type(value, at, (int, float), "a number")
    if not (math.isfinite(value) and low <= value <= high):
        refuse("bad-value", at, "expected {:g} to {:g}, got {}".format(low, high, show(value)))
    return value


def positive(value: Any, at: str, high: float = 1e30) -> float:
    """A number above 0 and at most ``high``."""
    if not 0 < real(value, at) <= high:
        refuse("bad-value", at, "expected above 0 and at most {:g}, got {}".format(high, show(value)))
    return value


def text(value: Any, at: str, high: int = 200) -> str:
    """Printable text: no control characters, no direction marks, no halves of surrogate pairs."""
    _check_type(value, at, (str,), "text")
    if len(value) > high or not value.isprintable():
        refuse("bad-value", at, "expected at most {} printable characters, got {}".format(high, show(value)))
    return value


def identifier(value: Any, at: str) -> str:
    """A name that the bundle defines."""
    _check_type(value, at, (str,), "a name")
    if len(value) > MAX_IDENTIFIER or not IDENTIFIER.fullmatch(value):
        expected = "at most {} of a-z 0-9 . _ -, the first a letter or digit".format(MAX_IDENTIFIER)
        refuse("bad-value", at, "expected {}, got {}".format(expected, show(value)))
    return value


def one_of(value: Any, at: str, options: Iterable[str]) -> str:
    """One of some words."""
    _check_type(value, at, (str,), "text")
    if value not in options:
        refuse("bad-value", at, "expected one of {}, got {}".format(", ".join(options), show(value)))
    return value


def sha256(value: Any, at: str) -> str:
    """A SHA-256 as 64 lower-case hexadecimal digits."""
    _check_type(value, at, (str,), "a SHA-256 in hexadecimal")
    if not HEX_64.fullmatch(value):
        refuse("bad-value", at, "expected 64 lower-case hexadecimal digits, got {}".format(show(value)))
    return value


def shape(value: Any, at: str, low_rank: int = 1, high_rank: int = MAX_RANK) -> List[int]:
    """The shape of an array: positive whole numbers whose product is bounded."""
    elements = 1
    for size in each(value, at, lambda size, place: whole(size, place, 1, MAX_ELEMENTS), low_rank, high_rank):
        elements *= size
    if elements > MAX_ELEMENTS:
        refuse("bad-value", at, "expected at most {} elements, got {}".format(MAX_ELEMENTS, elements))
    return value


def bounds(owner: Dict[str, Any], at: str, features: int) -> None:
    """``low`` and ``high`` of a range: two numbers, or two lists with one number per feature; low below high.

    Both null: no range, x passes unchanged.
    """
    low, high = owner["low"], owner["high"]
    if low is None and high is None:
        return
    if type(low) is not list and type(high) is not list:
        pairs = [(real(low, at + ".low"), real(high, at + ".high"))]
    else:
        for side, values in (("low", low), ("high", high)):
            each(values, "{}.{}".format(at, side), real, features, features)
        pairs = list(zip(low, high))
    for below, above in pairs:
        if not below < above:
            refuse("bad-value", at, "expected low below high, got {} and {}".format(show(below), show(above)))


# A number with its noun, for sentences that people read: "1 piece", "2,400 rows".


def counted(number: int, one: str, many: Optional[str] = None) -> str:
    """``number`` with ``one``, or with ``many`` (left out: an s more) where it is not 1.

    A verb goes with its noun: ``counted(n, "row is", "rows are")``.
    """
    return "{:,} {}".format(number, one if number == 1 else many or one + "s")
