"""A service whose inside was taken over: in the place of its source, ``attacks`` tries what it can.

Needs no more than a board has: the same runs here and, sent there, on one.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import tempfile
import termios
from pathlib import Path
from typing import Any

import numpy as np

NOBODY = 65534
SIZE = 1 << 16
PATIENCE_S = 300  # an emulated board takes most of a minute
# In the place of a process, with the attempts at its first reading: what they find is left in a page that was mapped
# before, as none can be opened.
PROCESS = """
import mmap, os, sys
sys.path[:0] = [{{root!r}}]
from tests.security import attacks
attacks.FACTS.update({{facts!r}})
with open({{page!r}}, "r+b") as file:
    page = mmap.mmap(file.fileno(), 0)
    attacks.FACTS["page"] = os.fstat(file.fileno()).st_ino
from edgeveil.edge_runtime.sandbox import {guards}
from edgeveil.edge_runtime.{package} import {module}
{{first}}
read, done = {reader}, []
def taken_over(self):
    if not done:
        done.append(1)
        attacks.FACTS["outside"] = os.getppid()
        found = attacks.run()
        page[: len(found)] = found
    return read(self)
{reader} = taken_over
from edgeveil.edge_runtime.{program} import main
sys.exit(main(sys.argv[1:]))
"""
INSIDE = PROCESS.format(
    guards="allowed_calls, hardening, isolation, landlock, seccomp, isolation as account, isolation as namespaces",
    package="sources",
    module="npz",
    reader="npz.NpzSource.next",
    program="inside.process",
)
OUTSIDE = """
import sys
sys.path[:0] = [{root!r}]
from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.outside import process_table
config.needs_service = lambda settings: True
process_table.command = lambda module: [sys.executable, "-c", {inside!r}]
sys.exit(main({words!r}))
"""
WITHOUT_NAMESPACES = "namespaces.without_network = lambda user=False: False\n"
# Guards, what takes them away, and attempts that then succeed; as whom, where a name says that.
GUARDS = {
    "seccomp filter": (
        "seccomp.restrict = lambda rules, machine: False",
        {"tcp", "netlink to other processes", "fork", "execve", "shmget", "pidfd_open of the outside"},
    ),
    "list of what is allowed": (
        "allowed_calls.measured = lambda source, backends, device: False",
        {"memfd_create", "inotify_init1", "netlink of events", "a file that anyone may write", "fchmodat"},
    ),
    "Landlock": (
        "landlock.restrict = lambda readable, writable: False",
        {"a secret that anyone may read", "passwords", "another's command line", "the list of a foreign folder"},
    ),
    "conditions of calls": (
        "real = allowed_calls.rules\n"
        "def rules(*words, **more):\n"
        "    made = real(*words, **more)\n"
        "    return made._replace(allowed=made.allowed | set(made.checked), checked={})\n"
        "allowed_calls.rules = rules",
        {"fork", "tgkill of the outside", "limits of the outside", "lock by fcntl", "typing on a terminal"},
    ),
    "no capabilities (ordinary user)": ("hardening.set_capabilities = lambda which: True", {"capabilities"}),
    "no terminal": ("hardening.no_terminal = lambda: None", {"its terminal"}),
    "settling": (
        "isolation.Isolation.settle = lambda self, backends: None",
        {"prctl of its name", "prctl of core dumps", "another filter", "setresuid"},
    ),
    "files of root until it settles (root)": (
        "isolation.Isolation.settle = lambda self, backends: None\n"
        "landlock.restrict = lambda readable, writable: False",
        {"a file of root's"},
    ),
    "another user than root (root)": ("os.geteuid = os.getuid = lambda: 1", {"a user that is root"}),
    "descriptors that are closed": (
        "os.close = lambda handle, close=os.close: handle > 2 or close(handle)",
        {"descriptors that it was left"},
    ),
}


def service(
    root: str,
    bundle: str,
    trust: str,
    *,
    python: str,
    path: str,
    first: str = "",
    user: int | None = None,
    terminal: bool = True,
) -> tuple[int, int, dict[str, str] | None, str]:
    """Exit code, frames out, what the attempts gained or None, and the last error of a service with this inside.

    ``root`` has ``tests/security/attacks.py``; ``path`` is the ``PYTHONPATH`` of ``python``. ``first`` is run in the
    inside before anything else, ``user`` starts the service, on a ``terminal`` of its own.
    """
    keyboard, screen = pty.openpty() if terminal else (None, None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        np.savez(folder / "in.npz", x=np.zeros((3, 4), np.uint8))
        os.mkfifo(folder / "fifo")
        (folder / "page").write_bytes(bytes(SIZE))
        (folder / "open").write_bytes(b"a secret")
        (folder / "roots").write_bytes(b"a secret")
        for part, mode in (("fifo", 0o666), ("page", 0o666), ("open", 0o666), ("roots", 0o600)):
            (folder / part).chmod(mode)
        facts = {"folder": name, "source": f"{name}/in.npz"}
        inside = INSIDE.format(root=root, facts=facts, page=f"{name}/page", first=first)
        words = ["run", bundle, "--trust", trust, "--source", f"npz:{name}/in.npz"]
        words += ["--sink", f"npz:{name}/out.npz", "--health", "off", "--restarts", "0", "--log", "json", "--json"]
        reading = os.open(folder / "fifo", os.O_RDWR)
        more: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        done = subprocess.run(
            [python, "-c", OUTSIDE.format(root=root, inside=inside, words=words)],
            stdin=subprocess.DEVNULL if screen is None else screen,
            env={**os.environ, "PYTHONPATH": path},
            cwd=name,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            start_new_session=terminal,
            preexec_fn=own_terminal if terminal else None,
            check=False,
            **more,
        )
        for handle in (reading, keyboard, screen):
            if handle is not None:
                os.close(handle)
        found = (folder / "page").read_bytes().rstrip(b"\0")
        frames = json.loads(done.stdout)["frames_out"] if done.stdout else 0
        return done.returncode, frames, json.loads(found) if found else None, done.stderr


def own_terminal() -> None:
    """Make standard input the terminal of this new session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
