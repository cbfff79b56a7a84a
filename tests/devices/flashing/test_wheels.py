"""``edgeveil board wheels``: pip's own choice for the board's Python and C library, and what only a vendor offers."""

import hashlib
import re
import zipfile

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing import needs, wheels
from edgeveil.devices.flashing.wheels import collect
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SINKS, SOURCES


@pytest.fixture
def vendor(tmp_path):
    """A folder with one wheel, for Python 3.13 and glibc 2.39, as a vendor might offer one."""
    folder = tmp_path / "vendor"
    folder.mkdir()
    wheel = folder / "fast_nets-1.0-cp313-cp313-manylinux_2_39_aarch64.whl"
    info = "fast_nets-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("fast_nets/__init__.py", "answer = 42\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: fast-nets\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp313-cp313-manylinux_2_39_aarch64\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return wheel


def test_what_only_a_vendor_offers_is_taken_by_its_hash_alone(vendor, tmp_path):
    pi5, sha = profiles.load("raspberry-pi5"), hashlib.sha256(vendor.read_bytes()).hexdigest()
    more = {"find_links": vendor.parent}
    with pytest.raises(BadInput, match=f"SHA-256 {sha}"):
        collect(pi5, tmp_path / "out", ["fast-nets==1.0"], **more, pins=["0" * 64])
    assert not (tmp_path / "out").exists()
    site = collect(pi5, tmp_path / "out", ["fast-nets==1.0"], **more, pins=[sha])
    assert (site.python, site.glibc, site.interpreters) == ("3.13", "2.39", {"fast-nets": "1.0"})
    with pytest.raises(BadInput, match=r"no wheel for raspberry-pi5 \(Python 3.11"):
        collect(pi5, tmp_path / "other", ["fast-nets==1.0"], python="3.11", **more, pins=[sha])


def test_a_profile_says_what_to_install_for_each_python():
    pi = profiles.load("raspberry-pi-cpu")
    assert pi.recipe().packages == ("ai-edge-litert==2.3.0",)
    assert pi.recipe("3.13").glibc == "2.41"
    with pytest.raises(BadInput, match=r"no recipe for Python 3.8 \(it has 3.11, 3.13, 3.12, 3.14\)"):
        pi.recipe("3.8")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index that answers with a wheel of its own making for ai-edge-litert 2.3.0; returns the wheel."""
    folder = tmp_path / "simple" / "ai-edge-litert"
    folder.mkdir(parents=True)
    wheel = folder / "ai_edge_litert-2.3.0-cp311-cp311-manylinux_2_17_aarch64.whl"
    info = "ai_edge_litert-2.3.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("ai_edge_litert/__init__.py", "raise SystemExit('not what you asked for')\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: ai-edge-litert\nVersion: 2.3.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_17_aarch64\n"
        )
        file.writestr(f"{info}/RECORD", "")
    (folder / "index.html").write_text(f'<!doctype html><a href="{wheel.name}">{wheel.name}</a>')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    return wheel


def test_a_wheel_that_is_not_the_known_one_is_refused(index, tmp_path):
    with pytest.raises(BadInput, match="another SHA-256 than is known for ai-edge-litert"):
        collect(profiles.load("raspberry-pi-cpu"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_wheel_of_no_known_hash_is_refused_before_the_index_is_asked(index, tmp_path):
    pi, sha = profiles.load("raspberry-pi-cpu"), hashlib.sha256(index.read_bytes()).hexdigest()
    for asked in ("ai-edge-litert==2.3.1", "ai-edge-litert", "ai-edge-litert>=2"):
        with pytest.raises(BadInput, match=r"SHA-256 of ai-edge-litert.* is not known here.*--pin"):
            collect(pi, tmp_path / "out", [asked])
    with pytest.raises(BadInput, match="exact version"):
        collect(pi, tmp_path / "out", ["ai-edge-litert"], pins=[sha])
    assert collect(pi, tmp_path / "out", ["ai-edge-litert==2.3.0"], pins=[sha]).interpreters == {
        "ai-edge-litert": "2.3.0"
    }


@pytest.mark.parametrize(
    ("served", "package"),
    [
        ("mqtt", "paho-mqtt==2.1.0"),
        ("mqtts://broker/hall", "paho-mqtt==2.1.0"),
        ("camera:0", "opencv-python-headless==5.0.0.93"),
        ("rtsps", "opencv-python-headless==5.0.0.93"),
        ("kafka", "kafka-python==3.0.12"),
        ("nats", "nats-py==2.16.0"),
        ("oak", "depthai==3.12.0"),
    ],
)
def test_what_a_source_or_a_sink_needs_comes_with_the_recipe(monkeypatch, tmp_path, served, package):
    asked = {}

    def download(_profile, _recipe, _folder, requirements, _find_links):
        asked.update(requirements)
        raise BadInput("enough")

    monkeypatch.setattr(wheels, "_download", download)
    with pytest.raises(BadInput, match="enough"):
        collect(profiles.load("raspberry-pi5"), tmp_path / "out", served=[served])
    assert list(asked) == ["ai-edge-litert==2.3.0", package]
    assert all(asked.values()), "of known hashes"


@pytest.mark.parametrize(
    ("served", "words"),
    [
        ("npz:x", "or a source or sink that needs one"),
        ("libcamera:", "libcamera: needs picamera2, .*: sudo apt install python3-picamera2"),
        ("cv3", "got cv3"),
    ],
)
def test_one_that_no_package_of_the_index_serves_is_refused_before_pip_is_asked(tmp_path, served, words):
    with pytest.raises(BadInput, match=words):
        collect(profiles.load("raspberry-pi5"), tmp_path / "out", served=[served])


@pytest.mark.parametrize("registry", [SOURCES, SINKS], ids=["sources", "sinks"])
def test_every_kind_that_needs_a_library_is_collected_or_gets_one_sentence(registry):
    board = profiles.load("raspberry-pi5")
    for kind in registry.kinds():
        libraries = [one.library for one in needs.libraries(registry, kind)]
        if set(libraries) & set(needs.COLLECTED):
            assert wheels._needed([kind], board, "3.13") != []
        elif libraries:
            with pytest.raises(BadInput, match=rf"^{kind} needs .*no wheel can be collected .*On the board: "):
                wheels._needed([kind], board, "3.13")


@pytest.mark.parametrize(
    ("board", "served", "words"),
    [("jetson-nano", "kafka", "kafka needs kafka-python"), ("raspberry-pi-cpu-32", "oak", "oak needs depthai 3")],
)
def test_a_library_without_a_wheel_for_the_board_is_refused_before_pip_is_asked(tmp_path, board, served, words):
    with pytest.raises(BadInput, match=f"{words}, of which no wheel can be collected for {board}"):
        collect(profiles.load(board), tmp_path / "out", served=[served])


def test_an_opencv_that_no_wheel_is_for_comes_with_the_system(tmp_path):
    with pytest.raises(
        BadInput, match=r"camera:0 needs OpenCV, .*with Python 3\.11\. On the board: sudo apt install python3-opencv"
    ):
        collect(profiles.load("raspberry-pi-cpu-32"), tmp_path / "out", served=["camera:0"])


def test_every_package_of_every_recipe_has_its_hashes():
    known = wheels._known_hashes()
    named = {pin for name in profiles.names() for one in profiles.load(name).install for pin in one.packages}
    assert set(known) == named | {one.pin for one in needs.COLLECTED.values()}, (
        "run scripts/environments/lock_wheels.py"
    )
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", one) for hashes in known.values() for one in hashes)
    assert all(known.values())
