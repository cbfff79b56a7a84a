"""Host name, user, keys and Wi-Fi of a new card: by cloud-init or by Raspberry Pi OS's own first boot."""

import json
import subprocess

import pytest
import tomllib

from edgeveil.devices.flashing import card, sd_card
from edgeveil.devices.flashing.card import read_setup
from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.flash import flash_target
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.flashing.sd_card import MountedCard
from edgeveil.edge_runtime.errors import BadInput
from tests.support import bundles

pytestmark = pytest.mark.programs

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGz3hv7bY0ZJb0Y0 ada@desk"
HASH = "$6$salt$" + "x" * 86
SETUP = f"""
hostname = "edgepi"
timezone = "Europe/Vienna"
[user]
name = "ada"
ssh_keys = ["{KEY}"]
[wifi]
ssid = "IEEE"
password = "password"
country = "AT"
"""
# IEEE 802.11i, H.4.3: of the name IEEE and the password password
PSK = "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"
BOOKWORM = b"console=tty1 root=PARTUUID=1-02 quiet init=/usr/lib/raspberrypi-sys-mods/firstboot\n"


@pytest.fixture
def setup(tmp_path):
    def made(text=SETUP):
        (tmp_path / "setup.toml").write_text(text)
        return read_setup(tmp_path / "setup.toml")

    return made


def on(setup, **there):
    """The files for a boot partition that has these."""
    return card.files(setup, {f"/{name.replace('_', '-')}": data for name, data in there.items()}.get, "the card")


def test_an_image_with_cloud_init(setup):
    made = on(setup(), user_data=b"#cloud-config\n", **{"cmdline.txt": b"root=PARTUUID=1-02\n"})
    assert made["/user-data"].startswith(b"#cloud-config\n{")
    data = json.loads(made["/user-data"].split(b"\n", 1)[1])
    (user,) = data["users"]
    assert (data["hostname"], data["timezone"], data["ssh_pwauth"]) == ("edgepi", "Europe/Vienna", False)
    assert (user["name"], user["lock_passwd"], user["ssh_authorized_keys"]) == ("ada", True, [KEY])
    assert user["sudo"].endswith("NOPASSWD:ALL"), "there is no password that sudo could ask for"
    (point,) = json.loads(made["/network-config"])["wifis"].values()
    assert point["access-points"] == {"IEEE": {"password": PSK}}
    assert point["regulatory-domain"] == "AT"
    again = on(setup(SETUP.replace("edgepi", "other")), user_data=b"")
    assert made["/meta-data"] != again["/meta-data"], "what is set up anew is a new instance"
    assert made == on(setup(), user_data=b"")


def test_raspberry_pi_os_with_a_first_boot_of_its_own(setup):
    (made,) = on(setup(), **{"cmdline.txt": BOOKWORM}).items()
    assert made[0] == "/custom.toml"
    document = tomllib.loads(made[1].decode())
    assert document["config_version"] == 1
    assert document["system"] == {"hostname": "edgepi"}
    assert document["user"] == {"name": "ada"}
    assert document["ssh"] == {"enabled": True, "password_authentication": False, "authorized_keys": [KEY]}
    assert document["wlan"]["password"] == PSK
    assert (document["wlan"]["password_encrypted"], document["wlan"]["country"]) == (True, "AT")
    assert document["locale"] == {"timezone": "Europe/Vienna"}


def test_a_password_is_its_hash_and_what_is_left_out_stays(setup):
    asked = setup(f'[user]\nname = "ada"\npassword = "{HASH}"')
    (user,) = json.loads(on(asked, user_data=b"")["/user-data"].split(b"\n", 1)[1])["users"]
    assert (user["passwd"], user["lock_passwd"], "sudo" in user) == (HASH, False, False)
    assert set(on(asked, user_data=b"")) == {"/user-data", "/meta-data"}
    custom = tomllib.loads(on(asked, **{"cmdline.txt": BOOKWORM})["/custom.toml"].decode())
    assert custom["user"] == {"name": "ada", "password": HASH, "password_encrypted": True}
    assert set(custom) == {"config_version", "user", "ssh"}


