"""Emulated boards for tests, by ``scripts/emulated_device``: up for a block, then gone."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs
from tests.support.boards.sshd import boards_file
from tests.support.checkout import ROOT

SCRIPT = ROOT / "scripts/emulated_device"
RESTART_S = 1800
LITERT, OPENCV = "ai-edge-litert==2.3.0", "opencv-python-headless==5.0.0.93"
# No profile's recipe names OpenCV, so that its wheel for arm64 is taken by its hash.
PINS = {OPENCV: "840bd717c21e5c11cadadc022a823315ea417f961213d06b4df010e019eb16f4"}


@dataclass(frozen=True)
class Emulated:
    """How to log in."""

    target: str
    port: int
    identity: Path
    known_hosts: Path
    disk: Path | None = None

    @property
    def as_pi(self) -> str:
        """The target of its usual user, who may sudo."""
        return self.target.replace("root@", "pi@")

    def options(self, **keys: object) -> list[str]:
        """For the command line of ``edgeveil``: a file of boards with both logins, and these ``keys`` of each."""
        board = {"identity": self.identity, "known_hosts": self.known_hosts, **keys}
        return boards_file(self.known_hosts.parent, {self.target: board, self.as_pi: board})

    def run(
        self, command: str, *, data: bytes = b"", timeout_s: float = 900, any_code: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        """A line for the board's shell. What it said on standard error goes to our own where it failed."""
        ssh = [
            programs.need("ssh"),
            "-i",
            str(self.identity),
            "-o",
            f"UserKnownHostsFile={self.known_hosts}",
            "-o",
            "BatchMode=yes",
        ]
        ssh += ["-p", str(self.port), "root@127.0.0.1", command]
        done = subprocess.run(ssh, input=data, capture_output=True, timeout=timeout_s, check=False)
        assert any_code or done.returncode == 0, (command, done.stdout[-2000:].decode(), done.stderr[-2000:].decode())
        return done

    def put(self, data: bytes, path: str) -> None:
        """Write a file there."""
        self.run(f"cat > {path}", data=data)

    def unpack(self, files: Mapping[str, bytes], place: str) -> None:
        """Write files below a folder there."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, data in files.items():
                entry = tarfile.TarInfo(f"{place}/{name}")
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
        self.run("tar -C / -xf -", data=packed.getvalue())

    def restarted(self, command: str = "systemctl --no-block reboot") -> float:
        """Give a command that ends this boot; the seconds until the next one answers."""
        which = "cat /proc/sys/kernel/random/boot_id"
        before = self.run(which).stdout
        self.run(command, any_code=True)
        began = time.monotonic()
        while self.run(which, any_code=True).stdout in (b"", before):
            assert time.monotonic() - began < RESTART_S, "it did not come back"
            time.sleep(2)
        return round(time.monotonic() - began, 1)


def _script(*arguments: str, timeout_s: float) -> str:
    programs.need("mmdebstrap", "qemu-aarch64-static", "ssh-keygen")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode == 4:
        pytest.skip(f"NO EMULATED BOARD HERE: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def board(
    kind: str, *, card: Path | None = None, reach: Mapping[str, int] | None = None, watchdog: bool = False
) -> Iterator[Emulated]:
    """A board of ``kind`` (``userland``, ``vm``) on a free port until the block ends; skips where there can be none.

    ``card``: boot from that card, as ``new_card`` makes one, instead of from a system of its own. ``reach``: ports of
    this machine by the addresses (10.0.2.x:N) at which a ``vm`` reaches them. ``watchdog``: a card's board has one.
    """
    which = ["--kind", kind, "--name", f"test-{os.getpid()}-{kind}"]
    more = [] if card is None else ["--card", str(card)]
    more += [f"--reach={at}={own}" for at, own in (reach or {}).items()]
    more += ["--watchdog"] if watchdog else []
    found = json.loads(_script("up", *which, *more, "--port", "0", timeout_s=2400))
    try:
        place = Path(found["identity"]).with_name("disk.ext4")
        paths = (Path(found["identity"]), Path(found["known_hosts"]), place if place.exists() else card)
        yield Emulated(found["target"], found["port"], *paths)
    finally:
        _script("down", *which, timeout_s=60)


def wheels(*packages: str) -> list[str]:
    """Options of ``edgeveil board wheels`` for these packages."""
    pins = [part for package in packages if package in PINS for part in ("--pin", PINS[package])]
    return [part for package in packages for part in ("--with", package)] + pins


def new_card(path: Path, system: str = "vm") -> Path:
    """An SD card with a system that never booted: Debian 12, or for ``cloud`` one that cloud-init sets up; skips where
    there can be none."""
    _script("card", "--card", str(path), "--system", system, timeout_s=2400)
    return path


def tree() -> Path:
    """The userland's root folder as it was made; copy it before you change anything."""
    return Path(_script("tree", timeout_s=900).strip())


def record(name: str, document: dict[str, Any]) -> None:
    """Keep what a run showed, in the folder ``EDGEVEIL_DEVICE_RECORDS`` (``docs/results/devices``), if it is set."""
    folder = os.environ.get("EDGEVEIL_DEVICE_RECORDS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        by = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
        what = {"made_by": by, "schema": 1, "what": "emulated: its times say nothing of a real board"}
        (Path(folder) / name).write_text(json.dumps({**what, **document}, indent=1) + "\n")
