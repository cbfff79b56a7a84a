"""``edgeveil-edge report``: from a real board's folder to a real broker and a real HTTPS server."""

import http.server
import json
import shutil
import ssl
import stat
import threading

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.outside.report import condition
from edgeveil.edge_runtime.outside.report import report_form as form
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.collect.feeds.last_messages import retained
from edgeveil.trainer.sealing.update_index import write_index
from tests.support import bundles, network_receivers, programs

pytestmark = pytest.mark.programs


@pytest.fixture
def server(tmp_path):
    """Keeps what is posted to a real HTTPS server; ``answer`` is its status. Gives the address of a board."""
    ca, cert, key = network_receivers.certificates(tmp_path)

    class Handler(http.server.BaseHTTPRequestHandler):
        posted, answer = [], 204

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.posted.append((self.path, self.headers["Content-Type"], body))
            self.send_response(Handler.answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    made.socket = context.wrap_socket(made.socket, server_side=True)
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    Handler.to = f"https://localhost:{made.server_address[1]}/fleet/hall-1?ca={ca}"
    yield Handler
    made.shutdown()
    made.server_close()


def report(root, to, *more):
    return main(["report", "--root", str(root), "--to", str(to), *more])


def test_an_https_server_gets_what_the_board_is(board, server, capsys):
    assert report(board.root, server.to) == 0
    ((path, kind, body),) = server.posted
    assert (path, kind, len(body)) == ("/fleet/hall-1", "application/vnd.edgeveil.report+json", form.BYTES)
    found = form.read(body)
    assert main(["report", "--root", str(board.root), "--key"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == found.key
    assert main(["status", "--root", str(board.root), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    said = found.document
    assert (said["board"], said["number"], said["unsent"]) == ("hall-1", 1, 0)
    assert said["release"] == {"sha256": status["committed"], "name": "first", "security_version": 1}
    assert (said["floor"], said["runtime"], said["logs"]) == (status["floor"], status["runtime"], [])
    assert said["health"]["disk_free_mb"] > 0


def test_the_key_is_made_once_and_is_roots_alone(board, server):
    for _ in range(2):
        assert report(board.root, server.to) == 0
    first, second = (form.read(body) for _, _, body in server.posted)
    assert first.key == second.key
    assert [one.document["number"] for one in (first, second)] == [1, 2]
    assert stat.S_IMODE((board.root / "device.json").stat().st_mode) == 0o600
    assert json.loads((board.root / "device.json").read_text())["seed"] not in server.posted[0][2].decode()


def test_what_did_not_arrive_is_counted_by_the_next_report(board, server, capsys):
    assert report(board.root, "https://127.0.0.1:1/fleet/hall-1") == 4
    server.answer = 503
    assert report(board.root, server.to) == 4
    assert capsys.readouterr().err.count("the report did not arrive") == 2
    server.answer = 204
    assert report(board.root, server.to) == 0
    assert report(board.root, server.to) == 0
    last = [form.read(body).document for _, _, body in server.posted[-2:]]
    assert [(one["number"], one["unsent"]) for one in last] == [(3, 2), (4, 0)]


def test_a_broker_keeps_the_last_report_of_each_board(board, tmp_path, capsys):
    programs.need("mosquitto")
    broker = network_receivers.Broker(tmp_path)
    place = f"mqtt://127.0.0.1:{broker.port}/fleet"
    try:
        assert retained(place, ["hall-1"]) == {}
        for name in ("hall-1", "hall-1", "hall-2"):
            assert report(board.root, f"{place}/{name}") == 0
        found = retained(place, ["hall-1", "hall-2"])
        assert {name: form.read(data).document["number"] for name, data in found.items()} == {"hall-1": 2, "hall-2": 3}
        assert {len(data) for data in found.values()} == {form.BYTES}
    finally:
        broker.kill()
    assert report(board.root, f"{place}/hall-1") == 4
    assert "the report did not arrive" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("ftp://host/hall-1", "expected --to"),
        ("https://host/", "the board's name at the end"),
        ("https://host/a b", "printable ASCII"),
        ("https://who:pw@host/hall-1", "a password in an address"),
        ("https://host/hall-1?ca=/none", "readable PEM"),
    ],
)
def test_an_address_that_is_none(board, to, said, capsys):
    assert report(board.root, to) == 2
    assert said in capsys.readouterr().err
    assert main(["report", "--root", str(board.root)]) == 2


@pytest.mark.parametrize("data", ["{", "[]", '{"schema":1}', '{"arrived":0,"number":1,"schema":1,"seed":"00"}'])
def test_a_damaged_key_is_one_sentence_and_no_new_key(board, data, server, capsys):
    (board.root / "device.json").write_text(data)
    assert report(board.root, server.to) == 4
    assert "the owner must accept" in capsys.readouterr().err
    assert (board.root / "device.json").read_text() == data
    assert server.posted == []


def test_a_board_that_lost_its_state_reports_all_the_same(board, server):
    for name in ("state.json", "state-copy.json"):
        (board.root / name).write_text("{")
    assert report(board.root, server.to) == 0
    said = form.read(server.posted[0][2]).document
    assert said["release"] == {"sha256": None, "name": None, "security_version": None}


def test_logs_go_along_only_where_they_are_asked_for(board, server, monkeypatch):
    lines = [json.dumps({"event": "source", "n": n}) for n in range(3)]
    monkeypatch.setattr(condition, "event_lines", lambda root: lines)
    assert report(board.root, server.to) == 0
    assert report(board.root, server.to, "--logs") == 0
    without, with_logs = (body for _, _, body in server.posted)
    assert form.read(without).document["logs"] == []
    assert b"source" not in without
    assert (len(with_logs), form.read(with_logs).document["logs"]) == (form.BYTES_WITH_LOGS, lines)


def test_the_outcome_of_every_update_is_told(board, veils, tmp_path):
    shop, key = tmp_path / "shop", tmp_path / "signing.key"
    key.touch(mode=0o600)
    key.write_bytes(bundles.KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "signing.pub").write_text(public_key_line(bundles.trusted()))
    shop.mkdir()

    def update():
        main(["update", "--from", f"dir:{shop}", "--root", str(board.root), "--frames", "3"])
        found = condition.last_update(str(board.root))
        return found["outcome"], found["reason"]

    def offer(bundle):
        for old in (shop / "index.json", *board.root.glob("index-seen*.json")):  # each is another product's first
            old.unlink(missing_ok=True)
        shutil.copy(bundle, shop / "new.veil")
        write_index([shop / "new.veil"], key, shop / "index.json", name=bundle.stem)

    assert condition.last_update(str(board.root)) == {"outcome": None, "reason": None, "at_s": None}
    assert update() == ("failed", "")  # no index there
    offer(veils.first)
    assert update() == ("nothing-new", "")
    offer(veils.second)
    assert update() == ("installed", "")
    offer(veils.spoilt)
    assert update() == ("trial-failed", "")
    (shop / "index.json").write_bytes((shop / "index.json").read_bytes().replace(b"new.veil", b"old.veil"))
    assert update() == ("refused", "bad-signature")


def test_an_update_that_is_killed_stays_begun(tmp_path):
    with pytest.raises(KeyboardInterrupt), condition.update_noted(str(tmp_path)):
        raise KeyboardInterrupt
    assert condition.last_update(str(tmp_path))["outcome"] == form.BEGUN
