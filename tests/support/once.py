"""What several files of tests read and is slow to make: made once in a session, by the worker that comes first.

A test that changes it works on a copy. And of cases that show one rule, those that wait for the night.
"""

import fcntl
import json
import os
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest

FOLDER = "EDGEVEIL_TEST_SESSION"  # the variable that names the session's folder, which tests/conftest.py sets


def demo():
    """(folder, completed process) of scripts/demo, ``--quick`` and with short audits, without a terminal.

    Its runs ``prgan`` and ``run`` (a codebook) are of seed 0 whatever ``EDGEVEIL_TEST_SEED`` is.
    """
    out = made("demo", _demo) / "out"
    return out, CompletedProcess(*json.loads((out.parent / "said.json").read_text()))


def copied(run, out):
    """A copy of a run in the folder ``out``; what an audit kept of the run is not of the copy."""
    return shutil.copytree(run, out)


def nightly_but(cases, *by_day):
    """``cases`` for ``parametrize``, those that are not in ``by_day`` marked ``nightly``; a tuple is several values."""
    assert set(by_day) <= set(cases), "a case of the day that is none"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=() if case in by_day else pytest.mark.nightly
        )
        for case in cases
    ]


def made(name, make) -> Path:
    """The folder that ``make(folder)`` fills once for all workers; ``name`` says all that it depends on."""
    base = Path(os.environ[FOLDER])
    folder = base / name
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / f"{name}.done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (base / f"{name}.done").touch()
    return folder


def _demo(folder):
    from tests.support.output import command

    audit = ("-m", "tests.support.trial.short_audit", "-m", "edgeveil.trainer.cli.main")
    done = command(*audit, "demo", "--quick", "--out", folder / "out")
    (folder / "said.json").write_text(json.dumps(["demo", done.returncode, done.stdout, done.stderr]))
