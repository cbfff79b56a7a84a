"""The systemd units say of each process what docs/how-to/run-the-capture-loop.md says of it."""

import configparser

import pytest

from edgeveil.edge_runtime.cli import main
from tests.support.checkout import ROOT

UNITS = ROOT / "devices/flashing/units"


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


def test_the_inside_has_its_camera_and_no_network():
    service = unit("edgeveil-inside")["Service"]
    assert service["PrivateNetwork"] == "@NAMESPACE@"
    assert service["DevicePolicy"] == "closed"
    assert service["DeviceAllow"] == "@DEVICE@ rw"
    assert service["RestrictAddressFamilies"] == "AF_NETLINK"
    assert "OPENBLAS_NUM_THREADS=1" in service["Environment"]
    assert service["User"] != unit("edgeveil")["Service"]["User"]


def test_the_outside_is_watched_and_has_no_device():
    service = unit("edgeveil")["Service"]
    assert (service["Type"], service["PrivateDevices"]) == ("notify", "yes")
    assert int(service["WatchdogSec"]) > 5
    assert {"2", "70"} == set(service["RestartPreventExitStatus"].split())
    for name in ("edgeveil", "edgeveil-inside"):
        assert unit(name)["Service"]["LimitCORE"] == "0"
        assert unit(name)["Service"]["NoNewPrivileges"] == "yes"
