"""service_files: the very files that a flash puts onto a board, and the commands that make a service of them."""

import configparser
import json

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing import service_files
from edgeveil.devices.flashing.board import Board, Payload
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.transports.base import Completed
from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

ROOT = "/opt/edgeveil"


def unit(made, name):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(made[service_files.UNIT_FOLDER + name].decode())
    return parser


def lines(made, key):
    text = made[service_files.UNIT_FOLDER + service_files.INSIDE].decode()
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(key + "=")]


@pytest.mark.parametrize(
    ("source", "profile", "device", "devices", "groups"),
    [
        ("camera:0", None, "cpu", ["/dev/video0 rw"], ["video"]),
        ("camera:/dev/v4l/by-id/one", None, "cpu", ["/dev/v4l/by-id/one rw"], ["video"]),
        ("camera:1", "coral-dev-board", "edgetpu", ["/dev/video1 rw", "/dev/apex_0 rw"], ["video apex"]),
        ("camera:1", "coral-dev-board", "cpu", ["/dev/video1 rw"], ["video"]),
        ("kinect:", None, "cpu", ["char-usb_device rw"], ["plugdev"]),
        ("realsense:", None, "cpu", ["char-usb_device rw", "char-video4linux rw"], ["plugdev video"]),
        ("simulate:depth", None, "cpu", [], []),
        ("camera:0", "coral-usb", "edgetpu", ["/dev/video0 rw", "char-usb_device rw"], ["video plugdev"]),
        ("camera:0", "coral-usb", "cpu", ["/dev/video0 rw"], ["video"]),
        ("kinect:", "coral-usb", "edgetpu", ["char-usb_device rw"], ["plugdev"]),
        ("camera:0", "raspberry-pi3-ncs2", "myriad", ["/dev/video0 rw", "char-usb_device rw"], ["video users"]),
    ],
)
def test_the_inside_may_open_its_camera_and_the_accelerator_it_uses(source, profile, device, devices, groups):
    facts = profiles.load(profile or "raspberry-pi-cpu")
    path, more = facts.accelerator_path, {"accelerator_group": facts.accelerator_group, "camera": facts.camera}
    made = service_files.files(ROOT, source, ["mqtts://broker/hall"], path, device=device, **more)
    assert lines(made, "DeviceAllow") == devices
    assert lines(made, "SupplementaryGroups") == groups
    assert lines(made, "DevicePolicy") == ["closed"]
    # A Compute Stick comes back under another number when it is started, and udev tells that to nobody in a namespace.
    assert lines(made, "PrivateNetwork") == ["no" if device == "myriad" else "yes"]
    assert lines(made, "RestrictAddressFamilies") == ["AF_NETLINK"]
    assert json.loads(made[service_files.CONFIG]).get("device", "cpu") == device
    assert ("device" in json.loads(made[service_files.CONFIG])) == (device != "cpu")


def test_a_gpus_device_files_are_opened_where_the_gpu_is_used():
    nano = profiles.load("jetson-nano")
    more = {"accelerator_devices": nano.accelerator_devices, "accelerator_group": nano.accelerator_group}
    made = service_files.files(
        ROOT, "camera:0", ["tcp://127.0.0.1:9000"], nano.accelerator_path, device="tensorrt", **more
    )
    opened = [line.split()[0] for line in lines(made, "DeviceAllow")]
    assert opened[:2] == ["/dev/video0", "/dev/nvhost-gpu"]
    assert set(nano.accelerator_devices) < set(opened)
    assert lines(made, "SupplementaryGroups") == ["video"]


def test_what_tries_an_update_has_the_accelerator_that_will_run_it():
    for device, private in (("cpu", "yes"), ("edgetpu", "no")):
        made = service_files.update_files(ROOT, "https://updates.example/hall", device=device)
        assert unit(made, service_files.UPDATE)["Service"]["PrivateDevices"] == private


def test_nothing_is_left_to_fill_in_and_every_command_is_understood():
    made = service_files.files("/srv/veil", "camera:0", ["tcp://127.0.0.1:9000"])
    assert sorted(made) == sorted(
        [service_files.CONFIG, *(service_files.UNIT_FOLDER + name for name in service_files.UNITS)]
    )
    for name in service_files.UNITS:
        assert b"@" not in made[service_files.UNIT_FOLDER + name]
    for name in (service_files.MAIN, service_files.INSIDE):
        words = unit(made, name)["Service"]["ExecStart"].split()
        assert words[1] == "/srv/veil/current/edgeveil-edge.pyz"
        main._parser().parse_args(words[2:])
    recover = unit(made, service_files.RECOVER)["Service"]["ExecStart"]
    assert "recover --root /srv/veil && exit 0" in recover
    assert service_files.RECOVER in unit(made, service_files.MAIN)["Unit"]["Requires"]
    assert service_files.RECOVER in unit(made, service_files.MAIN)["Unit"]["After"]


