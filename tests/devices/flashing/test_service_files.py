"""service_files: the very files that a flash puts onto a board, and the commands that make a service of them."""

import configparser
import json
import re
import shlex
import subprocess
from dataclasses import replace

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.agents import gather_facts
from edgeveil.devices.flashing import service_files, steps
from edgeveil.devices.flashing.board import Board
from edgeveil.devices.flashing.flash import flash
from edgeveil.devices.flashing.records import BundleFacts, Facts, Installed, Wanted
from edgeveil.devices.flashing.steps import InstallRelease, Plan, StartService, StopService, WriteService, execute
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.devices.profiles import Service
from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.signing.keys import read_public_key
from tests.support import bundles
from tests.support.boards import owners
from tests.support.boards.owners import Recorded, Watched

ROOT = "/opt/edgeveil"
PI = profiles.load("raspberry-pi-cpu")
BY_PATH = "/dev/v4l/by-path/platform-xhci-hcd.0-usb-0:1.2:1.0-video-index0"


def unit(made, name):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(made[service_files.UNIT_FOLDER + name].decode())
    return parser


def lines(made, key):
    text = made[service_files.UNIT_FOLDER + service_files.INSIDE].decode()
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(key + "=")]


def test_a_secret_of_a_sink_is_in_the_settings_and_on_no_command_line():
    sinks = ["preview:8080?token=secret-secret-secret", "https://hooks.example/secret-path"]
    made = service_files.files(ROOT, "camera:0", sinks, PI)
    assert [path for path, data in made.items() if b"secret-" in data] == [service_files.CONFIG]


@pytest.mark.parametrize(
    ("source", "profile", "device", "devices", "groups"),
    [
        ("camera:0", None, "cpu", ["/dev/video0 rw"], ["video"]),
        ("camera:/dev/v4l/by-id/one", None, "cpu", ["/dev/v4l/by-id/one rw"], ["video"]),
        (f"camera:{BY_PATH}", None, "cpu", [f"{BY_PATH} rw"], ["video"]),
        ("serial:/dev/ttyACM0,115200,lines", None, "cpu", ["/dev/ttyACM0 rw"], ["dialout"]),
        ("serial:/dev/serial/by-id/usb-x,9600,cobs", None, "cpu", ["/dev/serial/by-id/usb-x rw"], ["dialout"]),
        ("iio:mpu6050,50", None, "cpu", [], []),
        ("camera:1", "coral-dev-board", "edgetpu", ["/dev/video1 rw", "/dev/apex_0 rw"], ["video apex"]),
        ("camera:1", "coral-dev-board", "cpu", ["/dev/video1 rw"], ["video"]),
        ("kinect:", None, "cpu", ["char-usb_device rw"], ["plugdev"]),
        ("realsense:", None, "cpu", ["char-usb_device rw", "char-video4linux rw"], ["plugdev video"]),
        ("simulate:depth", None, "cpu", [], []),
        ("camera:0", "coral-usb", "edgetpu", ["/dev/video0 rw", "char-usb_device rw"], ["video plugdev"]),
        ("camera:0", "coral-usb", "cpu", ["/dev/video0 rw"], ["video"]),
        ("camera:0?mode=1280x720&mains=50", None, "cpu", ["/dev/video0 rw"], ["video"]),
        ("kinect:", "coral-usb", "edgetpu", ["char-usb_device rw"], ["plugdev"]),
        ("camera:0", "raspberry-pi3-ncs2", "myriad", ["/dev/video0 rw", "char-usb_device rw"], ["video users"]),
    ],
)
def test_the_inside_may_open_its_camera_and_the_accelerator_it_uses(source, profile, device, devices, groups):
    facts = profiles.load(profile or "raspberry-pi-cpu")
    made = service_files.files(ROOT, source, ["mqtts://broker/hall"], facts, device)
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
    made = service_files.files(ROOT, "camera:0", ["tcp://127.0.0.1:9000"], nano, "tensorrt")
    opened = [line.split()[0] for line in lines(made, "DeviceAllow")]
    assert opened[:2] == ["/dev/video0", "/dev/nvhost-gpu"]
    assert {"/dev/nvhost-tsg-gpu", *nano.accelerator_devices} < set(opened)
    assert lines(made, "SupplementaryGroups") == ["video"]


