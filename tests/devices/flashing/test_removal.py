"""What a flash and its service left, ``board remove`` takes away, and nothing else; whatever interrupted it before."""

import dataclasses
import json
import os
import posixpath
import re
from pathlib import Path

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.devices.agents import erase_board
from edgeveil.devices.flashing import board as flashing_board
from edgeveil.devices.flashing import removal, sd_card, service_files
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.profiles import names
from edgeveil.edge_runtime.errors import BadInput
from tests.edge_runtime import test_state_files
from tests.support import output, programs
from tests.support.boards import lossy_serial_line, own_mounts, owners
from tests.support.boards.owners import Recorded
from tests.support.promised.counted_bundles import counted_example

ROOT, HALL = "/opt/edgeveil", "/opt/edgeveil-hall"


@pytest.mark.parametrize("root", [ROOT, HALL])
@pytest.mark.parametrize("profile", names())
def test_every_file_and_user_of_a_flash_is_on_the_list_of_removal(root, profile):
    """Also where the camera has a process of its own, updates come by an index, and the watchdog is on."""
    board = profiles.load(profile).at(root)
    board = board.model_copy(update={"service": board.service.model_copy(update={"watchdog_s": 15})})
    wanted = Wanted("rtsps://a:b@camera/x", ("tcp://10.0.0.2:9",), update_from="https://updates.example/all")
    files = service_files.for_board(root, board, wanted, None, "cpu")
    job = removal.job(root)
    units = {f"{job['unit_folder']}/{unit}" for unit in job["units"]}
    settings = posixpath.dirname(job["settings"])
    assert {path for path in files if posixpath.dirname(path) != settings} == units | {service_files.WATCHDOG}
    commands = service_files.user_commands(board.service, files)
    assert set(commands) == set(job["users"]), "names of an earlier flash, which left no mark"
    assert all(command[command.index("--comment") + 1] == job["mark"] for command in commands.values())
    folders = {*job["folders"], settings}
    for text in (files[path].decode() for path in units if path in files):
        for line in re.findall(r"^(?:StateDirectory|CacheDirectory)=(\S+)$", text, re.MULTILINE):
            assert any(folder.endswith("/" + line) for folder in folders), line
        for place in re.findall(r"^ReadWritePaths=(.+)$|install -d .* (/\S+)$", text, re.MULTILINE):
            assert {*place[0].replace(" -", " ").split(), place[1]} - {root, "/run", ""} <= folders


def test_every_file_that_a_service_keeps_in_its_folder_is_on_the_list():
    kept = {one.path.split("/")[1] for one in test_state_files.TABLE if one.path.startswith("opt/")}
    assert {"board.key", "aims.json", "settings"} < kept
    assert [name for name in kept if not re.fullmatch(removal.job(ROOT)["names"], name)] == []


def test_a_cards_first_boot_is_on_it_too():
    pattern = dict(removal.job(ROOT)["named"])["/boot/firmware"]
    for name in (sd_card.TREE, f"{sd_card.TREE}.log", f"{sd_card.TREE}-{sd_card.BEFORE}.log"):
        assert re.fullmatch(pattern, name)


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    programs.need("machine-id")  # of a ledger
    folder = tmp_path_factory.mktemp("owner")
    owners.trust(folder)
    made = [owners.bundle(folder, f"{n}.veil", example=counted_example(), version=n).path for n in (1, 2)]
    return folder, *made


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    if os.geteuid():
        pytest.skip("only root can make mounts of its own")
    with own_mounts.running(tmp_path_factory.mktemp("board")) as up:
        yield up


