"""What is left to the night: it is left out by day, the summary counts it, and no guard waits for it."""

import ast
import os
import subprocess
import sys

import pytest

from scripts.measure.guards import read_guards
from tests.support.checkout import ROOT

# Files with the marker, but for the one that registers it and this one.
MARKED = [
    path
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    if "nightly" in path.read_text() and path.name != "test_nightly.py"
]
A_FEW = """
import pytest
def test_always(): pass
@pytest.mark.nightly
def test_at_night(): pass
@pytest.mark.parametrize("case", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_one_case_at_night(case): pass
"""


TELLS = """
def pytest_deselected(items):
    print(*(f"left out: {item.nodeid}" for item in items), sep="\\n")
"""


def collected(config, folder):
    """The tests of the marked files that pytest takes, and those that it leaves out: here, or in a process."""
    names = {str(path.relative_to(ROOT)) for path in MARKED}
    here = [{one for one in of if file_of(one) in names} for of in getattr(config, "sorted_by_night", ())]
    if here and not config.getoption("nightly") and names == set(map(file_of, set().union(*here))):
        return here
    (folder / "tells.py").write_text(TELLS)
    command = [sys.executable, "-m", "pytest", "-p", "tells", "--collect-only", "-q", "-n", "0", *map(str, MARKED)]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    env["PYTHONPATH"] = os.pathsep.join([str(folder), env.get("PYTHONPATH", "")])
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    left = {line.partition(": ")[2] for line in lines if line.startswith("left out: ")}
    return {line for line in lines if line.startswith("tests/")}, left


def functions_at_night(path):
    """The test functions of a file whose decorators, or whose module's marks, name the night."""
    tree = ast.parse(path.read_text())
    whole = any("nightly" in ast.unparse(one) for one in tree.body if isinstance(one, ast.Assign))
    tests = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
    return {
        f"{path.relative_to(ROOT)}::{one.name}"
        for one in tests
        if whole or any("nightly" in ast.unparse(mark) for mark in one.decorator_list)
    }


def named(tests):
    return {test.partition("[")[0] for test in tests}


def file_of(test):
    return test.partition("::")[0]


@pytest.mark.skipif(not MARKED, reason="no test is left to the night")
def test_each_is_left_out_by_day_and_no_test_of_a_guard(request, tmp_path):
    day, night = collected(request.config, tmp_path)
    assert night
    assert day & night == set()
    assert named(night) == set().union(*map(functions_at_night, MARKED))
    waits = {guard["test"] for guard in read_guards()} & named(night) - named(day)
    assert waits == set(), "a guard's test runs by day, or guards.toml names another that does"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_summary_counts_what_is_left_out_and_a_test_named_by_itself_runs(tmp_path, workers):
    (tmp_path / "conftest.py").write_text(
        (ROOT / "tests/conftest.py").read_text().replace("Path(__file__).parents[1]", f"Path({str(ROOT)!r})")
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = nightly: as here\n")
    (tmp_path / "test_it.py").write_text(A_FEW)

    def ran(*words):
        command = [sys.executable, "-m", "pytest", "-n", workers, "-p", "no:cacheprovider", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return done.stdout.splitlines()[-2:]

    line, closing = ran(str(tmp_path))
    assert line == "2 nightly tests were left out: scripts/test --nightly"
    assert "2 passed" in closing
    if workers != "0":
        return  # what else there is does not come from a worker
    line, closing = ran("--nightly", str(tmp_path))
    assert "left out" not in line
    assert "2 passed" in closing
    assert "1 passed" in ran(f"{tmp_path}/test_it.py::test_at_night")[1]
