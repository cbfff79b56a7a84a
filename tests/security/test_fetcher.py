"""Code that has taken over what fetches a network camera's frames has the network, and nothing else of this device.

Each guard that holds it is taken away once, and then what it holds back succeeds: so the attempts would be noticed.
"""

import json
import os
import platform
import pty
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from edgeveil.edge_runtime.sandbox import landlock
from tests.hostile_bundles import one_artefact, onnx_models
from tests.security import noise_camera
from tests.security.taken_over import PROCESS, SIZE, own_terminal
from tests.security.test_taken_over import SITE, USERS, python_of
from tests.support import bundles
from tests.support.checkout import PACKAGES, ROOT

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the attempts have the numbers of x86-64")
# What it is there for: sockets of the internet, and the list of this machine's own addresses, which the resolver reads.
NETWORK = {"tcp", "udp", "ipv6", "netlink of routes", "a new thread's socket", "its camera"}
NETWORK |= {"sendto", "sendmsg", "connect"}  # without a socket
FETCHER = PROCESS.format(
    guards="isolation as account, allowed_calls, fetcher, hardening, landlock, seccomp",
    package="sources",
    module="http",
    reader="http.Pictures.next_jpeg",
    program="sources.feeding",
)
OUTSIDE = """
import sys
sys.path[:0] = [{root!r}]
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.outside import process_table
real = process_table.command
ours = [sys.executable, "-c", {fetcher!r}]
process_table.command = lambda module: ours if module == "sources.feeding" else real(module)
sys.exit(main({words!r}))
"""
GUARDS = {
    "seccomp filter": (
        "seccomp.restrict = lambda rules, machine: False",
        {"unix", "fork", "execve", "shmget", "pidfd_open of the outside", "waiting for connections"},
    ),
    "conditions of calls": (
        "real = allowed_calls.fetching\n"
        "def fetching(process):\n"
        "    made = real(process)\n"
        "    return made._replace(allowed=made.allowed | set(made.checked), checked={})\n"
        "allowed_calls.fetching = fetching",
        {"unix", "fork", "tgkill of the outside", "limits of the outside", "typing on a terminal"},
    ),
    "Landlock": (
        "landlock.restrict = lambda readable, writable, ports: False",
        {"a secret that anyone may read", "passwords", "another's command line", "the list of a foreign folder"},
    ),
    "Landlock's ports": (
        "restrict = landlock.restrict\n"
        "landlock.restrict = lambda readable, writable, ports: restrict(readable, writable, range(1, 65536))",
        {"another port"},
    ),
    "no terminal": ("hardening.no_terminal = lambda: None", {"its terminal"}),
    "another user than root (root)": ("os.geteuid = os.getuid = lambda: 1", {"a user that is root"}),
    "no capabilities (root)": (
        "os.geteuid = os.getuid = lambda: 1\nhardening.set_capabilities = lambda which: True",
        {"capabilities"},
    ),
}


@pytest.fixture(scope="module")
def camera():
    with noise_camera.serve() as server:
        yield server.server_address[1]


def service(camera, first="", user=None, terminal=None):
    """Exit code, frames out, what the attempts gained or None, and the last error of a service with this fetcher."""
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as other:
        folder = Path(name)
        folder.chmod(0o777)
        made = bundles.make_bundle(folder / "bundle", example=one_artefact.example("onnx", onnx_models.good()))
        os.mkfifo(folder / "fifo")
        (folder / "page").write_bytes(bytes(SIZE))
        (folder / "open").write_bytes(b"a secret")
        (folder / "roots").write_bytes(b"a secret")
        for path, mode in (("fifo", 0o666), ("page", 0o666), ("open", 0o666), ("roots", 0o600)):
            (folder / path).chmod(mode)
        facts = {"folder": name, "source": f"{name}/page", "camera": camera, "other": other.getsockname()[1]}
        fetcher = FETCHER.format(root=str(ROOT), facts=facts, page=f"{name}/page", first=first)
        words = ["run", str(made.path), "--trust", str(made.trust), "--source", f"http://127.0.0.1:{camera}/x"]
        words += ["--sink", f"npz:{name}/out.npz", "--health", "off", "--restarts", "0", "--log", "json", "--json"]
        words += ["--frames", "20", "--fps", "25"]
        reading = os.open(folder / "fifo", os.O_RDWR)
        done = subprocess.run(
            [python_of(user), "-c", OUTSIDE.format(root=str(ROOT), fetcher=fetcher, words=words)],
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
            preexec_fn=None if terminal is None else own_terminal,
            check=False,
        )
        os.close(reading)
        found = (folder / "page").read_bytes().rstrip(b"\0")
        frames = json.loads(done.stdout)["frames_out"] if done.stdout else 0
        return done.returncode, frames, json.loads(found) if found else None, done.stderr


@pytest.fixture
def terminal():
    """The end of a new terminal that a program sees."""
    keyboard, screen = pty.openpty()
    yield screen
    os.close(keyboard)
    os.close(screen)


@pytest.mark.parametrize("user", USERS)
def test_it_has_the_network_and_nothing_else(camera, user, terminal):
    code, frames, gained, said = service(camera, "", user, terminal)
    assert gained is not None, said
    known_open = set() if landlock.version() else {"a secret that anyone may read", "passwords"}
    known_open |= set() if landlock.version() >= 4 else {"another port"}
    assert set(gained) - known_open == NETWORK, gained
    assert code == 0, said
    assert frames >= 1


@pytest.mark.parametrize("guard", GUARDS)
def test_each_guard_is_one(camera, guard, terminal):
    first, expected = GUARDS[guard]
    if guard.endswith("(root)") and os.geteuid() != 0:
        pytest.skip("only where root starts it")
    if "Landlock" in guard and landlock.version() < (4 if "ports" in guard else 1):
        pytest.skip("this kernel's Landlock does not know that")
    _, _, gained, said = service(camera, first, None, terminal)
    assert gained is not None, said
    assert expected <= set(gained), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only where root starts it")
def test_what_would_remain_root_fetches_nothing(camera):
    code, frames, gained, _ = service(camera, "account.become = lambda *words, **more: None")
    assert (code, frames, gained) == (4, 0, None)