@pytest.mark.parametrize(
    ("board", "device", "file"),
    [("intel-n100", "openvino:GPU", "/dev/dri/renderD128"), ("intel-core-ultra", "openvino:NPU", "/dev/accel/accel0")],
)
def test_of_a_pc_the_inside_opens_the_one_file_of_its_accelerator(board, device, file):
    made = service_files.files(ROOT, "camera:0", ["none"], profiles.load(board), device)
    assert lines(made, "DeviceAllow") == ["/dev/video0 rw", f"{file} rw"]
    assert lines(made, "SupplementaryGroups") == ["video render"]
    assert lines(made, "PrivateNetwork") == ["yes"]


def test_what_tries_an_update_has_the_accelerator_that_will_run_it():
    for device, private in (("cpu", "yes"), ("edgetpu", "no")):
        made = service_files.update_files(ROOT, "https://updates.example/hall", Service(), device=device)
        assert unit(made, service_files.UPDATE)["Service"]["PrivateDevices"] == private


def test_nothing_is_left_to_fill_in_and_every_command_is_understood():
    made = service_files.files("/srv/veil", "camera:0", ["tcp://127.0.0.1:9000"], PI)
    assert sorted(made) == sorted(
        [
            service_files.CONFIG,
            service_files.WATCHDOG,
            *(service_files.UNIT_FOLDER + name for name in service_files.UNITS),
        ]
    )
    for name in service_files.UNITS:
        assert re.search(rb"@[A-Z]+@", made[service_files.UNIT_FOLDER + name]) is None
    for name in (service_files.MAIN, service_files.INSIDE):
        words = unit(made, name)["Service"]["ExecStart"].split()
        assert words[1] == "/srv/veil/runtime/current/edgeveil-edge.pyz"
        main._parser().parse_args(words[2:])
    recover = unit(made, service_files.RECOVER)["Service"]["ExecStart"]
    assert "recover --root /srv/veil; e=$?; case $e in 0|2|4) exit" in recover
    assert service_files.RECOVER in unit(made, service_files.MAIN)["Unit"]["Requires"]
    assert service_files.RECOVER in unit(made, service_files.MAIN)["Unit"]["After"]


def test_a_timer_looks_for_newer_releases():
    made = service_files.update_files(ROOT, "https://updates.example/hall", Service())
    words = unit(made, service_files.UPDATE)["Service"]["ExecStart"].split()
    assert main._parser().parse_args(words[2:]).place == "https://updates.example/hall"
    assert unit(made, service_files.TIMER)["Timer"]["OnUnitInactiveSec"] == "6h"
    assert service_files.enable_commands(made) == [
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable", "--now", service_files.TIMER],
    ]
    for place in ("https://x/$(id)", "dir:/a b"):
        with pytest.raises(BadInput, match="as update; got"):
            service_files.update_files(ROOT, place, Service())


def test_a_board_in_use_keeps_its_settings_and_may_be_told_where_updates_are():
    profile, used = profiles.load("raspberry-pi-cpu"), Installed("00", service=True)
    facts = Facts("aarch64", "3.11.2", 10**10, False, True, True, edgeveil=used)
    same = service_files.for_board(ROOT, profile, Wanted(), facts, "cpu")
    updating = service_files.for_board(ROOT, profile, Wanted(update_from="https://x"), facts, "cpu")
    other = service_files.for_board(ROOT, profile, Wanted("camera:0", ("none",)), facts, "cpu")
    assert same == {}
    assert updating == service_files.update_files(ROOT, "https://x", Service())
    assert other == service_files.files(ROOT, "camera:0", ["none"], PI)