@pytest.fixture
def edgeveil(board, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    owners.few_interpreters(monkeypatch)
    read_agent = flashing_board.read_agent
    on_disk = b'"/proc/self/mountinfo"', b'"/dev/null"'  # the mounts of this board are in memory, and would be refused
    monkeypatch.setattr(flashing_board, "read_agent", lambda name: read_agent(name).replace(*on_disk))
    run = output.in_process(monkeypatch, capfd)
    return lambda *words: run(*words, "--on", board.server.target, *board.server.options())


@pytest.mark.programs
def test_a_board_is_what_it_was_before_its_flash(board, owner, edgeveil):
    before = board.changes()
    np.savez(board.root / "opt/camera.npz", x=np.tile(np.arange(4, dtype=np.uint8), (40, 1)))
    where = [
        "--for",
        "workstation",
        "--trust",
        owner[0] / "root",
        "--sink",
        "tcp://127.0.0.1:9?spool=/var/lib/edgeveil/q",
    ]
    for bundle in owner[1:]:  # the second leaves a link to the first
        code, _, said = edgeveil("flash", bundle, *where, "--source", "npz:/opt/camera.npz")
        assert code == 0, said
    assert not (board.server.home / ".cache").exists(), "a flash had made it"
    written = board.changes()
    assert {
        *("/etc/systemd/system/multi-user.target.wants/edgeveil.service", "/etc/passwd"),
        *("/opt/edgeveil", "/opt/edgeveil/previous"),
    } <= set(written)
    run = "run --config /etc/edgeveil/edge.json --sink npz:/var/lib/edgeveil/parts.npz --health off"
    done = board.run(f"python3 /opt/edgeveil/runtime/current/edgeveil-edge.pyz {run}")
    assert done.returncode == 3, done.stderr  # its budget is spent
    (board.root / "etc/edgeveil/password").write_text("secret")
    (board.root / "opt/edgeveil/notes.txt").write_text("the owner's")
    written = board.changes()

    code, _, said = edgeveil("board", "remove")
    assert code == 2
    assert "which counted epsilon" in said
    code, _, said = edgeveil("board", "remove", "--yes")
    assert (code, "--erase-ledger" in said.splitlines()[-1]) == (2, True), said
    code, _, said = edgeveil("board", "remove", "--erase-ledger")
    assert (code, said.splitlines()[-1]) == (2, "error: Nothing was removed. Give --yes to remove all of this.")
    assert board.changes() == written, "a refusal changes nothing"
    board.systemctl()
    (board.server.home / ".cache").mkdir()  # as one that was cut off leaves it, once its uploads have gone
    code, out, said = edgeveil("board", "remove", "--yes", "--erase-ledger", "--json")
    assert code == 0, said
    assert "stays: /opt/edgeveil/notes.txt, which no flash into this folder wrote" in said
    assert board.systemctl()[0].startswith("stop edgeveil.service ")
    assert set(board.changes()) - set(before) == {"/opt/camera.npz", "/opt/edgeveil", "/opt/edgeveil/notes.txt"}
    assert json.loads(out)["kept"] == ["/opt/edgeveil/notes.txt"]
    assert not (board.server.home / ".cache").exists()
    code, _, said = edgeveil("board", "remove", "--yes")
    assert (code, "Nothing of EdgeVeil is on" in said) == (0, True)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Makes a board in a folder: the job of its removal, and its files."""
    monkeypatch.setattr(erase_board.pwd, "getpwall", list)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(erase_board.tempfile, "tempdir", str(tmp_path / "tmp"))

    def made(root=ROOT):
        text = json.dumps(removal.job(root))
        for place in ("/etc", "/opt", "/var", "/run", "/boot"):
            text = text.replace(f'"{place}', f'"{tmp_path}{place}')
        job = json.loads(text)
        at = tmp_path / root.strip("/")
        files = {
            **{f"{job['unit_folder']}/{unit}": "ExecStart=/usr/bin/python3 -\n" for unit in job["units"]},
            f"{job['unit_folder']}/{job['units'][0]}": f"ExecStart=p {at}/runtime/current/edgeveil-edge.pyz run --x\n",
            f"{job['unit_folder']}/multi-user.target.wants/{job['units'][0]}": "",
            job["shared"][0]: "",
            job["settings"]: json.dumps({"bundle": f"{at}/current/bundle.veil", "sink": ["mqtts://b?ca=/ca.pem"]}),
            job["files"][0]: "{}",
            **{f"{folder}/one": "x" for folder in job["folders"]},
            f"{job['folders'][0]}/q/000000000001.spool": "record",
            f"{at}/state.json": "{}",
            f"{at}/trust/root.pub": "key",
            f"{at}/site-0a/numpy.py": "",
            f"{tmp_path}/home/.cache/edgeveil-incoming/1": "",
            **{f"{tmp_path}/{place}/edgeveil-{'0a' * 8}.lock": "" for place in ("run/lock", "tmp")},
        }
        for path, data in files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(data)
        return job

    return made


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_whatever_interrupted_it_the_same_again_ends_the_rest(tree, tmp_path, monkeypatch):
    steps = len(erase_board.look(tree())["removed"]) + 2
    remove = erase_board.remove
    for stop in range(steps):
        job, done = tree(), []

        def cut(path, stop=stop, done=done):
            if len(done) == stop:
                raise KeyboardInterrupt
            done.append(path)
            remove(path)

        monkeypatch.setattr(erase_board, "remove", cut)
        with pytest.raises(KeyboardInterrupt):
            erase_board.erase(job)
        monkeypatch.setattr(erase_board, "remove", remove)
        erase_board.erase(job)
        assert left(tmp_path) == [], (stop, done)
        assert erase_board.look(job)["removed"] == []


def test_of_two_services_one_is_taken_off_and_the_other_has_the_watchdog(tree, tmp_path):
    first = tree()
    untouched = left(tmp_path)
    hall = tree(HALL)
    erase_board.erase(hall)
    kept = [one for one in untouched if "incoming" not in one]
    assert left(tmp_path) == kept
    assert any("watchdog" in one for one in kept)
    erase_board.erase(first)
    assert left(tmp_path) == []


def test_a_service_of_another_folder_is_not_the_one_of_this(tree, tmp_path):
    tree()
    before = left(tmp_path)
    other = json.loads(json.dumps(removal.job("/srv/edgeveil")).replace('"/', f'"{tmp_path}/'))
    found = erase_board.look(other)
    assert [path for path, _ in found["removed"]] == [f"{tmp_path}/home/.cache/edgeveil-incoming"]
    assert found["kept"] == sorted([other["settings"], *other["folders"]]), "and the plan says so"
    erase_board.erase(other)
    assert left(tmp_path) == [one for one in before if "incoming" not in one]


@pytest.mark.parametrize(
    ("ledger", "state", "spent"),
    [
        (None, "{}", 0),
        ('{"ledger": {"lifetime": 0}}', "{}", 0),
        ('{"ledger": {"lifetime": 7}}', '{"ledger": "ab", "spent": 5}', 7),
        ('{"ledger": {"lifetime": 5}}', '{"ledger": "ab", "spent": 7}', 7),
        ("damaged", "{}", None),
        (None, '{"ledger": "ab", "spent": 0}', None),  # it is lost
    ],
)
def test_what_was_spent_is_read_or_is_unknown(tree, tmp_path, ledger, state, spent):
    job = tree()
    (tmp_path / "opt/edgeveil/state.json").write_text(state)
    if ledger is not None:
        (tmp_path / "var/lib/edgeveil/ledger").write_text(ledger)
        (tmp_path / "var/lib/edgeveil/ledger.lock").write_text("held")
    assert erase_board.look(job)["spent"] == spent
    if ledger is not None and spent:
        (tmp_path / "var/lib/edgeveil/ledger.20260101T000000Z").write_text(ledger)
        assert erase_board.look(job)["spent"] == max(2 * json.loads(ledger)["ledger"]["lifetime"], 7)


def found(**changes):
    known = removal.Found((("/opt/edgeveil/trust", 1),), (), (), (), (), 0, mine=True)
    return dataclasses.replace(known, **changes)


@pytest.mark.parametrize("spent", [1, None])
def test_epsilon_that_was_counted_or_is_unknown_goes_on_request_alone(spent):
    with pytest.raises(BadInput, match=r"a new flash begins a new budget for the same people.*--erase-ledger"):
        found(spent=spent).check(yes=True, erase_ledger=False)
    found(spent=spent).check(yes=True, erase_ledger=True)
    found().check(yes=True, erase_ledger=False)
    with pytest.raises(BadInput, match="Give --yes"):
        found().check(yes=False, erase_ledger=False)


def test_a_link_where_a_folder_was_expected_is_not_followed(tree, tmp_path):
    job = tree()
    (tmp_path / "var/lib/edgeveil").rename(tmp_path / "data")
    (tmp_path / "var/lib/edgeveil").symlink_to(tmp_path / "data")
    links = tuple(erase_board.look(job)["links"])
    with pytest.raises(BadInput, match="var/lib/edgeveil was expected to be a folder; it is a link"):
        found(links=links).check(yes=True, erase_ledger=True)


def test_a_process_that_still_runs_from_there_keeps_everything(tree, tmp_path, monkeypatch):
    job = tree()
    before = left(tmp_path)
    monkeypatch.setattr(erase_board, "_running", lambda _root: [17])
    with pytest.raises(SystemExit, match="processes 17 still run"):
        erase_board.erase(job)
    assert left(tmp_path) == before


def test_files_that_the_settings_name_elsewhere_are_named(tree, tmp_path):
    job = tree()
    (tmp_path / "ca.pem").touch()
    settings = json.loads(Path(job["settings"]).read_text())
    addresses = [f"mqtts://b/t?ca={tmp_path}/ca.pem&spool=/none", f"https://x?password_file={job['folders'][0]}/one"]
    Path(job["settings"]).write_text(json.dumps({**settings, "sink": addresses}))
    assert erase_board.look(job)["kept"] == [f"{tmp_path}/ca.pem"]


def test_a_ledger_in_another_place_goes_too(tree, tmp_path):
    job = tree()
    settings = json.loads(Path(job["settings"]).read_text())
    Path(job["settings"]).write_text(json.dumps({**settings, "ledger": f"{tmp_path}/data/ledger"}))
    (tmp_path / "data").mkdir()
    (tmp_path / "data/ledger").write_text('{"ledger": {"lifetime": 3}}')
    (tmp_path / "data/ledger.lock").touch()
    (tmp_path / "data/other").touch()
    assert erase_board.look(job)["spent"] == 3
    erase_board.erase(job)
    assert left(tmp_path) == ["data/other"]


def test_a_user_who_cannot_sudo_is_told_before_anything_changes(tree, monkeypatch):
    job = tree()
    monkeypatch.setattr(erase_board.os, "getuid", lambda: 1000)
    assert erase_board.look(job)["mine"], "a folder of the user's own"
    monkeypatch.setattr(erase_board.os, "access", lambda path, _mode: "systemd" not in path)
    line = Recorded(b"1000", out=json.dumps(erase_board.look(job)).encode(), **{"sudo -n true": 1})
    with pytest.raises(BadInput, match="Root is needed to remove what is there"):
        removal.look(flashing_board.Board(line, root=ROOT))
    assert not any(" erase " in one for one in line.ran)


@pytest.mark.programs
def test_a_service_that_cannot_be_stopped_keeps_everything(board, owner, edgeveil):
    np.savez(board.root / "opt/camera.npz", x=np.tile(np.arange(4, dtype=np.uint8), (40, 1)))
    where = ["--for", "workstation", "--trust", owner[0] / "root", "--sink", "tcp://127.0.0.1:9"]
    assert edgeveil("flash", owner[1], *where, "--source", "npz:/opt/camera.npz")[0] == 0
    written = board.changes()
    board.fail("stop")
    code, _, said = edgeveil("board", "remove", "--yes")
    assert (code, "systemctl stop edgeveil.service ended with code 1: Job failed." in said) == (4, True), said
    assert board.changes() == written
    board.fail()
    assert edgeveil("board", "remove", "--yes")[0] == 0


@pytest.mark.programs
def test_over_a_console_too(tmp_path, monkeypatch):
    from edgeveil.devices.flashing.board import Board
    from edgeveil.devices.transports.serial import SerialTransport

    monkeypatch.setattr(removal, "job", lambda root, job=removal.job: {**job(root), "named": []})
    root = tmp_path / "edgeveil"
    (root / "trust").mkdir(parents=True)
    (root / "trust/root.pub").write_text("key")
    with lossy_serial_line.board(tmp_path) as line:
        console = Board(SerialTransport(line.port), root=str(root))
        there = removal.look(console)
        assert [path for path, _ in there.removed] == [str(root / "trust")]
        removal.erase(console)
        assert removal.look(console).nothing
        console.transport.close()
    assert not root.exists()
