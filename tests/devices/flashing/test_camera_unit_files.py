"""The unit of a camera on a network: who has its password, its network and its raw frames, and who has not."""

import configparser
import json
from dataclasses import replace

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.agents import gather_facts
from edgeveil.devices.flashing import sd_card, service_files
from edgeveil.devices.flashing.flash import with_credentials
from edgeveil.devices.flashing.plan import plan
from edgeveil.devices.flashing.records import BundleFacts, Facts, Installed, TrustFacts, Wanted
from edgeveil.devices.flashing.steps import InstallRelease
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput

ROOT, PI = "/opt/edgeveil", profiles.load("raspberry-pi-cpu")
SOURCE = "https://who:topsecret@camera.example/x?token=topsecret"


def unit(made, name):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(made[service_files.UNIT_FOLDER + name].decode())
    return parser["Service"]


def lines(made, name, key):
    text = made[service_files.UNIT_FOLDER + name].decode()
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(key + "=")]


@pytest.fixture(scope="module")
def made():
    return service_files.files(ROOT, SOURCE, ["mqtts://broker/hall"], PI)


def test_the_password_is_in_the_cameras_own_file_alone(made):
    assert [path for path, data in made.items() if b"topsecret" in data] == ["/etc/edgeveil/camera.json"]
    assert service_files.groups(PI.service)["/etc/edgeveil/camera.json"] == unit(made, service_files.CAMERA)["Group"]
    settings = json.loads(made[service_files.CONFIG])
    assert (settings["source"], settings["frames-at"]) == ("https://camera.example:443/...", "/run/edgeveil-camera")


def test_one_process_has_the_network_another_the_frames_and_the_third_none_of_the_camera(made):
    camera, inside, outside = (
        unit(made, name) for name in (service_files.CAMERA, service_files.INSIDE, "edgeveil.service")
    )
    assert len({one["User"] for one in (camera, inside, outside)}) == 3
    assert camera["Group"] not in (inside["Group"], outside["Group"])
    assert (camera["PrivateNetwork"], inside["PrivateNetwork"]) == ("no", "yes")
    assert "AF_UNIX" not in camera["RestrictAddressFamilies"]
    assert inside["RestrictAddressFamilies"] == "AF_NETLINK"
    assert lines(made, service_files.CAMERA, "DeviceAllow") == lines(made, service_files.INSIDE, "DeviceAllow") == []
    assert lines(made, service_files.INSIDE, "ReadWritePaths") == ["/run/edgeveil", "/run/edgeveil-camera"]
    assert "/run/edgeveil-camera" not in made[service_files.UNIT_FOLDER + service_files.MAIN].decode()
    # The sending process is neither the owner nor in the group of the folder where raw frames go.
    folder = lines(made, service_files.RECOVER, "ExecStartPre")[-1]
    assert folder == "/usr/bin/install -d -m 0710 -o edgeveil-inside -g edgeveil-camera /run/edgeveil-camera"


def test_every_word_is_filled_in_and_the_commands_are_understood(made):
    for name in (*service_files.UNITS, service_files.CAMERA):
        assert b"@" not in made[service_files.UNIT_FOLDER + name].replace(b"@clock", b"").replace(b" @", b"")
    words = unit(made, service_files.CAMERA)["ExecStart"].split()
    arguments = main._parser().parse_args(words[2:])
    assert (arguments.command, arguments.frames_at) == ("camera", "/run/edgeveil-camera")
    assert arguments.accept_raw_on_network is None
    assert service_files.CAMERA in service_files.enable_commands(made)[1]
    for path in ("/etc/edgeveil/camera.json", service_files.UNIT_FOLDER + service_files.CAMERA):
        assert path in gather_facts.SERVICE_FILES, "a flash of the same again finds it as it should be"


