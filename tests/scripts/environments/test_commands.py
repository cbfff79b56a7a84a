"""The commands that make environments and boards start, from any folder, and refuse what they do not know."""

import hashlib
import os
import shutil
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


@pytest.mark.parametrize("name", ["bench", "oracles"])
def test_an_environment_is_that_of_its_lock(tmp_path, name):
    """An environment of the lock that is there is left alone: so the script finds the lock from wherever it is run."""
    folder = tmp_path / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(sys.executable)
    want = hashlib.sha256((ROOT / f"requirements/{name}.txt").read_bytes()).hexdigest()
    (folder / "lock.sha256").write_text(want + "\n")
    command = [str(ROOT / "scripts/environments" / name)]
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


@pytest.mark.parametrize("there", [True, False])
def test_the_bench_environment_is_of_python_3_11_whatever_venv_has(tmp_path, there):
    for name in ("scripts/environments/bench", "requirements/bench.txt"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    other, own = tmp_path / ".venv/bin/python", tmp_path / "own"
    other.write_text("#!/bin/sh\nexit 1\n")
    own.write_text('#!/bin/sh\n[ "$2" != venv ] || { mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; }\n')
    for python in (other, own):
        python.chmod(0o755)
    words = {"PYTHON": str(own if there else other), "EDGEVEIL_VENVS": str(tmp_path / "venvs")}
    command = [str(tmp_path / "scripts/environments/bench")]
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if there else 4), done.stderr
    assert (tmp_path / "venvs/bench/lock.sha256").exists() == there
    assert there or f"Python 3.11 was expected as .venv/bin/python or {other}; " in done.stderr
