"""A network camera: one process fetches, another decodes and perturbs without a network, a third sends."""

import http.server
import json
import os
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime import camera_address, config
from edgeveil.edge_runtime.api import Perturber, RawFrame
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.outside import process_table
from edgeveil.edge_runtime.pipeline.resize import area
from edgeveil.edge_runtime.sandbox import fetcher
from edgeveil.edge_runtime.sources import feeding
from edgeveil.edge_runtime.sources.http import HttpSource
from scripts.measure import camera_to_broker
from tests.support import tiny_models
from tests.support.broker_services import arguments, finish, start

MANIFEST = parse({"input": {"kind": "image", "shape": [2, 2, 1], "dtype": "uint8"}, "capture": None})


def made_settings(source):
    return config.merged({"bundle": "b", "trust": "t", "sink": ["npz:x"]}, {"source": source})


def encoded(picture):
    return cv2.imencode(".jpg", picture)[1].tobytes()


class Camera(http.server.BaseHTTPRequestHandler):
    """JPEG after JPEG of noise, or ``server.picture``; breaks off after ``server.length`` of them."""

    def do_GET(self):
        self.server.asked.append(self.headers.get("Authorization"))
        if self.server.asked[-1] is None:
            self.send_response(401)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=b")
        self.end_headers()
        rng = np.random.default_rng(len(self.server.asked))
        for _ in range(self.server.length):
            data = self.server.picture or encoded(rng.integers(0, 256, tiny_models.SHAPE).astype(np.uint8))
            self.wfile.write(b"--b\r\nContent-Length: %d\r\n\r\n" % len(data) + data + b"\r\n")
            time.sleep(0.02)

    def log_message(self, *_):
        pass


@pytest.fixture
def camera():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    server.daemon_threads, server.asked, server.length, server.picture = True, [], 20, None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_three_processes_and_no_password_anywhere(tiny, tmp_path, camera):
    source = f"http://127.0.0.1:{camera.server_address[1]}/user=secret/video?token=tokensecret"
    (tmp_path / "credentials").write_text("who:topsecret\n")
    given = {"frames": 30, "artefact": "tflite-int8", "source-credentials": tmp_path / "credentials"}
    words = arguments(tiny, source, f"npz:{tmp_path}/out.npz", **given)
    process, seen = start(words, tmp_path), {}
    running = Path("/proc", str(process.pid), "task", str(process.pid), "children")
    while process.poll() is None and not (camera.asked and len(running.read_text().split()) == 2):
        time.sleep(0.05)  # the one that fetches may ask before the inside was started
    for child in running.read_text().split():
        for part in ("cmdline", "environ"):
            seen[child, part] = Path("/proc", child, part).read_bytes()
    code, document, events = finish(process)
    assert len(seen) == 4
    for where, text in seen.items():
        assert b"secret" not in text, where
    assert code == 0, events
    assert document["frames_in"] == 30 == document["frames_out"] + sum(document["dropped"].values())
    assert len(camera.asked) >= 3  # it broke off, and was asked again
    assert set(camera.asked) == {None, "Basic d2hvOnRvcHNlY3JldA=="}
    assert "disconnected" in {event.get("kind") for event in events}
    opened = [event for event in events if event["event"] == "source"]
    assert all(event["raw_on_network"] for event in opened)
    assert {event["name"] for event in opened} == {f"http://127.0.0.1:{camera.server_address[1]}/..."}
    assert "secret" not in str(events)


def test_a_camera_of_1280_x_720_feeds_a_bundle_of_32_x_32_through_all_three_processes(tmp_path, camera):
    """Each frame that leaves is what the bundle makes of the middle of the picture, scaled as it signs."""
    made = camera_to_broker.bundle(tmp_path, camera_to_broker.CASES["720p"])
    (data,) = camera_to_broker.pictures((720, 1280, 3), 1)
    camera.picture, source = data, f"http://127.0.0.1:{camera.server_address[1]}/"
    (tmp_path / "credentials").write_text("who:secret\n")
    given = {"frames": 30, "source-credentials": tmp_path / "credentials"}
    code, document, events = finish(start(arguments(made, source, f"npz:{tmp_path}/out.npz", **given), tmp_path))
    assert code == 0, events
    assert document["frames_in"] == 30 == document["frames_out"] + sum(document["dropped"].values())
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[:, 280:1000, ::-1]
    small = np.rint(area((720, 720), (32, 32), np.dtype(np.uint8))(np.ascontiguousarray(picture)))
    with Perturber.open(str(made.path), trust=str(made.trust)) as opened:
        expected = opened.perturb(RawFrame(small.astype(np.uint8), 0)).data
    frames = np.load(tmp_path / "out.npz")["x"]
    assert len(frames) > 3
    assert all(
        np.array_equal(frame, expected) for frame in frames[1:]
    )  # the first tick may be before the first picture
    assert len(np.unique(expected)) > 50  # neither is a blank


