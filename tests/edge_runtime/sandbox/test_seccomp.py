"""The filter as a program: run step by step here for every architecture, and its numbers against libseccomp's."""

import errno
import platform
import struct
import subprocess

import pytest

from edgeveil.edge_runtime.kinds import REGISTRIES
from edgeveil.edge_runtime.sandbox import allowed_calls, seccomp
from edgeveil.edge_runtime.sandbox.seccomp import NEWEST, numbers
from tests.support import programs

pytestmark = pytest.mark.programs

ALLOW, KILL, REFUSE, ABSENT = 0x7FFF0000, 0x80000000, 0x50000 | errno.EACCES, 0x50000 | errno.ENOSYS
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "armv7l": 0x40000028}
MACHINES = sorted(AUDIT)
PROCESS = 4711


def answer(steps, audit, number, arguments=()):
    """What the kernel does with a call, by the words of Documentation/networking/filter.rst."""
    record = struct.pack("<IIQ6Q", number, audit, 0, *[*arguments, *[0] * 6][:6])
    place, word = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("HBBI", steps, 8 * place)
        place += 1
        if code == 0x20:
            (word,) = struct.unpack_from("<I", record, value)
        elif code == 0x54:
            word &= value
        elif code in (0x15, 0x35):
            place += if_true if (word == value if code == 0x15 else word >= value) else if_false
        else:
            assert code == 0x06
            return value


def of(machine, source="npz:x", backends=("numpy",), *, device="cpu", settled=True):
    return filtered(machine, allowed_calls.rules(source, backends, device, PROCESS, settled=settled))


def filtered(machine, rules):
    steps = seccomp.program(rules, machine)
    assert len(steps) // 8 < 4096  # the kernel's limit
    known = numbers(machine)
    return lambda name, *arguments: answer(
        steps, AUDIT[machine], known[name] if isinstance(name, str) else name, arguments
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_are_allowed_by_name_and_all_others_refused(machine):
    call = of(machine)
    for name in ("read", "write", "futex", "mmap2" if machine == "armv7l" else "mmap", "exit_group"):
        assert call(name) == ALLOW
    for name in ("socket", "execve", "shmget", "ptrace", "prctl", "setresuid", "io_uring_setup", "pidfd_getfd"):
        assert call(name) == REFUSE, name
    assert call("clone3") == call(NEWEST + 1) == ABSENT
    every = {number for name, number in numbers(machine).items() if name in allowed_calls._EVERYWHERE}
    checked = {"open", "openat", "clone", "tgkill", "prlimit64", "fcntl", "fcntl64", "ioctl"}
    fine = every - {numbers(machine).get(name) for name in checked}
    for number in range(NEWEST + 1):
        assert (call(number, *[0x7FFFFFFF] * 6) == call(number) == ALLOW) == (number in fine), number


@pytest.mark.parametrize("machine", MACHINES)
def test_some_pass_with_certain_arguments_only(machine):
    call, camera = of(machine), of(machine, "camera:0")
    assert call("openat", 0, 0, 0o2000000) == ALLOW
    assert call("openat", 0, 0, 1) == call("openat", 0, 0, 2) == call("openat", 0, 0, 0o100) == REFUSE
    assert camera("openat", 0, 0, 2) == ALLOW
    assert camera("openat", 0, 0, 0o102) == camera("openat", 0, 0, 0o1001) == camera("openat", 0, 0, 3) == REFUSE
    assert call("ioctl", 0, 0x5401) == ALLOW
    assert call("ioctl", 0, 0x5412) == camera("ioctl", 0, 0x5412) == call("ioctl", 0, 0xC0565605) == REFUSE
    assert camera("ioctl", 0, 0xC0565605) == camera("ioctl", 0, 0x5401) == ALLOW
    assert call("clone", 0x3D0F00) == ALLOW
    assert call("clone", 17) == REFUSE
    assert call("tgkill", PROCESS, 1, 6) == ALLOW
    assert call("tgkill", PROCESS + 1, 1, 6) == REFUSE
    assert call("prlimit64", PROCESS) == REFUSE
    fcntl = "fcntl64" if machine == "armv7l" else "fcntl"
    assert [call(fcntl, 0, command) for command in (0, 4, 1030, 5, 6, 8, 1026)] == [ALLOW] * 3 + [REFUSE] * 4


@pytest.mark.parametrize("machine", MACHINES)
def test_another_architecture_ends_the_process(machine):
    steps = seccomp.program(allowed_calls.rules("npz:x", ["numpy"], "cpu", 1, settled=True), machine)
    assert answer(steps, 0x40000003, numbers(machine)["read"]) == KILL
    if machine == "x86_64":
        assert answer(steps, AUDIT[machine], 0x40000000) == REFUSE  # x32's read


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("source", "device"), [("kinect:", "cpu"), ("npz:x", "cuda"), ("wifi:w", "cpu")])
def test_what_was_not_measured_is_kept_from_the_worst(machine, source, device):
    call = of(machine, source, device=device)
    assert call("read") == call("prctl") == call("openat", 0, 0, 2) == ALLOW
    for name in sorted(allowed_calls.REFUSED & set(numbers(machine))):
        assert call(name) == REFUSE, name
    assert call("execve") == (ALLOW if source == "wifi:w" else REFUSE)
    assert call("socket", 16, 3, 15) == ALLOW
    assert call("socket", 16, 3, 16) == (ALLOW if source == "wifi:w" else REFUSE)
    assert call("socket", 16, 2, 2) == call("socket", 2, 1, 0) == REFUSE


