"""Nothing raw, named or secret is in what is written, worked with, said or handed to workers; and every guard counts.

Each guard is taken away once, and the search then finds something.
"""

import json
from contextlib import nullcontext

import pytest

from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.trainer.ext.publish import frames, publishing
from tests.support.publishing import archives
from tests.support.publishing.leak_cases import AS_IT_IS, CASES, JOBS, REFUSED
from tests.support.publishing.leak_search import LeakSearch, pieces_of


class Search:
    """An archive, and what its publication leaves anywhere."""

    def __init__(self, archive, monkeypatch, capfd):
        self.archive, self._capfd, self._handed = archive, capfd, []
        monkeypatch.setattr(frames, "engine_of", self._engine)
        monkeypatch.setattr(publishing.shutil, "rmtree", lambda *_, **__: None)  # so that the work is seen

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
    frames._opened.clear()
    return Search(archives.make(tmp_path), monkeypatch, capfd)


@pytest.mark.parametrize("name", [name for name in CASES if name != JOBS])
def test_nothing_is_anywhere_and_every_guard_counts(search, name):
    case = CASES[name]
    if case.remarks:
        archives.name_in_remarks(search.archive)
    with case.without():
        found = search.found()
    assert case.found in found if case.found else found == set()
    assert search.archive["out"].exists() == (name != REFUSED)
    if name == AS_IT_IS:
        assert len(search.archive.parts()) >= 3
        assert len(list(search.archive["out/work"].glob("chunk-*.npy"))) >= 3
