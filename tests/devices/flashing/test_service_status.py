"""A board whose service does not run is not well, whatever release it has: status ends with 3."""

import http.server
import json
import os
import threading

import pytest

from edgeveil.devices import transports
from edgeveil.devices.fleet import UNSAID, not_well
from edgeveil.edge_runtime.machine import clock_word
from tests.devices.flashing.test_every_state import edgeveil, flash, new, owner, top, used  # noqa: F401 - fixtures
from tests.support import output
from tests.support.boards import sshd

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="a board's steps are root's"), pytest.mark.programs]


@pytest.fixture
def pages():
    """Serves /readyz with what ``answer`` has; its port is in ``answer["port"]``."""
    answer = {"code": 200, "text": "ok\n"}

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.path == "/readyz"
            self.send_response(answer["code"])
            self.end_headers()
            self.wfile.write(answer["text"].encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        answer["port"] = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield answer
        server.shutdown()


@pytest.fixture
def board(used, pages):  # noqa: F811
    """A flashed board whose pages are at the port of ``pages``."""
    board = used()
    path = board.folder / "etc/edgeveil/edge.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "health": f"127.0.0.1:{pages['port']}"}))
    return board


@pytest.fixture
def fleet(monkeypatch, capfd):
    def run(board):
        monkeypatch.setattr(transports, "open_transport", lambda *_, **__: board)
        more = sshd.boards_file(board.folder, {"ssh://board": {"root": board.root}})
        return output.in_process(monkeypatch, capfd)("fleet", *more, "status", "--json")

    return run


def stopped(board):
    path = board.folder / "systemctl.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "active": False}))


def test_a_board_that_runs_is_well(edgeveil, fleet, board):  # noqa: F811
    code, out, _ = edgeveil(board, "board", "status")
    assert code == 0
    assert "service: edgeveil-inside.service active, edgeveil.service active; ready: ok\n" in out
    assert f"\nclock: {clock_word()}\n" in out
    code, out, said = fleet(board)
    assert (code, json.loads(out)["boards"][0]["state"], "1 of 1 boards well" in said) == (0, "done", True)


def test_a_failed_unit_is_said_with_code_3(edgeveil, fleet, board):  # noqa: F811
    stopped(board)
    code, out, said = edgeveil(board, "board", "status")
    assert (code, "edgeveil.service failed" in out) == (3, True)
    assert "the service is not well: edgeveil-inside.service is failed, edgeveil.service is failed" in said
    code, out, _ = edgeveil(board, "board", "status", "--json")
    assert (code, json.loads(out)["service"]["well"]) == (3, False)
    code, out, said = fleet(board)
    (row,) = json.loads(out)["boards"]
    assert (code, row["state"], "0 of 1 boards well" in said) == (3, "not well", True)
    assert row["said"].startswith("edgeveil-inside.service is failed, edgeveil.service is failed; runs ")


def test_a_service_that_runs_and_is_not_ready_is_not_well(edgeveil, fleet, board, pages):  # noqa: F811
    pages.update(code=503, text="no frame for 12 s\n")
    code, out, said = edgeveil(board, "board", "status")
    assert (code, "ready: no frame for 12 s" in out, "/readyz: no frame for 12 s" in said) == (3, True, True)
    assert fleet(board)[0] == 3
    pages.update(code=200, text="ok\n")
    assert fleet(board)[0] == 0


def test_one_whose_pages_do_not_answer_and_one_whose_pages_are_off(edgeveil, board):  # noqa: F811
    path = board.folder / "etc/edgeveil/edge.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "health": "127.0.0.1:1"}))
    code, _, said = edgeveil(board, "board", "status")
    assert (code, "no answer at 127.0.0.1:1" in said) == (3, True)
    path.write_text(json.dumps({**settings, "health": "off"}))
    assert edgeveil(board, "board", "status")[0] == 0


def test_a_board_without_a_service_is_well(edgeveil, owner, top, new):  # noqa: F811
    board = new()
    where = ["--for", owner[0] / "board.toml", "--trust", owner[0] / "root", "--no-service"]
    assert edgeveil(board, "flash", owner[1], *where)[0] == 0
    code, out, _ = edgeveil(board, "board", "status")
    assert (code, "service: none\n" in out) == (0, True)


def test_of_an_earlier_runtime_systemd_is_asked():
    class Earlier:
        def has_service(self):
            return True

        def unit_states(self):
            return {"edgeveil.service": "failed", "edgeveil-inside.service": "active"}

    assert not_well(Earlier(), UNSAID) == "edgeveil.service is failed"
    assert "cannot read" in not_well(Earlier(), {"units": 3})
