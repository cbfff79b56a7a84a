"""Settings from a web server to a service that runs: it sends elsewhere, or goes on as before."""

import http.server
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.releases.settings import file_name
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.keys import parse_public_key
from edgeveil.trainer.sealing.keys import write_index, write_settings
from tests.support import bundles
from tests.support.boards import owners

SYSTEMCTL = """#!{python}
import os, signal, subprocess, sys, time, urllib.request
if sys.argv[1] != "restart":
    sys.exit(0)
if os.path.exists({pid!r}):
    number = int(open({pid!r}).read())
    os.kill(number, signal.SIGTERM)
    while os.path.exists("/proc/%d/exe" % number) and os.path.realpath("/proc/%d/exe" % number) != "":
        if open("/proc/%d/stat" % number).read().split()[2] == "Z":
            break
        time.sleep(0.02)
words = [sys.executable, "-m", "edgeveil.edge_runtime", "run", "--config", {config!r}]
log = open({pid!r} + ".log", "ab")
child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
open({pid!r}, "w").write(str(child.pid))
until = time.time() + 30
while time.time() < until:
    if child.poll() is not None:
        os.remove({pid!r})
        sys.exit(1)
    try:
        urllib.request.urlopen("http://127.0.0.1:{port}/readyz")
        sys.exit(0)
    except OSError:
        time.sleep(0.05)
sys.exit(1)
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def pictures():
    """``numpy_example`` for pictures of four pixels, which the simulated camera gives."""
    manifest, members = bundles.numpy_example()
    manifest["input"] |= {"kind": "image", "shape": [4, 1, 1]}
    manifest["outputs"][0]["shape"] = [4, 1, 1]
    manifest["tables"]["means"]["shape"] = [4, 4, 1, 1]
    for member in ("golden/input.npy", "golden/numpy.frame.npy", "tables/means.npy"):
        members[member] = bundles.npy(np.load(io.BytesIO(members[member])).reshape(-1, 4, 1, 1))
    return manifest, members


class Receiver:
    """A program that listens; ``got`` counts bytes."""

    def __init__(self):
        self.got, self._server = 0, socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                line, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(line,), daemon=True).start()

    def _read(self, line):
        try:
            while data := line.recv(65536):
                self.got += len(data)
        except OSError:
            pass  # its sender was stopped

    def gets_more(self):
        before, until = self.got, time.monotonic() + 10
        while self.got == before:
            assert time.monotonic() < until, "nothing comes"
            time.sleep(0.01)
        return True

    def close(self):
        self._server.close()


@pytest.fixture
def receivers():
    two = Receiver(), Receiver()
    yield two
    for one in two:
        one.close()


@pytest.fixture
def board(tmp_path, monkeypatch, receivers):
    """A board that runs a service which sends to the first receiver, and updates itself from ``www``."""
    folder, root = tmp_path / "owner", tmp_path / "opt"
    folder.mkdir()
    owners.trust(folder)
    veil = bundles.make_bundle(folder, example=pictures()).path
    (root / "trust").mkdir(parents=True)
    for name in ("root.pub", "trust.json"):
        (root / "trust" / name).write_bytes((folder / "root" / name).read_bytes())
    releases = Releases(str(root), lambda floor: open_trust(root / "trust", floor=floor))
    releases.install(veil.read_bytes(), lambda *_: None)
    pem = bundles.KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "test.key").write_bytes(pem)
    (folder / "test.key").chmod(0o600)
    (tmp_path / "www").mkdir()
    write_index([veil], folder / "test.key", tmp_path / "www/index.json", name="hall")
    config, port = tmp_path / "edge.json", free_port()
    document = {"bundle": f"{root}/current/bundle.veil", "trust": f"{root}/trust", "source": "simulate:depth?fps=20"}
    document |= {"sink": [f"tcp://127.0.0.1:{receivers[0].port}"]}
    document |= {"health": f"127.0.0.1:{port}", "as-root": True}
    config.write_text(json.dumps(document))
    (tmp_path / "bin").mkdir()
    words = {"python": sys.executable, "pid": str(tmp_path / "pid"), "config": str(config), "port": port}
    (tmp_path / "bin/systemctl").write_text(SYSTEMCTL.format(**words))
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(paths, "DEFAULT_PATH", str(config))
    monkeypatch.setattr(paths, "SYSTEMD", str(tmp_path))
    done = subprocess.run([str(tmp_path / "bin/systemctl"), "restart", "edgeveil"], check=False)
    assert done.returncode == 0, (tmp_path / "pid.log").read_text()
    yield tmp_path
    if (tmp_path / "pid").exists():
        os.kill(int((tmp_path / "pid").read_text()), 15)


@pytest.fixture
def url(board):
    handler = partial(type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None}))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(board / "www")))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def sign(board, settings, **files):
    (board / "hall.json").write_text(json.dumps(settings))
    where = {name: board / name for name in files}
    for name, text in files.items():
        where[name].write_text(text)
    made = board / "hall.json", [board / "opt/board.pub"], where, board / "owner/root/signing.key", board / "www"
    return write_settings(*made, passphrase=owners.SECRET)


def page(port, token):
    try:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/state.json", headers={"Authorization": f"Bearer {token}"}
        )
        return urllib.request.urlopen(asked).status  # noqa: S310 - of this machine
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.mark.nightly  # by day each step of it: test_settings.py
def test_a_service_gets_its_settings_from_a_web_server_and_keeps_those_it_runs_with(board, url, receivers, capfd):
    first, second = receivers
    update = ["update", "--root", str(board / "opt"), "--from", url]
    assert first.gets_more()
    assert main(update) == 0, "no settings are there"
    key = parse_public_key((board / "opt/board.pub").read_bytes(), "board.pub").key
    preview = free_port()
    sinks = [f"tcp://127.0.0.1:{second.port}", f"preview:{preview}?token_file=@FILES@/token"]
    assert sign(board, {"sink": sinks}, **{"token": "open-sesame-and-more"}) == {file_name(key): 1}
    assert b"sesame" not in b"".join(path.read_bytes() for path in (board / "www").iterdir())
    assert main(update) == 0
    assert second.gets_more()
    assert (page(preview, "open-sesame-and-more"), page(preview, "guessed")) == (200, 403)
    here = f"preview:{second.port}"  # which another program has
    assert sign(board, {"sink": [here]}) == {file_name(key): 2}
    capfd.readouterr()
    assert main(update) == 4
    said = capfd.readouterr().err
    assert "The settings 2 were taken back: the service was not ready in its time" in said
    assert "It runs again with those before" in said
    assert second.gets_more()
    assert main(["status", "--root", str(board / "opt")]) == 0
    assert "settings: number 1; 2 failed 1 times: the service was not ready" in capfd.readouterr().out
    assert main(["recover", "--settings", "--root", str(board / "opt")]) == 0
    assert "edge.json" in str(Path(board / "edge.json").readlink())
