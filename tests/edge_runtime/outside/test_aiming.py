"""edgeveil-edge aim: edges on one terminal, for a bounded time, where the policy says so; and it is seen to happen."""

import json
import os
import pty
import re
import select
import signal
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime import paths, sources
from edgeveil.edge_runtime.bundle import aims
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.inside import aiming as inner
from edgeveil.edge_runtime.ipc.notes import EDGE_BYTES, EDGE_COLUMNS, EDGE_ROWS
from edgeveil.edge_runtime.outside import aiming
from edgeveil.edge_runtime.pipeline.camera_aid import edges
from edgeveil.edge_runtime.releases.runtimes import inside_lent, inside_returned
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from tests.edge_runtime.bundle.signed_trust import device, policy_file, trust_file
from tests.edge_runtime.releases.test_settings_service import board, receivers  # noqa: F401 - fixtures
from tests.support import bundles

HIDES_NOTHING = {"schema": 1, "hide": []}


class Terminal:
    """A terminal with somebody before it, who reads all that is shown."""

    def __init__(self):
        self._ours, self.handle = pty.openpty()
        self.shown = b""

    def read(self, seconds=0.0):
        while select.select([self._ours], [], [], seconds)[0]:
            try:
                data = os.read(self._ours, 2**16)
            except OSError:
                break
            if not data:
                break
            self.shown += data
        return self.shown

    def read_until(self, mark):
        """What was shown, up to this mark at least; more may come as fast as it is read."""
        while mark not in self.shown:
            assert select.select([self._ours], [], [], 20)[0], "nothing more is shown"
            self.shown += os.read(self._ours, 2**16)

    def hang_up(self):
        os.close(self._ours)


def endless(ends):
    """A camera's process that sends edges as fast as they are taken."""
    while True:
        os.write(ends[0], b"\xff" * EDGE_BYTES)


def stuck(_ends):
    """One that sends nothing and does not end."""
    signal.pause()


def lent(folder):
    """A service that writes down when it gave its camera up, and when it got it back."""
    return aiming.Camera(lambda: (folder / "lent").touch(), lambda: (folder / "back").touch())


@pytest.fixture
def reader():
    terminal = Terminal()
    stop = threading.Event()

    def run():
        while not stop.is_set():
            terminal.read(0.02)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield terminal
    stop.set()
    thread.join()


@pytest.mark.parametrize("inside", [endless, stuck])
def test_it_ends_by_the_clock_and_the_service_has_its_camera_again(tmp_path, reader, inside):
    began = time.monotonic()
    aiming.run(inside, lent(tmp_path), reader.handle, began + 0.4, time.monotonic)
    assert 0.4 <= time.monotonic() - began < 5
    assert (tmp_path / "back").exists()
    if inside is endless:
        time.sleep(0.1)
        text = reader.shown.decode("utf-8", "replace")  # it ends anywhere in a picture
        assert text.startswith("\x1b[?1049h")
        assert text.endswith("\x1b[H\x1b[2J\x1b[?1049l"), "the other screen is left, and with it the picture"
        assert chr(0x28FF) * 48 in text


def test_a_signal_while_it_ends_does_not_keep_it_from_ending(tmp_path, reader, monkeypatch):
    usual, late, here = signal.signal, [], os.getpid()

    def signal_late(number, handler):
        if handler is signal.SIG_IGN and not late and os.getpid() == here:
            late.append(number)
            os.kill(here, signal.SIGALRM)
        return usual(number, handler)

    monkeypatch.setattr(aiming.signal, "signal", signal_late)
    before = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)]
    aiming.run(endless, lent(tmp_path), reader.handle, time.monotonic() + 0.4, time.monotonic)
    assert late
    assert [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)] == before
    assert (tmp_path / "back").exists()


def test_a_clock_that_does_not_move_on_ends_nothing_early_and_a_past_time_shows_nothing(tmp_path, reader):
    aiming.run(endless, lent(tmp_path), reader.handle, 10.0, lambda: 10.0)
    assert (reader.shown, (tmp_path / "back").exists()) == (b"", True)


