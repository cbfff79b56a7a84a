"""A new card in the virtual board: cloud-init sets it up, its Wi-Fi joins an access point, and the board updates.

The system is Debian 13 with cloud-init, netplan and NetworkManager, and the radios are the kernel's own simulated ones
(mac80211_hwsim): NetworkManager's wpa_supplicant really associates with hostapd, which has a network namespace of its
own. The server of updates is on this machine.
"""

import functools
import http.server
import json
import shutil
import subprocess
import threading
import time

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeveil.devices.flashing.card import read_setup
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.keys import write_index
from tests.support import bundles, programs
from tests.support.boards import emulated_boards
from tests.support.boards.board_service import PATIENCE_S, healthy
from tests.support.boards.sshd import boards_file
from tests.support.watching_bundle import OVERHEAD, watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

NAME, PROFILE, SSID, PASSWORD = "edgepi", "raspberry-pi5", "hall of the owner", "correct horse battery"
UPDATES_AT = "10.0.2.101:8000"
SETUP = """hostname = "{name}"
timezone = "Europe/Vienna"
[user]
name = "ada"
ssh_keys = ["{key}"]
[wifi]
ssid = "{ssid}"
password = "{password}"
country = "AT"
"""
# The second radio goes to a namespace of its own, as a box in the hall would be.
ACCESS_POINT = f"""set -e
phy=$(cat /sys/class/net/wlan1/phy80211/name)
ip netns add hall
iw phy $phy set netns name hall
mkdir -m 700 -p /run/access-point
cat > /run/access-point/hostapd.conf <<END
interface=wlan1
driver=nl80211
ctrl_interface=/run/access-point/control
ssid={SSID}
hw_mode=g
channel=6
wpa=2
wpa_key_mgmt=WPA-PSK
rsn_pairwise=CCMP
wpa_passphrase={PASSWORD}
END
in="ip netns exec hall"
$in ip addr add 10.77.0.1/24 dev wlan1
$in hostapd -B -f /run/access-point/log /run/access-point/hostapd.conf
$in dnsmasq --port=0 --interface=wlan1 --dhcp-range=10.77.0.10,10.77.0.20,1h --leasefile-ro --pid-file
"""
PLACES = "/boot /etc /home /opt /root /run /srv /tmp /var"


@pytest.fixture
def owner(tmp_path, edgeveil):
    """The owner's desk: server of updates, keys, three releases, and a card that was set up."""
    desk = Desk(tmp_path, edgeveil)
    yield desk
    desk.end()
    shutil.rmtree(tmp_path)


