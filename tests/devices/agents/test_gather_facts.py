"""The probe as it runs on a board: a process of its own, under that board's Python, into the planner."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.agents import gather_facts
from edgeveil.devices.flashing.placement import Refused, place
from edgeveil.devices.flashing.plan import check_board
from edgeveil.devices.flashing.readiness import matching
from edgeveil.devices.flashing.records import BundleFacts, Facts, Wanted
from edgeveil.edge_runtime.device import check_device
from tests.support.boards.pythons import python_of
from tests.support.checkout import ROOT
from tests.support.once import nightly_but

SIGILL = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
# A module that stands in for an interpreter: what happens as it is loaded, and what is said of it.
CRASHES = {
    "onnxruntime": (SIGILL, "SIGILL: it has an instruction"),
    "ai_edge_litert": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV: it crashed"),
    "tflite_runtime": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "out of memory"),
    "openvino": ("raise MemoryError()", "out of memory"),
    "hailo_platform": ("raise ImportError('libcudart.so.10: cannot open')", "ImportError: libcudart.so.10"),
    "cv2": ("raise RuntimeError('module compiled against another numpy')", "RuntimeError: module compiled"),
}


def probe(python, *paths, **environment):
    """The facts that the agent prints under ``python``, sent on its standard input as ``Board`` sends it."""
    done = subprocess.run(
        [str(python), "-", "/nowhere/edgeveil", "", "[]", *map(str, paths)],
        input=Path(gather_facts.__file__).read_bytes(),
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_what_an_interpreter_does_as_it_is_loaded_is_told_apart(tmp_path):
    for name, (code, _) in CRASHES.items():
        (tmp_path / f"{name}.py").write_text(code + "\n")
    found = probe(sys.executable, tmp_path)
    assert {"numpy"} <= set(found["interpreters"]) <= {"numpy", "paho-mqtt"}, "the others are still found"
    said = {name: found["failed"][name.replace("_", "-")] for name in CRASHES}
    assert [name for name, (_, why) in CRASHES.items() if not said[name].startswith(why)] == []


def test_one_that_never_ends_is_not_waited_for(tmp_path, monkeypatch):
    (tmp_path / "cv2.py").write_text("import time; time.sleep(60)\n")
    monkeypatch.setattr(gather_facts, "IMPORT_S", 2)
    monkeypatch.setattr(gather_facts, "INTERPRETERS", ("cv2",))
    assert gather_facts.gather("/nowhere", None, [str(tmp_path)])["failed"] == {"cv2": "not loaded in 2 s"}


OPENVINO = """
class Core:
    available_devices = ["CPU", "MYRIAD.1.2-ma2480"]
def get_version():
    return "2022.3.2-9279-e2c7e4d7b4d-releases/2022/3"