@pytest.mark.parametrize("source", ["http://192.0.2.1/x", "rtsp://who:topsecret@camera.example/"])
def test_raw_pictures_do_not_cross_a_network_unless_that_was_said(source):
    settings = made_settings(source)
    with pytest.raises(BadInput, match="--accept-raw-on-network") as refused:
        process_table.fetch_settings(settings, MANIFEST)
    assert "topsecret" not in str(refused.value)
    assert process_table.fetch_settings(settings._replace(accept_raw_on_network=True), MANIFEST)["source"] == source
    for private in ("https://camera.example/", "http://127.0.0.1/", "rtsp://localhost/", "camera:0"):
        process_table.fetch_settings(settings._replace(source=private), MANIFEST)
    assert "accept-raw-on-network" in config.FLAGS_ALONE


def test_the_inside_is_not_told_the_password(tmp_path):
    settings = made_settings("https://u:pw@h/x?k=pw")
    inside = process_table.process_table(settings, MANIFEST)[-1]
    assert inside.settings["source"] == "https://h:443/..."
    assert "pw" not in str(inside)


def test_a_password_on_the_command_line_is_refused_and_in_a_file_it_is_not(tmp_path):
    flags = {"bundle": "b", "trust": "t", "source": "https://u:topsecret@h/x", "sink": ["npz:x"]}
    with pytest.raises(BadInput, match="--source-credentials FILE") as refused:
        config.merged(flags, {})
    assert "topsecret" not in str(refused.value)
    assert config.merged(dict(flags, source=None), {"source": flags["source"]}).source == flags["source"]


def test_credentials_come_from_a_file_and_the_inside_does_not_get_its_name(tmp_path):
    path = tmp_path / "credentials"
    path.write_text("who:p@ss:word/\n")
    settings = made_settings("https://h:8443/x?y=1")._replace(source_credentials=str(path))
    fetching, inside = process_table.process_table(settings, MANIFEST)
    address = camera_address.parse(fetching.settings["source"])
    assert (address.user, address.password, address.host, address.target) == ("who", "p@ss:word/", "h", "/x?y=1")
    assert inside.settings["source_credentials"] is None
    for text in ("", "who", ":x", "who:a\nb"):
        path.write_text(text)
        with pytest.raises(BadInput, match="one line, USER:PASSWORD"):
            process_table.fetch_settings(settings, MANIFEST)
    with pytest.raises(BadInput, match="was expected in /nonexistent"):
        process_table.fetch_settings(settings._replace(source_credentials="/nonexistent"), MANIFEST)
    with pytest.raises(BadInput, match="not in both"):
        process_table.fetch_settings(settings._replace(source="https://u:topsecret@h/"), MANIFEST)
    with pytest.raises(BadInput, match="on a network"):
        process_table.fetch_settings(settings._replace(source="camera:0"), MANIFEST)


def test_a_process_of_the_table_inherits_no_secret(monkeypatch):
    secrets = ("EDGEVEIL_MQTT_PASSWORD", "EDGEVEIL_PREVIEW_TOKEN", "EDGEVEIL_HTTP_AUTHORIZATION", "AWS_SECRET")
    for name in (*secrets, "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY"):
        monkeypatch.setenv(name, "topsecret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    made = process_table.environment()
    assert "topsecret" not in made.values()
    assert (made["LD_LIBRARY_PATH"], made["OMP_NUM_THREADS"]) == ("/opt/lib", "1")


def test_it_ends_where_the_list_of_name_servers_is_another_file(tmp_path, monkeypatch):
    """The new one it could not read: its inside ends with it, and the service starts both again."""
    states, turns, sent = iter([1, 1, 2]), iter([1, 2]), []
    monkeypatch.setattr(fetcher, "enter", lambda source, account, own_port: None)
    monkeypatch.setattr(fetcher, "resolver_state", lambda: next(states))
    monkeypatch.setattr(HttpSource, "forward", lambda *_: sent.append(next(turns)))
    monkeypatch.setattr(feeding.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(feeding.os, "nice", lambda by: None)
    monkeypatch.setattr(feeding.hardening, "no_core_dumps", lambda: None)
    monkeypatch.setattr(feeding.hardening, "end_with_parent", lambda: None)
    (tmp_path / "settings").write_text('{"source": "http://camera/", "sensor": {}}')
    with (tmp_path / "settings").open() as given, (tmp_path / "frames").open("wb") as frames:
        handles = {"settings": os.dup(given.fileno()), "frames": frames.fileno(), "account": None}
        assert feeding.main([json.dumps(handles)]) == 0
    assert len(sent) == 2
    monkeypatch.undo()
    monkeypatch.setattr(fetcher, "RESOLVER", str(tmp_path / "resolv.conf"))
    assert fetcher.resolver_state() is None
    (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.1\n")
    first = fetcher.resolver_state()
    (tmp_path / "new").write_text("nameserver 192.0.2.2\n")
    (tmp_path / "new").replace(tmp_path / "resolv.conf")
    assert fetcher.resolver_state() not in (None, first)
