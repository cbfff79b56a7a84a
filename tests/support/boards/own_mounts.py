"""A board on this machine whose changes lie in a memory of its own: a real sshd with mounts that no one else has.

Its users, units and files are those of this machine's programs (useradd, install, systemctl enable); what a flash
changes is what lies over ``PLACES``, and goes with the sshd. systemd's running is simulated. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.boards import sshd

PLACES = ("/etc", "/opt", "/var/lib", "/var/cache", "/run", "/boot")
EMPTY = ("/run", "/boot")  # at the board's start
# What programs of the system keep of users that came and went.
OF_THE_SYSTEM = ("-", ".lock", "/etc/subuid", "/etc/subgid")
MOUNTS = """
set -e
mount --make-rprivate /
mkdir -p {top} /run/sshd && mount -t tmpfs -o mode=755 tmpfs {top}
mkdir {top}/empty
for place in {places}; do
    name=$(echo "$place" | tr / _) lower=$place
    case " {empty} " in *" $place "*) lower={top}/empty;; esac
    mkdir -p "{top}/over$name" "{top}/work$name"
    mount -t overlay overlay -o "lowerdir=$lower,upperdir={top}/over$name,workdir={top}/work$name" "$place"
done
mkdir -p /run/systemd/system /run/sshd
exec "$@"
"""
SYSTEMCTL = """#!{python}
import os, pwd, shutil, subprocess, sys
words, state = [word for word in sys.argv[1:] if not word.startswith("--")], "{folder}/active"
with open("{folder}/said", "a") as said:
    said.write(" ".join(words) + "\\n")
if os.path.exists("{folder}/fails") and words[0] in open("{folder}/fails").read().split():
    sys.exit("Job failed.")
if words[0] == "is-active":
    print("active" if os.path.exists(state) else "failed")
    sys.exit(0 if os.path.exists(state) else 3)
if words[0] in ("enable", "disable"):
    sys.exit(subprocess.call(["/usr/bin/systemctl", *words], env={{**os.environ, "SYSTEMD_OFFLINE": "1"}}))
if words[0] in ("start", "restart"):
    open(state, "w").close()
    for place in ("/run/edgeveil", "/var/lib/edgeveil", "/var/cache/edgeveil-engines"):  # as its units have systemd do
        os.makedirs(place, exist_ok=True)
        shutil.chown(place, "edgeveil", "edgeveil")
if words[0] == "stop" and os.path.exists(state):
    os.remove(state)
"""


class Board:
    """``server`` is how to log in, ``top`` where its changes are seen from outside."""

    def __init__(self, server: sshd.Sshd, process: int, top: Path, folder: Path) -> None:
        self.server, self._folder = server, folder
        self._top, self.root = Path(f"/proc/{process}/root{top}"), Path(f"/proc/{process}/root")

    def changes(self) -> dict[str, str]:
        """What differs from this machine, by its path: the kind of change."""
        changes = {}
        for place in PLACES:
            over = self._top / ("over" + place.replace("/", "_"))
            for path in sorted(over.rglob("*")):
                name = place + "/" + str(path.relative_to(over))
                if kind := "new" if place in EMPTY else _change(path, Path(name)):
                    changes[name] = kind
        return {name: kind for name, kind in changes.items() if not name.endswith(OF_THE_SYSTEM)}

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """A line for the board's shell."""
        ssh = [programs.need("ssh"), "-i", self.server.identity, "-o", f"UserKnownHostsFile={self.server.known_hosts}"]
        ssh += ["-o", "BatchMode=yes", "-p", str(self.server.port), "root@127.0.0.1", command]
        return subprocess.run(ssh, capture_output=True, text=True, timeout=120, check=False)

    def systemctl(self) -> list[str]:
        """What systemctl was asked, and forgets it."""
        path = self._folder / "said"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return lines

    def fail(self, *words: str) -> None:
        """These commands of systemctl fail from now on."""
        (self._folder / "fails").write_text(" ".join(words))


def _change(over: Path, here: Path) -> str:
    """How what lies over a path differs from it; empty where it does not."""
    facts = over.lstat()
    if stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0:
        return "removed"
    if not os.path.lexists(here):
        return "new"
    if stat.S_ISREG(facts.st_mode):
        return "" if over.read_bytes() == here.read_bytes() else "changed"
    return "" if stat.S_IFMT(facts.st_mode) == stat.S_IFMT(here.lstat().st_mode) else "of another kind"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Board]:
    """A board until the block ends; skips the test where no such mounts may be made."""
    top = folder / "memory"
    script = MOUNTS.format(top=top, places=" ".join(PLACES), empty=" ".join(EMPTY))
    within = ["unshare", "--mount", "bash", "-c", script, "board"]
    done = subprocess.run([*within, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NO BOARD WITH MOUNTS OF ITS OWN HERE: {done.stderr.strip()[-200:]}")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "systemctl").write_text(SYSTEMCTL.format(python=sys.executable, folder=folder))
    (bin_folder / "systemctl").chmod(0o755)
    with sshd.running(folder, within=within, first=bin_folder) as server:
        yield Board(server, server.process, top, folder)
