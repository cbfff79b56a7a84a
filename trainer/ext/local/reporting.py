"""What a report is worth: an unbiased value, float64, for each report that its mechanism can make.

The mean of the values is the estimate, whatever the reports are: coordinates of x for a vector, for a category the
shares of all categories (a vector whose mean is a histogram). A decoder also knows which reports its mechanism makes:
another one was made up.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg, sparse

from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Output, Spending
from edgeveil.edge_runtime.manifest.spending import repeats_paid

SATURATED = 2**24  # the most steps of a Laplace report, either way


class Decoder(Protocol):
    """``width``: values of a report. ``spread`` (width,): the most by which two reports can differ in each value;
    ``spread_up_to``: in the sum of the values up to each."""

    width: int
    spread: np.ndarray
    spread_up_to: np.ndarray

    def made(self, reports: np.ndarray) -> np.ndarray:
        """Mask (n,) of the reports that the mechanism can make."""
        ...

    def values(self, reports: np.ndarray) -> np.ndarray:
        """Float64 (n, width), of reports that it can make."""
        ...


class Linear:
    """x~ = [report, 1] times a table (places + 1, ...): the bundle's decoder, or one that is made here."""

    def __init__(self, table: np.ndarray, made: Callable[[np.ndarray], np.ndarray], spread: np.ndarray) -> None:
        flat = table.reshape(len(table), -1).astype(np.float64)
        # A mechanism's table has one place or two in a column: full matrices would take d times as long.
        self._weights, self._start = sparse.csc_array(flat[:-1]), flat[-1]
        self.width = flat.shape[1]
        self.spread, self.spread_up_to = spread, spread.cumsum()
        self.made = made

    def values(self, reports: np.ndarray) -> np.ndarray:
        """As ``Decoder``."""
        return reports.astype(np.float64) @ self._weights + self._start


def weights(table: np.ndarray) -> np.ndarray:
    """The sizes of a table's factors, (places, width)."""
    return np.abs(table[:-1].reshape(len(table) - 1, -1).astype(np.float64))


def duchi_linf(table: np.ndarray) -> Linear:
    """Corners of a cube, each place -1 or 1."""
    return Linear(table, lambda reports: (np.abs(reports) == 1).all(axis=1), 2 * weights(table).sum(axis=0))


def duchi_l2(table: np.ndarray) -> Linear:
    """Directions: of length 1 as far as float32 has it; not true of what is not finite."""

    def made(reports: np.ndarray) -> np.ndarray:
        lengths: np.ndarray = np.linalg.norm(reports.astype(np.float64), axis=1)
        return np.abs(lengths - 1.0) <= 1e-5

    return Linear(table, made, 2 * np.linalg.norm(weights(table), axis=0))


def laplace(table: np.ndarray) -> Linear:
    """Steps of a grid, saturating."""

    def made(reports: np.ndarray) -> np.ndarray:
        return np.abs(reports.astype(np.int64)).max(axis=1) <= SATURATED

    return Linear(table, made, 2 * SATURATED * weights(table).sum(axis=0))


def hybrid(table: np.ndarray, *, chosen: int, positions: int) -> Linear:
    """``chosen`` of d places, each in the first half a position of so many (0: there is no first half), centred and
    doubled, or in the second half -1 or 1."""
    most = positions - 1 if positions else 0

    def made(reports: np.ndarray) -> np.ndarray:
        place, sign = np.split(reports.astype(np.int64), 2, axis=1)
        fits = ((np.abs(place) <= most) & ((place - most) % 2 == 0)) | (place == 0)
        fits &= (np.abs(sign) <= 1) & ((place == 0) | (sign == 0))
        return fits.all(axis=1) & (((place != 0) | (sign != 0)).sum(axis=1) <= chosen)

    of_place, of_sign = np.split(weights(table), 2)
    return Linear(table, made, 2 * np.maximum(of_place * most, of_sign).sum(axis=0))


def unary(k: int, p: float, q: float) -> Linear:
    """Bits (k,), the category's own true with probability ``p``, each other one with ``q``: (bit - q) / (p - q)."""
    table = np.vstack([np.eye(k), np.full(k, -q)]) / (p - q)
    return Linear(table, lambda bits: ((bits == 0) | (bits == 1)).all(axis=1), weights(table).sum(axis=0))


class Rows:
    """Reports that are numbers 0 .. R - 1, each worth the row of a table float64 (R, width)."""

    def __init__(self, table: np.ndarray) -> None:
        self._table = table
        self.width = table.shape[1]
        self.spread, self.spread_up_to = np.ptp(table, axis=0), np.ptp(table.cumsum(axis=1), axis=0)

    def made(self, reports: np.ndarray) -> np.ndarray:
        """As ``Decoder``."""
        return (reports >= 0) & (reports < len(self._table))

    def values(self, reports: np.ndarray) -> np.ndarray:
        """As ``Decoder``."""
        return self._table[reports]