"""


def test_mqtts_client_is_found_and_an_openvino_without_a_version_of_its_own_is_asked_by_its_call(tmp_path):
    for name in ("paho/mqtt", "openvino"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("paho", "openvino"):
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "paho/mqtt/__init__.py").write_text('__version__ = "1.6.1"')
    (tmp_path / "openvino/runtime.py").write_text(OPENVINO)
    found = probe(sys.executable, tmp_path)
    assert found["interpreters"]["paho-mqtt"] == "1.6.1"
    assert found["interpreters"]["openvino"].startswith("2022.3.2")
    assert found["devices"] == ["myriad"]


def test_the_devices_of_a_pc_are_words_that_the_runtime_takes(tmp_path):
    (tmp_path / "openvino").mkdir()
    core = 'class Core:\n    available_devices = ["CPU", "GPU.0", "GPU.1", "NPU"]\n'
    (tmp_path / "openvino/__init__.py").write_text(f'__version__ = "2026.4.1"\n{core}')
    found = probe(sys.executable, tmp_path)["devices"]
    assert found == ["openvino:GPU", "openvino:NPU"]
    assert [check_device(one) for one in found] == found


def test_a_pc_is_known_by_its_processor(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Intel(R) N100\n\nprocessor\t: 1\n")
    monkeypatch.setattr(gather_facts, "PROCESSORS", str(tmp_path / "cpuinfo"))
    facts = Facts("x86_64", "3.12.3", 10**10, False, True, True, board=gather_facts._processor())
    known = {name: profiles.load(name) for name in profiles.names()}
    assert matching(facts, known, lambda _path: True).name == "intel-n100"
    ultra = replace(facts, board="Intel(R) Core(TM) Ultra 7 155H")
    assert matching(ultra, known, lambda _path: True).name == "intel-core-ultra"
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nBogoMIPS\t: 108.00\n")
    assert gather_facts._processor() is None


# environment: profile, what its planner then takes
TAKEN = {
    "py36": ("jetson-nano", "onnx-float32", "onnxruntime"),
    "py37": ("coral-dev-board", "tflite-int8", "tflite-runtime"),
    "py39-openvino": ("raspberry-pi3-ncs2", "onnx-float32", "openvino"),
    "py39-tflite": ("raspberry-pi3-ncs2", "tflite-int8", "tflite-runtime"),
    "py311-litert": ("raspberry-pi-cpu", "tflite-int8", "ai-edge-litert"),
    "py311-tflite": ("raspberry-pi-cpu-32", "tflite-int8", "tflite-runtime"),
}


@pytest.mark.pythons
@pytest.mark.parametrize("name", nightly_but(TAKEN, "py36"))
def test_the_real_probe_under_the_real_python_feeds_the_real_planner(name):
    board, artefact, backend = TAKEN[name]
    profile = profiles.load(board)
    found = probe(python_of(name), **profile.service.environment)
    assert found["failed"] == {}
    assert found["glibc"] == os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    facts = Facts.from_document({**found, "architecture": profile.architecture})
    placed = place(facts, BUNDLE, profile, Wanted(), None, settings_kept=False)
    assert (placed.artefact, placed.backend) == (artefact, backend)


STORED = json.loads((ROOT / "docs/results/devices/userlands.json").read_text())["userlands"]
BUNDLE = BundleFacts("11", "mnist", 1, 1, "aa", artefacts=("onnx-float32", "tflite-int8"))


def test_the_stored_facts_are_of_ten_userlands_and_more():
    assert len(STORED) >= 10
    versions = {tuple(map(int, one["facts"]["python"].split(".")[:2])) for one in STORED.values()}
    assert versions == {(3, minor) for minor in range(6, 14)}
    # The C library is the system's, whatever this Python was linked with: wheels are chosen by it.
    assert len({one["facts"]["glibc"] for one in STORED.values()}) == 1


DISTRIBUTIONS = json.loads((ROOT / "docs/results/devices/distributions.json").read_text())["distributions"]
# distribution: profile, what its planner then takes of the distribution's own packages and the recipe's wheels
OF_DISTRIBUTIONS = {
    "debian-11": ("coral-usb", "tflite-int8", "tflite-runtime"),
    "debian-12": ("raspberry-pi-cpu", "tflite-int8", "ai-edge-litert"),
    "debian-13": ("raspberry-pi5", "tflite-int8", "ai-edge-litert"),
    "ubuntu-18.04": ("jetson-nano", None, None),
    "ubuntu-20.04": ("workstation", None, None),
    "ubuntu-22.04": ("jetson-orin-nano", None, None),
    "ubuntu-24.04": ("workstation", None, None),
}


def test_the_stored_distributions_are_those_that_boards_have_and_one_that_no_server_has():
    assert set(DISTRIBUTIONS) - set(OF_DISTRIBUTIONS) == {"debian-10"}
    assert "HTTP 404" in DISTRIBUTIONS["debian-10"]["unreachable"]
    found = {name: DISTRIBUTIONS[name]["facts"] for name in OF_DISTRIBUTIONS}
    assert all(one["failed"] == {} and one["interpreters"]["numpy"] for one in found.values())
    for name in ("debian-11", "debian-12", "debian-13"):
        assert (found[name]["architecture"], found[name]["bits"]) == ("aarch64", 64)
    # Each has its own C library, as its boards have.
    profiles_of = {"debian-12": "raspberry-pi-cpu", "debian-13": "raspberry-pi5", "ubuntu-18.04": "jetson-nano"}
    for name, board in profiles_of.items():
        assert f"glibc {found[name]['glibc']}" in profiles.load(board).system


FOUND = {name: (one["facts"], TAKEN.get(name, ("raspberry-pi-cpu", None, None))) for name, one in STORED.items()}
FOUND |= {name: (DISTRIBUTIONS[name]["facts"], taken) for name, taken in OF_DISTRIBUTIONS.items()}


@pytest.mark.parametrize("name", FOUND)
def test_the_planner_takes_of_the_stored_facts_what_fits_and_names_what_is_missing(name):
    stored, (board, artefact, backend) = FOUND[name]
    assert stored["failed"] == {}
    profile = profiles.load(board)
    machine = {"free_bytes": 10**10, "read_only": False, "sudo": True, "systemd": True}
    facts = Facts.from_document({**stored, **machine, "architecture": profile.architecture})
    if artefact is None:
        with pytest.raises(Refused, match="An interpreter was expected"):
            place(facts, BUNDLE, profile, Wanted(), None, settings_kept=False)
        return
    placed = place(facts, BUNDLE, profile, Wanted(), None, settings_kept=False)
    assert (placed.artefact, placed.backend, placed.device) == (artefact, backend, "cpu")


MOUNTS = """22 1 179:2 / / rw,noatime - ext4 /dev/root rw
23 22 0:21 / /run rw,nosuid - tmpfs tmpfs rw,size=100k
30 22 0:40 / /media/root-rw rw - tmpfs tmpfs-root rw
"""
OVERLAY = "22 1 0:41 / / rw,noatime - overlay overlayroot rw,lowerdir=/media/root-ro,upperdir={},workdir=/w\n"


@pytest.mark.parametrize(
    ("mounts", "line", "place", "kind"),
    [
        (MOUNTS, "root=/dev/mmcblk0p2", "/opt/edgeveil", None),
        (MOUNTS, "root=/dev/mmcblk0p2", "/run/edgeveil", "tmpfs"),
        (MOUNTS, "root=/dev/mmcblk0p2", "/runner", None),
        (OVERLAY.format("/upper/data"), "boot=overlay root=/dev/mmcblk0p2", "/opt", "overlay"),
        (OVERLAY.format("/upper/data"), "overlayroot=tmpfs:recurse=0 root=/dev/mmcblk0p2", "/opt", "overlay"),
        (OVERLAY.format("/upper/data"), "overlayroot=disabled", "/opt", None),
        (OVERLAY.format("/host/of/a/container"), "quiet", "/opt", None),
    ],
)
def test_a_root_in_memory_is_seen(tmp_path, monkeypatch, mounts, line, place, kind):
    for name, text in (("MOUNTS", mounts), ("KERNEL_LINE", line)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(gather_facts, name, str(tmp_path / name))
    assert gather_facts._volatile(place) == kind


# As raspi-config makes a card's root: the card below, memory above.
REAL_OVERLAY = """
set -e
mount --make-rprivate /
cd "$1"
mkdir card memory root
mount -t tmpfs tmpfs memory
mkdir memory/upper memory/work
mount -t overlay -o lowerdir=card,upperdir=$1/memory/upper,workdir=$1/memory/work overlay root
exec "$2" - "$1/root/opt/edgeveil" ""
"""


def test_the_kernels_own_overlay_is_seen_by_the_probe_and_refused_by_the_planner(tmp_path):
    command = ["unshare", "--mount", "bash", "-c", REAL_OVERLAY, "board", str(tmp_path), sys.executable]
    agent = Path(gather_facts.__file__).read_bytes()
    done = subprocess.run(command, input=agent, capture_output=True, check=False, timeout=100)
    if (done.returncode and b"mount" in done.stderr + done.stdout) or b"unshare" in done.stderr:
        pytest.skip(f"NO OVERLAY WAS MOUNTED: {done.stderr.decode().strip()[-200:]}")
    found = json.loads(done.stdout)
    assert found["volatile"] == "overlay"
    with pytest.raises(Refused, match="would be gone at the next boot"):
        check_board(Facts.from_document({**found, "architecture": "aarch64"}), profiles.load("raspberry-pi-cpu"))


def test_an_overlay_whose_upper_half_is_in_memory_is_seen_without_the_kernels_line(tmp_path, monkeypatch):
    text = f"22 1 0:1 / / rw - overlay o rw,upperdir={tmp_path}/rw/up\n30 22 0:2 / {tmp_path}/rw rw - tmpfs t rw\n"
    (tmp_path / "mounts").write_text(text)
    (tmp_path / "rw/up").mkdir(parents=True)
    monkeypatch.setattr(gather_facts, "MOUNTS", str(tmp_path / "mounts"))
    assert gather_facts._volatile("/opt") == "overlay"


def test_wheels_count_once_they_are_in_use_and_a_flash_that_did_not_end_is_seen(tmp_path):
    """Unpacked, but cut off before the link to them: they are sent again."""
    (tmp_path / "state.json").write_text('{"committed": null, "floor": 0, "failed": {"11": 2}}')
    (tmp_path / "site-77").mkdir()
    found = gather_facts._edgeveil(str(tmp_path))
    assert (found["wheels"], found["unfinished"], found["failed"]) == ([], False, {"11": 2})
    (tmp_path / "site").symlink_to("site-77")
    (tmp_path / "unfinished").mkdir()
    found = gather_facts._edgeveil(str(tmp_path))
    assert (found["wheels"], found["unfinished"]) == (["site-77"], True)
