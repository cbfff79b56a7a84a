"""A secret pattern in every frame, everything that can go wrong, and a search of all that is left or was sent.

With a guard taken away the same search finds the pattern: so it would have been found.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ext.ledger.book import Ledger, create
from edgeveil.edge_runtime.machine import machine_id
from tests.support import bundles, leak_scanner, live_fakes, programs
from tests.support.checkout import ROOT
from tests.support.promised import local_examples

pytestmark = pytest.mark.programs

START = """
import json, sys
sys.path[:0] = {paths!r}
first = {first!r}
exec(first)
from tests.support import live_fakes, machine_identifier
machine_identifier.use()
from edgeveil.edge_runtime import kinds; kinds.SOURCES.kinds()["fake"] = kinds.SOURCES["npz"]._replace(facts={{}})
from edgeveil.edge_runtime.cli import main as cli; from edgeveil.edge_runtime.outside import process_table
process_table.command = lambda module: live_fakes.command(module, "exec({{!r}})".format(first))
sys.exit(cli.main(json.loads(sys.argv[1])))
"""
# A mechanism that hands on its reading once its golden vectors are right.
WITHOUT_NOISE = """
from edgeveil.edge_runtime.pipeline import pipeline
leave = pipeline.Pipeline._end
def as_it_came(self, stages, flow, draws, tracks):
    out, drawn = leave(self, stages, flow, draws, tracks)
    return (dict(out, report=flow[self.input].astype("int8")) if draws is None else out), drawn
pipeline.Pipeline._end = as_it_came
"""
RELEASES = 20  # that a local bundle may make: fewer than there are frames
QUICK = "drop=3&error=6&send=18&say=21&file=24&crash=30"  # none that is waited for
FAULTS = "drop=3&error=6&disconnect=9&stall=12&wrong=15&send=18&say=21&file=24&late=27&crash=30&hang=33"


class Listener:
    """A TCP and a UDP port on this machine; ``heard`` is every byte that came."""

    def __init__(self):
        self.heard = b""
        self.tcp, self.udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.tcp.bind(("127.0.0.1", 0))
        self.udp.bind(self.tcp.getsockname())
        self.tcp.listen()
        self.port = self.tcp.getsockname()[1]
        for work in (self._tcp, self._udp):
            threading.Thread(target=work, daemon=True).start()

    def _tcp(self):
        while True:
            connection, _ = self.tcp.accept()
            while data := connection.recv(1 << 16):
                self.heard += data

    def _udp(self):
        while True:
            self.heard += self.udp.recv(1 << 16)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return bundles.make_bundle(tmp_path_factory.mktemp("wide"), example=live_fakes.wide_example())


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A bundle whose reports promise an epsilon of the whole reading."""
    try:
        machine_id()
    except BadInput as error:
        pytest.skip(str(error))
    manifest, members = local_examples.example("duchi-linf", 1.0, live_fakes.WIDE)
    manifest["spending"]["most_micro_epsilon"] = RELEASES * 10**6
    return bundles.make_bundle(tmp_path_factory.mktemp("local"), example=(manifest, members))


def run(made, folder, faults, first, count=60, more=(), timeout_s=60):
    """Run the service with ``first`` in both processes; returns exit code, all it printed and what a port heard."""
    listener = Listener()
    folder.mkdir(exist_ok=True)
    marks = folder.parent / "marks"
    marks.mkdir(exist_ok=True)
    environment = dict(os.environ, FAKES_FOLDER=str(marks), FAKES_PORT=str(listener.port), TMPDIR=str(folder))
    words = ["run", str(made.path), "--trust", str(made.trust), "--source", f"fake:{count}?fps=60&{faults}"]
    words += ["--sink", f"npz:{folder}/out.npz", "--sink", f"csv:{folder}/out.csv", "--fps", "30"]
    words += ["--health", "off", "--hang-after", "1", "--log", "json", "--json", *more]
    code = START.format(paths=[str(ROOT)], first=first)
    process = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(words)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)[1:] * 2),
    )
    try:
        printed, _ = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    return process.returncode, printed, listener.heard