def test_where_the_connection_is_lost_it_ends_at_once(tmp_path):
    terminal = Terminal()
    child = os.fork()
    if child == 0:
        try:
            terminal.hang_up()  # this end is the connection's
            aiming.run(endless, lent(tmp_path), terminal.handle, time.monotonic() + 60, time.monotonic)
        finally:
            os._exit(0)
    terminal.read_until(chr(0x28FF).encode())
    assert not (tmp_path / "back").exists()
    terminal.hang_up()
    wait_for((tmp_path / "back").exists)
    os.waitpid(child, 0)


def test_behind_a_line_that_hangs_it_ends_by_the_clock(tmp_path):
    began = time.monotonic()
    aiming.run(endless, lent(tmp_path), Terminal().handle, began + 0.5, time.monotonic)
    assert time.monotonic() - began < 5
    assert (tmp_path / "back").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGSTOP])
def test_whatever_ends_or_stops_it_the_service_has_its_camera_again(tmp_path, reader, monkeypatch, number):
    monkeypatch.setattr(aiming, "MARGIN_S", 0.2)
    until_s = time.monotonic() + (1.0 if number == signal.SIGSTOP else 60)
    child = os.fork()
    if child == 0:
        try:
            aiming.run(endless, lent(tmp_path), reader.handle, until_s, time.monotonic)
        finally:
            os._exit(0)
    wait_for(lambda: chr(0x28FF) in reader.shown.decode("utf-8", "replace"))
    os.kill(child, number)
    wait_for((tmp_path / "back").exists)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_camera_that_is_not_lent_is_an_error_and_is_given_back(tmp_path, reader):
    def refuses():
        raise DeviceFailed("the service does not give its camera up")

    with pytest.raises(DeviceFailed, match="does not give its camera up"):
        aiming.run(endless, lent(tmp_path)._replace(lend=refuses), reader.handle, time.monotonic() + 60, time.monotonic)
    assert (tmp_path / "back").exists()


def test_what_went_wrong_with_the_camera_is_said(tmp_path, reader):
    def absent(ends):
        os.write(ends[1], json.dumps({"code": 4, "problem": "there is no camera"}).encode())
        return 4

    with pytest.raises(DeviceFailed, match="there is no camera"):
        aiming.run(absent, lent(tmp_path), reader.handle, time.monotonic() + 60, time.monotonic)


class Hanging:
    """A camera that opens and gives nothing."""

    live, name = True, "a camera"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def next(self):
        time.sleep(60)


def test_the_process_with_the_camera_ends_in_time_whatever_it_waits_for(tmp_path):
    (_edges, edges_in), (status, status_in) = os.pipe(), os.pipe()
    manifest = read_bundle(bundles.make_bundle(tmp_path).path.read_bytes(), bundles.trust()).manifest
    child = os.fork()
    if child == 0:
        try:
            sources.open_source = lambda *_, **__: Hanging()
            inner.run(manifest, "simulate:depth", inner.Ends(edges_in, status_in), time.monotonic() + 1.0)
        finally:
            os._exit(0)
    for handle in (edges_in, status_in):
        os.close(handle)
    ended = []
    wait_for(lambda: ended.append(os.waitpid(child, os.WNOHANG)) or ended[-1][0] == child)
    assert (ended[-1][1], os.read(status, 2**16)) == (signal.SIGALRM, b"")


# What is shown ------------------------------------------------------------------------------------------------------


def test_edges_are_a_bit_for_each_of_few_places_whatever_the_picture_is():
    rng = np.random.default_rng(3)
    for shape in ((480, 640, 3), (1080, 1920, 1), (424, 512), (72, 96), (4, 1, 1), (7,)):
        assert len(edges(rng.random(shape) * 255, low=0.0, high=255.0)) == EDGE_BYTES
    flat = np.full((480, 640, 3), 77, np.uint8)
    assert edges(flat, low=0.0, high=255.0) == bytes(EDGE_BYTES), "no level of the picture is in them"
    half = flat.copy()
    half[:, 322:] = 200  # 7 columns of it are one of the small picture
    brighter = half + 20
    seen = np.unpackbits(np.frombuffer(edges(half, low=0.0, high=255.0), np.uint8)).reshape(EDGE_ROWS, EDGE_COLUMNS)
    assert np.flatnonzero(seen.any(axis=0)).size == 1
    assert edges(brighter, low=0.0, high=255.0) == edges(half, low=0.0, high=255.0)
    nan = np.full((480, 640), np.nan, np.float32)
    assert edges(nan, low=0.0, high=1.0) == bytes(EDGE_BYTES)