class Desk:
    def __init__(self, folder, edgeveil):
        self.folder, self.edgeveil = folder, edgeveil
        trust, *self.releases = watching_bundle(folder, "first", "second", "third", capture=OVERHEAD)
        subprocess.run(
            [programs.need("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "ada@desk", "-f", folder / "ada"],
            check=True,
        )
        key = (folder / "ada.pub").read_text().strip()
        (folder / "setup.toml").write_text(SETUP.format(name=NAME, key=key, ssid=SSID, password=PASSWORD))
        self.psk = read_setup(folder / "setup.toml").wifi.psk
        (folder / "signing.key").touch(mode=0o600)
        pem = bundles.KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / "signing.key").write_bytes(pem)
        (folder / "signing.pub").write_text(public_key_line(bundles.trusted()))
        (folder / "updates").mkdir()
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.reach = {UPDATES_AT: self.server.server_port}
        edgeveil("board", "wheels", PROFILE, "--out", folder / "wheels")
        self.card = emulated_boards.new_card(folder / "card.img", "cloud")
        words = ["--for", PROFILE, "--trust", trust, "--wheels", folder / "wheels", "--setup", folder / "setup.toml"]
        words += ["--source", "simulate:depth", "--sink", "npz:/var/lib/edgeveil/hall?rotate=1MB,20s&keep=3"]
        words += boards_file(folder, {f"image:{self.card}": {"update": f"http://{UPDATES_AT}/updates"}})
        self.said = edgeveil("flash", self.releases[0].path, "--on", f"image:{self.card}", *words)

    def end(self):
        self.server.shutdown()

    def publish(self, release, *, spoilt=False):
        """Put a release and its signed index where the board looks; ``spoilt``: with one byte changed on the way."""
        data = bytearray(release.path.read_bytes())
        write_index([release.path], self.folder / "signing.key", self.folder / "updates/index.json", name="hall")
        data[len(data) // 2] ^= spoilt
        (self.folder / "updates" / release.path.name).write_bytes(data)


def test_a_new_card_is_set_up_joins_wifi_and_updates(owner):
    with emulated_boards.board("vm", card=owner.card, reach=owner.reach) as board:
        shown = {"system": system(board), "set up": set_up(board, owner)}
        shown["service"] = {"runs": healthy(board)["bundle"], "isolation": healthy(board)["isolation"]}
        shown["Wi-Fi"] = wifi(board)
        shown["files with the key of the Wi-Fi"] = holders(board, owner.psk)
        shown["files with its password"] = holders(board, PASSWORD)
        shown["lines of the journal with either"] = journal(board, f"{owner.psk}\n{PASSWORD}\n")
        shown["updates"] = updates(board, owner)
        shown["after a reboot"] = again(board)
    emulated_boards.record("new-card.json", shown)
    found = shown["set up"]["cloud-init"]
    assert (found["status"], found["errors"]) == ("done", [])
    assert set(found["recoverable_errors"]) <= {"DEPRECATED"}, "a word of the image's own"
    assert shown["set up"]["as ada"] == ["ada", "root", NAME]
    assert shown["set up"]["time zone"] == "Europe/Vienna"
    assert shown["set up"]["password of ada"] == "L"
    assert shown["service"]["runs"] == "first"
    joined = shown["Wi-Fi"]
    assert joined["before the access point was on"] == "Not connected."
    assert "[AUTHORIZED]" in joined["its flags at the access point"]
    assert joined["its AKM suite"] == "00-0f-ac-2", "WPA2 with a shared key"
    assert joined["address"].startswith("10.77.0.")
    assert joined["country"].startswith("country AT")
    assert all(mode.endswith("00") for _path, mode in shown["files with the key of the Wi-Fi"]), "root's alone"
    assert not any(path.startswith(("/boot", "/var/log")) for path, _mode in shown["files with the key of the Wi-Fi"])
    assert shown["files with its password"] == []
    assert shown["lines of the journal with either"] == 0
    assert [one["unit"] == 0 for one in shown["updates"]] == [False, False, True]
    assert [one["runs"] for one in shown["updates"]] == ["first", "first", "second"]
    assert shown["after a reboot"] == {"instances of cloud-init": 1, "runs": "second", "host name": NAME}


def system(board):
    """What sets the image up."""
    names = "cloud-init netplan.io network-manager wpasupplicant hostapd"
    found = board.run(f"uname -r; dpkg-query -W {names}").stdout.decode().split()
    return {"kernel": found[0], **dict(zip(found[1::2], found[2::2], strict=True))}


def set_up(board, owner):
    """What cloud-init made of the card's files, seen from inside and by a log-in with the owner's key."""
    said = json.loads(board.run("cloud-init status --wait --format json", any_code=True).stdout)
    ssh = [programs.need("ssh"), "-i", str(owner.folder / "ada"), "-o", f"UserKnownHostsFile={board.known_hosts}"]
    ssh += ["-o", "BatchMode=yes", "-p", str(board.port), "ada@127.0.0.1", "id -un; sudo -n id -un; hostname"]
    ada = subprocess.run(ssh, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout.split()
    return {
        "cloud-init": {name: said[name] for name in ("status", "errors", "recoverable_errors")},
        "as ada": ada,
        "time zone": board.run("readlink /etc/localtime").stdout.decode().strip().partition("zoneinfo/")[2],
        "password of ada": board.run("passwd -S ada").stdout.decode().split()[1],
    }


def wifi(board):
    """Switch the access point on: the board has looked for it since it booted."""
    before = board.run("iw dev wlan0 link").stdout.decode().strip()
    began = time.monotonic()
    board.run("sh -s", data=ACCESS_POINT.encode())
    address = ""
    while not address:
        assert time.monotonic() - began < PATIENCE_S, board.run("journalctl -n 40 -u NetworkManager").stdout.decode()
        time.sleep(3)
        found = board.run("ip -4 -o addr show dev wlan0 | awk '{print $4}'").stdout.decode().split()
        address = found[0] if found else ""
    said = board.run("hostapd_cli -p /run/access-point/control -i wlan1 all_sta").stdout.decode()
    station = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    return {
        "before the access point was on": before,
        "its flags at the access point": station["flags"],
        "its AKM suite": station["AKMSuiteSelector"],
        "address": address,
        "country": board.run("iw reg get | grep -m1 ^country").stdout.decode().strip(),
    }


def updates(board, owner):
    """The update unit, three times: no index yet, a release that was changed on its way, and a good one."""
    rows = []
    for publish in (None, True, False):
        if publish is not None:
            owner.publish(owner.releases[2 if publish else 1], spoilt=publish)
        code = board.run("systemctl start edgeveil-update.service", any_code=True, timeout_s=PATIENCE_S).returncode
        said = board.run("journalctl --no-pager -o cat -t python3 -u edgeveil-update.service -n 1").stdout.decode()
        rows.append({"unit": code, "said": said.strip(), "runs": healthy(board)["bundle"]})
    return rows


def again(board):
    """A reboot: the instance is known, and nothing is set up twice."""
    board.restarted()
    return {
        "instances of cloud-init": int(board.run("ls /var/lib/cloud/instances | wc -l").stdout),
        "runs": healthy(board)["bundle"],
        "host name": board.run("hostname").stdout.decode().strip(),
    }


def holders(board, secret):
    """The files with this text, each with its mode; the access point's own are not the board's."""
    find = f"grep -rlsF -f - --exclude-dir=access-point --devices=skip {PLACES} | xargs -r stat -c '%n %a'"
    found = board.run(find, data=secret.encode(), any_code=True, timeout_s=PATIENCE_S).stdout.decode().splitlines()
    return [line.rsplit(" ", 1) for line in found]


def journal(board, secret):
    """How many lines of the journal have this text."""
    board.run("mkdir -p /run/access-point && cat > /run/access-point/secret", data=secret.encode())
    count = "journalctl --no-pager -o cat | grep -cFf /run/access-point/secret"
    return int(board.run(count, any_code=True, timeout_s=PATIENCE_S).stdout)