def test_a_timer_looks_for_newer_releases_and_where_there_is_none_cron_does():
    made = service_files.update_files(ROOT, "https://updates.example/hall")
    words = unit(made, service_files.UPDATE)["Service"]["ExecStart"].split()
    assert main._parser().parse_args(words[2:]).place == "https://updates.example/hall"
    assert unit(made, service_files.TIMER)["Timer"]["OnUnitInactiveSec"] == "6h"
    assert service_files.enabling(made) == [
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable", "--now", service_files.TIMER],
    ]
    by_cron = service_files.update_files(ROOT, "dir:/media/stick", systemd=False, starter="cron")
    assert list(by_cron) == [service_files.CRON_UPDATE]
    assert service_files.enabling(by_cron) == []
    for place, more in (("https://x/$(id)", {}), ("dir:/a b", {}), ("https://x", {"systemd": False, "starter": "rcS"})):
        with pytest.raises(BadInput, match="--update-from"):
            service_files.update_files(ROOT, place, **more)


def test_the_configuration_is_one_that_the_runtime_reads(tmp_path):
    made = service_files.files(ROOT, "camera:0", ["mqtts://broker/hall", "preview:8080"])
    (tmp_path / "edge.json").write_bytes(made[service_files.CONFIG])
    settings = config.merged({}, config.read(str(tmp_path / "edge.json")))
    assert (settings.source, settings.sink) == ("camera:0", ["mqtts://broker/hall", "preview:8080"])
    assert settings.bundle == f"{ROOT}/current/bundle.veil"
    assert json.loads(made[service_files.CONFIG])["trust"] == f"{ROOT}/trust"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((ROOT, None, ["none"]), "give --source and --sink"),
        ((ROOT, "camera:0", []), "give --source and --sink"),
        ((ROOT, "camera:/dev/video0 rw\nUser=root", ["none"]), "Expected camera:0"),
        ((ROOT, "camera:/dev/../etc", ["none"]), "Expected camera:0"),
        ((ROOT, "rtsp://cam/1", ["none"]), "no network"),
        ((ROOT, "wifi:wlan0", ["none"]), "no network"),
        (("/opt/a b'", "camera:0", ["none"]), "a plain path"),
    ],
)
def test_what_is_no_service_is_refused(arguments, words):
    with pytest.raises(BadInput, match=words):
        service_files.files(*arguments)


class Recorded:
    """A transport that writes down what it is asked to run; ``codes`` by the command's first words."""

    name, trusted, python = "board", True, "python3"

    def __init__(self, uid=b"1000", **codes):
        self.ran, self.uid, self.codes = [], uid, codes

    def run(self, command, **_):
        text = " ".join(command)
        self.ran.append(text)
        out = self.uid if text == "id -u" else b"/home/pi/in"
        return Completed(next((code for start, code in self.codes.items() if start in text), 0), out, b"said no")

    def put(self, *_):
        pass

    def close(self):
        pass


def test_users_files_and_units_in_that_order_and_as_root():
    line = Recorded(**{"id -u edgeveil": 1})
    made = service_files.files(ROOT, "camera:0", ["none"])
    Board(line)._service(Payload(b"", b"", service=made), Wanted(), None)
    ran = [one for one in line.ran if one.startswith("sudo -n") and " id " not in one]
    assert [one.split()[2] for one in ran] == ["useradd"] * 2 + ["install"] * 4 + ["systemctl"] * 3
    assert ran[2].endswith(service_files.CONFIG)
    assert "-m 640 -g edgeveil" in ran[2]
    assert ran[-1] == "sudo -n systemctl restart edgeveil-recover.service edgeveil.service"


def test_what_runs_makes_way_for_a_trial_on_its_camera_and_comes_back(monkeypatch):
    line = Recorded(b"0", install=4)
    board = Board(line)
    with pytest.raises(DeviceFailed):
        board._install(Payload(b"x", b"y"), Wanted(source="camera:0"), None)
    order = [one for one in line.ran if "systemctl" in one or " install " in one]
    assert order[0] == "systemctl stop edgeveil-inside.service edgeveil.service"
    assert " install " in order[1]
    assert order[2] == "systemctl start edgeveil.service"


def test_a_first_flash_shows_the_runtime_the_wheels_that_travelled():
    line = Recorded(b"0", **{"test -e": 1})
    Board(line)._install(Payload(b"x", b"y"), Wanted(), None)
    first = next(one for one in line.ran if "edgeveil-edge.pyz install" in one)
    assert first.startswith("env PYTHONPATH=/opt/edgeveil/site python3 ")
