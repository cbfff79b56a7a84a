"""A fleet: the first board alone, then several, a limit of failures, gone on with; on real sshds."""

import contextlib
import json
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from edgeveil.devices import fleet
from edgeveil.devices.fleet import DONE, clock_text, exit_code, index_text, roll_out, spent_text
from edgeveil.devices.site import load
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from tests.support import bundles, output
from tests.support.boards import owners, sshd

pytestmark = pytest.mark.programs


@pytest.fixture
def hall(tmp_path):
    """Three boards, each with a home and an sshd of its own, and a bundle; ``hall.toml`` names them."""
    made, second = owners.bundle(tmp_path), bundles.numpy_example()
    second[0]["name"] = "second"
    owners.bundle(tmp_path, "second.veil", example=second)
    owners.trust(tmp_path)
    text = 'parallel = 1\n[all]\nprofile = "workstation"\ntrust = "root"\nservice = false\nframes = 2\n'
    with contextlib.ExitStack() as servers:
        for name in ("one", "two", "three"):
            folder = tmp_path / name
            (folder / "opt").mkdir(parents=True)
            up = servers.enter_context(sshd.running(folder))
            text += f'[board.{name}]\naddress = "{up.target}"\nroot = "{folder / "opt"}"\n'
            text += f'identity = "{name}/user"\nknown_hosts = "{name}/known_hosts"\n'
        (tmp_path / "hall.toml").write_text(text)
        yield made.path


@pytest.fixture
def edgeveil(tmp_path, capfd, monkeypatch):
    """Runs ``edgeveil fleet hall.toml``; returns its exit code, the boards' states by ``--json``, and what it said."""
    owners.few_interpreters(monkeypatch)
    command = output.in_process(monkeypatch, capfd)

    def run(*words):
        code, out, said = command("fleet", tmp_path / "hall.toml", *words, "--json")
        found = {row["board"]: row["state"] for row in json.loads(out)["boards"]} if out else {}
        return code, found, SimpleNamespace(out=out, err=said)

    return run


def boards(count, folder):
    text = "".join(f'[board.b{n}]\naddress = "pi@b{n}"\n' for n in range(count))
    (folder / "boards.toml").write_text(text)
    return load(folder / "boards.toml").boards


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ([], (False, False)),
        (["--accept", "again"], (True, False)),
        (["--accept", "leak"], (False, True)),
        (["--again"], (True, False)),  # as before 0.3
    ],
)
def test_what_a_flash_of_all_accepts_is_accepted_on_each_board(edgeveil, tmp_path, monkeypatch, words, accepted):
    wanted = []

    def flash_target(*_, **given):
        wanted.append(given["wanted"])
        raise BadInput("enough")

    monkeypatch.setattr(fleet, "flash_target", flash_target)
    bundle = owners.bundle(tmp_path).path
    owners.trust(tmp_path)
    every = '[all]\nprofile = "workstation"\ntrust = "root"\n'
    (tmp_path / "hall.toml").write_text(f'{every}[board.one]\naddress = "pi@one"\n[board.two]\naddress = "pi@two"\n')
    edgeveil("flash", bundle, "--dry-run", *words)
    assert [(one.again, one.accept_leak) for one in wanted] == [accepted] * 2


def test_the_first_goes_alone_and_then_so_many_at_a_time(tmp_path):
    lock, under_way, most, order = threading.Lock(), set(), [], []

    def work(board, say):
        with lock:
            under_way.add(board.name)
            most.append(len(under_way))
            order.append(board.name)
        time.sleep(0.05)
        with lock:
            under_way.discard(board.name)
        return DONE, "well"

    outcomes = roll_out(boards(9, tmp_path), work, parallel=3, most_failures=0)
    assert [outcome.state for outcome in outcomes] == [DONE] * 9
    assert (order[0], most[0], most[1]) == ("b0", 1, 1)
    assert max(most) == 3
    assert exit_code(outcomes) == 0


@pytest.mark.parametrize(("failing", "limit", "tried"), [({0}, 9, 1), ({2}, 0, 3), ({2, 4}, 1, 5), ({2, 4}, 2, 8)])
def test_too_many_failures_stop_it(tmp_path, failing, limit, tried):
    seen, kept = [], []

    def work(board, say):
        seen.append(board.name)
        if int(board.name[1:]) in failing:
            raise DeviceFailed("the plug was pulled")
        return DONE, "well"

    outcomes = roll_out(boards(8, tmp_path), work, parallel=1, most_failures=limit, keep=kept.append)
    assert len(seen) == len(kept) == tried
    assert [outcome.state for outcome in outcomes[tried:]] == ["not tried"] * (8 - tried)
    assert exit_code(outcomes) == 4


def test_boards_that_only_refuse_are_the_users_to_mend(tmp_path):
    def work(board, say):
        raise BadInput("no space")

    assert exit_code(roll_out(boards(2, tmp_path), work, parallel=1, most_failures=9)) == 2


def test_a_slip_of_ours_is_raised_and_begins_nothing_else(tmp_path):
    def work(board, say):
        if board.name == "b1":
            raise ZeroDivisionError
        return DONE, "well"

    with pytest.raises(ZeroDivisionError):
        roll_out(boards(4, tmp_path), work, parallel=1, most_failures=9)


def test_ctrl_c_begins_no_other_and_finishes_those_under_way(tmp_path):
    begun, kept = [], []

    def work(board, say):
        begun.append(board.name)
        time.sleep(0.2)
        if board.name == "b2":
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.6)
        return DONE, "well"

    with pytest.raises(KeyboardInterrupt):
        roll_out(boards(9, tmp_path), work, parallel=2, most_failures=9, keep=kept.append)
    assert len(begun) <= 4
    assert {outcome.board for outcome in kept} == set(begun)


