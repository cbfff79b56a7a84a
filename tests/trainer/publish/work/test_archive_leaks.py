"""Nothing raw, named or secret is in what is written, worked with, said or handed to workers; and every guard counts.

Each guard is taken away once, and the search then finds something.
"""

import base64
import json
import re
import sqlite3
from contextlib import closing, nullcontext

import numpy as np
import pyarrow.parquet
import pytest

from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.trainer.publish import publication
from edgeveil.trainer.publish.work import finishing
from edgeveil.trainer.publish.work.passes import chunk_work, first_pass, frame_passes, outcome, row_table
from tests.support.leak_scanner import forms
from tests.support.publishing import archives


class Search:
    """An archive, and what its publication leaves anywhere."""

    def __init__(self, archive, monkeypatch, capfd):
        self.archive, self._capfd, self._handed = archive, capfd, []
        monkeypatch.setattr(frame_passes, "engine_of", self._engine)
        monkeypatch.setattr(finishing.shutil, "rmtree", lambda *_, **__: None)  # so that the work is seen

    def _engine(self, *_):
        def run(jobs):
            for job in jobs:
                answer = job.run()
                self._handed.append(json.dumps([job, answer]).encode())
                yield job, answer

        return nullcontext(run)

    def found(self):
        """What kinds of secrets are anywhere, after one publication, whether it was done or not."""
        error = ""
        try:
            self.archive.published()
        except EdgeVeilError as told:
            error = str(told)
        said = "".join(self._capfd.readouterr())
        files = [path for path in self.archive["out"].rglob("*") if path.is_file()]
        pieces = [error.encode(), said.encode(), *(path.read_bytes() for path in files)]
        pieces += [_texts(path) for path in files if path.suffix == ".parquet"]
        handed = b"".join(self._handed)
        kinds = {name for name, needles in self._needles().items() if any(n in p for n in needles for p in pieces)}
        kinds |= {
            name for name, needles in self._needles().items() if name != "path" and any(n in handed for n in needles)
        }
        return kinds | ({"order"} if self._ordered() else set())

    def _needles(self):
        with closing(sqlite3.connect(self.archive["vault"])) as base:
            vault = [bytes(one) for row in base.execute("SELECT name, salt, sealed FROM subject") for one in row]
        names = {" ".join(row["visitor"].split()).lower() for row in self.archive.rows}
        spelled = {spelling.encode() for name in names for spelling in (name, name.title())}
        frames = np.load(self.archive["x.npz"])["x"]
        return {
            "name": spelled,
            "frame": [form for frame in frames[::8] for form in forms(frame[20:40].tobytes())],
            "vault": [form for one in vault[:60] for form in (one, one.hex().encode(), base64.b64encode(one)[:-4])],
            "key": list(forms(self.archive["pseudonyms.key"].read_bytes()[:20])),
            "path": [str(self.archive.folder).encode()],
        }

    def _ordered(self):
        """Whether the places of the rows tell those of their recordings."""
        paths = sorted(self.archive["out"].glob("part-*.parquet"))
        if not paths:
            return False
        rows = [row for path in paths for row in pyarrow.parquet.read_table(path).to_pylist()]
        at = {row["minutes"] + row["illness"]: number for number, row in enumerate(self.archive.rows)}
        order = [at[f"{row['minutes']}{row['illness']}"] for row in rows]
        return abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) > 6 / np.sqrt(len(order))


def _texts(path):
    """What the columns of a file hold, without its compression."""
    table = pyarrow.parquet.read_table(path)
    return b"\n".join(
        one if isinstance(one, bytes) else str(one).encode() for c in table.columns for one in c.to_pylist()
    )


@pytest.fixture
def search(tmp_path, monkeypatch, capfd):
    return Search(archives.make(tmp_path), monkeypatch, capfd)


def test_nothing_is_anywhere(search):
    assert search.found() == set()
    assert len(search.archive.parts()) >= 3
    assert len(list(search.archive["out/work"].glob("chunk-*.parquet"))) >= 3


def named_remarks(archive):
    """A column of free text that names people, which the plan keeps."""
    text = archive["visits.csv"].read_text()
    names = iter(row["visitor"].strip() for row in archive.rows)
    archive["visits.csv"].write_text(
        re.sub("a remark of many words about this visit", lambda _: f"we saw {next(names)} again in the hall", text)
    )
    archive.plan = archive.plan.replace('[columns.remark]\naction = "drop"', '[columns.remark]\naction = "target"')


def test_free_text_is_refused_and_the_refusal_names_nobody(search):
    named_remarks(search.archive)
    assert search.found() == set()
    assert not search.archive["out"].exists()


def test_without_the_plans_refusal_names_get_out(search, monkeypatch):
    monkeypatch.setattr(publication, "_refuse_prose", lambda *_: None)
    named_remarks(search.archive)
    assert "name" in search.found()


def test_without_paths_in_place_of_rows_frames_are_handed_to_workers(search, monkeypatch):
    right = frame_passes.Job
    raw = np.load(search.archive["x.npz"])["x"]

    def with_rows(name, function, arguments):
        return _Handed(right(name, function, arguments), raw)

    monkeypatch.setattr(frame_passes, "Job", with_rows)
    assert "frame" in search.found()


class _Handed(list):
    """A job that carries the rows themselves."""

    def __init__(self, job, raw):
        super().__init__([*job, [bytes(row).hex() for row in raw]])
        self._job = job

    def run(self):
        return self._job.run()


def test_without_the_shuffle_the_order_tells(search, monkeypatch):
    def numbered(_, rows):
        place = np.zeros((len(rows), 16), np.uint8)
        place[:, 14], place[:, 15] = rows // 256, rows % 256
        return place

    monkeypatch.setattr(first_pass.row_table, "places", numbered)
    monkeypatch.setattr(row_table, "parts_of", lambda place, parts: place[:, 14].astype(np.int64) % parts)
    assert "order" in search.found()


def failing(monkeypatch):
    """The pipeline's process meets an error whose text holds the frame."""

    def wrong(machine, wanted):
        raise RuntimeError(f"cannot use {machine.source.next()._data.tobytes()[20:40]!r}")

    monkeypatch.setattr(chunk_work._Machine, "perturbed", wrong)


def test_an_error_is_told_by_its_place(search, monkeypatch):
    failing(monkeypatch)
    chunk_work._opened.clear()
    assert search.found() == set()


def test_without_that_its_text_tells(search, monkeypatch):
    failing(monkeypatch)
    chunk_work._opened.clear()
    monkeypatch.setattr(outcome, "describe", str)
    assert "frame" in search.found()
