"""Version 0.1 on cards, units, profiles and commands: what it writes there, and what it does not know."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import older
from devices.execute import Board, Payload
from devices.facts import Wanted

from devices import first_boot, media, profiles, service
from devices.transports.base import Completed

IMAGERS = "root=PARTUUID=1-02 rootwait systemd.run=/boot/firstrun.sh systemd.unit=kernel-command-line.target\n"


def imagers_first_run(folder: Path) -> str:
    """A boot partition with Raspberry Pi Imager's first run in it."""
    (folder / "cmdline.txt").write_text(IMAGERS)
    return older.answer(lambda: media.write_card(media.Folder(folder), {"files.json": b"{}"}))


def _command(*words: str) -> str:
    """How ``edgeveil`` ends: its exit code and what it says of it."""
    start = "from trainer.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, *words],
        env={"PYTHONPATH": str(older.TREE), "NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line.strip("│ ") for line in done.stderr.splitlines() if "No such" in line or "error" in line.lower()]
    return f"exit code {done.returncode}: {said[-1] if said else 'nothing said'}"


def setup_of_a_new_card(folder: Path) -> str:
    """A card that is to have a user and a network."""
    return _command("flash", "x.veil", "--to", f"dir:{folder}", "--for", "raspberry-pi-cpu", "--setup", "card.toml")


def _edge(word: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "edge_runtime", word], cwd=older.TREE, capture_output=True, text=True, check=False
    )
    said = done.stderr.strip().splitlines()[-1].partition("error: ")[2].partition(" (choose")[0]
    return f"exit code {done.returncode}, {said}"


def mender_and_rauc(_: Path) -> str:
    """What the clients of Mender and RAUC would call on the board."""
    return "; ".join(f"edgeveil-edge {word}: {_edge(word)}" for word in ("mender", "rauc"))


def gpt_card(folder: Path) -> str:
    """A card's image with a GPT, made by the tests of today, and an ext4 root in it."""
    image = folder / "jetson.img"
    image.write_bytes(Path(sys.argv[4]).read_bytes())
    return older.answer(lambda: media.open_media(f"image:{image}"))


def recipe_of_the_nano(_: Path) -> str:
    """numpy in the Nano's recipe, and the variable that would help it."""
    files = older.service_files("jetson-nano")
    packages = ", ".join(profiles.load("jetson-nano").recipe().packages)
    return f"{packages}; OPENBLAS_CORETYPE in units: {older.lines(files, 'CORETYPE')}"


def recipe_of_mendel(_: Path) -> str:
    """The interpreter in the Dev Board's recipe."""
    return ", ".join(profiles.load("coral-dev-board").recipe().packages)


def devices_of_the_nano(_: Path) -> str:
    """The device files that the inside may open for the Nano's GPU."""
    allowed = older.lines(older.service_files("jetson-nano", device="tensorrt"), "DeviceAllow=/dev/nv")
    return allowed.replace("DeviceAllow=", "").replace(" rw", "")


def csi_camera_in_units(_: Path) -> str:
    """What the inside's unit leaves of a CSI camera's daemon, and what its filter does."""
    files = older.service_files("jetson-nano", "gst:nvarguscamerasrc")
    unit = {name: text for name, text in files.items() if "inside" in name}
    asks = "from edge_runtime import isolation; import socket; print(isolation.enter()); socket.socket(socket.AF_UNIX)"
    one = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # of threads, as the inside has
    done = subprocess.run(
        [sys.executable, "-c", asks], cwd=older.TREE, env=one, capture_output=True, text=True, check=False
    )
    said = f"{done.stdout.strip()}: {done.stderr.strip().splitlines()[-1]}"
    words = ", ".join(older.lines(unit, word) for word in ("PrivateTmp", "RestrictAddressFamilies"))
    return f"{words}; a unix socket behind {said}"


def archive_of_intel(_: Path) -> str:
    """The environment that the units give OpenVINO's archive."""
    files = older.service_files("raspberry-pi3-ncs2", device="myriad")
    return f"{older.lines(files, 'Environment=')}; LD_LIBRARY_PATH: {older.lines(files, 'LD_LIBRARY_PATH')}"


def network_camera_as_a_service(_: Path) -> str:
    """A service that reads an RTSP camera."""
    return older.answer(lambda: older.service_files("raspberry-pi-cpu", "rtsp://camera/1"))


def hardware_watchdog(_: Path) -> str:
    """The hardware watchdog in the files of a service and of a card."""
    files = older.service_files("raspberry-pi-cpu")
    payload = Payload(b"", b"", {}, service={path: text.encode() for path, text in files.items()})
    tree = first_boot.tree(payload, older.ROOT, Wanted("camera:0", (older.SINK,)))
    files |= {name: data.decode() for name, data in tree.items()}
    return f"{len(files)} files; RuntimeWatchdogSec: {older.lines(files, 'RuntimeWatchdog')}"


class Slow:
    """A transport that notes how long each command may take."""

    name, trusted, python = "pi@board", True, "python3"

    def __init__(self) -> None:
        self.limits: dict[str, float] = {}

    def run(self, command: list[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        """It works at once."""
        del data
        words = [word for word in command if word not in ("sudo", "-n")]
        if words[0] == "systemctl":
            self.limits[" ".join(words[:2])] = timeout_s
        return Completed(0, b"1", b"")

    def put(self, *_: object) -> None:
        """It works at once."""


def patience_of_a_flash(_: Path) -> str:
    """How long a flash waits for systemd, and systemd for a service."""
    files = {path: text.encode() for path, text in older.service_files("raspberry-pi-cpu").items()}
    files |= service.update_files(older.ROOT, "https://updates.example/hall")
    board = Board(Slow())
    board._service(Payload(b"", b"", {}, service=files))
    unit = re.search(r"TimeoutStartSec=(\d+)", files[service.UNIT_FOLDER + service.MAIN].decode())
    waits = ", ".join(f"{words} {limit:g} s" for words, limit in sorted(board.transport.limits.items()))
    return f"waits: {waits}; edgeveil.service may take {unit.group(1)} s"


def kinect_on_usb_3(_: Path) -> str:
    """What the pages say of a Kinect v2."""
    pages = sorted((older.TREE / "docs").rglob("*.md"))
    told = [page.name for page in pages if "usbfs_memory_mb" in page.read_text()]
    return f"{len(pages)} pages; usbfs_memory_mb in {', '.join(told) or 'none'}"
