"""The service as a system's part: told to systemd, watched, scraped, reloaded, configured."""

import contextlib
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.outside.board_health import Notifier
from tests.support import broker_services, bundles, live_fakes
from tests.support.broker_services import finish, start
from tests.support.network_receivers import free_port


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return bundles.make_bundle(tmp_path_factory.mktemp("wide"), example=live_fakes.wide_example())


def arguments(made, tmp_path, source="fake:0", **flags):
    return broker_services.arguments(made, source, f"npz:{tmp_path}/out.npz", **flags)


def until(process, event, seen=None):
    """Read the service's log until this event; what was read on the way is put into ``seen``."""
    never = threading.Timer(90, process.kill)  # a service that goes on without it would be read for ever
    never.start()
    try:
        for line in process.stderr:
            record = json.loads(line) if line.startswith("{") else {}
            if seen is not None:
                seen.append(record)
            if record.get("event") == event:
                return record
    finally:
        never.cancel()
    raise AssertionError(f"it ended before {event}: {seen}")


def get(port, page):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_for(check, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = None
        with contextlib.suppress(urllib.error.URLError):  # nobody listens there yet
            found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")


class Manager:
    """systemd's end of sd_notify: what was said, and when."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.path = str(folder / "notify")
        self.socket.bind(self.path)
        self.said = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            text = self.socket.recv(4096).decode()
            self.said += [(line, time.monotonic()) for line in text.splitlines()]

    def pings_since(self, moment):
        return [at for line, at in list(self.said) if line == "WATCHDOG=1" and at > moment]

    def heard(self, line):
        return line in [said for said, _ in list(self.said)]


def test_systemd_hears_that_it_is_ready_alive_and_hung(wide, tmp_path, monkeypatch):
    manager = Manager(tmp_path)
    monkeypatch.setenv("NOTIFY_SOCKET", manager.path)
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    process = start(arguments(wide, tmp_path), tmp_path)
    try:
        wait_for(lambda: manager.heard("READY=1"))
        now = time.monotonic()
        wait_for(lambda: len(manager.pings_since(now)) > 4)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        now = time.monotonic()
        time.sleep(0.6)
        assert manager.pings_since(now) == []  # more than WATCHDOG_USEC: systemd would have ended it
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: manager.pings_since(now))
        process.send_signal(signal.SIGTERM)
        code, _, _ = finish(process, timeout_s=6)
    finally:
        process.kill()
    assert code == 0
    assert manager.heard("STOPPING=1")


def test_an_abstract_socket_and_no_manager_at_all():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = f"edgeveil-test-{os.getpid()}"
        manager.bind("\0" + name)
        Notifier({"NOTIFY_SOCKET": "@" + name}).say("READY=1", "STATUS=well")
        assert manager.recv(100) == b"READY=1\nSTATUS=well"
    silent = Notifier({})
    silent.say("READY=1")
    silent.alive(5.0)
    assert silent.interval_s is None
    assert Notifier({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}).interval_s is None


def test_health_pages_and_a_reload_without_a_gap(wide, tmp_path):
    port = free_port()
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    process = start(arguments(made, tmp_path, health=f"127.0.0.1:{port}"), tmp_path)
    try:
        until(process, "source")
        wait_for(lambda: get(port, "readyz")[0] == 200)
        assert get(port, "livez") == (200, "ok\n")
        assert get(port, "nothing")[0] == 404
        health = json.loads(get(port, "healthz")[1])
        assert "namespace" in health["isolation"] or "filter" in health["isolation"]
        lines = [line for line in get(port, "metrics")[1].splitlines() if line[0] != "#"]
        assert all(re.fullmatch(r'edgeveil_[a-z_]+({[a-z]+="[^"]*"})? [0-9.e+-]+', line) for line in lines), lines
        assert "edgeveil_ready 1" in lines
        # The camera is faster than the ticks: whichever of the two places a frame waits in, newer ones push it out.
        wait_for(lambda: 'edgeveil_dropped_total{reason="newer-' in get(port, "metrics")[1])
        assert '"event": "ready"' in get(port, "logs")[1]

        made.path.write_bytes(made.path.read_bytes()[:-1])
        process.send_signal(signal.SIGHUP)
        assert "runs on" in until(process, "reload-refused")["message"]
        bundles.make_bundle(
            tmp_path / "b", example=live_fakes.wide_example(), change=lambda m, _: m["input"].update(sensor="camera")
        )
        process.send_signal(signal.SIGHUP)
        assert "gives WiFi strengths" in until(process, "reload-refused")["message"]

        def wrong_golden(manifest, members):
            manifest["name"] = "wide-wrong"
            member = next(iter(manifest["golden"]["outputs"]["numpy"].values()))
            members[member] = members[member][:-1] + bytes([members[member][-1] ^ 255])

        bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example(), change=wrong_golden)
        process.send_signal(signal.SIGHUP)
        assert "previous bundle runs on" in until(process, "reload-failed")["message"]
        wait_for(lambda: json.loads(get(port, "healthz")[1])["bundle"] == "wide-example")
        assert "edgeveil_audit_attack" not in get(port, "metrics")[1]

        def audited(manifest, members):
            manifest.update(name="wide-two")
            bundles.add_audit(manifest, members, bundles.audit_document(manifest, "numpy", members))

        changed = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example(), change=audited)
        process.send_signal(signal.SIGHUP)
        seen = []
        until(process, "reloaded", seen)
        assert not any(record.get("event") == "inside-ended" for record in seen)
        wait_for(lambda: json.loads(get(port, "healthz")[1])["info"]["name"] == "wide-two")
        assert json.loads(get(port, "healthz")[1])["bundle"] == "wide-two"
        assert "edgeveil_audit_attack" in get(port, "metrics")[1]
        before = int(json.loads(get(port, "healthz")[1])["frames_out"])
        wait_for(lambda: int(json.loads(get(port, "healthz")[1])["frames_out"]) > before)
        process.send_signal(signal.SIGTERM)
        code, document, _ = finish(process, timeout_s=6)
    finally:
        process.kill()
    assert code == 0
    assert changed.path == made.path
    assert document["name"] == "wide-two"
    assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
    import numpy as np

    with np.load(tmp_path / "out.npz") as out:
        assert out["index"].tolist() == list(range(len(out["index"])))  # ticks went on all the while


@pytest.mark.slow
def test_readyz_is_red_when_frames_stop_and_the_port_is_asked_for_again(wide, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = start(arguments(wide, tmp_path, health=f"127.0.0.1:{port}"), tmp_path)
        try:
            assert "--health" in until(process, "port")["message"]
        finally:
            process.kill()
            process.communicate()
    flags = {"health": f"127.0.0.1:{port}", "hang-after": 60}
    sooner = "from edgeveil.edge_runtime.outside import status; status.STALE_S = 1.5"
    process = start(arguments(wide, tmp_path, "fake:0?fps=60&pause=30", **flags), tmp_path, sooner)
    try:
        until(process, "source")
        wait_for(lambda: get(port, "readyz")[0] == 200)
        wait_for(lambda: get(port, "readyz")[0] == 503)
        assert "nothing new for" in get(port, "readyz")[1]
        assert get(port, "livez")[0] == 200
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "strict JSON"),
        ('{"fps": 5, "fps": 6}', "strict JSON"),
        ('{"frames-per-second": 5}', "is unknown"),
        ('{"fps": "fast"}', "a number"),
        ('{"fps": 0}', "expected"),
        ('{"sink": []}', "list of texts"),
        ('{"strict": 1}', "true or false"),
        ('{"log": "loud"}', "expected one of"),
        ('{"camera-aid": true}', "flag"),
        ('{"aim": true}', "now called 'camera-aid'"),
        ('{"accept-raw-on-network": true}', "flag"),
        ("[]", "an object"),
    ],
)
def test_a_configuration_that_is_none_is_refused(tmp_path, text, match):
    (tmp_path / "edge.json").write_text(text)
    with pytest.raises(BadInput, match=match):
        config.read(str(tmp_path / "edge.json"))


def test_an_unreadable_configuration_is_one_sentence(tmp_path, capsys):
    assert main.main(["run", "--config", str(tmp_path / "none.json")]) == 2
    assert "cannot be read: no such file" in capsys.readouterr().err
    assert main.main(["run", "--config", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_flags_win_over_the_configuration_and_both_over_defaults(wide, tmp_path):
    settings = {"bundle": str(wide.path), "trust": str(wide.trust), "source": "fake:20", "sink": "npz:x", "fps": 5}
    (tmp_path / "edge.json").write_text(json.dumps(settings))
    merged = config.merged({"fps": 7.0}, config.read(str(tmp_path / "edge.json")))
    assert (merged.fps, merged.source, merged.sink, merged.recheck) == (7.0, "fake:20", ["npz:x"], 60.0)
    words = ["run", "--config", str(tmp_path / "edge.json"), "--fps", "25", "--health", "off", "--json"]
    code, document, _ = finish(start([*words, "--sink", f"npz:{tmp_path}/o.npz"], tmp_path))
    assert code == 0
    assert document["frames_in"] == 20
