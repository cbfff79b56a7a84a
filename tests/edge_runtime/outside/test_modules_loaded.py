"""What each process has loaded, and how often it verifies its bundle: asked in the processes of a real service."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from edgeveil.edge_runtime.sandbox import isolation
from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, finish
from tests.support.checkout import ROOT

NAME = "edgeveil.edge_runtime."
# Counts signature checks, and writes what was counted and loaded to a pipe: the inside can make no file longer.
REPORT = """
import json, os, sys
os.environ["FAKES_FOLDER"] = {folder!r}  # the inside inherits little
from edgeveil.edge_runtime.signing import ed25519
checks, verify = [], ed25519.verify
def counting(*words):
    checks.append(1)
    return verify(*words)
ed25519.verify = counting
def report(name):
    handle = os.open(os.path.join(os.environ["FAKES_FOLDER"], name), os.O_WRONLY)
    os.write(handle, json.dumps([len(checks), sorted(sys.modules)]).encode())
"""
INSIDE = (
    REPORT
    + """
import copy  # as root: this Python's files may be closed to the user that it becomes
sys.path[:0] = [{root!r}]
from tests.support import live_fakes
live_fakes.install()
"""
)
CHILD = (
    INSIDE
    + """
from edgeveil.edge_runtime.{{}} import main
code = main(sys.argv[1:])
report("inside")
sys.exit(code)
"""
)
OUTSIDE = (
    REPORT
    + """
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime import kinds; kinds.SOURCES.kinds()["fake"] = kinds.SOURCES["npz"]._replace(facts={{}})
from edgeveil.edge_runtime.outside import process_table
process_table.command = lambda module: [sys.executable, "-c", {child!r}.format(module)]
code = main(json.loads(sys.argv[1]))
report("outside")
sys.exit(code)
"""
)
UNIT = (
    INSIDE
    + """
from edgeveil.edge_runtime.cli.main import main
code = main(json.loads(sys.argv[1]))
report("inside")
sys.exit(code)
"""
)


def started(code, words, folder):
    environment = dict(os.environ, FAKES_FOLDER=str(folder), OPENBLAS_NUM_THREADS="1")
    command = [sys.executable, "-c", code, json.dumps([str(word) for word in words])]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module", params=["one service", "two units"])
def reports(request, tmp_path_factory):
    """Name of the process -> how often it checked a signature, and which parts of the runtime it loaded."""
    folder = tmp_path_factory.mktemp("reports")
    made = bundles.make_bundle(folder / "b", example=live_fakes.wide_example())
    pipes = {}
    for name in ("inside", "outside"):
        os.mkfifo(folder / name)
        pipes[name] = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK)
    where = {} if request.param == "one service" else {"inside-at": folder}
    words = arguments(made, "fake:20?fps=50", f"npz:{folder}/out.npz", "preview:0", **where)
    places = {"root": str(ROOT), "folder": str(folder)}
    outside = started(OUTSIDE.format(child=CHILD.format(**places), folder=str(folder)), words, folder)
    processes = [outside]
    if where:
        words = ["inside", made.path, "--trust", made.trust, "--source", "fake:20?fps=50", "--fps", "25"]
        processes.append(started(UNIT.format(**places), [*words, "--inside-at", folder], folder))
    try:
        code, document, events = finish(outside)
        for process in processes[1:]:
            assert process.wait(timeout=10) == 0, process.stderr.read()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert code == 0, events
    assert document["frames_out"] > 0
    found = {}
    for name, pipe in pipes.items():
        with os.fdopen(pipe, "rb") as file:
            checks, modules = json.loads(file.read())
        found[name] = checks, {module[len(NAME) :] for module in modules if module.startswith(NAME)}
    return found


def loaded(reports, process, *packages):
    return {module for module in reports[process][1] if module.partition(".")[0] in packages}


def test_the_outside_has_no_code_that_handles_raw_frames(reports):
    assert loaded(reports, "outside", "outside")
    assert not loaded(reports, "outside", "inside", "pipeline", "backends", "sources", "releases")


def test_the_inside_has_no_code_that_sends(reports):
    assert loaded(reports, "inside", "pipeline")
    assert not loaded(reports, "inside", "outside", "sinks", "releases", "bench")


def test_each_process_checks_the_signature_once(reports):
    assert {name: checks for name, (checks, _) in reports.items()} == {"inside": 1, "outside": 1}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
def test_the_inside_runs_as_a_user_of_its_own():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        os.mkfifo(folder / "inside")
        (folder / "inside").chmod(0o666)  # for that user to report
        pipe = os.open(folder / "inside", os.O_RDONLY | os.O_NONBLOCK)
        made = bundles.make_bundle(folder / "b", example=live_fakes.wide_example())
        ask = REPORT.replace("[len(checks), sorted(sys.modules)]", "[os.getresuid(), os.getresgid(), os.getgroups()]")
        child = CHILD.replace(REPORT, ask).format(root=str(ROOT), folder=str(folder))
        code = OUTSIDE.replace('report("outside")', "").format(child=child, folder=str(folder))
        words = arguments(made, "fake:20?fps=50", f"npz:{folder}/out.npz", **{"inside-user": "nobody"})
        code, document, events = finish(started(code, words, folder))
        assert code == 0, events
        assert document["frames_out"] > 0
        with os.fdopen(pipe, "rb") as file:
            users, groups, further = json.loads(file.read())
    (ready,) = (event for event in events if event["event"] == "ready")
    assert isolation.FILTER in ready["isolation"]
    assert len(set(users)) == len(set(groups)) == 1
    assert users[0] != 0
    assert 0 not in [*groups, *further]


@pytest.mark.parametrize(
    ("user", "more", "problem"),
    [
        ("nobody-is-called-so", {}, "useradd"),
        ("root", {}, "other than root"),
        ("nobody", {"inside-at": "/tmp"}, "expected --inside-at or --inside-user"),  # noqa: S108 - nothing is made there
    ],
)
def test_a_user_that_cannot_be_is_refused(tmp_path, user, more, problem):
    if os.geteuid() != 0:
        user, problem = "nobody", problem if more else "only root"
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    words = arguments(made, "wifi:0", f"npz:{tmp_path}/out.npz", **{"inside-user": user, **more})
    process = started(
        "import json, sys; from edgeveil.edge_runtime.cli.main import main; sys.exit(main(json.loads(sys.argv[1])))",
        words,
        tmp_path,
    )
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert problem in said
