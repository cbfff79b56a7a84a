"""Every command for a board takes its name or address; spellings of before are refused with the new one named."""

import json

import pytest

from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.site import Settings
from edgeveil.devices.transports.base import Completed
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import KEYS
from tests.support import output

ON = "--on ssh://pi@edgepi"
BOARD = [f"board {verb}" for verb in ("status", "rollback", "logs", "start", "stop", "releases", "probe")]


@pytest.fixture
def edgeveil(monkeypatch, capfd):
    """Runs ``edgeveil`` and returns (exit code, stderr)."""
    run = output.in_process(monkeypatch, capfd)
    return lambda line: run(*line.split())[::2]


@pytest.mark.parametrize("old", ["--to ssh://pi@edgepi", "--to=image:card.img", "--to dir:/media/rootfs"])
def test_flash_to_is_refused_with_the_new_spelling(edgeveil, old):
    code, said = edgeveil(f"flash mnist.veil {old} --for raspberry-pi-cpu --trust root")
    assert code == 2
    assert said.count("\n") == 1
    assert "--on BOARD" in said


def test_options_that_hold_a_place_are_no_target(edgeveil):
    more = "--on serial:///dev/none --for raspberry-pi-cpu --trust root --wheels dir:/srv/wheels"
    code, said = edgeveil(f"flash none.veil {more}")
    assert code == 2
    assert "none.veil" in said, "the bundle that is not there is what is wrong, not --wheels"


@pytest.mark.parametrize("verb", ["bench mnist.veil", "audit board mnist.veil"])
def test_bench_and_audit_take_their_board_alike(edgeveil, verb):
    code, said = edgeveil(f"{verb} ssh://pi@edgepi")
    assert code == 2
    assert f"{verb.removesuffix(' mnist.veil')} {ON}" in said


def test_every_command_for_a_board_takes_it_by_name(monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "200")
    run = output.in_process(monkeypatch, capfd)
    for verb in ("flash", *BOARD, "bench", "audit board"):
        code, text, _ = run(*verb.split(), "--help")
        assert code == 0
        assert ("BOARD" in text, "EDGEVEIL_BOARDS" in text) == (True, not verb.startswith("board")), verb
        assert "Example" in text
    for group in ("board", "fleet"):
        assert "--boards FILE" in run(group, "--help")[1]


@pytest.mark.parametrize("option", KEYS)
@pytest.mark.parametrize(
    "verb", ["flash mnist.veil --on hall-1", "board status hall-1", "bench mnist.veil --on hall-1"]
)
def test_an_option_that_is_a_key_now_is_refused_with_the_key(edgeveil, verb, option):
    for words in (f"{option} x", f"{option}=x"):
        code, said = edgeveil(f"{verb} {words}")
        assert (code, said.count("\n")) == (2, 1)
        assert said.startswith(f"error: {option} is now {KEYS[option]} in the board's table of boards.toml")
    assert KEYS[option] in Settings.model_fields


@pytest.mark.parametrize("verb", ["flash", "rollback"])
def test_options_of_a_fleet_are_keys_too(edgeveil, verb):
    code, said = edgeveil(f"fleet {verb} --most-failures 3")
    assert (code, "write most_failures in boards.toml" in said) == (2, True)


SITE = """
[all]
profile = "raspberry-pi-cpu"
trust = "root"
[board.hall-1]
address = "pi@edgepi"
root = "/opt/edgeveil-hall"
sinks = ["mqtts://broker/{name}"]
source = "camera:0"
update = "https://updates.example"
frames = 7
"""


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A folder with ``boards.toml``, and ``other.toml`` with another board; the addresses that were opened."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "boards.toml").write_text(SITE)
    (tmp_path / "other.toml").write_text(SITE.replace("hall-1", "hall-2").replace("edgepi", "other"))
    opened = []

    def transport(address, **login):
        opened.append(address)
        return Answering(FACTS)

    monkeypatch.setattr("edgeveil.devices.transports.open_transport", transport)
    return opened


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("board probe hall-1", "ssh://pi@edgepi"),
        ("board probe --on hall-1", "ssh://pi@edgepi"),
        ("board probe --on=hall-1", "ssh://pi@edgepi"),
        ("board probe ssh://pi@edgepi", "ssh://pi@edgepi"),
        ("board probe ada@there:2222", "ssh://ada@there:2222"),
        ("board --boards other.toml probe hall-2", "ssh://pi@other"),
        ("board probe hall-2 --boards other.toml", "ssh://pi@other"),
        ("board probe --boards=other.toml hall-2", "ssh://pi@other"),
    ],
)
def test_a_board_by_name_and_by_address(asked, edgeveil, words, address):
    assert edgeveil(words)[0] == 0
    assert asked == [address]


