"""The units that [private] guards, cut into slices by a keyed hash of each one's own number.

Whichever slice a unit is in, and whether it is held out there, depends on nobody else: adding or removing a unit leaves
all others where they are, so what two slices spend does not add up. Nothing is stratified, and no class is thinned.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput

Kind = Literal["subject", "row"]
WORD = 2.0**-64


@dataclass(frozen=True)
class Units:
    """Whose each row is, (N,): the unit's number, and two values in [0, 1) by its hash, which cut and hold out."""

    kind: Kind
    number: np.ndarray
    place: np.ndarray
    second: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Units:
        return Units(self.kind, self.number[rows], self.place[rows], self.second[rows])

    def dealt(self, slices: int, *, share: float = 1.0) -> list[np.ndarray]:
        """The row numbers of each slice, sorted; of about ``share`` of all units."""
        deal = np.floor(self.place / share * slices)
        return [np.flatnonzero(deal == number) for number in range(slices)]

    def rows(self, rows: np.ndarray) -> list[np.ndarray]:
        """The places within ``rows`` (n,) of each unit's rows."""
        order = np.argsort(self.number[rows], kind="stable")
        starts = np.flatnonzero(np.diff(self.number[rows][order])) + 1
        return np.split(order, starts)


def units_of(
    rows: int,
    asked: Kind | None,
    *,
    subject: np.ndarray | None,
    session: np.ndarray | None,
    kept_whole: Literal["subject", "session"] | None,
    people: bool,
    seed: int,
) -> Units:
    """The units of [private] of so many rows; ``subject`` and ``session`` are the data's own numbers of them (rows,).

    What is ``kept_whole`` stays in one slice, also where rows are guarded. ``people``: the data say whose a row is.

    Raises ``BadInput`` where people are to be guarded whom the data do not name, or of whom z has too few.
    """
    if asked == "subject" and not people:
        raise BadInput('`private.unit` is "subject", and these data do not say whose a row is. Add it, or write "row".')
    kind: Kind = asked or ("subject" if people else "row")
    if kind == "subject" and kept_whole != "subject":
        raise BadInput(
            "z nearly says who it is, so slices of different people have no classes of z in common: [private] can "
            'guard the rows of these data, with `private.unit = "row"`, and not the people.'
        )
    own = np.arange(rows)
    together = [own]
    if kept_whole is not None:
        together = [one for one in (subject, session if kept_whole == "session" else None) if one is not None]
    number = together[0] if kind == "subject" else own
    return Units(kind, number, *_hashed(together, seed))


def _hashed(numbers: list[np.ndarray], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two values in [0, 1) of each row (N,), of its numbers alone."""
    rows, back = np.unique(np.stack(numbers, axis=1), axis=0, return_inverse=True)
    key = f"edgeveil slices {seed}".encode()
    digests = b"".join(hashlib.blake2b(repr(row).encode(), key=key, digest_size=16).digest() for row in rows.tolist())
    values = np.frombuffer(digests, np.uint64).reshape(-1, 2) * WORD
    first, second = np.minimum(values, 1 - 2.0**-53)[back.reshape(-1)].T
    return first, second