@pytest.mark.nightly  # by day each step of it above, and a real sshd: flashing/test_flash_ssh.py
@pytest.mark.parametrize("second", [False, True])
def test_real_boards_one_of_which_is_off_then_gone_on_with_asked_and_taken_back(hall, edgeveil, tmp_path, second):
    def runs():
        return [(tmp_path / name / "opt/current").exists() for name in ("one", "two", "three")]

    code, found, out = edgeveil("flash", hall, "--dry-run")
    assert (code, found) == (0, {"one": "would", "two": "would", "three": "would"}), out.err
    assert runs() == [False, False, False]
    assert not (tmp_path / "hall.state.json").exists()
    code, _, out = edgeveil("rollback")
    assert (code, "Nothing was flashed" in out.err) == (2, True)

    hosts = tmp_path / "two/known_hosts"
    known = hosts.read_text()
    hosts.write_text("")  # nobody knows who is at the other end
    code, found, out = edgeveil("flash", hall)
    assert (code, found) == (2, {"one": "done", "two": "refused", "three": "not tried"}), out.err
    assert runs() == [True, False, False]
    assert "1 of 3 boards well, 1 not tried" in out.err
    assert "one: done: runs" in out.err
    kept = json.loads((tmp_path / "hall.state.json").read_text())["boards"]
    assert {name: row["state"] for name, row in kept.items()} == {"one": "done", "two": "refused"}

    hosts.write_text(known)
    code, found, out = edgeveil("flash", hall)
    assert (code, found) == (0, {"one": "already", "two": "done", "three": "done"}), out.err
    assert ": 1 of 3 boards are done." in out.err
    assert runs() == [True, True, True]

    code, found, out = edgeveil("status")
    assert (code, set(found.values())) == (0, {"done"})
    assert out.out.count("runs numpy-example") == 3
    assert out.out.count("no index for 0 days") == 3
    code, found, out = edgeveil("rollback")
    assert (code, found["one"]) == (2, "refused"), "there is no release before the first"
    assert set(found.values()) == {"refused", "not tried"}
    if not second:
        return

    code, found, out = edgeveil("flash", tmp_path / "second.veil")
    assert (code, set(found.values())) == (0, {"done"}), out.err
    before = (tmp_path / "three/opt/previous").resolve().name
    there = load(tmp_path / "hall.toml").boards[1]
    with there.connection.open(there.address) as two:
        two.rollback()
    code, found, out = edgeveil("rollback")
    assert (code, found) == (0, {"one": "done", "two": "already", "three": "done"}), out.err
    assert {(tmp_path / name / "opt/current").resolve().name for name in ("one", "two", "three")} == {before}


def test_a_fleets_status_says_how_old_each_index_is():
    index = {"name": "hall", "version": 7, "age_s": 12 * 86400 + 5}
    assert index_text(index) == ", index 7 since 12 days"
    assert index_text({"name": "", "version": 0, "age_s": 3 * 86400}) == ", no index for 3 days"
    assert index_text(None) == ""


def test_a_fleets_status_says_what_all_services_of_a_board_told_of_one_person():
    two = [{"service": "edgeveil", "epsilon": 3.0}, {"service": "edgeveil-hall", "epsilon": 4.0}]
    spent = {"services": two, "epsilon": 7.0, "uncounted": []}
    assert spent_text(spent).startswith(", epsilon 7 of one person at most before all cameras (edgeveil 3,")
    assert spent_text({"services": [], "epsilon": 0, "uncounted": ["edgeveil"]}) == ""
    assert spent_text(None) == "", "a runtime of before says nothing of it"
    assert [clock_text(one) for one in ("not synchronised", "unknown", "synchronised", None)] == [
        ", clock not synchronised",
        ", clock unknown",
        "",
        "",
    ]


class Asked:
    """A board that answers with its document."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        if self.name == "b2":
            raise DeviceFailed("no route")
        return self

    def __exit__(self, *_):
        pass


def test_rows_of_a_page_have_what_fleet_status_asks(tmp_path, monkeypatch):
    service = {"units": {"edgeveil.service": "active"}, "ready": "ok"}
    figures = {"frames_out": 1200, "dropped": 7, "temperature_c": 51.5, "receivers_away": 1, "else": 1, "tick_s": "odd"}
    documents = {
        "b0": {"service": {**service, "figures": figures}},
        "b1": {"service": {**service, "ready": "nothing new for 9 s"}},  # of an earlier runtime, and not well
    }
    facts = {"name": "faces", "committed": "ab" * 32, "floor": 3, "failed": [], "reason": ""}
    monkeypatch.setattr(fleet, "open_board", lambda board, _: Asked(board.name))
    monkeypatch.setattr(fleet, "board_document", lambda opened: {**facts, **documents[opened.name]})
    boards(3, tmp_path)
    site = load(tmp_path / "boards.toml")
    first, second, third = fleet.status_rows(site)
    assert (first["board"], first["state"], first["said"], first["release"]) == ("b0", "done", "", "ab" * 32)
    assert {name: first.get(name) for name in fleet.FIGURES} == {
        **dict.fromkeys(fleet.FIGURES),
        **{"frames_out": 1200.0, "dropped": 7.0, "temperature_c": 51.5, "receivers_away": 1.0},
    }
    assert abs(first["at"] - time.time()) < 60
    assert (second["state"], second["said"]) == ("not well", "/readyz: nothing new for 9 s")
    assert (third["state"], third["said"], "at" in third) == ("failed", "no route", False)
    text = fleet.read_status(site.boards[0], print)[1]
    said = "1,200 frames sent, 7 dropped, 52 \N{DEGREE SIGN}C, receivers not connected: 1"
    assert text == "runs faces abababababab, floor 3, " + said
