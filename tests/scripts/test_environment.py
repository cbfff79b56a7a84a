"""scripts/environment with Pythons and a pip of our own: which it takes and why, and whose words are seen."""

import os
import shutil
import subprocess

import pytest

from tests.support.checkout import ROOT

# Answers as a Python of that version; its pip says something and ends with a code.
PYTHON = """#!/bin/sh
case "$*" in
*version_info*) echo {version};;
*ensurepip*) {venv};;
"-m venv --clear .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python;;
*) echo "WARNING: Location '/mirror' is ignored"; echo "ERROR: no space left on device" >&2; exit {code};;
esac
"""
TOOLS = ["bash", "cat", "cp", "cut", "dirname", "ln", "mkdir", "mktemp", "paste", "rm", "sed", "sh", "sha256sum"]
TOOLS += ["sort", "tail"]


def put(path, version, *, venv="true", code=0):
    """A Python at that path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PYTHON.format(version=version, venv=venv, code=code))
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path):
    """A folder with what the script reads, and a ``.venv`` whose Python does nothing but end with ``code``."""
    locks = ("requirements/workstation.txt", "requirements/axe.txt")
    for name in (*locks, "pyproject.toml", "setup.py", "scripts/environment"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def make(code):
        put(tmp_path / ".venv/bin/python", "3.11.9", code=code)
        return tmp_path

    return make


@pytest.fixture
def machine(checkout, tmp_path):
    """``machine({command: version})``: a checkout without .venv on a machine that has these Pythons and no other."""
    for tool in TOOLS:
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / tool).symlink_to(shutil.which(tool))

    def make(pythons):
        shutil.rmtree(tmp_path / ".venv", ignore_errors=True)
        for name, version in pythons.items():
            put(tmp_path / "bin" / name, version.removesuffix("-"), venv="false" if version.endswith("-") else "true")
        return tmp_path

    return make


def run(folder, **environment):
    kept = {key: value for key, value in os.environ.items() if key != "EDGEVEIL_PYTHON"}
    command = [folder / "scripts/environment"]
    return subprocess.run(command, capture_output=True, text=True, env={**kept, **environment})


def alone(folder, asked=""):
    """On that machine, with ``asked`` as EDGEVEIL_PYTHON."""
    done = run(folder, PATH=f"{folder}/bin:{folder}/tools", EDGEVEIL_PYTHON=asked)
    assert done.stdout == ""
    return done


def test_pip_is_not_heard_where_all_went_well(checkout):
    folder = checkout(code=0)
    done = run(folder)
    assert done.returncode == 0
    assert done.stderr.startswith("environment: .venv from requirements/workstation.txt")
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert (folder / ".venv/src/edgeveil/trainer").is_symlink()
    again = run(folder)  # nothing to do
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_pip_is_heard_where_it_fails(checkout):
    done = run(checkout(code=1))
    assert done.returncode == 4
    assert "ERROR: no space left on device" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: pip could not fill .venv")


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3.11": "3.11.2", "python3": "3.11.2"}, "Python 3.11.2, {0}/bin/python3.11"),  # Debian 12
        ({"python3.12": "3.12.3", "python3": "3.12.3"}, "Python 3.12.3, {0}/bin/python3.12"),  # Ubuntu 24.04
        ({"python3.13": "3.13.5", "python3": "3.13.5"}, "Python 3.13.5, {0}/bin/python3.13"),  # Debian 13
        ({"python3.11": "3.11.9", "python3.12": "3.12.3", "python3.13": "3.13.0"}, "Python 3.13.0, {0}/bin/python3.13"),
        ({"python3.11": "3.11.9", "python3.12": "3.12.3", "python3": "3.14.1"}, "Python 3.12.3, {0}/bin/python3.12"),
        ({"python3.11": "3.11.9", "python3.12": "3.12.3-"}, "Python 3.11.9, {0}/bin/python3.11"),
        ({"python3.11": "3.11.9", "python3.13": "''"}, "Python 3.11.9, {0}/bin/python3.11"),  # a shim that does not run
        ({"python": "3.12.3"}, "Python 3.12.3, {0}/bin/python"),
    ],
)
def test_the_newest_that_the_lock_is_for_is_taken_and_said(machine, pythons, taken):
    folder = machine(pythons)
    done = alone(folder)
    assert done.returncode == 0, done.stderr
    assert taken.format(folder) + ", the newest of 3.11 to 3.13 with venv here" in done.stderr
    assert alone(folder).stderr == ""  # nothing to do


def test_the_one_that_is_asked_for_is_taken_and_replaces_that_of_an_older_environment(machine):
    folder = machine({"python3.11": "3.11.9", "python3.12": "3.12.3", "python3.13": "3.13.0"})
    for asked in ("python3.11", f"{folder}/bin/python3.12"):
        done = alone(folder, asked)
        assert done.returncode == 0, done.stderr
        assert f"{folder}/bin/{asked.rpartition('/')[2]}, as EDGEVEIL_PYTHON says" in done.stderr
        assert alone(folder, asked).stderr == ""
    assert alone(folder).stderr == ""  # an environment that is there keeps its Python
    (folder / ".venv/lock.sha256").write_text("older")
    assert "Python 3.12.3, that of .venv" in alone(folder).stderr


@pytest.mark.parametrize(
    ("pythons", "asked", "said"),
    [
        ({"python3": "''"}, "", "found: none. Install"),
        ({}, "", "CPython 3.11, 3.12 or 3.13 was expected on PATH; found: none. Install one (Debian 12 and 13,"),
        (
            {"python3.10": "3.10.12", "python3": "3.10.12"},
            "",
            "found: 3.10.12 {0}/bin/python3. Install one (Debian 12 and 13, Ubuntu 24.04: apt-get install python3 pyth",
        ),
        ({"python3": "3.14.1", "python": "3.9.2"}, "", "found: 3.14.1 {0}/bin/python3, 3.9.2 {0}/bin/python. Install"),
        (
            {"python3.12": "3.12.3-", "python3": "3.12.3-"},
            "",
            "Python 3.12.3 {0}/bin/python3.12 has no venv module. Install it (Debian, Ubuntu: apt-get install "
            "python3.12-venv) and run this again.",
        ),
        ({"python3.12": "3.12.3"}, "python9", "EDGEVEIL_PYTHON must name CPython 3.11, 3.12 or 3.13; python9 is none"),
        ({"python3.12": "3.12.3", "old": "3.10.1"}, "old", "old is 3.10.1 {0}/bin/old. Name another, or leave it out"),
        ({"python3.12": "3.12.3", "own": "3.13.0-"}, "own", "Python 3.13.0 {0}/bin/own has no venv module. Install"),
    ],
)
def test_without_one_it_says_what_is_here_and_what_to_install(machine, pythons, asked, said):
    folder = machine(pythons)
    done = alone(folder, asked)
    assert done.returncode == 4
    assert (done.stderr[:7], done.stderr.count("\n")) == ("error: ", 1)
    assert said.format(folder) in done.stderr
    assert not (folder / ".venv").exists()
