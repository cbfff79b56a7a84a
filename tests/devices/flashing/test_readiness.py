"""``edgeveil board check``: boards as their owners get them, what is missing there, and the commands that cure it."""

import functools
import json
from dataclasses import replace

import pytest
import tomllib

from edgeveil.devices import profiles
from edgeveil.devices.agents import gather_facts
from edgeveil.devices.flashing import needs
from edgeveil.devices.flashing.readiness import OVERLAY_OFF, findings, matching
from edgeveil.devices.flashing.records import Facts, Wanted
from edgeveil.devices.transports.base import Completed
from edgeveil.edge_runtime.errors import BadInput
from tests.support import output
from tests.support.checkout import ROOT

KNOWN = {name: profiles.load(name) for name in profiles.names()}
READY = Facts(
    "aarch64", "3.11.2", 10**10, False, True, True,
    board="Raspberry Pi 4 Model B Rev 1.4", interpreters={"numpy": "1.24.2", "ai-edge-litert": "2.3.0"},
)  # fmt: skip
FULL = {"folder": "/home/pi/.cache", "free_bytes": 4096, "same": False}
STICKS = {"raspberry-pi3-ncs2": "usb:03e7", "coral-usb": "usb:1a6e"}


def missing(facts, name):
    return {one.what: one.cure for one in findings(facts, KNOWN[name]) if one.cure}


def test_a_board_that_is_ready_misses_nothing():
    assert missing(READY, "raspberry-pi-cpu") == {}


def test_a_new_board_is_told_the_command_for_its_wheels_and_numpy():
    found = missing(replace(READY, interpreters={}), "raspberry-pi-cpu")
    assert found == {
        "numpy": "sudo apt-get install python3-numpy",
        "interpreter": "edgeveil board wheels raspberry-pi-cpu --out wheels, then edgeveil flash ... --wheels wheels",
    }
    older = missing(replace(READY, python="3.11.2", interpreters={"numpy": "1.24.2"}), "raspberry-pi5")
    assert "edgeveil board wheels raspberry-pi5 --python 3.11 --out wheels" in older["interpreter"]
    none = missing(replace(READY, python="3.10.1", interpreters={"numpy": "2.0"}), "raspberry-pi5")
    assert "no recipe for Python 3.10 (there is one for 3.13, 3.11, 3.12, 3.14)" in none["interpreter"]


def test_one_command_collects_the_wheels_of_all_that_is_missing():
    profile, facts = KNOWN["raspberry-pi-cpu"], replace(READY, interpreters={})
    wants = needs.of_wanted(Wanted("camera:0", ("mqtt://broker/hall",)), profile.service)
    for interpreters in ({}, READY.interpreters):
        cures = [one.cure or "" for one in findings(replace(facts, interpreters=interpreters), profile, wants)]
        (told,) = [cure for cure in cures if "edgeveil board wheels" in cure]
        assert "edgeveil board wheels raspberry-pi-cpu --with camera --with mqtt --out wheels" in told
        assert sum("the same wheels" in cure for cure in cures) == 2 - bool(interpreters)


def test_numpy_is_no_interpreter():
    lines = dict(line.split(maxsplit=1) for line in replace(READY, failed={"cv2": "SIGILL"}).text().splitlines())
    assert lines["interpreters"] == "ai-edge-litert 2.3.0"
    assert lines["libraries"] == "numpy 1.24.2, cv2 does NOT load (SIGILL)"


def test_an_interpreter_that_crashes_is_named_with_the_reason():
    jetson = Facts(
        "aarch64", "3.6.9", 10**10, False, True, True,
        failed={"numpy": "SIGILL: it has an instruction"}, accelerator=True,
    )  # fmt: skip
    found = {one.what: one for one in findings(jetson, KNOWN["jetson-nano"])}
    assert "SIGILL" in found["numpy"].found
    assert "edgeveil board wheels jetson-nano" in found["numpy"].cure


@pytest.mark.parametrize(
    ("change", "what", "cure"),
    [
        ({"volatile": "overlay"}, "storage", OVERLAY_OFF),
        ({"read_only": True}, "storage", "remount,rw"),
        ({"free_bytes": 2**20}, "storage", "larger card"),
        ({"space": {"uploads": FULL}}, "/home/pi/.cache", "make room there"),
        ({"sudo": False}, "sudo", "password_file"),
        ({"systemd": False}, "systemd", "--no-service"),
        ({"architecture": "armv7l"}, "processor", "write a system for aarch64"),
    ],
)
def test_each_thing_that_is_missing_has_its_cure(change, what, cure):
    found = missing(replace(READY, **change), "raspberry-pi-cpu")
    assert set(found) == {what}
    assert cure in found[what]


def test_a_stick_without_power_and_a_library_of_another_age():
    coral = replace(READY, python="3.9.2", interpreters={"numpy": "1.19.5", "tflite-runtime": "2.14.0"})
    assert "its own power" in missing(replace(coral, accelerator=False), "coral-usb")["Edge TPU"]
    wrong = replace(coral, accelerator=True, devices=("edgetpu",), drivers={"libedgetpu1-std": "16.0"})
    assert "library of the Edge TPU" in missing(wrong, "coral-usb")
    right = replace(wrong, drivers={"libedgetpu1-std": "16.0tf2.14.1-1.bookworm"})
    assert missing(right, "coral-usb") == {}