@pytest.mark.parametrize("machine", MACHINES)
def test_each_interpreter_has_its_own_once_it_is_settled(machine):
    before, numpy, tflite = (
        of(machine, backends=allowed_calls.interpreters(), settled=False),
        of(machine),
        of(machine, backends=["ai-edge-litert"]),
    )
    assert before("pipe2") == tflite("pipe2") == ALLOW
    assert numpy("pipe2") == REFUSE
    assert before("prctl") == before("seccomp") == ALLOW
    assert tflite("prctl") == tflite("seccomp") == REFUSE


@pytest.mark.parametrize("machine", MACHINES)
def test_what_fetches_frames_has_sockets_of_the_internet_and_no_others(machine):
    call = filtered(machine, allowed_calls.fetching(PROCESS))
    for family in (2, 10):
        assert call("socket", family, 1, 6) == call("socket", family, 2, 17) == call("socket", family, 2, 0) == ALLOW
        assert call("socket", family, 3, 1) == call("socket", family, 3, 255) == REFUSE
    assert call("socket", 16, 3, 0) == ALLOW
    assert call("socket", 16, 3, 15) == call("socket", 16, 3, 2) == REFUSE
    assert call("socket", 1, 1, 0) == call("socket", 17, 3, 0) == call("socket", 40, 1, 0) == REFUSE
    assert call("connect") == call("sendto") == call("recvfrom") == ALLOW
    assert call("ioctl", 0, 0x541B) == ALLOW
    assert call("openat", 0, 0, 1) == call("ioctl", 0, 0x5412) == call("clone", 17) == REFUSE
    for name in ("execve", "ptrace", "prctl", "setresuid", "socketpair", "shmget", "pidfd_open", "flock"):
        assert call(name) == REFUSE, name


def test_an_unknown_architecture_has_no_filter():
    rules = allowed_calls.rules("npz:x", ["numpy"], "cpu", 1, settled=True)
    assert seccomp.program(rules, "riscv64") == b""
    assert not seccomp.restrict(rules, "riscv64")


@pytest.mark.parametrize(("machine", "theirs"), [("x86_64", "x86_64"), ("aarch64", "aarch64"), ("armv7l", "arm")])
def test_the_numbers_are_those_of_libseccomp(machine, theirs):
    for name, number in numbers(machine).items():
        found = subprocess.run(
            [programs.need("scmp_sys_resolver"), "-a", theirs, name], capture_output=True, text=True, check=True
        )
        assert int(found.stdout) == number, name


def test_every_name_has_a_number():
    known = set().union(*(numbers(machine) for machine in MACHINES))
    names = allowed_calls._EVERYWHERE | allowed_calls.SETTLING | allowed_calls.REFUSED
    needed = [
        *(one.facts.get("calls", "") for registry in REGISTRIES for one in registry.kinds().values()),
        allowed_calls._FETCHING,
    ]
    assert names.union(*(calls.split() for calls in needed)) <= known
    assert platform.machine() not in MACHINES or numbers(platform.machine())
