"""The commands that make environments and boards start, from any folder, and refuse what they do not know."""

import hashlib
import os
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT

COMMANDS = {
    "pythons": [sys.executable, "-m", "scripts.environments.pythons"],
    "lock_pythons": [sys.executable, "-m", "scripts.environments.lock_pythons"],
    "emulated_device": [sys.executable, str(ROOT / "scripts/emulated_device")],
}


def run(command, *words, **environment):
    return subprocess.run(
        [*command, *words], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_it_says_how_it_is_used_and_what_it_does_not_know(name):
    done = run(COMMANDS[name], "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"usage: {name}" in done.stdout
    done = run(COMMANDS[name], "nope")
    assert done.returncode == 2
    assert "nope" in done.stderr


def test_the_bench_environment_is_that_of_the_lock(tmp_path):
    """An environment of the lock that is there is left alone: so the script finds the lock from wherever it is run."""
    folder = tmp_path / "bench"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(sys.executable)
    want = hashlib.sha256((ROOT / "requirements/bench.txt").read_bytes()).hexdigest()
    (folder / "lock.sha256").write_text(want + "\n")
    command = [str(ROOT / "scripts/environments/bench")]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "EDGEVEIL_VENVS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "bin/python").is_symlink()
