"""A board without systemd (the arm64 userland, started by nothing but its sshd): the service is kept all the same."""

import json
import sys
import time

import pytest

from edgeveil.trainer.cli.main import main
from tests.support import emulated_boards
from tests.support.watching_bundle import OVERHEAD, watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow]

ASK = 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:9464/healthz", timeout=5).read().decode())'


@pytest.fixture(scope="module")
def board():
    with emulated_boards.board("userland") as up:
        yield up


@pytest.fixture
def edgeveil(board, monkeypatch, capfd):
    """Runs ``edgeveil`` and returns (exit code, stdout, stderr)."""

    def run(*arguments, options=True):
        more = board.options() if options else []
        monkeypatch.setattr(sys, "argv", ["edgeveil", *(str(a) for a in arguments), *more])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capfd.readouterr()
        return ended.value.code, out.out, out.err

    return run


def health(board, *, after=-1):
    """What the service says of itself, once more than ``after`` frames have left it."""
    board.put(ASK.encode(), "/root/ask.py")
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        said = board.run("timeout 20 python3 /root/ask.py", any_code=True, timeout_s=60).stdout
        if said and json.loads(said)["frames_out"] > after:
            return json.loads(said)
        time.sleep(1)
    raise AssertionError(board.run("tail -n 40 /var/log/edgeveil.log", any_code=True).stdout.decode())


def processes(board):
    """Number and owner of either half, by the word on its command line."""
    found = board.run("ps -eo pid=,user:20=,args= | grep '[e]dgeveil-edge.pyz'", any_code=True).stdout.decode()
    lines = [line.split(None, 2) for line in found.splitlines()]
    return {
        half: (pid, user) for pid, user, words in lines for half in ("run", "inside") if f" {half} --config" in words
    }


def test_flashed_kept_started_again_gone_back_and_stopped(edgeveil, board, tmp_path):
    owner, first, second = watching_bundle(tmp_path, "first", "second", capture=OVERHEAD)
    code, _, said = edgeveil("wheels", "raspberry-pi-cpu", "--out", tmp_path / "wheels", options=False)
    assert code == 0, said
    common = ["--to", board.target, "--for", "raspberry-pi-cpu", "--trust", owner, "--wheels", tmp_path / "wheels"]
    service = ["--source", "simulate:depth?fps=10", "--sink", "npz:/var/lib/edgeveil?rotate=1MB,20s"]
    # systemd's StateDirectory= is not here: where a sink may write is its owner's to say.
    board.run("mkdir -p -m 1777 /var/lib/edgeveil")
    code, out, said = edgeveil("flash", first.path, *common, *service, "--json")
    assert code == 0, said
    assert json.loads(out)["steps"] == ["trust", "site", "upload", "install", "service"]
    assert "nothing here starts it at boot: have what starts this system run /etc/init.d/edgeveil start" in said
    before = health(board, after=0)
    assert before["bundle"] == "first"
    there = processes(board)
    assert {half: user for half, (_, user) in there.items()} == {"run": "edgeveil", "inside": "edgeveil-inside"}

    code, out, said = edgeveil("flash", first.path, *common, *service, "--json")
    assert (code, json.loads(out)["steps"]) == (0, []), said

    board.run(f"kill -9 {there['inside'][0]}")
    deadline = time.monotonic() + 60
    while processes(board).get("inside", there["inside"]) == there["inside"]:
        assert time.monotonic() < deadline
        time.sleep(1)
    assert processes(board)["run"] == there["run"]
    health(board, after=health(board)["frames_out"])

    code, _, said = edgeveil("flash", second.path, *common)
    assert code == 0, said
    assert health(board, after=0)["bundle"] == "second"
    code, _, said = edgeveil("rollback", board.target)
    assert code == 0, said
    assert health(board, after=0)["bundle"] == "first"
    code, out, _ = edgeveil("logs", board.target)
    assert code == 0
    assert "the inside ended with -9" in out
    assert "ready" in out
    code, _, said = edgeveil("stop", board.target)
    assert code == 0, said
    assert processes(board) == {}
    assert board.run("/etc/init.d/edgeveil status", any_code=True).stdout == b"does not run\n"
