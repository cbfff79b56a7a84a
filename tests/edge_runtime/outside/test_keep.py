"""The service without systemd: two real processes that are watched, started again, and given up in the end."""

import os
import signal
import sys
import threading
import time

import pytest

from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.outside import keep

OUTSIDE = """
import os, socket, sys, time
line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def say(what): line.sendto(what, os.environ["NOTIFY_SOCKET"])
say(b"READY=1")
while True:
    time.sleep(.05)
    say(b"WATCHDOG=1")
"""
INSIDE = """
import os, sys, time
sys.stderr.write("networks " + str(len(open("/proc/net/dev").read().splitlines()) - 2) + "\\n")
sys.stderr.flush()
time.sleep(60)
"""


class Service:
    """A keeper in a thread of this process, which its signals do not reach."""

    def __init__(self, folder, monkeypatch, outside=OUTSIDE, inside=INSIDE):
        self.said, self.release, self.error = [], "one", None
        monkeypatch.setattr(keep.signal, "signal", lambda *_: None)
        monkeypatch.setattr(keep, "TURN_S", 0.05)

        def half(name, code):
            return keep.Half(name, [sys.executable, "-c", code], None, (), name == "outside", 0.05, name == "inside")

        self.keeper = keep.Keeper(
            half("outside", outside),
            half("inside", inside),
            str(folder / "run"),
            release=lambda: self.release,
            say=self.said.append,
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            self.keeper.run()
        except Exception as error:
            self.error = error

    def wait(self, what):
        deadline = time.monotonic() + 20
        while not what():
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def running(self):
        return {name: process.pid for name, process in self.keeper._processes.items()}

    def up(self, *but):
        self.wait(lambda: self.said.count("ready") and len(self.running()) == 2 and not set(but) & set(self.pids()))
        return self.running()

    def pids(self):
        return self.running().values()


@pytest.fixture
def service(tmp_path, monkeypatch):
    made = []

    def make(**more):
        made.append(Service(tmp_path, monkeypatch, **more))
        return made[-1]

    yield make
    for one in made:
        one.keeper._stop()
        one.thread.join(20)
        assert not one.thread.is_alive()
        assert not one.running()


def test_what_ends_or_hangs_is_started_again_and_a_new_release_starts_both(service, monkeypatch):
    monkeypatch.setattr(keep, "WATCHDOG_S", 1.0)
    kept = service()
    first = kept.up()
    os.kill(first["inside"], signal.SIGKILL)
    kept.wait(lambda: kept.running().get("inside") not in (None, first["inside"]))
    assert kept.running()["outside"] == first["outside"]
    os.kill(first["outside"], signal.SIGSTOP)
    second = kept.up(*first.values())
    assert any("has said nothing for 1 s" in line for line in kept.said)
    kept.release = "two"
    kept.up(*second.values())
    if os.geteuid() == 0:
        assert "inside: networks 1" in kept.said


@pytest.mark.parametrize("code", [0, 2, 70])
def test_an_outside_that_is_through_is_not_started_again(service, code):
    kept = service(outside=f"import sys; sys.exit({code})")
    kept.thread.join(20)
    assert isinstance(kept.error, keep.Ended)
    assert kept.error.exit_code == code


def test_an_inside_that_must_be_cured_stays_down_and_the_ticks_go_on(service):
    kept = service(inside="import sys; sys.exit(2)")
    kept.wait(lambda: any("not started again" in line for line in kept.said))
    assert list(kept.running()) == ["outside"]


def test_so_many_ends_in_an_hour_are_too_many(service, monkeypatch):
    monkeypatch.setattr(keep, "BUDGET", 3)
    kept = service(inside="import sys; sys.exit(4)")
    kept.thread.join(20)
    assert isinstance(kept.error, DeviceFailed)
    assert "4 times in an hour" in str(kept.error) or "started 4 times" in str(kept.error)


def test_a_missing_account_is_said(tmp_path):
    half = keep.Half("inside", ["true"], "nobody-has-this-name", (), True, 1, False)
    with pytest.raises(DeviceFailed, match="flash the board again"):
        keep._account(half)


@pytest.mark.parametrize("words", [["--user", "a"], ["--inside-user", "b"]])
def test_one_account_of_the_two_is_refused_before_anything_starts(tmp_path, capsys, words):
    at = ["--root", str(tmp_path), "--at", str(tmp_path / "run"), "--pid-file", str(tmp_path / "pid")]
    assert main.main(["keep", "start", *at, *words]) == 2
    assert "--user and --inside-user together" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
