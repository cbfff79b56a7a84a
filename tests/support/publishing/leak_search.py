"""The search for what must be nowhere: names, frames, the vault's bytes, the key and paths of an archive; its order."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet

from tests.support.leak_scanner import forms
from tests.support.publishing.archives import Archive


class LeakSearch:
    """What kinds of secrets of an archive are in bytes, files and folders; those of its vault, where it was kept."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        vault: list[bytes] = []
        if archive["vault"].exists():
            with closing(sqlite3.connect(archive["vault"])) as base:
                vault = [bytes(one) for row in base.execute("SELECT name, salt, sealed FROM subject") for one in row]
        names = {" ".join(row["visitor"].split()).lower() for row in archive.rows}
        frames = np.load(archive["x.npz"])["x"]
        self._needles = {
            "name": [spelling.encode() for name in names for spelling in (name, name.title())],
            "frame": [form for frame in frames[::8] for form in forms(frame[20:40].tobytes())],
            "vault": [form for one in vault[:60] for form in (one, one.hex().encode(), base64.b64encode(one)[:-4])],
            "key": list(forms(archive["pseudonyms.key"].read_bytes()[:20])),
            "path": [str(archive.folder).encode()],
        }

    def kinds(self, pieces: Iterable[bytes], *, but: str = "") -> set[str]:
        """The kinds that are in some piece; ``but`` is one that may be there."""
        together = b"\n".join(pieces)
        return {
            kind for kind, needles in self._needles.items() if kind != but and any(one in together for one in needles)
        }

    def order(self, out: str) -> set[str]:
        """``order`` where the places of the rows tell those of their recordings."""
        paths = sorted(self._archive[out].glob("part-*.parquet"))
        if not paths:
            return set()
        rows = [row for path in paths for row in pyarrow.parquet.read_table(path).to_pylist()]
        at = {row["minutes"] + row["illness"]: number for number, row in enumerate(self._archive.rows)}
        order = [at[f"{row['minutes']}{row['illness']}"] for row in rows]
        told = abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) > 6 / np.sqrt(len(order))
        return {"order"} if told else set()


def pieces_of(folder: Path) -> Iterator[bytes]:
    """All bytes of a folder's files, and what Parquet files hold without their compression."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.read_bytes()
            if path.suffix == ".parquet":
                yield _texts(path)


def _texts(path: Path) -> bytes:
    table = pyarrow.parquet.read_table(path)
    return b"\n".join(
        one if isinstance(one, bytes) else str(one).encode() for c in table.columns for one in c.to_pylist()
    )
