"""The report of a bundle: which of its outputs is one, and what it is worth, by its signed integers."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Output, Spending
from edgeveil.edge_runtime.manifest.spending import repeats_paid
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages.cms import Sketched, collided
from edgeveil.edge_runtime.stages.mechanism import Worth

# What a report is worth: an unbiased value, float64, for each report that its mechanism can make.
#
# The mean of the values is the estimate, whatever the reports are: coordinates of x for a vector, for a category the
# shares of all categories (a vector whose mean is a histogram). A decoder also knows which reports its mechanism makes:
# another one was made up. ``width`` are the values of a report, ``spread`` (width,) the most by which two reports can
# differ in each, ``spread_up_to`` in the sum of the values up to each.


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
        """Float64 (n, width), of reports that it can make."""
        return reports.astype(np.float64) @ self._weights + self._start


class Rows:
    """Reports that are numbers 0 .. R - 1, each worth the row of a table float64 (R, width)."""

    def __init__(self, table: np.ndarray) -> None:
        self._table = table
        self.width = table.shape[1]
        self.spread, self.spread_up_to = np.ptp(table, axis=0), np.ptp(table.cumsum(axis=1), axis=0)

    def made(self, reports: np.ndarray) -> np.ndarray:
        """Mask (n,) of the reports that the mechanism can make."""
        return (reports >= 0) & (reports < len(self._table))

    def values(self, reports: np.ndarray) -> np.ndarray:
        """As of ``Linear``."""
        return self._table[reports]


class Sketch:
    """Reports of a count-mean sketch, whose sign at the place of each category is worth a multiple of it.

    ``collisions``: the largest variance that collisions of categories add to a share, however many the reports.
    """

    def __init__(self, worth: Sketched) -> None:
        self.made, self.signs = worth.made, worth.signs
        self.hashes, self.slope, self.start = worth.hashes, worth.slope, worth.start
        self.width = worth.categories
        self.collisions = collided(self.hashes.rows, self.hashes.width)
        self.spread = np.full(self.width, 2 * abs(self.slope))
        self.spread_up_to = self.spread.cumsum()

    def sums(self, row: np.ndarray, signs: np.ndarray, into: np.ndarray) -> None:
        """Add int8 (n, places) ``signs`` of reports by the hash functions ``row`` (n,) to ``into`` (rows, places)."""
        order = np.argsort(row, kind="stable")
        rows, first = np.unique(row[order], return_index=True)
        into[rows] += np.add.reduceat(signs[order], first, axis=0, dtype=np.int64)

    def totals(self, into: np.ndarray) -> np.ndarray:
        """The sum (width,) of the reports' signs at each category's place, of such sums."""
        categories, total = np.arange(self.width), np.zeros(self.width, np.int64)
        for row in np.flatnonzero(into.any(axis=1)).tolist():
            total += into[row, self.hashes.places(row, categories)]
        return total


Decoder = Linear | Rows | Sketch


def decoder(worth: Worth | Sketched) -> Decoder:
    """A report's decoder by its kind."""
    if isinstance(worth, Sketched):
        return Sketch(worth)
    if worth.made is None or worth.spread is None:
        return Rows(worth.table)
    return Linear(worth.table, worth.made, worth.spread)


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
    stages = {stage["output"]: stage for stage in manifest.document["stages"] if "output" in stage}
    pairs = {output.name: (output, stage) for output in manifest.outputs if (stage := _origin(output.tensor, stages))}
    if not pairs:
        raise BadInput(f"No output of {manifest.name} is a report: a frame with cut noise has no unbiased mean.")
    if (name is None and len(pairs) > 1) or (name is not None and name not in pairs):
        raise BadInput(f"One report was expected: name it with --output, one of {', '.join(pairs)}.")
    output, stage = pairs[name or next(iter(pairs))]
    worth = _decoder(bundle, output, stage, stages)
    classes = tuple(manifest.perturber.target_classes)
    categories = kind_of(stage).of == "share"
    names = classes if categories and len(classes) == worth.width else ()
    return Reporting(
        output,
        stage.get("op", stage.get("distribution")),
        worth,
        categories,
        names,
        manifest.spending,
        repeats_paid(manifest),
    )


def _origin(tensor: str, stages: Mapping[str, Any]) -> Any:
    """The stage whose report a value is, also where it is held or privatised again; None where it is none."""
    stage = stages.get(tensor)
    while stage is not None and kind_of(stage).repeats:
        stage = stages.get(stage["input"])
    return stage if stage is not None and kind_of(stage).reports else None


def _decoder(bundle: Bundle, output: Output, stage: Any, stages: Mapping[str, Any]) -> Decoder:
    kind = kind_of(stage)
    name = stage.get("table", output.decoder)
    if kind.of == "mean" and name is None:
        raise BadInput(
            f"A table that decodes the reports of {stage['op']} was expected; the output {output.name} names none."
        )
    try:
        return decoder(kind.worth(stage, stages, None if name is None else _table(bundle, name)))
    except np.linalg.LinAlgError:
        raise BadInput(
            "No histogram can be told from these reports: their channel maps two categories alike."
        ) from None


def _table(bundle: Bundle, name: str) -> np.ndarray:
    return np.load(io.BytesIO(bundle.members[bundle.manifest.tables[name].file]), allow_pickle=False)