def test_the_dots_are_where_the_bits_are():
    bits = np.zeros((EDGE_ROWS, EDGE_COLUMNS), bool)
    bits[0, 0] = bits[3, 1] = bits[71, 95] = True
    lines = aiming.drawn(np.packbits(bits).tobytes()).decode().split("\r\n")
    assert (len(lines), {len(line) for line in lines[:-1]}) == (19, {48})
    assert (lines[0][0], lines[17][47]) == (chr(0x2800 + 0b10000001), chr(0x2880))


# Whether it may be, and that it is seen -------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path):
    """A board of a production trust, with a camera that shows a scene."""
    root = tmp_path / "opt"
    device(root / "trust", trust_file(1))
    made = bundles.make_bundle(tmp_path / "b", example=bundles.captured_example())
    releases = Releases(str(root), lambda floor: open_trust(root / "trust", floor=floor))
    releases.install(made.path.read_bytes(), lambda *_: None)
    (tmp_path / "edge.json").write_text(json.dumps({"source": "simulate:depth?fps=30", "sink": ["tcp://h:1"]}))
    return root


@pytest.fixture
def aim(tmp_path, root, monkeypatch, reader, capfd):
    """Runs ``edgeveil-edge aim`` with its standard output on a terminal or in a file; exit code and stderr."""
    monkeypatch.setattr(paths, "DEFAULT_PATH", str(tmp_path / "edge.json"))
    monkeypatch.setattr(paths, "SYSTEMD", str(tmp_path / "no systemd"))

    def run(*more, output=None):
        before = os.dup(1)
        os.dup2(reader.handle if output is None else output, 1)
        try:
            code = main(["aim", "--root", str(root), *more])
        finally:
            os.dup2(before, 1)
            os.close(before)
        return code, capfd.readouterr().err

    return run


def allow(root, minutes=1):
    update_policy(str(root / "trust"), policy_file(1, {**HIDES_NOTHING, "aim_minutes": minutes}))


def tree(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_production_board_refuses_unless_its_owners_policy_says_how_long(root, aim):
    code, said = aim()
    assert (code, "aim is refused here" in said, "'aim_minutes'" in said) == (2, True, True)
    assert not (root / "aims.json").exists()
    update_policy(str(root / "trust"), policy_file(1, {**HIDES_NOTHING, "counts": "none"}))
    assert aim()[0] == 2
    update_policy(str(root / "trust"), policy_file(2, {**HIDES_NOTHING, "aim_minutes": 2}))
    for minutes in ("3", "0", "-1"):
        code, said = aim("--minutes", minutes)
        assert (code, "expected --minutes from 1 to 2" in said) == (2, True)
    assert not (root / "aims.json").exists()


def test_the_policys_minutes_are_few(tmp_path):
    for wrong in (0, 16, 1.5, True, None, "5"):
        with pytest.raises(BadInput, match="aim_minutes"):
            update_policy(
                str(device(tmp_path / repr(wrong), trust_file(1))),
                policy_file(1, {**HIDES_NOTHING, "aim_minutes": wrong}),
            )


def test_a_board_that_trusts_development_keys_alone_may_be_aimed(tmp_path):
    (tmp_path / "dev.pub").write_text(public_key_line(bundles.trusted(development=True)))
    assert aims.most_s(str(tmp_path)) == 900
    (tmp_path / "maker.pub").write_text(public_key_line(bundles.trusted(bundles.STRANGER)))
    with pytest.raises(BadInput, match="aim is refused here"):
        aims.most_s(str(tmp_path))


def test_the_picture_goes_to_a_terminal_and_into_no_file_or_pipe(root, aim, tmp_path):
    allow(root)
    read, write = os.pipe()
    with (tmp_path / "out").open("wb") as file:
        for output in (file.fileno(), write):
            code, said = aim(output=output)
            assert (code, "expected a terminal" in said) == (2, True)
    os.close(read)
    os.close(write)
    assert not (root / "aims.json").exists()


def test_a_camera_is_aimed_and_nothing_of_it_stays_but_that_it_was(root, aim, tmp_path, monkeypatch, reader):
    allow(root)
    before = tree(tmp_path)
    monkeypatch.setattr(aims, "begin", lambda place, _seconds, now_s: began.append(now_s) or real(place, 1, now_s))
    began, real = [], _begin
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + (0 if not began else 58.5))
    code, said = aim("--minutes", "1")
    assert (code, said) == (0, "")
    text = re.sub(r"\x1b\[\??[0-9]*[Hhl]|\x1b\[2J|\r|\n", "", reader.read(0.2).decode("utf-8", "replace"))
    assert aims.read_aims(str(root)).times == 1
    assert {c for c in text if not 0x2800 <= ord(c) <= 0x28FF} <= set("0123456789 s left; Ctrl-C ends it\ufffd")
    assert any(0x2800 < ord(c) <= 0x28FF for c in text), "edges of the scene"
    after = tree(tmp_path)
    assert set(after) - set(before) == {root / "aims.json"}
    assert {path for path in before if before[path] != after[path]} == set()


