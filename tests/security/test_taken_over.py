"""Code that has taken over the inside gets nowhere: as root's service, as an ordinary user, with namespaces or without.

Each guard that holds it is taken away once, and then what it holds back succeeds: so the attempts would be noticed.
"""

import contextlib
import fcntl
import functools
import json
import os
import platform
import pty
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.sandbox import landlock
from tests.support import bundles
from tests.support.checkout import PACKAGES, ROOT

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the attempts have the numbers of x86-64")
NOBODY = 65534
SITE = str(Path(np.__file__).parents[1])
SIZE = 1 << 16
# In the place of the inside: what the attempts find is left in a page that was mapped before, as none can be opened.
INSIDE = """
import mmap, os, sys
sys.path[:0] = [{root!r}]
from tests.security import attacks
attacks.FACTS.update({facts!r})
with open({page!r}, "r+b") as file:
    page = mmap.mmap(file.fileno(), 0)
    attacks.FACTS["page"] = os.fstat(file.fileno()).st_ino
from edgeveil.edge_runtime.sandbox import account, allowed_calls, hardening, isolation, landlock, namespaces, seccomp
from edgeveil.edge_runtime.sources import npz
{first}
read, done = npz.NpzSource.next, []
def taken_over(self):
    if not done:
        done.append(1)
        attacks.FACTS["outside"] = os.getppid()
        found = attacks.run()
        page[: len(found)] = found
    return read(self)
npz.NpzSource.next = taken_over
from edgeveil.edge_runtime.inside.process import main
sys.exit(main(sys.argv[1:]))
"""
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
        {"memfd_create", "inotify_init1", "netlink of events", "a file that anyone may write", "chmod"},
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
    "another user than root (root)": (
        "os.geteuid = os.getuid = lambda: 1",
        {"a user that is root"},
    ),
    "descriptors that are closed": (
        "os.close = lambda handle, close=os.close: handle > 2 or close(handle)",
        {"descriptors that it was left"},
    ),
}


def service(first="", user=None, terminal=None):
    """Exit code, frames out, what the attempts gained or None, and the last error of a service with this inside."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        made = bundles.make_bundle(folder / "bundle", example=bundles.numpy_example())
        np.savez(folder / "in.npz", x=np.zeros((3, 4), np.uint8))
        os.mkfifo(folder / "fifo")
        (folder / "page").write_bytes(bytes(SIZE))
        (folder / "open").write_bytes(b"a secret")
        (folder / "roots").write_bytes(b"a secret")
        for path, mode in (("fifo", 0o666), ("page", 0o666), ("open", 0o666), ("roots", 0o600)):
            (folder / path).chmod(mode)
        inside = INSIDE.format(
            root=str(ROOT), facts={"folder": name, "source": f"{name}/in.npz"}, page=f"{name}/page", first=first
        )
        words = ["run", str(made.path), "--trust", str(made.trust), "--source", f"npz:{name}/in.npz"]
        words += ["--sink", f"npz:{name}/out.npz", "--health", "off", "--restarts", "0", "--log", "json", "--json"]
        command = [python_of(user), "-c", OUTSIDE.format(root=str(ROOT), inside=inside, words=words)]
        reading = os.open(folder / "fifo", os.O_RDWR)
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            env={**os.environ, "PYTHONPATH": f"{PACKAGES}:{SITE}"},
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            cwd=name,
            capture_output=True,
            text=True,
            timeout=60,
            start_new_session=terminal is not None,
            preexec_fn=None if terminal is None else _own_terminal,
            check=False,
        )
        os.close(reading)
        found = (folder / "page").read_bytes().rstrip(b"\0")
        frames = json.loads(done.stdout)["frames_out"] if done.stdout else 0
        return done.returncode, frames, json.loads(found) if found else None, done.stderr


@functools.cache
def python_of(user):
    """An interpreter that this user can run: this one may lie in a folder of root's."""
    for path in (sys.executable, "/usr/bin/python{}.{}".format(*sys.version_info)):
        with contextlib.suppress(OSError):
            command = [path, "-c", "import numpy, secrets"]
            more = {} if user is None else {"user": user, "group": user, "extra_groups": []}
            environment = {**os.environ, "PYTHONPATH": SITE}
            if subprocess.run(command, env=environment, capture_output=True, check=False, **more).returncode == 0:
                return path
    pytest.skip("NO PYTHON HERE CAN BE RUN BY AN ORDINARY USER: only root's service was tried")


def _own_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


USERS = [
    pytest.param(None, id="as-the-user-of-the-tests"),
    pytest.param(NOBODY, id="as-an-ordinary-user", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")),
]


@pytest.fixture
def terminal():
    """The end of a new terminal that a program sees."""
    keyboard, screen = pty.openpty()
    yield screen
    os.close(keyboard)
    os.close(screen)


@pytest.mark.parametrize("namespaces", [True, False], ids=["with-namespaces", "without"])
@pytest.mark.parametrize("user", USERS)
def test_nothing_is_gained(user, namespaces, terminal):
    code, frames, gained, said = service("" if namespaces else WITHOUT_NAMESPACES, user, terminal)
    assert gained is not None, said
    known_open = set() if landlock.version() else {"a secret that anyone may read", "passwords"}
    assert {name: what for name, what in gained.items() if name not in known_open} == {}
    assert (code, frames) == (0, 3), said


@pytest.mark.parametrize("guard", GUARDS)
def test_each_guard_is_one(guard, terminal):
    first, expected = GUARDS[guard]
    if guard.endswith("(root)") and os.geteuid() != 0:
        pytest.skip("only where root starts it")
    if guard == "Landlock" and not landlock.version():
        pytest.skip("this kernel has no Landlock")
    user = NOBODY if guard.endswith("(ordinary user)") and os.geteuid() == 0 else None
    _, _, gained, said = service(first, user, terminal)
    assert gained is not None, said
    if guard.endswith("(ordinary user)") and '"isolation": "network namespace' not in said:
        pytest.skip("NO NAMESPACE CAN BE MADE HERE, and with it no capabilities")
    assert expected <= set(gained), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only where root starts it")
def test_what_would_remain_root_is_refused():
    code, frames, gained, said = service("account.become = lambda *words, **more: None")
    assert (code, frames, gained) == (2, 0, None)
    assert "does not run as root: name a user with --inside-user" in said
