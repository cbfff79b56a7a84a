"""``edgeveil wheels``: pip's own choice for the board's Python and C library, and what only a vendor offers."""

import hashlib
import zipfile

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing.wheels import collect
from edgeveil.edge_runtime.errors import BadInput


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
    with pytest.raises(BadInput, match=r"no recipe for Python 3.8 \(it has 3.11, 3.13\)"):
        pi.recipe("3.8")
