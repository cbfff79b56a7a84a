"""Downgrades through faults: two commands at once, a power cut, a read error, and parts of a backup put back.

The bundle is one that the board took once and that its owner's newest files forbid. It never comes in again.
"""

import errno
import itertools
import os
import random
import shutil
import threading

import pytest

from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.edge_runtime.util import root_lock
from tests.edge_runtime.bundle.signed_trust import contents
from tests.edge_runtime.bundle.taken_once import SINCE, attempt, board, counted, releases_of, say
from tests.support import seeds
from tests.support.boards.power_cut import Volume, WrittenDown, WrittenDownOs, write_out
from tests.support.boards.power_cut import contents as contents_of
from tests.support.once import nightly_but

FILES = ("trust/root.pub", "trust/trust.json", "trust/policy.json", "trust/policy-signed.json")
STATES = ("state.json", "state-copy.json")


@pytest.fixture
def tmp_path(in_memory):
    return in_memory


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a board before its owner said anything, and the file of the old bundle."""
    folder, _, old = board(tmp_path_factory.mktemp("made"))
    return folder.parent, old


@pytest.fixture
def before(made, tmp_path):
    """A copy of that board: its trust folder, and the old bundle."""
    root, old = made
    shutil.copytree(root, tmp_path / "opt", symlinks=True)
    shutil.copy(old, tmp_path)
    return tmp_path / "opt" / "trust", tmp_path / old.name


def is_refused(way, folder, old):
    """Refused with words for its owner, and neither what runs nor the floor is another."""
    releases = releases_of(folder, WrittenDown())
    was = {name: data for name, data in contents(folder.parent).items() if "index-seen" not in name}
    kept = {name: was[name] for name in was if name not in ("lock", "update.lock", *STATES)}
    current = releases.current
    with pytest.raises(EdgeVeilError):
        attempt(way, folder, releases, old)
    now = contents(folder.parent)
    assert {name: now[name] for name in kept} == kept
    assert releases.current == current


@pytest.mark.parametrize("way", ["install", "rollback"])
@pytest.mark.parametrize("since", SINCE)
def test_a_command_that_waited_for_the_owners_files_is_held_to_them(before, since, way, monkeypatch, record_property):
    """It was begun before them, and got the lock after."""
    counted(record_property, way + ", begun before another command ended", since)
    folder, old = before
    waits, errors = threading.Event(), []
    pause = root_lock.pause
    monkeypatch.setattr(root_lock, "pause", lambda seconds: (waits.set(), pause(0.01)))

    def meanwhile():
        try:
            attempt(way, folder, releases_of(folder), old)
        except EdgeVeilError as error:
            errors.append(error)

    other = threading.Thread(target=meanwhile)
    current = releases_of(folder).current
    with releases_of(folder).changing("trust"):
        other.start()
        assert waits.wait(30)
        say(since, folder)
    other.join(30)
    assert [type(error).__name__ for error in errors] == ["BundleRefused"]
    assert releases_of(folder).current == current


@pytest.mark.parametrize("since", nightly_but(SINCE, "revoked", "audit not countersigned"))
def test_a_power_cut_while_they_come_leaves_a_board_that_takes_them(before, tmp_path, since, record_property):
    """Every state that a cut at any file operation may leave: it comes up, takes them again, and refuses the bundle."""
    folder, old = before
    root, recorded, log = folder.parent, WrittenDownOs(), []
    shutil.copytree(root, tmp_path / "written", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgeveil.edge_runtime.util.atomic.os", recorded)
        recorded.here.disk = WrittenDown(log=log)
        say(since, tmp_path / "written" / "trust")
    here, there = str(tmp_path / "written"), str(root)
    log = [tuple(part.replace(here, there) if isinstance(part, str) else part for part in one) for one in log]
    volume, rng, cases = Volume(root), random.Random(seeds.seed(0)), 0  # noqa: S311 - states to try, not secrets
    known = set(), set()  # states before the end, and at the end
    for step in range(len(log) + 1):
        if step:
            volume.apply(log[step - 1])
        for tree in volume.states(rng, 1):
            came, found = known[step == len(log)], contents_of(tree)
            if found in came:
                continue
            came.add(found)
            cases += 1
            place = tmp_path / "cut" / "opt"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            write_out(tree, place)
            releases_of(place / "trust", WrittenDown()).recover()
            assert open_trust(place / "trust").version == 2 or step < len(log), "it was over"
            say(since, place / "trust")
            is_refused("install", place / "trust", old)
    assert cases >= 50
    counted(record_property, "install, after a power cut", since, cases)


@pytest.mark.parametrize("name", [*FILES, *STATES])
@pytest.mark.parametrize("since", SINCE)
def test_a_file_that_cannot_be_read_opens_nothing(before, since, name, monkeypatch, record_property):
    counted(record_property, "install, with a read error", since)
    folder, old = before
    say(since, folder)
    path, real = str(folder.parent / name), open
    if not (folder.parent / name).exists():
        return is_refused("install", folder, old)

    def failing(asked, *arguments, **options):
        if str(asked) == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(asked, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", failing)
        with pytest.raises(EdgeVeilError):
            attempt("install", folder, releases_of(folder), old)
    return is_refused("install", folder, old)


def backups():
    """Every part of a backup but all of it: at least one of the two places of the state is today's."""
    for states in ((), STATES[:1], STATES[1:]):
        for count in range(len(FILES) + 1):
            for some in itertools.combinations(FILES, count):
                if states or some:
                    yield (*states, *some)


@pytest.mark.parametrize("since", nightly_but(SINCE, "rotated", "old version", "policy over its limit"))
def test_parts_of_a_backup_open_nothing(before, tmp_path, since, record_property):
    """Mix and match of the owner's own files: each of them was right once, or was not there."""
    folder, old = before
    backup = tmp_path / "backup"
    shutil.copytree(folder.parent, backup, symlinks=True)
    say(since, folder)
    today, cases = tmp_path / "today", 0
    shutil.copytree(folder.parent, today, symlinks=True)
    for part in backups():
        shutil.rmtree(folder.parent)
        shutil.copytree(today, folder.parent, symlinks=True)
        for name in part:
            (folder.parent / name).unlink(missing_ok=True)
            if (backup / name).exists():
                shutil.copy(backup / name, folder.parent / name)
        is_refused("install", folder, old)
        cases += 1
    assert cases == 47
    counted(record_property, "install, with parts of a backup", since, cases)
