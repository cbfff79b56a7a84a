"""Settings are tried like releases: the ones before come back where the service is not ready with the new ones."""

import json
import os

import pytest

from tests.devices.flashing.test_every_state import edgeveil, flash, new, owner, top, used  # noqa: F401 - fixtures
from tests.support.boards.simulated_board import SimulatedBoard

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="a board's steps are root's"), pytest.mark.programs]
REFUSED = "tcp://refuses:9"  # settings with this word are those that the unit of the simulated board refuses


@pytest.fixture
def resettled(edgeveil, owner, top):  # noqa: F811
    """Flashes the release that runs with another sink."""

    def run(board, sink, *more):
        where = ["--for", owner[0] / "board.toml", "--trust", owner[0] / "root", "--source", f"npz:{top}/camera.npz"]
        return edgeveil(board, "flash", owner[1], *where, "--sink", sink, *more)

    return run


def files(board):
    return {
        str(path.relative_to(board.folder)): (path.read_bytes(), path.stat().st_mode, path.stat().st_gid)
        for path in (board.folder / "etc").rglob("*")
        if path.is_file()
    }


def test_the_old_settings_come_back_and_the_units_last_line_is_said(resettled, used):  # noqa: F811
    board = used()
    before = files(board)
    code, _, said = resettled(board, REFUSED)
    assert code == 4
    assert "The service was not ready in its time (expected another sink; edgeveil.service failed)" in said
    assert "It runs with the settings before again" in said
    assert said.count("expected another sink; edgeveil.service failed") == 2, "the lines, then the error"
    assert (files(board), board.service["active"]) == (before, True)
    assert not (board.root / "unfinished/settings").exists(), "what may hold a password"
    code, _, said = resettled(board, "tcp://10.0.0.2:9")
    assert (code, board.service["active"], (board.root / "unfinished").exists()) == (0, True, False), said


def test_the_plan_says_so_where_there_are_settings_before(resettled, used, new):  # noqa: F811
    words = "back to the settings before if that fails"
    assert words in resettled(used(), REFUSED, "--dry-run")[2]
    assert words not in resettled(new(), REFUSED, "--dry-run")[2]


def test_a_first_flash_has_nothing_to_go_back_to(resettled, new):  # noqa: F811
    board = new()
    code, _, said = resettled(board, REFUSED)
    assert (code, "It does not run" in said, board.service["active"]) == (4, True, False)
    assert (board.folder / "etc/edgeveil/edge.json").exists(), "to be looked at"


@pytest.mark.parametrize("step", ["/etc/edgeveil/edge.json", pytest.param("restart", marks=pytest.mark.nightly)])
def test_after_a_flash_that_was_cut_off_the_settings_before_are_those_that_last_ran(resettled, used, step):  # noqa: F811
    board = used()
    before = files(board)
    cut = SimulatedBoard(board.folder, break_before=step)
    assert resettled(cut, "tcp://10.0.0.3:9")[0] == 4
    code, _, said = resettled(SimulatedBoard(board.folder), REFUSED)
    assert (code, files(board)) == (4, before), said


@pytest.mark.parametrize("step", [pytest.param("-m 644", marks=pytest.mark.nightly), "restart"])
def test_a_power_cut_before_a_start_had_tried_them_brings_the_settings_before_back_at_boot(resettled, used, step):  # noqa: F811
    board = used()
    before = files(board)
    assert resettled(SimulatedBoard(board.folder, break_before=step), "tcp://10.0.0.3:9")[0] == 4
    cut_off = files(board)
    runtime = str(board.root / "runtime/current/edgeveil-edge.pyz")
    recover = [board.python, runtime, "recover", "--settings", "--root", str(board.root)]
    done = SimulatedBoard(board.folder).run(recover)
    assert (done.code, done.out, files(board)) == (0, b"", cut_off), "a flash may be at it: this is the same boot"
    kept = board.root / "unfinished/settings/list.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "boot": "the one before"}))
    done = SimulatedBoard(board.folder).run(recover)
    assert (done.code, b"The settings before are back" in done.out) == (0, True), done.err
    assert (files(board), kept.parent.exists()) == (before, False)
    assert SimulatedBoard(board.folder).run(recover).out == b""


def test_units_that_were_new_are_taken_off_again(edgeveil, owner, top, used):  # noqa: F811
    board = used()
    before = files(board)
    where = ["--for", owner[0] / "board.toml", "--trust", owner[0] / "root", "--source", f"npz:{top}/camera.npz"]
    code, *_ = edgeveil(board, "flash", owner[1], *where, "--sink", REFUSED, update="https://updates.example/all")
    assert (code, files(board)) == (4, before)
    assert json.loads((board.folder / "systemctl.json").read_text())["active"]
