"""The draws that mechanisms use up, and what each mechanism of a manifest takes.

A mechanism is deterministic: all its randomness comes from draw stages before it (*lots*; ``laplace`` takes *steps*),
listed under ``noise`` in the order of its row in ``MECHANISMS``. docs/reference/bundle-format.md has the arithmetic.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from edgeveil.edge_runtime.formats.validate import real, refuse, shape, whole

COIN = 2**62  # a coin is true with probability numerator / COIN
LARGEST_BOUND = 2**24  # of an integer: a report of its sums is held by int32
LARGEST_SCALE = 2**40  # of discrete Laplace noise, as edgeveil.edge_runtime.pipeline.random_draws has it
MOST_PLACES = 4096  # of a report, or values of a category
MOST_STEPS = 2**20  # of a grid on which Laplace noise is added

DRAWS = {
    "words": ("stage", "distribution", "output", "shape"),
    "coin": ("stage", "distribution", "output", "shape", "numerator"),
    "integer": ("stage", "distribution", "output", "shape", "bound"),
    "subset": ("stage", "distribution", "output", "shape", "of"),
}  # distribution -> its keys
_DTYPES = {"words": "uint32", "coin": "bool", "integer": "int64", "subset": "int64"}

Stage = Dict[str, Any]
Report = Tuple[List[int], str]  # shape of one, dtype


class Mechanism(NamedTuple):
    """``takes``: the kind of its input. ``check(stage, at, shape of the input, its draws)`` returns what it makes."""

    keys: Tuple[str, ...]
    takes: str
    check: Callable[[Stage, str, Any, Sequence[Stage]], Report]


def check_draw(stage: Stage, at: str) -> Report:
    """Shape of one row and dtype of what a draw of ``DRAWS`` makes. Raises ``BundleRefused``."""
    kind = stage["distribution"]
    shape(stage["shape"], at + ".shape", 1 if kind in ("words", "subset") else 0)
    if kind == "coin":
        whole(stage["numerator"], at + ".numerator", 1, COIN - 1)
    elif kind == "integer":
        whole(stage["bound"], at + ".bound", 1, LARGEST_BOUND)
    elif kind == "subset":
        shape(stage["shape"], at + ".shape", 1, 1)
        whole(stage["of"], at + ".of", stage["shape"][0], MOST_PLACES)
    return stage["shape"], _DTYPES[kind]


def _expect(noise: Sequence[Stage], at: str, *wanted: Tuple[str, List[int]]) -> None:
    """The draws must be of these distributions and shapes, in this order."""
    got = [(stage["distribution"], stage["shape"]) for stage in noise]
    if got != list(wanted):
        listed = ", ".join("{} {}".format(*one) for one in wanted)
        refuse("wrong-value", at + ".noise", "expected draws of {}".format(listed))


def _places(size: Any, at: str) -> int:
    """The number of values of a vector."""
    if size is None or len(size) != 1 or size[0] > MOST_PLACES:
        refuse("wrong-value", at + ".input", "expected a vector of at most {} values".format(MOST_PLACES))
    return size[0]


def _duchi_linf(stage: Stage, at: str, size: Any, noise: Sequence[Stage]) -> Report:
    d = _places(size, at)
    odd = d + 1 - d % 2
    if stage["places"] != odd:
        refuse("wrong-value", at + ".places", "expected {}, the odd one of {} and {}".format(odd, d, d + 1))
    whole(stage["places"], at + ".places")
    _expect(noise, at, ("words", [(d + 1) // 2]), ("words", [(odd + 31) // 32]), ("coin", []))
    return [d], "int8"


def _duchi_l2(stage: Stage, at: str, size: Any, noise: Sequence[Stage]) -> Report:
    d = _places(size, at)
    real(stage["radius"], at + ".radius", 1e-6, 1e6)
    _expect(noise, at, ("words", [d + d % 2]), ("words", [1]), ("coin", []))
    return [d], "float32"


def _laplace(stage: Stage, at: str, size: Any, noise: Sequence[Stage]) -> Report:
    d = _places(size, at)
    whole(stage["levels"], at + ".levels", 1, MOST_STEPS)
    _expect(noise, at, ("laplace", [d]))
    return [d], "int32"


def _hybrid(_stage: Stage, at: str, size: Any, noise: Sequence[Stage]) -> Report:
    d = _places(size, at)
    k = noise[0]["shape"] if noise else []
    wanted = [("subset", k), ("words", k), ("coin", k)]
    if len(noise) > len(wanted):
        wanted += [("coin", k), ("coin", k), ("integer", k), ("integer", k)]
    _expect(noise, at, *wanted)
    if noise[0]["of"] != d:
        refuse("wrong-value", at + ".noise", "expected places of {} values, got {}".format(d, noise[0]["of"]))
    return [2 * d], "int32"


def _bits(noise: Sequence[Stage]) -> List[int]:
    """The shape of the last draw: one place for each category."""
    return noise[-1]["shape"] if noise else []


def _unary(_stage: Stage, at: str, _size: Any, noise: Sequence[Stage]) -> Report:
    k = _bits(noise)
    _expect(noise, at, ("coin", []), ("coin", k))
    _categories(k, at)
    return k, "int8"


def _again(_stage: Stage, at: str, size: Any, noise: Sequence[Stage]) -> Report:
    if size is None or len(size) != 1:
        refuse("wrong-value", at + ".input", "expected the bits of a report")
    _expect(noise, at, ("coin", size), ("coin", size))
    return size, "int8"


def _categories(k: List[int], at: str) -> None:
    if len(k) != 1 or not 2 <= k[0] <= MOST_PLACES:
        refuse("wrong-value", at + ".noise", "expected a coin for each of 2 to {} categories".format(MOST_PLACES))


def _hadamard(_stage: Stage, at: str, _size: Any, noise: Sequence[Stage]) -> Report:
    _expect(noise, at, ("integer", []), ("coin", []))
    rows = noise[0]["bound"]
    if rows < 2 or rows & (rows - 1):
        refuse("wrong-value", at + ".noise", "expected rows that are a power of two, 2 or more; got {}".format(rows))
    return [], "int64"


_KEYS = ("stage", "op", "input", "noise", "output")

MECHANISMS = {
    "duchi-linf": Mechanism((*_KEYS, "places"), "unit", _duchi_linf),
    "duchi-l2": Mechanism((*_KEYS, "radius"), "unit", _duchi_l2),
    "laplace": Mechanism((*_KEYS, "levels"), "unit", _laplace),
    "hybrid": Mechanism(_KEYS, "unit", _hybrid),
    "oue": Mechanism(_KEYS, "index", _unary),
    "rappor": Mechanism(_KEYS, "index", _unary),
    "rappor-again": Mechanism(_KEYS, "report", _again),
    "hrr": Mechanism(_KEYS, "index", _hadamard),
}