def channel(counts: np.ndarray) -> Rows:
    """Of a channel uint32 (k, R): rows whose mean is the category's own unit vector under the channel.

    Raises ``numpy.linalg.LinAlgError`` where two categories cannot be told apart.
    """
    law = counts / counts.sum(axis=1, keepdims=True, dtype=np.float64)
    if np.linalg.matrix_rank(law) < len(law):
        raise np.linalg.LinAlgError
    return Rows(np.linalg.inv(law) if law.shape[0] == law.shape[1] else np.linalg.pinv(law))


def hadamard(rows: int, p: float) -> Rows:
    """Numbers 2 row + bit, the bit 1 where H[row, category] = 1 is true as a coin of probability ``p`` is."""
    signs = linalg.hadamard(rows, float) / (2 * p - 1)
    return Rows(np.stack([-signs, signs], axis=1).reshape(2 * rows, rows))


# The report of a bundle: which of its outputs is one, and what it is worth, by its signed integers.


COIN = 2**62  # a coin is true with probability numerator / COIN
_BY_TABLE = {"duchi-linf": duchi_linf, "duchi-l2": duchi_l2, "laplace": laplace}


class Reporting(NamedTuple):
    """``op``: the mechanism. ``categories``: its values are shares, with the names of the categories where known."""

    output: Output
    op: str
    decoder: Decoder
    categories: bool
    names: tuple[str, ...]
    spending: Spending
    held: bool  # whether a device sends of one answer again and again


def reporting(bundle: Bundle, name: str | None = None) -> Reporting:
    """How to read the reports of ``bundle``, of its output ``name``. Raises ``BadInput`` where there are none."""
    manifest = bundle.manifest
    if manifest.spending is None:
        raise BadInput(
            f"A bundle that promises how much one release tells was expected; {manifest.name} has no spending. Train a "
            "recipe of kind local, or one with perturber.epsilon."
        )
    made = {stage["output"]: stage for stage in manifest.document["stages"] if "output" in stage}
    found = {output.name: (output, stage) for output in manifest.outputs if (stage := _origin(output.tensor, made))}
    if not found:
        raise BadInput(f"No output of {manifest.name} is a report: a frame with cut noise has no unbiased mean.")
    if (name is None and len(found) > 1) or (name is not None and name not in found):
        raise BadInput(f"One report was expected: name it with --output, one of {', '.join(found)}.")
    output, stage = found[name or next(iter(found))]
    op = stage.get("op", "channel")
    decoder = _decoder(bundle, output, stage, made)
    classes = tuple(manifest.perturber.target_classes)
    categories = op not in (*_BY_TABLE, "hybrid")
    names = classes if categories and len(classes) == decoder.width else ()
    return Reporting(output, op, decoder, categories, names, manifest.spending, repeats_paid(manifest))


def _origin(tensor: str, made: Mapping[str, Any]) -> Any:
    """The stage whose report a value is, also where it is held or privatised again; None where it is none."""
    stage = made.get(tensor, {})
    while stage.get("stage") == "hold" and stage["op"] in ("first", "keep"):
        stage = made[stage["input"]]
    is_report = stage.get("stage") == "mechanism" or stage.get("distribution") == "channel"
    return stage if is_report else None


def _decoder(bundle: Bundle, output: Output, stage: Any, made: Mapping[str, Any]) -> Decoder:
    op = stage.get("op", "channel")
    if op == "channel":
        try:
            return channel(_table(bundle, stage["table"]))
        except np.linalg.LinAlgError:
            raise BadInput(
                "No histogram can be told from these reports: their channel maps two categories alike."
            ) from None
    noise = [made[name] for name in stage["noise"]]
    if op in ("oue", "rappor", "rappor-again"):
        return unary(output.shape[0], *_law_of_bits(stage, made))
    if op == "hrr":
        return hadamard(noise[0]["bound"], noise[1]["numerator"] / COIN)
    if output.decoder is None:
        raise BadInput(f"A table that decodes the reports of {op} was expected; the output {output.name} names none.")
    table = _table(bundle, output.decoder)
    if op == "hybrid":
        positions = sum(draw["bound"] for draw in noise[5:])
        return hybrid(table, chosen=noise[0]["shape"][0], positions=positions)
    return _BY_TABLE[op](table)


def _law_of_bits(stage: Any, made: Mapping[str, Any]) -> tuple[float, float]:
    """The probabilities of a 1 at the category's own place and at another one."""
    first, second = (made[name]["numerator"] / COIN for name in stage["noise"])
    if stage["op"] != "rappor-again":
        return first, second
    p, q = _law_of_bits(_origin(stage["input"], made), made)
    return p * first + (1 - p) * second, q * first + (1 - q) * second


def _table(bundle: Bundle, name: str) -> np.ndarray:
    return np.load(io.BytesIO(bundle.members[bundle.manifest.tables[name].file]), allow_pickle=False)
