"""scripts/environment with a pip of our own: its words are seen where it fails, and nowhere else."""

import os
import shutil
import subprocess

import pytest

from tests.support.checkout import ROOT

PIP = """#!/bin/sh
echo "WARNING: Location '/mirror' is ignored"
echo "ERROR: no space left on device" >&2
exit {code}
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder with what the script reads, and a ``.venv`` whose Python does nothing but end with ``code``."""
    for name in ("requirements/workstation.txt", "pyproject.toml", "setup.py", "scripts/environment"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def make(code):
        python = tmp_path / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(PIP.format(code=code))
        python.chmod(0o755)
        return tmp_path

    return make


def run(folder):
    return subprocess.run([folder / "scripts/environment"], capture_output=True, text=True, env=dict(os.environ))


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
