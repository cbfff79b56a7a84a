"""Whatever a flash leaves where it is cut off or fails, the board answers, and the next flash ends what was begun.

The commands are those of a flash, executed here for real in a folder that stands for the board.
"""

import json
import os
import platform
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import tomllib

from edgeveil.devices import profiles, transports
from tests.support import bundles, output, programs
from tests.support.boards import owners, sshd
from tests.support.boards.simulated_board import SimulatedBoard
from tests.support.once import nightly_but
from tests.support.promised.counted_bundles import counted_example

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="a board's steps are root's"), pytest.mark.programs]
STEPS = ["trust", "upload", "install", "service", "ledger", "start"]
LATER = ["upload", "stop", "install", "service", "start"]
NOTHING = "There is no EdgeVeil on board: flash it first."


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """Two releases, the owner's trust, and a profile whose service has users of this machine."""
    programs.need("machine-id")  # of a ledger
    folder = tmp_path_factory.mktemp("owner")
    owners.trust(folder)
    document = tomllib.loads((profiles.FOLDER / "workstation.toml").read_text())
    document["architecture"] = platform.machine()
    document["service"] |= {"user": "daemon", "inside_user": "nobody"}
    (folder / "board.toml").write_text(tomli_w.dumps(document))
    veils = (owners.bundle(folder, f"{k}.veil", example=counted_example(), version=k).path for k in (1, 2))
    return folder, *veils


@pytest.fixture(scope="module")
def top():
    """A folder that every user may enter, as a board's are."""
    with tempfile.TemporaryDirectory(dir="/opt") as folder:  # no unit reads /tmp
        Path(folder).chmod(0o755)
        np.savez(f"{folder}/camera.npz", x=np.tile(np.arange(4, dtype=np.uint8), (40, 1)))
        Path(f"{folder}/broken.npz").write_bytes(b"")
        yield Path(folder)


@pytest.fixture
def new(top):
    """Makes a board that was never flashed; always at the same path, which its files name."""

    def made(**more):
        shutil.rmtree(top / "board", ignore_errors=True)
        return SimulatedBoard(top / "board", **more)

    return made


@pytest.fixture
def used(new, top, flash):
    """Makes a board that runs the first release."""

    def made(**more):
        board = new()
        if (top / "used").exists():
            shutil.copytree(top / "used", board.folder, symlinks=True, dirs_exist_ok=True)
            for name in ("var/lib/edgeveil", "var/lib/edgeveil/ledger"):
                os.chown(board.folder / name, 1, 1)
        else:
            code, _, said = flash(board, 1)
            assert code == 0, said
            shutil.copytree(board.folder, top / "used", symlinks=True)
        return SimulatedBoard(board.folder, **more)

    return made


@pytest.fixture
def edgeveil(owner, monkeypatch, capfd):
    """Runs ``edgeveil`` on a board with these ``keys`` of boards.toml; returns exit code, stdout and stderr."""

    command = output.in_process(monkeypatch, capfd)

    def run(board, *words, **keys):
        monkeypatch.setattr(transports, "open_transport", lambda *_, **__: board)
        more = sshd.boards_file(board.folder, {"ssh://board": {"root": board.root, **keys}})
        code, out, said = command(*words, "--on", "ssh://board", *more)
        assert "Traceback" not in said
        return code, out, said

    return run


@pytest.fixture
def flash(edgeveil, owner, top):
    def run(board, number, *more, camera="camera.npz"):
        where = ["--for", owner[0] / "board.toml", "--trust", owner[0] / "root", "--json"]
        asked = ["--source", f"npz:{top / camera}", "--sink", "tcp://127.0.0.1:9"] if camera else []
        return edgeveil(board, "flash", owner[number], *where, *asked, *more)

    return run


def sha_of(owner, number):
    from edgeveil.edge_runtime.bundle.reader import read_bundle

    return read_bundle(owner[number].read_bytes(), bundles.trust()).manifest_sha256


def check(edgeveil, flash, owner, board, number, was):
    """What a board answers in the state that it is in, and that flashing ``number`` ends what was begun.

    ``was`` is the release that it ran before, or None.
    """
    board, wanted = SimulatedBoard(board.folder), sha_of(owner, number)
    runtime = board.root / "runtime/current/edgeveil-edge.pyz"
    for command in ("releases", "rollback", *["status"] * (not runtime.exists())):
        code, _, said = edgeveil(board, "board", command)
        if not runtime.exists():
            assert (code, said) == (2, f"error: {NOTHING}\n")
        elif command == "rollback":
            assert code == 2
            assert "no previous release" in said or "this device takes 2" in said
        else:
            # A service that does not run is said by its own code.
            assert (code, "error" in said) == (0, False) or (code, command) == (3, "status"), said
    if runtime.exists():
        recovered = board.run([board.python, str(runtime), "recover", "--root", str(board.root)])
        assert recovered.code == 0, recovered.err
        status = json.loads(edgeveil(board, "status", "--json")[1])
        assert status["current"] == status["committed"] in (was, wanted), "the one before, or the new one whole"

    code, out, said = flash(board, number, "--dry-run")
    assert code == 0, said
    planned = json.loads(out)["steps"]
    assert planned or (board.service["active"] and board.service["release"] == wanted), "nothing to do, where it runs"
    code, out, said = flash(board, number)
    assert code == 0, said
    assert json.loads(out)["steps"] == planned
    assert board.service == {"active": True, "release": wanted, "enabled": True}
    ledger = board.folder / "var/lib/edgeveil/ledger"
    assert (ledger.stat().st_uid, ledger.parent.stat().st_uid, [*ledger.parent.iterdir()]) == (1, 1, [ledger])
    code, out, said = flash(board, number, "--dry-run")
    assert (code, json.loads(out)["steps"]) == (0, []), said


