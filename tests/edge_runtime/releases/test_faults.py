"""One command at a time, and a file that is lost or cannot be read switches nothing off: it is refused, and mended."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from edgeveil.edge_runtime.bundle import board_state
from edgeveil.edge_runtime.bundle.board_state import StateLost, read_state
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.device import OPEN_S
from edgeveil.edge_runtime.errors import BundleRefused, DeviceFailed
from edgeveil.edge_runtime.releases.runtimes import TRIAL_FRAMES_S
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.util import root_lock
from edgeveil.edge_runtime.util.filesystem import read_strict
from tests.support.bundles import KEY, make_bundle, trusted


def trust(floor):
    return Trust([trusted(KEY)], floor=floor)


def passes(_folder, _bundle):
    """A trial that all pass."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Bundles of security versions 1 and 9, and the folder of their key."""
    folder = tmp_path_factory.mktemp("bundles")

    def version(number):
        def change(manifest, _members):
            manifest["security_version"] = number

        return make_bundle(folder, change=change, name=f"{number}.veil")

    return {number: version(number) for number in (1, 9)}


@pytest.fixture
def board(tmp_path, made):
    """A board whose floor is 9."""
    root = tmp_path / "opt"
    root.mkdir()
    shutil.copytree(made[9].trust, root / "trust")
    Releases(str(root), trust).install(made[9].path.read_bytes(), passes)
    return root


def tree(root):
    return {p: p.read_bytes() if p.is_file() else b"" for p in root.rglob("*") if p.name != "lock"}


def lose(path):
    path.unlink()


def spoil(path):
    path.write_bytes(path.read_bytes()[:-3])


def hide(path):
    """A read error that root meets as well."""
    path.unlink()
    path.symlink_to(path.name)


def a_folder(path):
    path.unlink()
    path.mkdir()


FAULTS = [
    ("state.json", lose),
    ("state.json", spoil),
    ("state.json", hide),
    ("state.json", a_folder),
    ("state-copy.json", spoil),
    ("state-copy.json", hide),
]


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_fault_of_the_state_is_refused_and_mended_and_the_floor_stays(board, made, name, fault, capsys):
    current = (board / "current").readlink()
    fault(board / name)
    before = tree(board)
    for command in (["install", str(made[1].path)], ["recover"], ["rollback"], ["status"], ["releases", "--keep", "1"]):
        assert main([*command, "--root", str(board)]) == 4
        assert "edgeveil-edge recover --repair" in capsys.readouterr().err
    assert tree(board) == before
    if fault is a_folder:
        (board / name).rmdir()  # the person who mends it removes what is no file
    assert main(["recover", "--repair", "--root", str(board)]) == 0
    assert "floor 9" in capsys.readouterr().out
    assert (read_state(str(board)).floor, (board / "current").readlink()) == (9, current)
    assert main(["install", str(made[1].path), "--root", str(board)]) == 2
    assert "takes 9 or later" in capsys.readouterr().err


def test_an_error_of_the_disk_is_no_missing_file(board, made, monkeypatch):
    """EIO, which only a broken disk gives."""

    def broken(path):
        if path.endswith("state.json"):
            raise OSError(5, "Input/output error")
        return read_strict(path)

    monkeypatch.setattr(board_state, "read_strict", broken)
    with pytest.raises(StateLost, match=r"state\.json cannot be read \(Input/output error\)"):
        Releases(str(board), trust).install(made[1].path.read_bytes(), passes)
    assert (board / "current").exists()


def test_without_any_state_the_releases_tell_the_floor(board, made, capsys):
    for name in ("state.json", "state-copy.json"):
        (board / name).unlink()
    with pytest.raises(StateLost, match="had a release"):
        Releases(str(board), trust).install(made[1].path.read_bytes(), passes)
    assert main(["recover", "--repair", "--root", str(board)]) == 0
    assert "the releases alone" in capsys.readouterr().out
    assert read_state(str(board)).floor == 9


def lose_both_states(board):
    for name in ("state.json", "state-copy.json"):
        (board / name).write_bytes(b"")


def test_a_repair_needs_the_trust_to_judge_the_releases_by(board, capsys):
    lose_both_states(board)
    (board / "trust").rename(board / "elsewhere")
    before = tree(board)
    assert main(["recover", "--repair", "--root", str(board)]) == 2
    assert "trust" in capsys.readouterr().err
    assert tree(board) == before


def test_a_repair_does_not_forget_the_floor_of_a_release_that_it_cannot_read(board, capsys):
    lose_both_states(board)
    (bundle,) = board.glob("releases/*/bundle.veil")
    bundle.write_bytes(bundle.read_bytes()[:-1])
    before = tree(board)
    assert main(["recover", "--repair", "--root", str(board)]) == 4
    assert "is not whole, or not trusted any more" in capsys.readouterr().err
    assert tree(board) == before