_begin = aims.begin


def test_what_is_counted_is_what_it_took_and_a_power_cut_hides_none_of_it(tmp_path):
    root = str(tmp_path)
    aims.begin(root, 300, 1000.0)
    with pytest.raises(DeviceFailed, match="aimed already"):
        aims.begin(root, 300, 1100.0)
    assert aims.document(aims.read_aims(root), 1100.0)["left_s"] == 200
    aims.end(root, 1100.0)
    assert aims.read_aims(root)[:2] == (1, 100)
    assert aims.read_aims(root).left_s(1100.0) == 0
    aims.begin(root, 300, 2000.0)  # and the power fails
    aims.write(root, aims.read_aims(root)._replace(boot="the one before"))
    assert (aims.read_aims(root)[:2], aims.read_aims(root).left_s(2001.0)) == ((2, 400), 0)
    aims.begin(root, 60, 5.0)
    (tmp_path / "aims.json").write_text("{}")
    for act in (lambda: aims.begin(root, 60, 5.0), lambda: aims.end(root, 5.0)):
        with pytest.raises(DeviceFailed, match="damaged"):
            act()


def test_the_service_sees_it_and_sees_it_end(tmp_path):
    now = [1000.0]
    watch = aims.Watch(str(tmp_path), lambda: now[0])
    assert watch.goes_on() is False
    aims.begin(str(tmp_path), 60, now[0])
    now[0] += 1.0
    assert watch.goes_on() is True
    Path(tmp_path / "aims.json").write_text("{")  # a running one still ends in its time
    now[0] += 58.0
    assert watch.goes_on() is True
    now[0] += 2.0
    assert watch.goes_on() is False


def wait_for(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def page_of(folder, name):
    place = json.loads((folder / "edge.json").read_text())["health"]
    with urllib.request.urlopen(f"http://{place}/{name}") as answer:
        return answer.read()


def state_of(folder):
    return json.loads(page_of(folder, "healthz"))


def test_a_running_service_says_so_in_its_log_its_pages_and_to_its_receivers(board, receivers):  # noqa: F811
    assert receivers[0].gets_more()
    aims.begin(str(board / "opt"), 300, time.monotonic())
    wait_for(lambda: state_of(board)["state"] == "aiming")
    assert state_of(board)["aims"]["count"] == 1
    assert 290 <= state_of(board)["aims"]["left_s"] <= 300
    assert "aiming: nothing new: a person on the board sees edges" in (board / "pid.log").read_text()
    aims.end(str(board / "opt"), time.monotonic())
    wait_for(lambda: state_of(board)["state"] == "degraded")
    assert b"\nedgeveil_aims_total 1\n" in page_of(board, "metrics")


def test_the_perturbing_half_alone_ends_and_as_a_crash_that_its_sender_survives(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(paths, "SYSTEMD", str(tmp_path))
    inside_lent("/opt/edgeveil-hall")
    inside_returned("/opt/edgeveil-hall")
    assert (tmp_path / "asked").read_text().splitlines() == [
        "--quiet is-active edgeveil-hall-inside.service",
        "kill --signal=SIGKILL edgeveil-hall-inside.service",
        "stop edgeveil-hall-inside.service",
        "--quiet is-active edgeveil-hall.service",
        "start edgeveil-hall-inside.service",
    ]
