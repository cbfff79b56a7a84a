"""One verb at a time writes a result, and what was there before keeps a name."""

import fcntl
import multiprocessing
import os
import re
import signal
import stat

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.results import locked, looks_before, own_folder, require_free, set_aside


def hold(out, ready):
    with locked(out, "train"):
        ready.set()
        signal.pause()


def test_another_process_is_named_and_a_dead_one_holds_nothing(tmp_path):
    out, context = tmp_path / "runs" / "two", multiprocessing.get_context("fork")
    ready = context.Event()
    other = context.Process(target=hold, args=(out, ready))
    other.start()
    try:
        assert ready.wait(10)
        with (
            pytest.raises(BadInput, match=rf"being written by edgeveil train \(process {other.pid}\)"),
            locked(out, "x"),
        ):
            pass
    finally:
        other.kill()
        other.join()
    with locked(out, "train"):
        assert (tmp_path / "runs" / ".two.lock").exists()
    assert list((tmp_path / "runs").iterdir()) == []
    with locked(tmp_path / "more" / "runs" / "two", "train"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]  # no folder made for a lock alone


def test_what_was_written_stays(tmp_path):
    with locked(tmp_path / "a" / "b", "train"):
        (tmp_path / "a" / "b").mkdir()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(BadInput, match="Choose another place"), locked(tmp_path / "a", "train"):
        pass


def test_a_place_below_a_file_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="Choose another place"), locked(tmp_path / "file" / "a" / "b", "train"):
        pass


def test_the_old_ones_keep_a_name_each(tmp_path):
    for text in ("1", "2", "3"):
        (tmp_path / "a.veil").write_text(text)
        with pytest.raises(BadInput, match="--replace"):
            require_free(tmp_path / "a.veil", replace=False)
        set_aside(tmp_path / "a.veil")
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["1", "2", "3"]
    assert all(re.fullmatch(r"a\.\d{8}T\d{6}Z(-\d)?\.veil", path.name) for path in tmp_path.iterdir())
    require_free(tmp_path / "a.veil", replace=False)
    assert set_aside(tmp_path / "a.veil") is None


def test_each_configuration_that_looks_at_some_rows_is_counted_once_and_not_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert [looks_before("rows", one) for one in "abcab"] == [0, 1, 2, 0, 1]
    assert looks_before("others", "c") == 0
    path = tmp_path / "state/edgeveil/looks/rows"
    path.write_text(path.read_text() + "torn")  # a power cut: it was a look
    assert [looks_before("rows", one) for one in "de"] == [4, 5]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    with pytest.raises(BadInput, match="set XDG_STATE_HOME"):
        looks_before("rows", "d")


def test_audits_at_the_same_time_wait_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert looks_before("rows", "a") == 0
    lock = fcntl.flock
    with (tmp_path / "edgeveil/looks/rows").open() as other:
        lock(other, fcntl.LOCK_EX)
        monkeypatch.setattr(fcntl, "flock", lambda file, how: lock(file, how | fcntl.LOCK_NB))
        with pytest.raises(BadInput, match="cannot be written"):  # it would have waited
            looks_before("rows", "b")
    assert looks_before("rows", "b") == 1


def test_a_folder_that_others_can_write_into_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = own_folder(tmp_path / "run")
    assert folder == own_folder(tmp_path / "run")
    assert folder != own_folder(tmp_path / "another")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for mode in (0o777, 0o755):  # what lies there decides an audit, or is raw samples
        folder.chmod(mode)
        with pytest.raises(BadInput, match="not a folder that you alone can read and write"):
            own_folder(tmp_path / "run")
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")
    with pytest.raises(BadInput, match="not a folder"):
        own_folder(tmp_path / "run")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    with pytest.raises(BadInput, match="set XDG_CACHE_HOME"):
        own_folder(tmp_path / "run")
