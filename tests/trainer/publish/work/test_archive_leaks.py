"""Nothing raw, named or secret is in what is written, worked with, said or handed to workers; and every guard counts.

Each guard is taken away once, and the search then finds something.
"""

import json
from contextlib import nullcontext

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.trainer.publish import publication
from edgeveil.trainer.publish.work import finishing
from edgeveil.trainer.publish.work.passes import chunk_work, first_pass, frame_passes, outcome, row_table
from tests.support.publishing import archives
from tests.support.publishing.leak_search import LeakSearch, pieces_of


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
        search = LeakSearch(self.archive)
        kinds = search.kinds([error.encode(), said.encode(), *pieces_of(self.archive["out"])])
        return kinds | search.kinds(self._handed, but="path") | search.order("out")


@pytest.fixture
def search(tmp_path, monkeypatch, capfd):
    return Search(archives.make(tmp_path), monkeypatch, capfd)


def test_nothing_is_anywhere(search):
    assert search.found() == set()
    assert len(search.archive.parts()) >= 3
    assert len(list(search.archive["out/work"].glob("chunk-*.parquet"))) >= 3


def test_free_text_is_refused_and_the_refusal_names_nobody(search):
    archives.name_in_remarks(search.archive)
    assert search.found() == set()
    assert not search.archive["out"].exists()


def test_without_the_plans_refusal_names_get_out(search, monkeypatch):
    monkeypatch.setattr(publication, "_refuse_prose", lambda *_: None)
    archives.name_in_remarks(search.archive)
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
