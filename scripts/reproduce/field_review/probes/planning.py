"""Version 0.1's probe of the board and its planner, asked about what a board has on its first day."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import older

from devices import profiles
from devices.transports import ssh
from edge_runtime import facts

MEMORY = Path("/dev/shm")  # noqa: S108 - nothing is written there
SUDO = """#!/bin/sh
# As sudo where a password is asked for: -n fails, -S reads it.
test "$1" = -n && { echo "sudo: a password is required" >&2; exit 1; }
read password && shift && exec "$@"
"""
# The real 2022.3.2's packages, as far as the probe asks: no __version__, and a call that has it.
OPENVINO = {
    "openvino/__init__.py": "",
    "openvino/runtime/__init__.py": (
        "def get_version(): return '2022.3.2-9279-e2c7e4d7b4d-releases/2022/3'\n"
        "class Core: available_devices = ['CPU', 'MYRIAD']\n"
    ),
}


def written(folder: Path, files: dict[str, str]) -> Path:
    """A folder with these files in it."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def sudo_with_a_password(folder: Path) -> str:
    """The plan for a user who may sudo with a password."""
    sudo = written(folder, {"bin/sudo": SUDO}) / "bin" / "sudo"
    sudo.chmod(0o755)
    folder.chmod(0o755)
    older.planner()  # what it imports, another user may not read
    os.environ["PATH"] = f"{sudo.parent}{os.pathsep}{os.environ['PATH']}"
    if os.getuid() == 0:
        os.setuid(65534)
    may = facts.gather(older.ROOT)["sudo"]
    return f"sudo: {may}; {older.planned(older.case('first-flash', sudo=may))}"


def root_in_memory(_: Path) -> str:
    """The plan for a board whose root is a tmpfs, with the facts of one."""
    kind = next(line.split()[2] for line in Path("/proc/mounts").read_text().splitlines() if f" {MEMORY} " in line)
    found = facts.gather(str(MEMORY / "edgeveil"))
    told = {name: found[name] for name in ("read_only", "free_bytes")}
    plan = older.planned(older.case("first-flash", **told))
    return f"{kind}: read_only {found['read_only']}; {plan}"


def openvino_without_a_version(folder: Path) -> str:
    """The plan for a stick whose OpenVINO has no __version__."""
    sys.path.insert(0, str(written(folder, OPENVINO)))
    found = facts.gather(older.ROOT)
    case = older.case("pi3-with-the-stick", devices=found["devices"])
    case["facts"]["interpreters"]["openvino"] = found["interpreters"]["openvino"]
    return f"openvino {found['interpreters']['openvino']}; {older.planned(case)}"


def stick_without_openvino(_: Path) -> str:
    """The plan for a stick whose OpenVINO does not load, beside another interpreter."""
    case = older.case("pi3-with-the-stick", devices=[])
    case["facts"]["interpreters"] = {"numpy": "1.19.5", "tflite-runtime": "2.13.0"}
    return older.planned(case)


def communitys_libedgetpu(_: Path) -> str:
    """The plan for a newer tflite-runtime with the libedgetpu that was built for it."""
    case = older.case("coral-usb-with-the-stick", drivers={"libedgetpu1-std": "16.0tf2.13.1-1.bookworm"})
    case["facts"]["interpreters"]["tflite-runtime"] = "2.13.0"
    return older.planned(case)


def second_camera(_: Path) -> str:
    """The plan for a second camera on a board whose service reads the first."""
    case = older.case("second-flash")
    case["bundle"] |= {"sha": "22", "name": "another"}
    case["wanted"] = {"source": "camera:1", "sinks": [older.SINK]}
    return older.planned(case)


class Channel:
    """A channel of paramiko's as far as it is asked, over a process that has ended."""

    closed = True

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self._done = done

    def exec_command(self, command: str) -> None:
        """It ran already."""

    settimeout = sendall = exec_command

    def shutdown_write(self) -> None:
        """It ran already."""

    def exit_status_ready(self) -> bool:
        """It has ended."""
        return True

    def recv_ready(self) -> bool:
        """It printed nothing."""
        return False

    recv_stderr_ready = recv_ready

    def recv_exit_status(self) -> int:
        """As SSH has it: -1 for a process that a signal ended."""
        return max(self._done.returncode, -1)


def _probed(python: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The facts that a Python gathers, sent to it as a flash sends them."""
    script = Path(facts.__file__).read_bytes()
    told = {**os.environ, "PYTHONPATH": "", **environment}
    return subprocess.run([python, "-", older.ROOT, ""], input=script, env=told, capture_output=True, check=False)


def illegal_instruction(folder: Path) -> str:
    """What is said of a probe that an instruction of numpy ends."""
    written(folder, {"numpy.py": "import os, signal; os.kill(os.getpid(), signal.SIGILL)"})
    done = _probed(sys.executable, PYTHONPATH=str(folder))
    board = ssh.SshTransport.__new__(ssh.SshTransport)
    board.name = "pi@board"
    board._open_channel = lambda: Channel(done)
    return f"signal {-done.returncode}; {older.answer(lambda: board.run(['python3']))}"


def glibc_of_an_old_python(_: Path) -> str:
    """The board's glibc, by the system and by the facts that Python 3.6 and 3.7 gather."""
    system = os.confstr("CS_GNU_LIBC_VERSION")
    said = []
    for python in sys.argv[4:]:
        found = json.loads(_probed(python).stdout)
        said.append(f"{found['python']} {found['glibc']}")
    return f"{system}; by Python and its facts: {', '.join(said)}"


def facts_that_were_typed_in(_: Path) -> str:
    """How many of the planner's facts say by what command a board gave them."""
    cases = sorted((older.TREE / "tests/devices/plans").glob("*.toml"))
    made = [path for path in cases if "python -m" in path.read_text() or "made_by" in path.read_text()]
    return f"{len(cases)} files of facts in its tests; {len(made)} say what made them"


def small_network(_: Path) -> str:
    """The estimates for a network as small as those of the recipes, on the Jetson Nano."""
    calibration = importlib.import_module("devices.calibration")
    estimate = importlib.import_module("devices.estimate")
    network = estimate.Network("small", 185472, 0, 2000, 64)
    found = estimate.for_profile({"onnx-float32": network}, profiles.load("jetson-nano"), calibration.published(), [])
    return "; ".join(f"range {one.fps_low} to {one.fps_high}, figure {one.fps}: {one.refused}" for one in found)