def test_the_steps_that_are_walked(flash, new, used):
    """All kinds but wheels, which this machine has."""
    _, out, said = flash(new(), 1, "--dry-run")
    assert json.loads(out)["steps"] == STEPS
    assert re.search(r"^sends tcp://127\.0\.0\.1:9: \d+ bytes a record, .* a day, .* covers an outage of", said, re.M)
    assert json.loads(flash(used(), 2, "--dry-run")[1])["steps"] == LATER


FIRST = [
    *("trust/trust.json", ".veil", "edgeveil-edge.pyz", " install ", "/etc/edgeveil/edge.json"),
    *("/etc/systemd/system/edgeveil.service", "enable", "var/lib/edgeveil/ledger", "restart", "rmdir"),
]


@pytest.mark.parametrize("step", nightly_but(FIRST, " install "))
def test_a_first_flash_that_is_cut_off(edgeveil, flash, owner, new, step):
    board = new(break_before=step)
    code, _, said = flash(board, 1)
    assert (code, "was lost" in said) == (4, True)
    check(edgeveil, flash, owner, board, 1, None)


@pytest.mark.nightly  # by day a first flash, above, and an install of a second release that is killed, below
@pytest.mark.parametrize("step", [".veil", "stop", " install ", "edge.json", "restart", "rmdir"])
def test_a_second_flash_that_is_cut_off(edgeveil, flash, owner, used, step):
    board = used(break_before=step)
    code, _, said = flash(board, 2)
    assert (code, "was lost" in said) == (4, True)
    check(edgeveil, flash, owner, board, 2, sha_of(owner, 1))


@pytest.mark.nightly  # by day its plan: plans/the-same-and-the-service-is-another.toml
def test_a_service_that_runs_the_release_before_is_not_taken_for_one_that_runs_the_new_one(
    edgeveil, flash, owner, used
):
    """It keeps its settings, is never stopped, and the line breaks between the commit and its restart."""
    board = used(break_before="restart")
    assert flash(board, 2, camera=None)[0] == 4
    assert board.service == {"active": True, "release": sha_of(owner, 1), "enabled": True}
    check(edgeveil, flash, owner, board, 2, sha_of(owner, 1))


@pytest.mark.parametrize(
    ("number", "appears"),
    nightly_but(
        [(number, appears) for appears in ("runtime/current", "releases/{}", "current") for number in (1, 2)],
        (2, "releases/{}"),
    ),
)
def test_an_install_that_is_killed(edgeveil, flash, owner, new, used, top, number, appears):
    """As a power cut ends it: while the runtime is put there, the release staged, and tried."""
    place = top / "board/opt/edgeveil" / appears.format(sha_of(owner, number))
    wanted = sha_of(owner, number)

    def there():
        return place.exists() and (appears != "current" or place.resolve().name == wanted)

    board = (new if number == 1 else used)(kill=("install", there))
    code, _, said = flash(board, number)
    assert (code, "was lost" in said) == (4, True)
    check(edgeveil, flash, owner, board, number, None if number == 1 else sha_of(owner, 1))


@pytest.mark.parametrize("number", nightly_but((1, 2), 2))
def test_a_trial_that_fails(edgeveil, flash, owner, new, used, number):
    """The camera gives nothing. The board goes on with what it ran, and the release has its next try."""
    board = (new if number == 1 else used)()
    code, _, said = flash(board, number, camera="broken.npz")
    assert (code, "was taken back" in said) == (4, True), said
    assert number == 1 or board.service["active"]
    assert f"failed: 1 x {sha_of(owner, number)}" in edgeveil(board, "status")[1]
    assert "failed its trial here before (1)" in flash(board, number, "--dry-run")[2]
    check(edgeveil, flash, owner, board, number, None if number == 1 else sha_of(owner, 1))


@pytest.mark.nightly  # by day its plan: plans/a-release-that-failed-three-times.toml
def test_a_trial_that_fails_is_said_though_the_service_does_not_start_again(flash, used):
    code, _, said = flash(used(fail="start"), 2, camera="broken.npz")
    *lines, last = said.splitlines()
    assert (code, "was taken back" in last) == (4, True), said
    assert any("did not start again: systemctl start failed" in line for line in lines)


def test_a_release_that_failed_three_times_is_flashed_on_request_and_the_dry_run_says_so(flash, owner, new):
    board = new()
    for _ in range(3):
        assert flash(board, 1, camera="broken.npz")[0] == 4
    for more in ([], ["--dry-run"]):
        code, _, said = flash(board, 1, *more)
        assert (code, "failed its trial on this board 3 times" in said) == (2, True), said
    assert flash(board, 1, "--accept", "again")[0] == 0


@pytest.mark.nightly  # by day test_try_settings.py
@pytest.mark.parametrize("number", [1, 2])
def test_a_service_that_does_not_start(edgeveil, flash, owner, new, used, number):
    board = (new if number == 1 else used)(fail="restart")
    assert flash(board, number)[0] == 4
    check(edgeveil, flash, owner, board, number, sha_of(owner, 1))
