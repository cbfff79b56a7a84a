"""What every test shares: quiet TensorFlow, the helper modules beside the tests, and the real data sets."""

import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
import typer.main

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as load_tensorflow does, wherever a test begins
sys.path.insert(0, str(Path(__file__).parents[1]))
from edgeveil.edge_runtime.signing import ed25519
from tests.support import machine_identifier, once, programs, seeds

ASKED: set[Path] = set()
LEFT_OUT = pytest.StashKey[int]()
LONG = ("tests/scripts/test_demo.py", "tests/test_packaging.py", "tests/test_docs.py", "tests/walk/")
seeds.move()
# To build the tree of commands takes fifty times as long as to read a line by it, and it is the same each time.
typer.main.get_command = functools.cache(typer.main.get_command)
# Nothing of a test must outlast a power cut. What reaches a disk, and when, is asked of one that writes down what it is
# told (tests/support/boards/power_cut.py), and processes that tests start wait for the real one.
os.fsync = lambda _handle: None
# A signature that was verified once is not verified a thousand times: that is slow, and the answer always the same.
ed25519.verify = functools.lru_cache(4096)(ed25519.verify)
# A shell starts what it runs in the background with Ctrl-C ignored, and children inherit that; some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def identifier_of_this_machine(tmp_path_factory):
    machine_identifier.make(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module", autouse=True)
def looks_of_a_module(tmp_path_factory):
    """Audits of one module charge none of another."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets named by EDGEVEIL_DATA; tests that need it are skipped where it is absent."""
    folder = os.environ.get("EDGEVEIL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("EDGEVEIL_DATA does not name a folder: tests on real data sets are not run here")
    return Path(folder).resolve()


def pytest_configure(config):
    """A folder for what the workers of this session share; they inherit its name."""
    if not hasattr(config, "workerinput"):
        os.environ[once.FOLDER] = tempfile.mkdtemp(prefix="edgeveil-tests-")
        os.environ["XDG_CACHE_HOME"] = str(Path(os.environ[once.FOLDER], "cache"))


def pytest_collection_finish():
    """What was imported stays: to walk through it again and again takes a quarter of the time of a small training."""
    gc.freeze()
    gc.set_threshold(20_000, 25, 25)


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[once.FOLDER], ignore_errors=True)


def pytest_addoption(parser):
    parser.addoption("--nightly", action="store_true", help="run the tests marked nightly, and these alone")


def pytest_collection_modifyitems(config, items):
    """Nightly tests or the others, but what is named by itself stays; in an order that keeps two workers busy."""
    nightly = config.getoption("nightly")
    kept, left = [], []
    for item in items:
        (kept if (item.get_closest_marker("nightly") is not None) == nightly else left).append(item)
    if left and not any("::" in word for word in config.args):
        config.hook.pytest_deselected(items=left)
        items[:] = kept
        config.sorted_by_night = tuple({item.nodeid for item in of} for of in (kept, left))
        config.stash[LEFT_OUT] = 0 if nightly else len(left)
    # Long files begin early, the first that which makes the demo, for which others wait. Then one that computes between
    # those that wait, so that two workers seldom do the same; the last are short ones.
    for name in reversed(LONG):
        items.sort(key=lambda item: not item.nodeid.startswith(name))
    first = ("tests/scripts/", "tests/walk/", "tests/trainer/")
    computes = {item.path: item.nodeid.startswith(first) for item in items}
    kinds = [(end, [path for path in computes if computes[path] is kind]) for end, kind in ((0.9, True), (1.0, False))]
    place = {path: end * number / len(kind) for end, kind in kinds for number, path in enumerate(kind)}
    items.sort(key=lambda item: place[item.path])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """A worker hands its number to the process that writes the summary; all workers collect the same."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["nightly"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("nightly", 0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """A test marked ``programs`` has none of them until it, or what its file shares, asks (``programs.need``)."""
    programs.marked = item.get_closest_marker("programs") is not None
    programs.asked = False
    whole = any(item.get_closest_marker(name) for name in ("pythons", "slow")) or item.path in ASKED
    programs.hide(programs.marked and not whole)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item):
    if programs.asked:  # by a fixture: the file's other tests may have it too
        ASKED.add(item.path)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter, config):
    """After pytest's own lists, and before its closing line: what was not tried, for want of programs or of a night."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    line = programs.summary(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple))
    if line:
        terminalreporter.write_line(line)
    if left_out := config.stash.get(LEFT_OUT, 0):
        tests = "1 nightly test was" if left_out == 1 else f"{left_out} nightly tests were"
        terminalreporter.write_line(f"{tests} left out: scripts/test --nightly")