def test_the_first_boot_leaves_no_secret_that_others_can_read(setup, tmp_path):
    """The command that cloud-init is given, on a boot partition and a log of its own."""
    made = on(setup(SETUP.replace(f'ssh_keys = ["{KEY}"]', f'password = "{HASH}"')), user_data=b"")
    for path, data in made.items():
        (tmp_path / path[1:]).write_bytes(data)
    log = "net config {'access-points': {'IEEE': {'password': '%s'}}}\n"
    (tmp_path / "cloud-init.log").write_text("before\n" + log % PSK)
    (tmp_path / "cloud-init.log").chmod(0o640)
    same = (tmp_path / "cloud-init.log").stat().st_ino
    clean = json.loads(made["/user-data"].split(b"\n", 1)[1])["runcmd"][-1]
    assert clean[:2] == ["sh", "-c"]
    for place in ("/boot/firmware", "/var/log", "/run"):
        clean[-1] = clean[-1].replace(place, str(tmp_path))
    subprocess.run(clean, check=True, timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cloud-init.log",
        "meta-data",
        "setup.toml",
        "user-data",
    ]
    left = (tmp_path / "user-data").read_text()
    (user,) = json.loads(left.split("\n", 1)[1])["users"]
    assert ("passwd" in user, user["name"], HASH in left) == (False, "ada", False)
    assert (tmp_path / "cloud-init.log").read_text() == "before\n" + log % ""
    assert (tmp_path / "cloud-init.log").stat().st_ino == same, "cloud-init still writes to it"


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({"cmdline.txt": b"root=1 systemd.run=/boot/firstrun.sh\n", "user_data": b""}, "set up before"),
        ({"cmdline.txt": b"root=1 ds=nocloud;i=rpi-imager-1\n", "user_data": b""}, "set up before"),
        ({"cmdline.txt": BOOKWORM, "custom.toml": b"config_version = 1"}, "set up before"),
        ({"cmdline.txt": b"root=1 rootwait\n"}, "it has neither, or has booted before"),
    ],
)
def test_a_card_that_was_set_up_or_cannot_be_is_refused(setup, there, words):
    with pytest.raises(BadInput, match=words):
        on(setup(), **there)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"edgepi"', '"edge pi"', "hostname"),
        ("Europe/Vienna", "Europe/Wien", "time zone"),
        ('"ada"', '"root"', "other than root"),
        (KEY, "ssh-ed25519 AAAA\\ncommand", "pub file"),
        (f'ssh_keys = ["{KEY}"]', "", "no login is possible"),
        (f'ssh_keys = ["{KEY}"]', 'password = "plain text"', "openssl passwd -6"),
        ('"password"', '"topsec"', "8 to 63"),
        ('"AT"', '"Austria"', "two capital letters"),
        (SETUP, "", "there is none"),
        ("hostname", "hostnam", "Did you mean hostname"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_sentence_without_a_password(setup, old, new, words):
    with pytest.raises(BadInput, match=words) as refused:
        setup(SETUP.replace(old, new))
    for secret in ("plain text", "topsec", "'password'"):
        assert secret not in str(refused.value)


def test_it_is_written_to_the_boot_partition_and_read_back(setup, tmp_path):
    (tmp_path / "cmdline.txt").write_bytes(BOOKWORM)
    boot = MountedCard(tmp_path)
    sd_card._write_and_compare(boot, card.files(setup(), boot.read, boot.name))
    assert b"edgepi" in (tmp_path / "custom.toml").read_bytes()


def test_a_board_that_is_reached_is_set_up_already(tmp_path):
    made = bundles.make_bundle(tmp_path)
    with pytest.raises(BadInput, match="set up already"):
        flash_target(
            *(made.path, "ssh://pi@board", Connection(), "raspberry-pi-cpu"),
            trust=made.trust,
            wanted=Wanted(service=False),
            setup=tmp_path / "none.toml",
        )