def test_raw_pictures_cross_a_network_unencrypted_only_where_that_was_said():
    with pytest.raises(BadInput, match="--accept-raw-on-network"):
        service_files.files(ROOT, "rtsp://camera.example/1", ["none"], PI)
    made = service_files.files(ROOT, "rtsp://camera.example/1", ["none"], PI, accept_raw=True)
    words = unit(made, service_files.CAMERA)["ExecStart"].split()
    assert main._parser().parse_args(words[2:]).accept_raw_on_network is True


def test_a_camera_of_its_own_removes_what_one_on_a_network_left(made):
    assert service_files.left_over(made) == []
    plain = service_files.files(ROOT, "camera:0", ["none"], PI)
    assert "/etc/edgeveil/camera.json" in service_files.left_over(plain)
    assert service_files.left_over({}) == [], "a board that keeps its settings keeps its camera"
    assert service_files.left_over(service_files.update_files(ROOT, "https://x", PI.service)) == []
    assert list(service_files.user_commands(PI.service, plain)) == ["edgeveil", "edgeveil-inside"]
    assert list(service_files.user_commands(PI.service, made))[2:] == ["edgeveil-camera"]


BUNDLE = BundleFacts("11", "hall", 1, 1, "aa", data=b"x", runtime=b"y")
TRUST = TrustFacts("00", 1, ("aa",), files={"root.pub": b"k"})


@pytest.mark.parametrize("facts", ["new", "used"])
def test_the_trial_has_no_password_and_stops_no_service(facts, made):
    board = Facts("aarch64", "3.11.2", 10**10, False, True, True, interpreters={"numpy": "2.4.0", "cv2": "4.11.0"})
    if facts == "used":
        board = replace(board, edgeveil=Installed("00", 0, "00", 1, ("aa",), service=True))
    wanted = Wanted(SOURCE, ("none",))
    done = plan(board, BUNDLE, PI, wanted, trust=TRUST, service_files=lambda _: made)
    (install,) = [step for step in done.steps if isinstance(step, InstallRelease)]
    assert install.source is None
    assert "stop" not in [step.kind for step in done.steps]
    assert "topsecret" not in done.text()
    assert "edgeveil-camera for the camera's address" in done.text()
    assert "others can read" not in done.text()
    raw = Wanted("rtsp://cam/1", ("none",), accept_raw_on_network=True)
    assert "others can read" in plan(board, BUNDLE, PI, raw, trust=TRUST, service_files=lambda _: made).text()
    assert Wanted("rtsp://x", service=False).trial_source == "rtsp://x"


def test_a_card_brings_the_file_to_the_cameras_group(made):
    board = Facts("aarch64", "3.11.2", 10**10, False, True, True, interpreters={"numpy": "2.4.0", "cv2": "4.11.0"})
    done = plan(board, BUNDLE, PI, Wanted(SOURCE, ("none",)), trust=TRUST, service_files=lambda _: made)
    job = json.loads(sd_card.tree(done, ROOT, {})["job.json"])
    assert job["places"]["system/camera.json"] == "/etc/edgeveil/camera.json"
    assert job["groups"]["/etc/edgeveil/camera.json"] == "edgeveil-camera"
    assert "edgeveil-camera" in [user for user, _ in job["users"]]


def test_credentials_come_from_a_file(tmp_path):
    file = tmp_path / "credentials"
    file.write_text("who:topsecret\n")
    given = with_credentials(Wanted("https://camera.example/x", ("none",)), file)
    assert given.source == "https://who:topsecret@camera.example/x"
    for wanted, words in (
        (Wanted(SOURCE), "source_credentials in boards.toml"),
        (Wanted("camera:0"), "leave it out"),
        (Wanted("https://camera.example/", service=False), "leave it out"),
        (Wanted("camera:0", accept_raw_on_network=True), "leave it out"),
    ):
        with pytest.raises(BadInput, match=words) as refused:
            with_credentials(wanted, file)
        assert "topsecret" not in str(refused.value)