def test_the_configuration_is_one_that_the_runtime_reads(tmp_path):
    made = service_files.files(ROOT, "camera:0", ["mqtts://broker/hall", "preview:8080"], PI)
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
        ((ROOT, "rtsp://cam/1", ["none"]), "--accept-raw-on-network"),
        ((ROOT, "wifi:wlan0", ["none"]), "no network"),
        ((ROOT, "iio:mpu6050,50,buffered", ["none"]), "let the inside write no settings of a device"),
        ((ROOT, "serial:ttyACM0,115200,lines", ["none"]), "Expected serial:/dev/ttyACM0,115200,lines"),
        (("/opt/a b'", "camera:0", ["none"]), "a plain path"),
    ],
)
def test_what_is_no_service_is_refused(arguments, words):
    with pytest.raises(BadInput, match=words):
        service_files.files(*arguments, PI)


BUNDLE = BundleFacts("11", "mnist", 1, 1, "aa", data=b"x", runtime=b"y")
INSTALL = InstallRelease(BUNDLE, "numpy", "cpu", 30, source="camera:0")


def test_users_files_and_units_in_that_order_and_as_root():
    line = Recorded(b"1000", **{"id -u edgeveil": 1})
    made = service_files.files(ROOT, "camera:0", ["none"], PI)
    execute(Plan((WriteService(made, Service()), StartService()), "numpy", "numpy"), Board(line))
    ran = [one for one in line.ran if one.startswith("sudo -n") and " id " not in one]
    assert [one.split()[2] for one in ran] == ["useradd"] * 2 + ["python3", "rm"] + ["install"] * 5 + [
        "systemctl"
    ] * 2 + ["python3"]
    assert "/etc/edgeveil/camera.json" in ran[3], "what an earlier camera on a network left, with its password"
    assert ran[4].endswith(service_files.CONFIG)
    assert "-m 640 -g edgeveil" in ran[4]
    kept = "/opt/edgeveil/unfinished/settings"
    assert ran[2].startswith(f"sudo -n python3 - keep {kept} {service_files.CONFIG} ")
    assert ran[-1] == f"sudo -n python3 - restart {kept} edgeveil-recover.service edgeveil.service"


def test_what_runs_makes_way_for_a_trial_on_its_camera_and_comes_back():
    line = Recorded(install=4)
    with pytest.raises(DeviceFailed):
        execute(Plan((StopService(), INSTALL, StartService()), "numpy", "numpy"), Board(line))
    order = [one for one in line.ran if "systemctl" in one or " install " in one]
    assert order[0] == "systemctl stop edgeveil-inside.service edgeveil.service"
    assert " install " in order[1]
    assert order[2:] == ["systemctl start edgeveil.service"]


def test_a_first_flash_shows_the_runtime_the_wheels_that_travelled():
    line = Recorded()
    execute(Plan((replace(INSTALL, first=True),), "numpy", "numpy"), Board(line))
    first = next(one for one in line.ran if "edgeveil-edge.pyz install" in one)
    assert first.startswith("env PYTHONPATH=/opt/edgeveil/site python3 ")


def test_a_board_that_hangs_is_restarted_by_its_own_watchdog():
    made = service_files.files(ROOT, "camera:0", ["none"], PI)
    assert made[service_files.WATCHDOG] == b"[Manager]\nRuntimeWatchdogSec=15\n"
    assert service_files.enable_commands(made)[0] == ["systemctl", "daemon-reexec"]
    assert service_files.WATCHDOG in gather_facts.SERVICE_FILES, "a flash of the same again finds it as it should be"
    jetson = service_files.files(ROOT, "camera:0", ["none"], profiles.load("jetson-nano"))
    assert service_files.WATCHDOG not in jetson
    assert service_files.enable_commands(jetson)[0] == ["systemctl", "daemon-reload"]


def test_what_a_boards_libraries_need_is_in_every_unit_and_before_every_python():
    jetson = profiles.load("jetson-nano")
    made = service_files.files(ROOT, "camera:0", ["none"], jetson)
    made |= service_files.update_files(ROOT, "https://x", jetson.service)
    units = [data.decode() for path, data in made.items() if path.endswith(".service")]
    assert len(units) == 4
    assert all("\nEnvironment=OPENBLAS_CORETYPE=ARMV8\n" in text for text in units)
    line = Recorded()
    board = Board(line)
    board.environment = {**jetson.service.environment, "PYTHONPATH": "/opt/more"}
    execute(Plan((replace(INSTALL, first=True),), "numpy", "numpy"), board)
    board.run_agent("run_rows")
    ran = [one for one in line.ran if "python3" in one and "-c" not in one]
    assert ran[0].startswith("env OPENBLAS_CORETYPE=ARMV8 PYTHONPATH=/opt/edgeveil/site:/opt/more python3 ")
    assert ran[1].startswith("env OPENBLAS_CORETYPE=ARMV8 PYTHONPATH=/opt/more python3 -")


