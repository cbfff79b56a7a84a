"""Tables of fields, which say what a document must look like, and ``check``, which holds a document to its table.

A table has a field for each key of an object: its type with a range, a length, some words, the field of each entry or
a table of its own. A key that ends with ``?`` may be absent. A field or a table that depends on others is a function of
the object around it (of a table: the object itself) and of the whole document. What no table can state is a *rule*: a
generator of what is wrong, each with a word for programs, a place and a sentence. The place is one within the value, or
of a number or text within the object around it; "" is the value itself. A rule follows once its value is as the table
has it, and the first thing that is wrong is the refusal.

Types are exact: True is no number here, 1.0 no whole number. Keys that no table has are refused. Messages show a value
cut short and in ASCII, so that no text of a bundle can send control characters to a terminal.
"""

import math
import re
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, NoReturn, Optional, Pattern, Tuple, Union

from edgeveil.edge_runtime.errors import BundleRefused

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9._-]*")
HEX_64 = re.compile(r"[0-9a-f]{64}")
MAX_IDENTIFIER = 80
MAX_ELEMENTS = 2**26  # of one array; with float32 that is the size of the largest bundle
MAX_RANK = 6
MANIFEST = ("The manifest", "Export and seal it again with this version of EdgeVeil.")

Problem = Tuple[str, str, str]  # reason, place within the value, sentence
Rule = Callable[[Any, Any, Any], Iterable[Problem]]  # of a value, the object around it and the document


class Field(NamedTuple):
    """One field of a table. ``low`` and ``high`` bound a number, or how many characters or entries there are.

    ``of`` is the field of each entry, the table of an object, or words. ``wrong(value)`` is a sentence, empty
    where nothing is wrong. ``null``: null may stand in its place; a rule of a number or text follows then too.
    """

    types: Tuple[type, ...]
    what: str
    low: float = 0
    high: float = 0
    wrong: Callable[[Any], str] = lambda _value: ""
    of: Any = None
    null: bool = False
    rule: Optional[Rule] = None


Entry = Union[Field, Callable[[Any, Any], Field]]
Table = Mapping[str, Entry]
_ALL = (type(None), bool, int, float, str, list, dict)
ANY = Field(_ALL, "")  # a rule checks it, or another part does


def nothing(why: str) -> Field:
    """Null, and ``why`` where it is not."""
    return Field(_ALL, "", wrong=lambda value: "" if value is None else why)


def truth() -> Field:
    """True or false."""
    return Field((bool,), "true or false")


def whole(low: int = 0, high: int = 2**53, **more: Any) -> Field:
    """A whole number from ``low`` to ``high``."""
    expected = "{} to {}".format(low, high)
    return Field(
        (int,), "a whole number", low, high, lambda value: _unless(low <= value <= high, expected, value), **more
    )


def real(low: float = -1e30, high: float = 1e30, **more: Any) -> Field:
    """A finite number from ``low`` to ``high``, whole or not."""
    expected = "{:g} to {:g}".format(low, high)

    def wrong(value: float) -> str:
        return _unless(math.isfinite(value) and low <= value <= high, expected, value)

    return Field((int, float), "a number", low, high, wrong, **more)


def positive(high: float = 1e30, **more: Any) -> Field:
    """A number above 0 and at most ``high``."""
    above = "above 0 and at most {:g}".format(high)
    return real(**more)._replace(wrong=lambda value: real().wrong(value) or _unless(0 < value <= high, above, value))


def text(high: int = 200, **more: Any) -> Field:
    """Printable text: no control characters, no direction marks, no halves of surrogate pairs."""
    expected = "at most {} printable characters".format(high)

    def wrong(value: str) -> str:
        return _unless(len(value) <= high and value.isprintable(), expected, value)

    return Field((str,), "text", 0, high, wrong, **more)


def spelled(pattern: "Pattern[str]", expected: str, what: str = "text", high: int = 200) -> Field:
    """Text of one form, which ``expected`` describes."""

    def wrong(value: str) -> str:
        good = len(value) <= high and pattern.fullmatch(value)
        return (what == "text" and text().wrong(value)) or _unless(good, expected, value)

    return Field((str,), what, 0, high, wrong)


def identifier() -> Field:
    """A name that the bundle defines."""
    expected = "at most {} of a-z 0-9 . _ -, the first a letter or digit".format(MAX_IDENTIFIER)
    return spelled(IDENTIFIER, expected, "a name", MAX_IDENTIFIER)


def one_of(words: Iterable[str], **more: Any) -> Field:
    """One of some words."""
    of = tuple(words)
    expected = "one of {}".format(", ".join(of))
    return Field((str,), "text", wrong=lambda value: _unless(value in of, expected, value), of=of, **more)


def sha256() -> Field:
    """A SHA-256 as 64 lower-case hexadecimal digits."""
    return spelled(HEX_64, "64 lower-case hexadecimal digits", "a SHA-256 in hexadecimal")


def shape(low: int = 1, high: int = MAX_RANK) -> Field:
    """The shape of an array: ``low`` to ``high`` positive whole numbers whose product is bounded."""
    return each(whole(1, MAX_ELEMENTS), low, high, rule=_few_elements)


def each(entry: Entry, low: int = 0, high: int = 64, **more: Any) -> Field:
    """A list of ``low`` to ``high`` entries."""
    return Field((list,), "a list", low, high, of=entry, **more)


def mapping(entry: Entry, low: int = 0, high: int = 64, **more: Any) -> Field:
    """An object of ``low`` to ``high`` entries whose keys are identifiers."""
    return Field((dict,), "an object", low, high, of=entry, **more)


