"""The real Pythons of boards, each with what its board has installed, built by ``scripts/environments/pythons.py``."""

import importlib.util

import pytest

from tests.support.checkout import ROOT

# Commands one after another in one process, as a board's are in several: a start takes longer than they do. Its words
# are the runtime's zipapp and the commands as JSON; it prints exit code, standard output and standard error of each.
COMMANDS = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from edgeveil.edge_runtime.cli.main import main
done = []
for words in json.loads(sys.argv[2]):
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        done.append([main(words)])
    done[-1] += [out.getvalue(), said.getvalue()]
print(json.dumps(done))
"""


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