@pytest.mark.parametrize(
    ("codes", "ran", "code"),
    [
        ({"current": 0, "previous": 0}, ["current"], 0),
        ({"current": 2, "previous": 0}, ["current"], 2),
        ({"current": 4, "previous": 0}, ["current"], 4),
        ({"current": 1, "previous": 0}, ["current", "previous"], 0),
        ({"current": 70, "previous": 4}, ["current", "previous"], 4),
        ({"current": 139, "previous": 0}, ["current", "previous"], 0),
        ({"previous": 0}, ["previous"], 0),
        ({"current": 1}, ["current"], 1),
        ({"current": 127, "previous": 1}, ["current", "previous"], 1),
    ],
)
def test_only_a_runtime_that_crashed_or_is_missing_is_followed_by_the_one_before(tmp_path, codes, ran, code):
    """The unit's own line, with a shell in the place of Python: a refusal is an answer."""
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\ncase $1 in *previous*) n=previous;; *) n=current;; esac\necho $n >> {tmp_path}/ran\n"
        f"exit $(cat {tmp_path}/root/runtime/$n/edgeveil-edge.pyz)\n"
    )
    python.chmod(0o755)
    for name, number in codes.items():
        (tmp_path / "root/runtime" / name).mkdir(parents=True)
        (tmp_path / "root/runtime" / name / "edgeveil-edge.pyz").write_text(str(number))
    filled = service_files.filled(
        service_files.RECOVER, {"@PYTHON@": str(python), "@ROOT@": str(tmp_path / "root"), "@USER@": "edgeveil"}
    )
    line = next(line for line in filled.decode().splitlines() if line.startswith("ExecStart="))
    done = subprocess.run(shlex.split(line.partition("=")[2]), check=False)
    assert ((tmp_path / "ran").read_text().split(), done.returncode) == (ran, code)


def test_a_dry_run_shows_the_very_steps_that_are_then_executed(tmp_path, monkeypatch):
    """The same flash twice, over a line that writes down what it is asked: shown first, then done."""
    made = bundles.make_bundle(tmp_path)
    folder = owners.trust(tmp_path)
    inputs = read_inputs(made.path, "raspberry-pi-cpu", folder, None)
    root = read_public_key(folder / "root.pub").key
    new = Facts("aarch64", "3.11.2", 10**10, False, True, True, interpreters={"numpy": "2.4.0", "cv2": "4.11.0"})
    used = replace(new, edgeveil=Installed("00", 0, root, 1, (bundles.trusted().key,), service=True))
    one, executed = steps._execute, []
    monkeypatch.setattr(steps, "_execute", lambda step, *more: (executed.append(step), one(step, *more)))
    for facts, kinds in (
        (new, ["trust", "upload", "install", "service", "start"]),
        (used, ["upload", "stop", "install", "service", "start"]),
    ):
        executed.clear()
        board, wanted, shown = Watched(Recorded(), facts), Wanted("camera:0", ("none",)), []
        dry = flash(inputs, board, wanted, dry_run=True, show=shown.append)
        assert (board.transport.ran, executed) == (["id -u"], [])
        done = flash(inputs, board, wanted)
        assert [step.kind for step in executed] == kinds
        assert tuple(executed) == dry.plan.steps == done.plan.steps
        # What the board itself prints stands between the lines of the steps.
        *listed, note = "\n".join(shown).splitlines()
        assert [text for text in board.said if text[1:2] == "/"] == listed
        assert note.startswith("note: numpy-example: For any number of frames, what is sent adds nothing to the labels")
        assert len(board.transport.ran) > len(kinds)
