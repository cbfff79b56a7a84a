"""Keys on a token, in a process of their own (``pkcs11_cases``)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import programs

pytestmark = pytest.mark.programs

CASES = Path(__file__).with_name("pkcs11_cases.py")


def test_keys_on_a_token():
    programs.need("softhsm2-util")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
