"""Two units: an inside that somebody else starts, and starts again, while the ticks go on."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.board_state import State, write_state
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc import pipes
from edgeveil.edge_runtime.ipc.counters import NICE
from edgeveil.edge_runtime.ipc.pipes import make_pipe
from edgeveil.edge_runtime.sandbox import landlock
from edgeveil.edge_runtime.util.filesystem import Filesystem
from tests.support import bundles, leak_scanner, live_fakes
from tests.support.broker_services import arguments, finish, start
from tests.support.checkout import ROOT

INSIDE = """
import json, sys
sys.path[:0] = {paths!r}
from tests.support import live_fakes
live_fakes.install()
{first}
from edgeveil.edge_runtime.cli import main as cli
sys.exit(cli.main(json.loads(sys.argv[1])))
"""


def start_inside(made, folder, source, first="", **more):
    words = ["inside", str(made.path), "--trust", str(made.trust), "--source", source, "--fps", "25"]
    code = INSIDE.format(paths=[str(ROOT)], first=first)
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", FAKES_FOLDER=str(folder))
    command = [sys.executable, "-c", code, json.dumps([*words, "--inside-at", str(folder)])]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_an_inside_with_another_sensor_than_its_bundle_ends_before_it_is_ready(tmp_path):
    def for_wifi(manifest, _members):
        manifest["input"]["sensor"] = "wifi"

    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example(), change=for_wifi)
    outside = start(arguments(made, "wifi:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path}), tmp_path)
    inside = start_inside(made, tmp_path, "simulate:depth")
    try:
        assert inside.wait(20) == 2
        for line in outside.stderr:
            if "gives depth pictures" in line:
                break
            assert '"event": "ready"' not in line
        else:
            raise AssertionError("the outside was told nothing")
    finally:
        inside.kill()
        outside.kill()


def test_an_inside_of_its_own_unit_may_end_and_come_back(tmp_path):
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    words = arguments(made, "fake:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path})
    # The first inside is there before the outside, as where one manager starts both.
    insides = [start_inside(made, tmp_path, "fake:0?fps=50")]
    outside = start(words, tmp_path)
    try:
        for count, number in ((0, signal.SIGKILL), (40, None)):
            if count:
                insides.append(start_inside(made, tmp_path, f"fake:{count}?fps=50"))
            for line in outside.stderr:
                if '"event": "source"' in line:
                    break
            if number:
                insides[-1].send_signal(number)
                insides[-1].wait()
        code, document, events = finish(outside)
        assert insides[-1].wait(timeout=10) == 0, insides[-1].stderr.read()
    finally:
        for process in [outside, *insides]:
            process.kill()
            process.communicate()
    assert code == 0, events
    assert document["frames_in"] >= 40
    assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
    with np.load(tmp_path / "out.npz") as out:
        assert out["index"].tolist() == list(range(len(out["index"])))
    assert stat.S_IMODE((tmp_path / "records").stat().st_mode) == 0o660


def test_what_a_library_prints_of_a_frame_goes_nowhere_whatever_the_manager_does_with_what_is_printed(tmp_path):
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    words = arguments(made, "fake:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path})
    outside, inside = start(words, tmp_path), start_inside(made, tmp_path, "fake:30?fps=50&say=5&say=20")
    try:
        code, document, events = finish(outside)
        printed = "".join(inside.communicate(timeout=10))
    finally:
        outside.kill()
        inside.kill()
    assert code == 0, events
    assert document["frames_in"] == 30
    assert not leak_scanner.found_in(printed.encode())


def test_a_manager_that_set_its_priority_may_forbid_to_change_it(tmp_path):
    """As a unit does that sets Nice= and refuses @resources."""
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    words = arguments(made, "fake:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path})
    forbidden = "import os\ndef refuse(*_): raise PermissionError(1, 'Operation not permitted')\nos.nice = refuse"
    before = start_inside(made, tmp_path, "fake:10?fps=50", forbidden)
    assert before.wait(timeout=60) == 70, "without one of its own, it goes behind the outside or not at all"
    assert "PermissionError" in before.stderr.read()
    outside = start(words, tmp_path)
    assert any('"event": "start"' in line for line in outside.stderr)
    inside = start_inside(made, tmp_path, "fake:10?fps=50", forbidden, preexec_fn=lambda: os.nice(NICE))
    try:
        code, document, events = finish(outside)
        assert inside.wait(timeout=10) == 0, inside.stderr.read()
    finally:
        for process in (outside, inside):
            process.kill()
            process.communicate()
    assert (code, document["frames_in"]) == (0, 10), events


@pytest.mark.parametrize(("floor", "ends_with"), [(1, 0), (9, 2)])
def test_on_a_board_it_reads_the_floor_behind_its_walls(tmp_path, floor, ends_with):
    made = bundles.make_bundle(tmp_path / "board", example=bundles.numpy_example())
    (tmp_path / "board/releases").mkdir()
    write_state(Filesystem(), str(tmp_path / "board"), State(floor=1))
    np.savez(tmp_path / "in.npz", x=np.zeros((3, 4), np.uint8))
    words = arguments(made, "fake:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path})
    outside = start(words, tmp_path)
    assert any('"event": "start"' in line for line in outside.stderr)
    write_state(Filesystem(), str(tmp_path / "board"), State(floor=floor))  # the outside has read it
    inside = start_inside(made, tmp_path, f"npz:{tmp_path}/in.npz")
    try:
        assert inside.wait(timeout=60) == ends_with, inside.stderr.read()
        isolated = [line for line in outside.stderr if '"event": "ready"' in line] if ends_with == 0 else []
    finally:
        for process in (outside, inside):
            process.kill()
            process.communicate()
    if landlock.version() and ends_with == 0:
        assert "Landlock" in isolated[0]


def test_why_it_ended_stands_in_the_log_of_the_outside(tmp_path):
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    outside = start(arguments(made, "fake:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path}), tmp_path)
    inside = start_inside(made, tmp_path, f"npz:{tmp_path}/none.npz")
    try:
        assert inside.wait(timeout=60) == 2
        ended = next(json.loads(line) for line in outside.stderr if '"event": "inside-ended"' in line)
    finally:
        for process in (outside, inside):
            process.kill()
            process.communicate()
    assert "none.npz" in ended["message"]


def test_a_service_that_is_stopped_before_it_runs_says_so(tmp_path):
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    words = arguments(made, "fake:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path})
    words.remove("--json")
    outside = start(words, tmp_path)
    assert any('"event": "start"' in line for line in outside.stderr)
    outside.send_signal(signal.SIGTERM)
    said, _ = outside.communicate(timeout=30)
    assert (outside.returncode, said.partition(",")[0]) == (0, "0 frames in")


def test_where_nobody_is_or_something_else_it_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pipes, "PATIENCE_S", 0.3)
    made = bundles.make_bundle(tmp_path / "b")
    words = ["inside", str(made.path), "--trust", str(made.trust), "--source", "simulate:depth"]
    assert main.main([*words, "--inside-at", str(tmp_path)]) == 2
    assert "Start it first" in capsys.readouterr().err
    assert main.main(words) == 2
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="something else"):
        make_pipe(str(tmp_path / "file"))


UNPRIVILEGED = """
from edgeveil.edge_runtime import kinds; from edgeveil.edge_runtime.outside import service
from edgeveil.edge_runtime.sinks import tcp
import configparser, os, queue, socket, ssl, stringprep, traceback, encodings.idna
for each in (kinds.SINKS, kinds.SOURCES, kinds.BACKENDS): each.kinds(), each.plugins()
os.setgroups([]); os.setgid(60001); os.setuid(60001)
"""


def rights(process):
    """User, effective capabilities, no_new_privs and seccomp mode of a process."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return lines["Uid"].split()[1], int(lines["CapEff"], 16), lines["NoNewPrivs"].strip(), lines["Seccomp"].strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT starts them as an init does")
def test_without_systemd_the_process_with_the_network_is_not_root_nor_the_one_with_the_camera():
    """As in docs/how-to/flash-a-board.md: init starts the inside as root, and the outside as a user of its own."""
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as receiver:
        folder = Path(name)
        folder.chmod(0o755)
        made = bundles.make_bundle(folder / "b", example=live_fakes.wide_example())
        for path in [folder / "b", *(folder / "b").rglob("*")]:
            path.chmod(0o755)
        meeting = folder / "run"
        meeting.mkdir()
        os.chown(meeting, 60001, 60001)
        words = arguments(made, "fake:0", f"tcp://127.0.0.1:{receiver.getsockname()[1]}", **{"inside-at": meeting})
        receiver.settimeout(60)
        outside, inside = start(words, meeting, UNPRIVILEGED), start_inside(made, meeting, "fake:0?fps=50")
        try:
            link = receiver.accept()[0]
            link.settimeout(60)
            assert len(link.recv(64)) > 0
            assert rights(outside.pid)[:3] == ("60001", 0, "1")
            assert rights(inside.pid) == ("65534", 0, "1", "2")
        finally:
            for process in (outside, inside):
                process.kill()
                process.communicate()
