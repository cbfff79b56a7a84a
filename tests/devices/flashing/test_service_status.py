"""A board whose service does not run is not well, whatever release it has: status ends with 3."""

import http.server
import json
import os
import threading
import time
import types

import pytest

from edgeveil.devices import transports
from edgeveil.devices.flashing import steps
from edgeveil.devices.fleet import UNSAID, not_well
from edgeveil.edge_runtime.machine import clock_word
from edgeveil.edge_runtime.outside import status
from edgeveil.edge_runtime.sinks.network_base import NOTHING_YET
from tests.devices.flashing.test_every_state import edgeveil, flash, new, owner, top, used  # noqa: F401 - fixtures
from tests.edge_runtime.sinks.test_network_http_tcp import Server
from tests.support import network_receivers, output
from tests.support.boards import sshd

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="a board's steps are root's"), pytest.mark.programs]


@pytest.fixture
def pages():
    """Serves /readyz and /healthz with what ``answer`` has; its port is in ``answer["port"]``."""
    answer = {"code": 200, "text": "ok\n", "receivers": [{}]}

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            health = self.path == "/healthz"
            said = answer["receivers"]
            text = json.dumps({"receivers": said.pop(0) if said[1:] else said[0]}) if health else answer["text"]
            assert health or self.path == "/readyz"
            self.send_response(200 if health else answer["code"])
            self.end_headers()
            self.wfile.write(text.encode())

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


def test_a_service_that_runs_and_is_not_ready_is_not_well(edgeveil, fleet, board, pages):  # noqa: F811 - fixtures
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


REFUSED = {"mqtt://broker/hall": "the broker refuses the connection (Not authorized); check user=", "tcp://a:1": "ok"}
NAMED = "mqtt://broker/hall: the broker refuses the connection (Not authorized); check user="


def test_a_receiver_that_refuses_is_named_by_status_and_fleet(edgeveil, fleet, board, pages):  # noqa: F811 - fixtures
    pages["receivers"] = [REFUSED]
    code, out, _ = edgeveil(board, "board", "status")
    assert (code, f"\nreceiver: {NAMED}\nreceiver: tcp://a:1: ok\n" in out) == (0, True)
    code, out, _ = fleet(board)
    (row,) = json.loads(out)["boards"]
    assert (code, f"; {NAMED}" in row["said"], "tcp://a:1" in row["said"]) == (0, True, False)


def test_a_flash_waits_for_its_receivers_and_names_one_that_refuses(flash, board, pages, monkeypatch):  # noqa: F811 - fixtures
    """Not at once: a service that has just started has tried none of them yet."""
    monkeypatch.setattr(steps, "time", types.SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic))
    waits = {"mqtt://broker/hall": NOTHING_YET, "tcp://a:1": "ok"}
    pages["receivers"] = [waits, waits, REFUSED]
    monkeypatch.setattr(status.config, "read", lambda _: {"health": f"127.0.0.1:{pages['port']}"})
    code, out, said = flash(board, 2)
    assert code == 0, said
    assert json.loads(out)["refused"] == [NAMED]
    assert f"note: records do not arrive at {NAMED}. The service runs.\n" in said
    assert len(pages["receivers"]) == 1, "asked until the last answer"


def test_a_flash_whose_records_arrive_says_nothing_of_it(flash, board, pages, monkeypatch):  # noqa: F811 - fixtures
    pages["receivers"] = [{"mqtt://broker/hall": "ok"}]
    monkeypatch.setattr(status.config, "read", lambda _: {"health": f"127.0.0.1:{pages['port']}"})
    code, out, said = flash(board, 2)
    assert (code, json.loads(out)["refused"], "do not arrive" in said) == (0, [], False)


def test_a_check_has_the_board_reach_its_receivers(edgeveil, owner, new, tmp_path):  # noqa: F811 - fixtures
    """By TLS where the sink has it, with its own authority; passwords and topics are the service's to try."""
    ca, cert, key = network_receivers.certificates(tmp_path)
    server = Server(tls=(cert, key))
    shut, plain = network_receivers.free_port(), Server()
    try:
        keys = {
            "profile": owner[0] / "board.toml",
            "sinks": [
                *(f"https://localhost:{server.port}/hook-7c1{more}" for more in ("", f"?ca={ca}")),
                *(f"{scheme}://127.0.0.1:{shut}" for scheme in ("tcp", "http")),
                f"tcp://127.0.0.1:{plain.port}",
                f"https://127.0.0.1:{plain.port}/hook-7c1",
            ],
        }
        code, out, _ = edgeveil(new(), "board", "check", **keys)
    finally:
        server.close()
        plain.close()
    rows = [" ".join(line.split()) for line in out.splitlines() if "an answer for" in line]
    assert (code, "hook-7c1" in out) == (3, False)
    refused = "connection refused -> start the receiver there, or name its host and port"
    at = f"an answer for https://localhost:{server.port}/..."
    assert rows[0].startswith(f"missing {at} its certificate is refused (")
    assert rows[0].endswith("-> name its authority: ca=FILE")
    assert rows[1:5] == [
        f"ok {at} there",
        f"missing an answer for tcp://127.0.0.1:{shut} {refused}",
        f"missing an answer for http://127.0.0.1:{shut} {refused}",
        f"ok an answer for tcp://127.0.0.1:{plain.port} there",
    ]
    assert "TLS fails (" in rows[5]
    assert rows[5].endswith("-> name its port for TLS")
