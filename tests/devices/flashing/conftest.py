"""What the tests on the virtual board share: the command line, and that they are asked for."""

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def edgeveil():
    """Runs ``edgeveil``, which has to end with ``code``; returns what it printed, or the last line of its error.

    Only where the virtual board is asked for: it takes minutes.
    """
    if "EDGEVEIL_VIRTUAL_BOARD" not in os.environ:
        pytest.skip("THE VIRTUAL BOARD WAS NOT BOOTED: it takes minutes; set EDGEVEIL_VIRTUAL_BOARD=1 for it")

    def run(*arguments, code=0):
        command = [sys.executable, "-m", "edgeveil.trainer.cli.main", *(str(a) for a in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr[-3000:]
        return done.stderr.strip().splitlines()[-1] if code in (2, 4) else done.stdout

    return run