@pytest.mark.parametrize("verb", ["board probe", "flash x.veil --on", "bench x.veil --on", "audit board x.veil --on"])
def test_a_board_that_is_none_is_named_with_the_nearest(asked, edgeveil, verb):
    code, said = edgeveil(f"{verb} hall1")
    assert (code, asked) == (2, [])
    assert said == "error: boards.toml has no board 'hall1'. Did you mean hall-1?\n"


def test_the_boards_of_a_site_are_listed(asked, monkeypatch, capsys):
    run = output.in_process(monkeypatch, capsys)
    assert run("board", "list")[1].split()[:3] == ["hall-1", "ssh://pi@edgepi", "raspberry-pi-cpu"]
    document = json.loads(run("board", "list", "--json", "--boards", "other.toml")[1])
    assert document["site"] == [{"name": "hall-2", "address": "ssh://pi@other", "profile": "raspberry-pi-cpu"}]
    assert {"name": "workstation", "title": "Linux workstation (x86-64)"} in document["boards"]
    assert json.loads(run("board", "list", "--json", "--boards", "boards.toml")[1])["site"][0]["name"] == "hall-1"


def test_what_a_flash_leaves_out_is_as_the_file_has_it(asked, edgeveil, monkeypatch):
    calls = []

    def flash_target(bundle, address, connection, profile, *, trust, wanted, **more):
        calls.append((address, connection.root, profile.name, str(trust), wanted))
        raise BadInput("enough")

    monkeypatch.setattr("edgeveil.devices.flashing.flash.flash_target", flash_target)
    edgeveil("flash x.veil --on hall-1")
    edgeveil(
        "flash x.veil --on hall-1 --for workstation --trust keys --sink npz:a --sink npz:b --no-service --accept again"
    )
    edgeveil("flash x.veil --on pi@elsewhere --for workstation --trust keys")
    (file, given, elsewhere) = calls
    assert file[:4] == ("ssh://pi@edgepi", "/opt/edgeveil-hall", "raspberry-pi-cpu", "root")
    kept = {"source": "camera:0", "update_from": "https://updates.example", "frames": 7}
    assert file[4] == Wanted(sinks=("mqtts://broker/hall-1",), **kept)
    assert given[:4] == ("ssh://pi@edgepi", "/opt/edgeveil-hall", "workstation", "keys")
    assert given[4] == Wanted(sinks=("npz:a", "npz:b"), service=False, again=True, **kept)
    assert elsewhere == ("ssh://pi@elsewhere", "/opt/edgeveil", "workstation", "keys", Wanted())
    code, said = edgeveil("flash x.veil --on pi@elsewhere --for workstation")
    assert (code, "trust is missing; give --trust" in said) == (2, True)
    words = "flash x.veil --on pi@elsewhere --for workstation --trust keys --accept"
    for accepted, wanted in (("leak", Wanted(accept_leak=True)), ("new-ledger", Wanted(new_ledger=True))):
        edgeveil(f"{words} {accepted}")
        assert calls[-1][4] == wanted
    code, said = edgeveil(f"{words} all")
    assert (code, "'again', 'leak', 'new-ledger'" in said, len(calls)) == (2, True, 5)


def test_a_time_that_is_none_is_the_users_mistake(edgeveil):
    code, said = edgeveil(f"bench mnist.veil {ON} --sustained soon")
    assert (code, said.count("\n")) == (2, 1)
    assert "--sustained" in said
    assert "90s, 30m or 2h" in said


@pytest.mark.parametrize("target", ["image:card.img", "dir:/media/rootfs"])
def test_a_card_is_no_board_that_answers(edgeveil, target):
    code, said = edgeveil(f"board status --on {target}")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: {target} is a card")
    assert "ssh://user@host" in said


class Answering:
    """A transport to a board that says these facts."""

    name, python = "edgepi", "python3"

    def __init__(self, facts):
        self.facts = facts

    def run(self, command, **_):
        return Completed(0, json.dumps(self.facts).encode(), b"")

    def close(self):
        pass


FACTS = {
    "architecture": "aarch64",
    "python": "3.11.2",
    "free_bytes": 2_000_000_000,
    "read_only": True,
    "sudo": False,
    "systemd": True,
    "board": "Raspberry Pi\x1b[2J 4",
    "interpreters": {"tflite-runtime": "2.14.0"},
}


def test_a_board_is_shown_as_text_or_as_json(monkeypatch, capsys):
    monkeypatch.setattr("edgeveil.devices.transports.open_transport", lambda *_, **__: Answering(FACTS))
    run = output.in_process(monkeypatch, capsys)
    assert json.loads(run("board", "probe", *ON.split(), "--json")[1]) == FACTS
    code, text, _ = run("board", "probe", *ON.split())
    assert code == 0
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert lines["board"] == "Raspberry Pi?[2J 4", "what a board says cannot clear the terminal"
    assert lines["space"] == "2000 MB free, READ-ONLY"
    assert lines["interpreters"] == "tflite-runtime 2.14.0"
    assert lines["rights"] == "may NOT sudo, systemd runs"
    assert lines["edgeveil"] == "none"
