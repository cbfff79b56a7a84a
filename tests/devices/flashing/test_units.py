"""The systemd units say of each process what docs/how-to/run-the-capture-loop.md says of it."""

import configparser
import re
import subprocess

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing import board, service_files
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.ipc.counters import NICE
from tests.support import programs
from tests.support.checkout import ROOT

pytestmark = pytest.mark.programs

UNITS = ROOT / "devices/flashing/units"


WORST = 3.0  # of systemd-analyze's 10
WORDS = {
    "@ROOT@": "/opt/edgeveil",
    "@USER@": "edgeveil",
    "@INSIDE@": "edgeveil-inside",
    "@PYTHON@": "/usr/bin/python3",
    "@FROM@": "https://updates.example",
    "@CAMERA@": "edgeveil-camera",
    "@ACCEPT@": "",
}


def unit(name):
    parser = configparser.ConfigParser(interpolation=None, strict=False, comment_prefixes=("#",))
    parser.optionxform = str
    parser.read(UNITS / f"{name}.service")
    return parser


@pytest.mark.parametrize("name", ["edgeveil", "edgeveil-inside"])
def test_every_command_is_understood_and_both_meet_in_one_place(name):
    words = unit(name)["Service"]["ExecStart"].split()
    assert words[0] == "@PYTHON@"
    arguments = main._parser().parse_args(words[2:])
    assert arguments.inside_at == "/run/edgeveil"
    assert arguments.config == "/etc/edgeveil/edge.json"


def test_a_flash_waits_longer_than_systemd_which_then_says_what_went_wrong():
    assert int(unit("edgeveil")["Service"]["TimeoutStartSec"]) < board.START_S


def test_the_inside_has_its_camera_and_no_network():
    service = unit("edgeveil-inside")["Service"]
    assert service["PrivateNetwork"] == "@NAMESPACE@"
    assert service["DevicePolicy"] == "closed"
    assert service["DeviceAllow"] == "@DEVICE@ rw"
    assert service["RestrictAddressFamilies"] == "AF_NETLINK"
    assert "OPENBLAS_NUM_THREADS=1" in service["Environment"]
    assert service["User"] != unit("edgeveil")["Service"]["User"]


def test_the_inside_goes_behind_the_outside_by_its_unit_which_leaves_it_no_say():
    service = unit("edgeveil-inside")["Service"]
    assert int(service["Nice"]) == NICE
    assert "@resources" in service["SystemCallFilter"]
    assert "Nice" not in unit("edgeveil")["Service"]


def test_the_outside_is_watched_and_has_no_device():
    service = unit("edgeveil")["Service"]
    assert (service["Type"], service["PrivateDevices"]) == ("notify", "yes")
    assert int(service["WatchdogSec"]) > 5
    assert {"2", "70"} == set(service["RestartPreventExitStatus"].split())
    for name in ("edgeveil", "edgeveil-inside"):
        assert unit(name)["Service"]["LimitCORE"] == "0"
        assert unit(name)["Service"]["NoNewPrivileges"] == "yes"


@pytest.mark.parametrize("device", ["cpu", "accelerator"])
@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.glob("*.service")))
def test_systemd_finds_little_that_a_unit_could_do_without(name, device, tmp_path):
    private, group, devices = (
        ("yes", "video", ["/dev/video0"]) if device == "cpu" else ("no", "plugdev", ["/dev/a"] * 2)
    )
    words = {**WORDS, "@NAMESPACE@": "yes", "@PRIVATE@": private, "@GROUP@": group}
    # Of the camera's own process: what it fetches over a network, or asks a daemon for.
    source = "https://camera.example/x" if device == "cpu" else "gst:nvarguscamerasrc"
    if name == service_files.CAMERA:
        words |= service_files._camera_words(source, profiles.load("jetson-nano"), False)
        devices = service_files._camera_devices(source, profiles.load("jetson-nano"))
    lines = {
        "@DEVICE@": devices,
        "@ENVIRONMENT@": ["LD_LIBRARY_PATH=/opt/lib"],
        "@FRAMES@": [service_files.CAMERA_FOLDER],
    }
    (tmp_path / name).write_bytes(service_files.filled(name, words, lines))
    command = [programs.need("systemd-analyze"), "security", "--offline=true", f"./{name}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "offline" in done.stderr:
        pytest.skip("this systemd-analyze knows no --offline (systemd 250)")
    assert float(re.search(r"exposure level for \S+ ([0-9.]+)", done.stdout)[1]) <= WORST, done.stdout


@pytest.mark.parametrize("name", sorted(path.stem for path in UNITS.glob("*.service")))
def test_no_unit_may_take_all_memory_or_leave_a_core(name):
    service = unit(name)["Service"]
    assert int(service["MemoryMax"].rstrip("%")) < 100
    assert service["LimitCORE"] == "0"
    assert service["NoNewPrivileges"] == "yes"
    assert "CapabilityBoundingSet" in service