def record(table: Union[Table, Callable[[Any, Any], Table]], **more: Any) -> Field:
    """An object with the keys of a table, and no others."""
    return Field((dict,), "an object", 0, -1, of=table, **more)


def bounds(owner: Dict[str, Any], document: Any) -> Field:
    """``low`` or ``high`` of a range: two numbers, or two lists with one number per feature of the ``input``.

    Both null: no range, x passes unchanged.
    """
    low, high = owner["low"], owner["high"]
    if low is None and high is None:
        return ANY
    features = document["input"]["shape"][-1]
    return each(real(), features, features) if list in (type(low), type(high)) else real()


def rising(owner: Dict[str, Any], _around: Any, _document: Any) -> Iterable[Problem]:
    """The rule of an object with ``bounds``: low is below high."""
    ends = [owner["low"], owner["high"]]
    for below, above in zip(*[end if type(end) is list else [] if end is None else [end] for end in ends]):
        if not below < above:
            yield "bad-value", "", "expected low below high, got {} and {}".format(show(below), show(above))


def check(
    value: Any, at: str, field: Entry, document: Any = None, *, file: str = MANIFEST[0], cure: str = MANIFEST[1]
) -> None:
    """Raise ``BundleRefused`` unless ``value``, at the place ``at`` of a document, is as ``field`` has it.

    Without ``document`` it is the document itself, and ``at`` its name. ``file`` and ``cure`` begin and end the
    sentence.
    """
    try:
        _walk(value, at, "", field, None, value if document is None else document)
    except _Wrong as wrong:
        refuse(*wrong.args, file=file, cure=cure)


def refuse(reason: str, at: str, problem: str, *, file: str = MANIFEST[0], cure: str = MANIFEST[1]) -> NoReturn:
    """Raise ``BundleRefused`` for the place ``at``, with a word for programs and a sentence for readers."""
    raise BundleRefused(reason, "{} is not one to follow: {}: {}. {}".format(file, at, problem, cure)) from None


def follow(problems: Iterable[Problem], *, file: str = MANIFEST[0], cure: str = MANIFEST[1]) -> None:
    """Raise ``BundleRefused`` for the first thing that a rule finds wrong."""
    for problem in problems:
        refuse(*problem, file=file, cure=cure)


def show(value: Any) -> str:
    """A value for a message: short, in ASCII, without control characters."""
    if isinstance(value, (dict, list)):
        return "{} of {}".format("an object" if isinstance(value, dict) else "a list", len(value))
    shown = ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


class _Wrong(Exception):
    """Reason, place and sentence of what is wrong."""


def _walk(value: Any, at: str, around: str, entry: Entry, owner: Any, document: Any) -> None:
    field = entry if isinstance(entry, Field) else entry(owner, document)
    several = field.types in ((list,), (dict,))
    absent = value is None and field.null
    if absent and several:
        return
    if not absent and type(value) not in field.types:
        raise _Wrong("wrong-type", at, "expected {}, got {}".format(field.what, show(value)))
    inside = around if not several else "" if value is document else at
    if several:
        if field.high >= 0 and not field.low <= len(value) <= field.high:
            problem = "expected {} to {} entries, got {}".format(field.low, field.high, len(value))
            raise _Wrong("bad-count", at, problem)
        for key, of in _entries(value, at, field, document):
            _walk(value[key], _place(inside, key), inside, of, value, document)
    elif not absent:
        problem = field.wrong(value)
        if problem:
            raise _Wrong("bad-value", at, problem)
    for reason, place, problem in field.rule(value, owner, document) if field.rule else ():
        raise _Wrong(reason, _place(inside, place) if place else at, problem)


def _entries(value: Any, at: str, field: Field, document: Any) -> Iterable[Tuple[Any, Entry]]:
    """Each place or key of a list or an object with its field, once its keys are those that it may have."""
    if type(value) is list:
        return [(place, field.of) for place in range(len(value))]
    if field.high >= 0:
        for key in value:
            _walk(key, "{} (a key of it)".format(at), at, identifier(), value, document)
        return [(key, field.of) for key in value]
    table = field.of(value, document) if callable(field.of) else field.of
    wanted = {key.rstrip("?"): of for key, of in table.items()}
    for key in sorted(value):
        if key not in wanted:
            raise _Wrong("unknown-key", at, "the key {} is not known here".format(show(key)))
    for key in sorted(wanted):
        if key not in value and key in table:
            raise _Wrong("missing-key", at, "the key '{}' is missing".format(key))
    return [(key, of) for key, of in wanted.items() if key in value]


def _place(at: str, key: Any) -> str:
    if type(key) is int:
        return "{}[{}]".format(at, key)
    return at + key if key[:1] == "[" or not at else "{}.{}".format(at, key)


def _unless(good: Any, expected: str, value: Any) -> str:
    return "" if good else "expected {}, got {}".format(expected, show(value))


def _few_elements(value: Any, _owner: Any, _document: Any) -> Iterable[Problem]:
    elements = 1
    for size in value:
        elements *= size
    if elements > MAX_ELEMENTS:
        yield "bad-value", "", "expected at most {} elements, got {}".format(MAX_ELEMENTS, elements)


# A number with its noun, for sentences that people read: "1 piece", "2,400 rows".


def counted(number: int, one: str, many: Optional[str] = None) -> str:
    """``number`` with ``one``, or with ``many`` (left out: an s more) where it is not 1.

    A verb goes with its noun: ``counted(n, "row is", "rows are")``.
    """
    return "{:,} {}".format(number, one if number == 1 else many or one + "s")
