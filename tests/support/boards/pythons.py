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
    return _there(pythons.environment(name), pythons.ROWS[name][0])


def interpreter_of(version):
    """A real interpreter of a version with nothing installed; skips as ``python_of``."""
    return _there(pythons.interpreter(version), version)


def _there(python, version):
    if python is None:
        pytest.skip(f"NO PYTHON {version} HERE: what boards with it run was not tried")
    return python