def both(way, *given):
    """Two services at a time, which wait most of theirs."""
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(way, *words) for words in given]:
            done.result()


def test_the_search_would_find_it(tmp_path):
    for number, form in enumerate(leak_scanner.NEEDLES):
        path = tmp_path / str(number)
        path.write_bytes(b"...." + form + b"....")
        assert leak_scanner.found_in(path.parent)
        path.unlink()
    assert not leak_scanner.found_in(bytes(1000))


def test_no_fault_lets_a_raw_frame_out(wide, tmp_path):
    folder = tmp_path / "out"
    code, printed, heard = run(wide, folder, FAULTS, "", count=120)
    assert code == 0, printed
    assert heard == b""
    assert not leak_scanner.found_in(folder, tmp_path / "marks", printed)
    assert {"out.npz", "out.csv"} == {path.name for path in folder.iterdir() if path.stat().st_size}
    events = [json.loads(line) for line in printed.splitlines() if line.startswith(b'{"')]
    assert {"fault", "inside-ended"} <= {event.get("event") for event in events}  # they did happen
    assert "unreadable" in printed.decode()


def test_no_fault_and_no_spent_budget_lets_a_reading_out_of_a_local_bundle(local, tmp_path):
    """Nor does the ledger hold one, or the lines that say why nothing new leaves."""

    def way(faults, count, first):
        everything = tmp_path / str(count)
        everything.mkdir()
        create(str(everything / "ledger"))
        words = ("--ledger", str(everything / "ledger"))
        code, printed, heard = run(local, everything / "out", faults, first, count=count, more=words)
        assert code == 0, printed
        assert Ledger(words[1]).book().lifetime == RELEASES * 10**6
        assert b"budget-spent" in printed
        assert heard == b""
        assert leak_scanner.found_in(everything, printed) == (first == WITHOUT_NOISE)

    both(way, (QUICK, 120, ""), ("", 60, WITHOUT_NOISE))


@pytest.mark.slow
@pytest.mark.parametrize("guard", leak_scanner.GUARDS)
def test_each_guard_is_one(wide, tmp_path, guard):
    faults, bug = leak_scanner.AGAINST[guard]

    def way(with_it):
        folder = tmp_path / str(with_it) / "out"
        folder.parent.mkdir()
        first = leak_scanner.BUGS[bug] + ("" if with_it else leak_scanner.GUARDS[guard])
        code, printed, heard = run(wide, folder, faults, first, count=30)
        leaked = leak_scanner.found_in(folder, folder.parent / "marks", printed, heard)
        assert leaked is not with_it, (code, printed)

    # With all guards, and no bug, the same faults are among those of test_no_fault_lets_a_raw_frame_out.
    both(way, *[(True,)] * bool(bug), (False,))


def test_golden_vectors_that_fail_leave_nothing_behind(wide, tmp_path):
    first = (
        "from edgeveil.edge_runtime import errors; from edgeveil.edge_runtime.pipeline import perturber\n"
        "def fails(self):\n    raise errors.PrivacyStop('the golden self-test failed')\n"
        "perturber.Perturber.recheck = fails\n"
    )
    code, printed, _ = run(wide, tmp_path / "out", "", first, count=0, more=("--recheck", "0.3"))
    assert code == 70, printed
    assert b"golden" in printed
    assert list((tmp_path / "out").iterdir()) == []


def test_strace_sees_no_socket_inside(wide, tmp_path):
    trace, strace = tmp_path / "trace", programs.need("strace")
    first = (
        "from edgeveil.edge_runtime.outside import process_table\nfrom tests.support import live_fakes\n"
        f"real = live_fakes.command\nlive_fakes.command = lambda module, first='': "
        f"[{strace!r}, '-f', '-qq', '-e', 'trace=network,io_uring_setup,execve', '-o', {str(trace)!r}] + real(module)\n"
    )
    code, printed, _ = run(wide, tmp_path / "out", "", first, count=20)
    assert code == 0, printed
    calls = trace.read_text()
    assert "execve(" in calls
    assert "socket" not in calls, calls
    assert "connect(" not in calls
    assert "io_uring_setup(" not in calls