@pytest.mark.parametrize(
    ("model", "plugged", "name"),
    [
        ("Raspberry Pi 4 Model B Rev 1.4", "", "raspberry-pi-cpu"),
        ("Raspberry Pi 4 Model B Rev 1.4", "usb:1a6e", "coral-usb"),
        ("Raspberry Pi 3 Model B Rev 1.2", "usb:03e7", "raspberry-pi3-ncs2"),
        ("Raspberry Pi 5 Model B Rev 1.0", "", "raspberry-pi5"),
        ("Orange Pi 5 Plus", "/dev/dri/renderD129", "rockchip-rk3588"),
        ("NVIDIA Jetson Nano Developer Kit", "", "jetson-nano"),
        ("NVIDIA Jetson Orin Nano Developer Kit", "/dev/nvgpu/igpu0/ctrl", "jetson-orin-nano"),
    ],
)
def test_a_board_is_known_by_its_model_and_what_is_plugged_in(model, plugged, name):
    found = matching(replace(READY, board=model), KNOWN, lambda path: bool(plugged) and path.startswith(plugged))
    assert found.name == name


def test_a_board_of_no_profile_and_one_of_two_are_one_sentence():
    with pytest.raises(BadInput, match=r"this is Radxa ZERO 3 \(aarch64\)"):
        matching(replace(READY, board="Radxa ZERO 3"), KNOWN, lambda _: False)
    with pytest.raises(BadInput, match="does not say its model"):
        matching(replace(READY, board=None), KNOWN, lambda _: False)
    with pytest.raises(BadInput, match="coral-usb and raspberry-pi3-ncs2 are for"):
        matching(READY, KNOWN, lambda path: path.startswith(tuple(STICKS.values())))


def test_two_hailos_are_told_apart_by_hailort_or_by_the_user():
    pi = replace(READY, board="Raspberry Pi 5 Model B Rev 1.0")
    with pytest.raises(BadInput, match="raspberry-pi5-hailo8 and raspberry-pi5-hailo8l are for"):
        matching(pi, KNOWN, lambda path: path == "/dev/hailo0")
    there = replace(pi, devices=("hailo8l",))
    assert matching(there, KNOWN, lambda path: path == "/dev/hailo0").name == "raspberry-pi5-hailo8l"
    assert matching(pi, KNOWN, lambda path: path == "/dev/h1x-0").name == "raspberry-pi5-hailo10h", "its own driver"


MISSING_THERE = {"no-numpy", "no-interpreter", "volatile", "read-only", "no-root", "no-systemd", "architecture"}
PLANS = {
    path.stem: tomllib.loads(path.read_text())
    for path in sorted((ROOT / "tests/devices/flashing/plans").glob("*.toml"))
}
REFUSED = [n for n, case in PLANS.items() if case["expect"].get("refused") in MISSING_THERE and "wheels" not in case]


@pytest.mark.parametrize("name", REFUSED)
def test_where_the_planner_refuses_for_what_is_missing_there_the_check_says_so_before(name):
    case = PLANS[name]
    assert [one for one in findings(Facts.from_document(case["facts"]), profiles.load(case["profile"])) if one.cure]


@functools.cache
def here():
    """The facts of this machine, gathered once: that loads every interpreter."""
    return gather_facts.gather("/nowhere")


class Answering:
    """A transport that answers with the facts of this machine, as a Raspberry Pi."""

    name, trusted, python = "pi@edgepi", True, "python3"

    def __init__(self, **facts):
        self.facts = facts

    def run(self, command, **_):
        if command[:2] == ["sudo", "-n"] or command == ["id", "-u"]:
            return Completed(0, b"1000", b"")
        return Completed(0, json.dumps({**here(), **self.facts}).encode(), b"")

    def close(self):
        pass


@pytest.mark.parametrize(("systemd", "code"), [(True, 0), (False, 3)])
def test_the_command(systemd, code, monkeypatch, capfd):
    facts = {"architecture": "aarch64", "board": "Raspberry Pi 4\x1b[2J", "systemd": systemd, "sudo": True}
    facts |= {
        "interpreters": {"numpy": "2.0", "ai-edge-litert": "2.3.0", "picamera2": "0.3", "cv2": "4.10.0"},
        "accelerator": False,
        "python": "3.11.2",
    }
    monkeypatch.setattr("edgeveil.devices.transports.open_transport", lambda *_, **__: Answering(**facts))
    edgeveil = output.in_process(monkeypatch, capfd)
    ended, out, said = edgeveil("board", "check", "--on", "ssh://pi@edgepi")
    assert (ended, "\x1b" in out, "not ready: systemd" in said) == (code, False, not systemd)
    ended, out, _ = edgeveil("board", "check", "--on", "ssh://pi@edgepi", "--json")
    assert (ended, json.loads(out)["profile"]) == (code, "raspberry-pi-cpu")
