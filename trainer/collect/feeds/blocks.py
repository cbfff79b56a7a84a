"""What every feed gives: blocks of reports, with what tells them apart."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, Protocol

import numpy as np

ROWS = 1 << 15  # of a block, at most


class Block(NamedTuple):
    """n reports as they came: their place in the alphabet is not checked yet.

    ``sender`` (S8) is the stream of a device, or the number of a file; ``number`` (u8) counts within it, and a record
    that was sent twice has the same one. ``round`` (i8) is the tick of a stream, or the frame's number in a file.
    """

    reports: np.ndarray
    sender: np.ndarray
    number: np.ndarray
    slot: np.ndarray
    round: np.ndarray


class Feed(Protocol):
    """A place that reports come from. ``refused`` counts what was no report of this bundle."""

    refused: int

    def blocks(self) -> Generator[Block]:
        """All of them, in blocks of at most ``ROWS``."""
        ...


def of_file(reports: np.ndarray, file: int, first: int, slot: np.ndarray, rounds: np.ndarray) -> Block:
    """Rows ``first`` and on of the file with this number."""
    sender = np.full(len(reports), file, ">u8").view("S8")
    number = np.arange(first, first + len(reports), dtype=np.uint64)
    return Block(reports, sender, number, slot.astype(np.uint16), rounds.astype(np.int64))
