"""What a source and its sinks need is asked of the board before its first change: by dry run, flash and check alike."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.agents import gather_facts
from edgeveil.devices.flashing import board as board_module
from edgeveil.devices.flashing import flash as flashing
from edgeveil.devices.flashing import needs
from edgeveil.devices.flashing.board import Board
from edgeveil.devices.flashing.records import Facts, Refused, Wanted, Wheels
from edgeveil.devices.transports.base import Completed
from edgeveil.edge_runtime import late_imports
from edgeveil.edge_runtime.errors import Missing
from edgeveil.edge_runtime.kinds import SINKS, SOURCES
from edgeveil.edge_runtime.sinks import broker
from tests.devices.flashing.test_every_state import edgeveil, flash, new, owner, top, used  # noqa: F401 - fixtures
from tests.support.boards.owners import Recorded, light
from tests.support.checkout import ROOT

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="a board's steps are root's"), pytest.mark.programs]
PI = profiles.load("raspberry-pi-cpu")
READ_AGENT = board_module.read_agent
MQTT = "mqtts://broker/hall?"
NUMPY = "ImportError: numpy.core.multiarray failed to import"
OTHER = f"does not load ({NUMPY}): it was built for another numpy than"


@pytest.fixture
def refused(edgeveil, owner, new, monkeypatch):  # noqa: F811
    """What a dry run and a flash say of a source and a sink, which must be the same; the board stays as it was."""
    monkeypatch.setattr(flashing, "check_shape", lambda *_: None)  # one bundle for sources of all kinds
    monkeypatch.setattr(flashing, "check_shape", lambda *_: None)  # one bundle for sources of all kinds

    def run(source, sink, *, change=lambda _: None, code=2):
        board = new()
        change(board)
        where = ["--for", owner[0] / "board.toml", "--trust", owner[0] / "root", "--source", source, "--sink", sink]
        said = {edgeveil(board, "flash", owner[1], *where, *more)[::2] for more in ([], ["--dry-run"])}
        assert len(said) == 1
        (ended, text), *_ = said
        assert (ended, board.root.exists()) == (code, False), text
        return " ".join(text.split())

    return run


def put(path, mode):
    def change(board):
        place = board.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("secret")
        place.chmod(mode)

    return change


def loads(failed):
    def change(board):
        board.failed.update(failed)

    return change


@pytest.mark.parametrize(
    ("source", "failed", "words"),
    [
        ("camera:0", {}, "OpenCV was expected on the board, for camera:0; it is missing. sudo apt"),
        ("camera:0", {"cv2": NUMPY}, f"it is there, and {OTHER}"),
        ("camera:0", {"cv2": "ImportError: libGL.so.1: cannot open"}, "and does not load (ImportError: libGL.so.1"),
        ("images:/srv/pictures", {}, "OpenCV was expected on the board, for images:/srv/pictures"),
        ("serial:/dev/ttyACM77,115200,lines", {}, "/dev/ttyACM77 was expected on the board"),
        ("helper:/opt/none --fast", {}, "/opt/none was expected on the board, for helper:/opt/none"),
        ("iio:mpu9999,50", {}, "the device mpu9999 was expected on the board, for iio:mpu9999,50; it is missing"),
    ],
)
def test_what_a_source_needs(refused, source, failed, words):
    assert words in refused(source, "tcp://10.0.0.2:9000", change=loads(failed))


def paho(board):
    board.interpreters["paho-mqtt"] = "2.1.0"


@pytest.mark.parametrize(
    ("sink", "change", "words"),
    [
        (MQTT, lambda _: None, "paho-mqtt was expected on the board, for mqtts://broker/hall; it is missing"),
        (MQTT + "password_file=/etc/e/pw", paho, "/etc/e/pw was expected on the board, for mqtts://broker/hall; it is"),
        (MQTT + "ca=ca.pem", paho, "A whole path on the board was expected in mqtts://broker/hall"),
        (MQTT + "ca=/home/pi/ca.pem", paho, "/home/pi/ca.pem is where a unit cannot read"),
        (MQTT + "spool=/data/spool", paho, "may write to /var/lib/edgeveil alone"),
        ("npz:/data/out.npz", paho, "may write to /var/lib/edgeveil alone, and npz:/data/out.npz is in /data"),
        ("npz:/var/lib/edgeveil/a/out.npz", paho, "/var/lib/edgeveil/a was expected on the board"),
    ],
)
def test_what_a_sink_needs(refused, top, sink, change, words):  # noqa: F811
    assert words in refused(f"npz:{top}/camera.npz", sink, change=change)


@pytest.mark.parametrize(("mode", "may"), [(0o600, False), (0o644, True)])
def test_a_password_that_the_services_own_user_cannot_read(edgeveil, owner, new, top, mode, may):  # noqa: F811
    """Asked as that user, not by looking at modes: each folder on the way counts."""
    board = new()
    paho(board)
    put("/etc/e/pw", mode)(board)
    where = ["--for", owner[0] / "board.toml", "--trust", owner[0] / "root", "--source", f"npz:{top}/camera.npz"]
    sink = ["--sink", MQTT + "user=ann&password_file=/etc/e/pw"]
    code, _, said = edgeveil(board, "flash", owner[1], *where, *sink, "--dry-run")
    assert (code, "daemon cannot read it" in said) == (0 if may else 2, not may)
    (board.folder / "etc/e").chmod(0o700)
    assert edgeveil(board, "flash", owner[1], *where, *sink, "--dry-run")[0] == 2


def test_the_check_says_the_same_of_a_board_of_the_file(edgeveil, owner, new):  # noqa: F811
    board = new()
    board.failed["cv2"] = NUMPY
    keys = {"profile": owner[0] / "board.toml", "source": "camera:0", "sinks": [MQTT + "ca=/etc/ca.pem"]}
    code, out, _ = edgeveil(board, "board", "check", **keys)
    missing = "\n".join(" ".join(line.split()) for line in out.splitlines() if line.startswith("missing"))
    assert code == 3
    for words in (
        f"OpenCV for camera:0 {OTHER}",
        "paho-mqtt for mqtts://broker/hall missing -> sudo apt",
        "/etc/ca.pem for",
    ):
        assert words in missing


def test_wheels_that_bring_another_numpy_do_not_fit_the_systems_opencv():
    facts = Facts("aarch64", "3.11.2", 10**9, False, True, True, interpreters={"numpy": "1.24.2", "cv2": "4.6.0"})
    wants = [need for need in needs.of_wanted(Wanted("camera:0", ()), PI.service) if need.library]
    wheels = Wheels("site-1", 1, "aarch64", "3.11", {"numpy": "2.4.0"})
    with pytest.raises(Refused, match=r"numpy 2\.4\.0.*built for numpy 1\.24\.2.*--with camera --out"):
        needs.check_numpy(wants, facts, PI, wheels)
    both = Wheels("site-1", 1, "aarch64", "3.11", {"numpy": "2.4.0", "opencv-python-headless": "5.0.0.93"})
    needs.check_numpy(wants, facts, PI, both)
    needs.check_numpy(wants, facts, PI, Wheels("site-1", 1, "aarch64", "3.11", {"numpy": "1.26.4"}))


def test_every_kind_names_known_libraries_and_each_option_that_is_a_file():
    for kind in [*SOURCES.kinds().values(), *SINKS.kinds().values()]:
        assert set(kind.facts.get("needs", ())) <= set(late_imports.LIBRARIES), kind.name
    for name in ("mqtts", "https"):
        assert set(broker.FILES) < set(SINKS[name].facts["reads"])
    assert {"password_file", "authorization_file", "token_file"} <= {
        one for kind in SINKS.kinds().values() for one in kind.facts.get("reads", ())
    }
    source = "".join((ROOT / f"edge_runtime/sinks/{one}.py").read_text() for one in ("broker", "http", "preview"))
    named = set(re.findall(r"(\w+_file)\b", source))
    assert named <= {one for kind in SINKS.kinds().values() for one in kind.facts.get("reads", ())}


def test_a_library_and_a_program_are_asked_for_by_name():
    assert gather_facts._need("library:libc.so.6", []) == ""
    assert gather_facts._need("library:libnone.so.0|libnone.so", []) == "missing"
    assert (gather_facts._need("program:sh", []), gather_facts._need("program:no-such-program", [])) == ("", "missing")


def test_a_library_that_is_missing_and_one_that_does_not_load_are_two_sentences_here_too(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cv2", raising=False)
    (tmp_path / "cv2.py").write_text(f"raise ImportError({NUMPY.partition(': ')[2]!r})\n")
    with pytest.raises(
        Missing, match=r"OpenCV, which is here and does not load \(ImportError: numpy\.core.*another numpy"
    ):
        late_imports.opencv()
    (tmp_path / "cv2.py").unlink()
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(Missing, match="OpenCV, which is not here: sudo apt install python3-opencv, or in a"):
        late_imports.opencv()


@pytest.mark.parametrize(("owned", "sudo"), [(True, False), (False, True)])
def test_a_folder_that_is_yet_to_be_made_is_written_as_the_user_where_he_may(tmp_path, owned, sudo):
    """``root`` in a home, by a user who cannot sudo: what is there of its path says who writes it."""

    class Line(Recorded):
        def run(self, command, **more):
            done = super().run(command, **more)
            if command[:2] != ["sh", "-c"]:
                return done
            code = subprocess.run(command, check=False, user=65534, extra_groups=[]).returncode
            return Completed(code, b"", b"")

    tmp_path.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    if owned:
        os.chown(home, 65534, 65534)
    for parent in tmp_path.parents:
        if parent.stat().st_mode & 0o077 == 0:
            parent.chmod(0o755)
    line = Line(uid=b"1000")
    Board(line, root=str(home / "a/edgeveil")).run(["true"])
    assert (["sudo", "-n", "true"] if sudo else ["true"]) == line.ran[-1].split()


# This Python lies in root's home, which no other user may enter: for this one there is nothing else in it.
UNPRIVILEGED = """
set -e
mount --make-rprivate /
mount --bind /root/.pyenv "$1"
mount -t tmpfs -o mode=755 tmpfs /root
mkdir /root/.pyenv
mount --bind "$1" /root/.pyenv
shift
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all "$@"
"""


class Home:
    """A transport to this machine as a user without rights, who has a home and no sudo."""

    name, trusted, python = "hall@board", True, sys.executable

    def __init__(self, folder):
        self.home, self.pythons = folder / "home", folder / "pythons"
        self.home.mkdir()
        self.pythons.mkdir()
        os.chown(self.home, 65534, 65534)
        sudo = folder / "bin/sudo"
        sudo.parent.mkdir()
        sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
        sudo.chmod(0o755)
        self.path = f"{sudo.parent}:{os.environ['PATH']}"

    def run(self, command, *, data=b"", timeout_s=120):
        words = ["unshare", "--mount", "sh", "-c", UNPRIVILEGED, "sh", str(self.pythons)]
        where = {"env": {"HOME": str(self.home), "PATH": self.path}, "cwd": "/"}
        done = subprocess.run(
            [*words, *map(str, command)], input=data, capture_output=True, check=False, timeout=timeout_s, **where
        )
        return Completed(done.returncode, done.stdout, done.stderr)

    def put(self, data, path, progress=lambda *_: None):
        self.run(["sh", "-c", 'cat > "$1"', "sh", path], data=data)

    def close(self):
        pass


def test_a_user_without_sudo_flashes_into_his_home_and_nowhere_else(owner, edgeveil, monkeypatch):  # noqa: F811
    monkeypatch.setattr(board_module, "read_agent", lambda name: light(READ_AGENT(name)))
    with tempfile.TemporaryDirectory(dir="/opt") as place:
        Path(place).chmod(0o755)
        line = Home(Path(place))
        line.folder, line.root = Path(place), line.home / "edgeveil"
        if line.run([sys.executable, "-c", "import numpy"]).code:
            pytest.skip("NO OTHER USER CAN RUN THIS PYTHON HERE")
        where = ["--for", owner[0] / "board.toml", "--trust", owner[0] / "root", "--no-service"]
        line.root = "/opt/edgeveil-of-root"
        code, _, said = edgeveil(line, "flash", owner[1], *where)
        assert (code, "a folder of the user's own by root there" in said) == (2, True), said
        line.root = line.home / "a/edgeveil"
        code, _, said = edgeveil(line, "flash", owner[1], *where)
        assert code == 0, said
        code, out, _ = edgeveil(line, "board", "status", "--json")
        assert (code, json.loads(out)["service"], (line.root / "current").is_symlink()) == (0, None, True)


@pytest.mark.parametrize(
    ("name", "python", "words"),
    [
        ("raspberry-pi-cpu", "3.11.2", "edgeveil board wheels raspberry-pi-cpu --with camera --out wheels"),
        ("raspberry-pi5", "3.12.3", "edgeveil board wheels raspberry-pi5 --python 3.12 --with camera --out wheels"),
        ("raspberry-pi-cpu-32", "3.11.2", None),
        ("jetson-nano", "3.6.9", None),
    ],
)
def test_wheels_are_named_as_a_cure_where_the_index_has_them(name, python, words):
    profile = profiles.load(name)
    facts = Facts(profile.architecture, python, 10**9, False, True, True, board=profile.models[0])
    opencv, *_ = needs.of_wanted(Wanted("camera:0", ()), profile.service)
    cure = opencv.cured(profile, facts)
    assert (words in cure) if words else "wheels" not in cure
    assert ("sudo apt install python3-opencv" in cure) == name.startswith("raspberry")
