"""The inside has no network and no way to leave anything behind; a hang ends it."""

import os
import signal
import subprocess
import sys

import pytest

from edgeveil.edge_runtime.ipc.counters import Counters, drops, shared_page
from edgeveil.edge_runtime.sandbox import isolation
from edgeveil.edge_runtime.sandbox.watchdog import Watchdog
from tests.support.checkout import PACKAGES


def run(code, cwd=None):
    """What a Python of its own prints; one thread, so that a namespace takes all of it."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONPATH=str(PACKAGES))
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=30, check=False)


TRY = """
import socket
for family, kind in ((socket.AF_INET, 1), (socket.AF_INET6, 2), (socket.AF_UNIX, 1), (socket.AF_PACKET, 3)):
    try:
        s = socket.socket(family, kind)
        s.connect(("127.0.0.1", 9) if family == socket.AF_INET else "x")
        print("open")
    except OSError as error:
        print("refused", error.errno)
try:
    socket.socketpair()
    print("open")
except OSError as error:
    print("refused", error.errno)
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2)  # by which processes speak to each other
    print("open")
except OSError as error:
    print("refused", error.errno)
"""


@pytest.mark.parametrize("source", ["npz:x", "kinect:"])  # measured, and not
@pytest.mark.parametrize("user", ["", "os.setgroups([]); os.setgid(65534); os.setuid(65534)"])
def test_no_socket_can_be_made_inside(user, source):
    if user and os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    done = run(
        "import os, socket\nfrom edgeveil.edge_runtime.sandbox.isolation import Isolation\n"
        # As in a service: the kinds were read before the user changes, who may not read this Python's library.
        "from edgeveil.edge_runtime.kinds import BACKENDS, SOURCES\nSOURCES.kinds(), BACKENDS.kinds()\n"
        f"{user}\nprint(Isolation('{source}').enter())" + TRY
    )
    means, *tries = done.stdout.splitlines()
    assert isolation.FILTER in means, done.stderr
    assert tries == ["refused 13"] * 6


def test_what_was_not_measured_says_so():
    code = "from edgeveil.edge_runtime.sandbox.isolation import Isolation\nprint(Isolation({}).enter())"
    assert isolation.WIDE not in run(code.format("'npz:x'")).stdout
    for words in ("'kinect:'", "'npz:x', 'openvino'", "'npz:x', 'auto', 'cuda'"):
        assert isolation.FILTER + " " + isolation.WIDE in run(code.format(words)).stdout


def test_a_namespace_of_its_own_holds_no_network():
    code = (
        "from edgeveil.edge_runtime.sandbox import isolation, landlock, seccomp\n"
        "seccomp.restrict = landlock.restrict = lambda *_: False\n"
        "print(isolation.Isolation('npz:x').enter())\n"
        "print(open('/proc/net/dev').read())\nimport socket\n"
        "try:\n    socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError as error:\n    print(error.errno)"
    )
    done = run(code)
    if isolation.NAMESPACE not in done.stdout:
        pytest.skip("NO NAMESPACE CAN BE MADE HERE: the filter alone was tried")
    lines = done.stdout.splitlines()
    assert [line.split(":")[0].strip() for line in lines if ":" in line] == ["lo"]
    assert lines[-1] == "101"  # network is unreachable: even the loopback is down


def test_where_nothing_can_be_had_it_says_so():
    code = (
        "from edgeveil.edge_runtime.sandbox import isolation, landlock, seccomp\n"
        "landlock.version = lambda: 0\nisolation.without_network = lambda user=False: False\n"
        "isolation.platform.machine = lambda: 'riscv64'\nprint(isolation.Isolation('npz:x').enter())"
    )
    assert run(code).stdout.strip() == isolation.CONVENTION


def test_no_file_grows_and_no_core_is_left(tmp_path):
    code = (
        "import os, resource, signal\nfrom edgeveil.edge_runtime.sandbox import hardening\n"
        "hardening.no_core_dumps(); hardening.no_files()\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE))\n"
        "left = os.open('left', os.O_WRONLY | os.O_CREAT)\n"
        "try:\n    os.write(left, b'x' * 9)\nexcept OSError as error:\n    print(error.errno)\n"
        "r, w = os.pipe(); os.write(w, b'pipes work'); print(os.read(r, 99))\nimport sys; sys.stdout.flush()\n"
        "os.kill(os.getpid(), signal.SIGABRT)"
    )
    done = run(code, cwd=tmp_path)
    assert done.stdout.splitlines() == ["(0, 0)", "27", "b'pipes work'"]
    assert done.returncode == -signal.SIGABRT
    assert all(path.stat().st_size == 0 for path in tmp_path.iterdir())


@pytest.mark.parametrize("hang", ["time.sleep(60)", "ctypes.PyDLL(None).pause()"])
def test_a_hang_ends_the_process_even_in_c_that_keeps_pythons_lock(hang):
    code = (
        "import ctypes, time\nfrom edgeveil.edge_runtime.sandbox.watchdog import Watchdog\n"
        f"dog = Watchdog(0.4); dog.beat('loop'); dog.start(); {hang}"
    )
    assert run(code).returncode == -signal.SIGALRM


def test_the_watchdog_waits_for_hearts_that_beat():
    now, put_off = [0.0], []
    dog = Watchdog(1.0, put_off=put_off.append, clock=lambda: now[0])
    dog.beat("fast")
    dog.beat("slow", within_s=5)
    now[0] = 0.9
    assert dog.well()
    now[0] = 1.1
    assert not dog.well()
    dog.beat("fast")
    now[0] = 2.0
    assert dog.well()
    dog.rest("fast")
    now[0] = 4.9
    assert dog.well()
    now[0] = 5.1
    assert not dog.well()


def test_counters_outlive_who_counts_and_hold_words_alone():
    page = shared_page()
    ours = Counters(page)
    child = os.fork()
    if child == 0:
        theirs = Counters(page)
        theirs.add("frames-in", 3)
        theirs.add("drop:late")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    ours.add("frames-in")
    assert ours.get("frames-in") == 4
    assert drops(ours.all()) == {"late": 1}
    with pytest.raises(ValueError, match="name"):
        ours.add("Pixel 7")
    ours._page[:8] = b"\xffraw\x00\x00\x00\x00"
    assert "frames-in" not in ours.all()
    os.close(page)