def test_the_lock_is_roots_alone_even_where_an_older_one_was_not(tmp_path):
    (tmp_path / "lock").write_bytes(b"")
    (tmp_path / "lock").chmod(0o644)
    with root_lock.held(str(tmp_path), "install"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_user_who_may_not_change_the_releases_is_sent_to_the_one_who_may(tmp_path, monkeypatch):
    """Not to another place."""

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(root_lock.os, "open", refused)
        with pytest.raises(DeviceFailed) as caught, root_lock.held(str(tmp_path), "runtime"):
            pass
    assert str(caught.value) == (
        f"{tmp_path} is another user's, root's on most boards: nothing was done. Run this as that user (sudo)."
    )


def test_the_higher_floor_of_the_two_places_holds(board):
    for name in ("state.json", "state-copy.json"):
        kept = (board / name).read_bytes()
        (board / name).write_bytes(kept.replace(b'"floor":9', b'"floor":2'))
        assert read_state(str(board)).floor == 9
        Releases(str(board), trust).recover()
        assert json.loads((board / name).read_bytes())["floor"] == 9


def test_a_board_that_never_had_a_release_has_no_state(tmp_path):
    assert read_state(str(tmp_path)).floor == 0
    (tmp_path / "releases").mkdir()
    with pytest.raises(StateLost):
        read_state(str(tmp_path))


def test_a_floor_that_rose_during_a_trial_never_falls(board, made, tmp_path):
    """As a runtime of version 0.1 does it, which takes no lock."""
    root = tmp_path / "other"
    root.mkdir()
    releases = Releases(str(root), trust)

    def meanwhile(_folder, _bundle):
        for name in ("state.json", "state-copy.json"):
            shutil.copy(board / name, root / name)

    with pytest.raises(DeviceFailed, match="another command changed the releases"):
        releases.install(made[1].path.read_bytes(), meanwhile)
    assert read_state(str(root)).floor == 9


def test_run_and_verify_apply_the_floor_of_the_board(board, made, tmp_path, capsys):
    for more in (["--signature-only"], []):
        assert main(["verify", str(made[9].path), "--trust", str(board / "trust"), *more]) == 0
        assert main(["verify", str(made[1].path), "--trust", str(board / "trust"), *more]) == 2
        assert "this device takes 9 or later" in capsys.readouterr().err
    run = ["run", str(made[1].path), "--trust", str(board / "trust"), "--source", "npz:none.npz"]
    for sink in (f"npz:{tmp_path / 'out.npz'}", "tcp://127.0.0.1:9"):  # one process, and the service of two
        assert main([*run, "--sink", sink, "--as-root"]) == 2
        assert "this device takes 9 or later" in capsys.readouterr().err
    (board / "state.json").unlink()
    assert main(["verify", str(made[9].path), "--trust", str(board / "trust")]) == 4


def test_others_wait_for_the_lock_and_are_told_who_holds_it(board, made, monkeypatch, capsys):
    before = tree(board)
    releases = Releases(str(board), trust)
    waited = []
    monkeypatch.setattr(root_lock, "pause", waited.append)
    monkeypatch.setattr(root_lock.time, "monotonic", iter(range(0, 10**6, 25)).__next__)
    commands = (
        ["install", str(made[9].path)],
        ["recover"],
        ["recover", "--repair"],
        ["rollback"],
        ["releases", "--keep", "1"],
        ["update", "--from", "dir:/none"],
        ["runtime", "--previous"],
        ["trust", str(made[9].path)],
        ["policy", str(made[9].path)],
    )
    with releases.changing("install"):
        for command in commands:
            assert main([*command, "--root", str(board)]) == 4, command
            assert f"changed by edgeveil-edge install (process {os.getpid()})" in capsys.readouterr().err
    assert len(waited) >= 2 * len(commands)
    after = tree(board)
    assert after == before


def test_a_start_waits_as_long_as_an_update_tries_a_release(board, monkeypatch):
    """Where it gave up, the service would not start, and nobody would start it again."""
    handle, waited = os.open(board / "lock", os.O_RDWR), []

    def pause(seconds):
        waited.append(seconds)
        if 25 * len(waited) > 2 * (TRIAL_FRAMES_S + OPEN_S):
            fcntl.flock(handle, fcntl.LOCK_UN)

    monkeypatch.setattr(root_lock, "pause", pause)
    monkeypatch.setattr(root_lock.time, "monotonic", iter(range(0, 10**6, 25)).__next__)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert main(["recover", "--root", str(board)]) == 0
    os.close(handle)


def test_the_lock_ends_with_its_process(tmp_path):
    child = os.fork()
    if child == 0:
        handle = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(handle, fcntl.LOCK_EX)
        os._exit(0)
    os.waitpid(child, 0)
    with root_lock.held(str(tmp_path), "install", wait_s=0):
        assert "install" in Path(tmp_path / "lock").read_text()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(DeviceFailed, match="lock"), root_lock.held(str(tmp_path), "install"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_the_floor_is_refused_by_its_reason(board, made):
    with pytest.raises(BundleRefused) as refused:
        Releases(str(board), trust).install(made[1].path.read_bytes(), passes)
    assert refused.value.reason == "rolled-back"
