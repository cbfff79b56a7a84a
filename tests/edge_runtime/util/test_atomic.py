"""edgeveil.edge_runtime.util.atomic: whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.util.atomic import atomic_path, write_atomic


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a.bin"
    write_atomic(path, b"one")
    write_atomic(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["a.bin"]


def test_mode_is_kept_from_the_first_byte(tmp_path):
    with atomic_path(tmp_path / "key", mode=0o600) as temporary:
        assert stat.S_IMODE(Path(temporary).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_temporary_keeps_the_suffix_and_the_folder(tmp_path):
    with atomic_path(tmp_path / "x.npz") as temporary:
        assert temporary.endswith("x.npz")
        assert Path(temporary).parent == tmp_path


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no")])
def test_any_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")

    def fail():
        with atomic_path(path) as temporary, Path(temporary).open("wb") as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, number):
    def full(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("edgeveil.edge_runtime.util.atomic.os.fsync", full)
    with pytest.raises(DeviceFailed, match=r"cannot write .*a\.bin.*half-written") as caught:
        write_atomic(tmp_path / "a.bin", b"data")
    assert caught.value.exit_code == 2
    assert names(tmp_path) == []


def test_real_full_device_is_refused(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")

    def fill():
        with atomic_path(tmp_path / "a") as temporary:
            Path(temporary).unlink()
            Path(temporary).symlink_to("/dev/full")
            Path(temporary).write_bytes(b"x")

    with pytest.raises(DeviceFailed, match="space"):
        fill()
    assert names(tmp_path) == []


@pytest.mark.parametrize("place", ["missing/a", "file/a", "folder"])
def test_a_wrong_place_is_named(tmp_path, place):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DeviceFailed, match=place):
        write_atomic(tmp_path / place, b"x")
    assert names(tmp_path) == ["file", "folder"]


def test_an_error_about_another_file_is_not_called_a_write(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a"), (tmp_path / "other").open():
        pass
    assert names(tmp_path) == []
