"""The workstation on each CPython that its lock is for: wheels by platform, and both ways to install it."""

import os

import pytest
import tomllib

from scripts.environments import locked_wheels, workstation_pythons
from scripts.environments.locked_wheels import LOCK, MUST, PYTHONS
from scripts.environments.pythons import interpreter
from tests.support.checkout import ROOT


@pytest.fixture
def index():
    """Leave to ask the package index, and to download from it."""
    if "EDGEVEIL_INSTALL" not in os.environ:
        pytest.skip("NOTHING WAS INSTALLED: it takes minutes and gigabytes; set EDGEVEIL_INSTALL=1 for it")


@pytest.mark.slow
@pytest.mark.parametrize("platform", MUST)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_package_of_the_lock_has_a_wheel(index, python, platform):
    found = locked_wheels.wheels(LOCK.read_text(), python, platform)
    assert found["without"] == []
    assert found["packages"] > 100


@pytest.mark.slow
def test_packages_without_a_wheel_are_found(index):
    found = locked_wheels.wheels("six==1.17.0\nfuture==0.18.2\nnumpy==1.26.4\n", "3.13", MUST[0])
    assert (found["packages"], sorted(found["without"])) == (1, ["future==0.18.2", "numpy==1.26.4"])


@pytest.mark.slow
@pytest.mark.parametrize("way", workstation_pythons.WAYS)
@pytest.mark.parametrize("version", PYTHONS)
def test_it_installs_and_works(index, version, way, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"NO PYTHON {version} HERE: the workstation on it was not tried")
    row = workstation_pythons.WAYS[way](python, tmp_path)
    assert [(step["step"], step.get("said")) for step in row["steps"] if step["exit_code"]] == []
    assert row["versions"]["python"].startswith(version)


def test_steps_end_with_the_first_that_fails(tmp_path):
    commands = [("good", ["true"]), ("bad", ["sh", "-c", "echo why >&2; exit 3"]), ("never", ["true"])]
    good, bad = workstation_pythons.steps(commands, tmp_path, "python3")
    assert (good["step"], good["exit_code"]) == ("good", 0)
    assert (bad["step"], bad["exit_code"], bad["said"]) == ("bad", 3, "why\n")
    assert workstation_pythons.failed({"steps": [good, bad]})
    assert not workstation_pythons.failed({"steps": [good]})


def test_a_lock_is_read_package_by_package():
    blocks = locked_wheels.locked(LOCK.read_text())
    assert "".join(blocks.values()) == LOCK.read_text()
    assert {"pyarrow", "tensorflow-cpu", "numpy"} <= {name.partition("==")[0] for name in blocks}


def test_the_same_pythons_are_named_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {f"Programming Language :: Python :: {version}" for version in PYTHONS}
    assert listed <= set(project["classifiers"])
    wanted = " ".join(f"python{version}" for version in reversed(PYTHONS))
    assert wanted in (ROOT / "scripts/environment").read_text()
    assert f"lock workstation {PYTHONS[0]} " in (ROOT / "scripts/lock").read_text()
