"""What goes wrong with a publication of recordings: bad frames, a run that is broken off; and what is left then."""

import csv
import sqlite3
from contextlib import closing

import pytest

from edgeveil.edge_runtime.sources.npz import NpzSource
from edgeveil.trainer.ext.publish import publishing

PSEUDONYM = 'action = "pseudonym"\nmode = "vault"\nnormalise = ["nfkc", "case", "spaces"]\nepoch = 1\n'


class Broken(Exception):
    """What a test breaks a publication off with."""


def bad_frames(monkeypatch, numbers=None):
    """Some frames are of another size; all of them without ``numbers``."""
    right = NpzSource.next

    def wrong(source):
        frame = right(source)
        if frame is not None and (numbers is None or frame.index in numbers):
            frame._data = frame._data[:1]
        return frame

    monkeypatch.setattr(NpzSource, "next", wrong)


def broken_off_at_the_end(archive, monkeypatch):
    """All but ``publication.json`` is written."""
    right = publishing.write_atomic

    def stop(path, *arguments):
        if path.name == "publication.json":
            raise Broken
        return right(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "write_atomic", stop)
        with pytest.raises(Broken):
            archive.published()


def rewrite(archive, change):
    """The table with its list of rows changed."""
    with archive["visits.csv"].open(newline="") as file:
        rows = change(list(csv.DictReader(file)))
    with archive["visits.csv"].open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


def unlink_rows(archive, method="incognito"):
    """A plan in which nothing links the rows of a person."""
    assert PSEUDONYM in archive.plan
    archive.plan = archive.plan.replace(PSEUDONYM, 'action = "drop"\nnormalise = ["nfkc", "case", "spaces"]\n').replace(
        'link = "person"', f'link = "none"\nmethod = "{method}"'
    )


def rows_in(archive, table):
    """How many rows a table of the vault has: none where a refused publication left no vault."""
    if not archive["vault"].exists():
        return 0
    with closing(sqlite3.connect(archive["vault"])) as base:
        return base.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - a name from a test
