"""The real Pythons of boards, each with what its board has installed, built by ``scripts/environments/pythons.py``."""

import importlib.util

import pytest

from tests.support.checkout import ROOT


def _script():
    spec = importlib.util.spec_from_file_location("pythons", ROOT / "scripts/environments/pythons.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pythons = _script()


def python_of(name):
    """The Python of one environment, built where needed; skips loudly where its interpreter is missing."""
    python = pythons.environment(name)
    if python is None:
        pytest.skip(f"NO PYTHON {pythons.ROWS[name][0]} HERE: what boards with it run was not tried")
    return python
