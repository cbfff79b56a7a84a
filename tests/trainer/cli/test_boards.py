"""Every command for a board takes it as ``--on``; the spellings of before are refused with the new one named."""

import json

import pytest

from edgeveil.devices.transports.base import Completed
from tests.support import output

ON = "--on ssh://pi@edgepi"
BOARD = [f"board {verb}" for verb in ("status", "rollback", "logs", "start", "stop", "releases", "probe")]


@pytest.fixture
def edgeveil(monkeypatch, capfd):
    """Runs ``edgeveil`` and returns (exit code, stderr)."""
    run = output.in_process(monkeypatch, capfd)
    return lambda line: run(*line.split())[::2]


@pytest.mark.parametrize("verb", BOARD)
def test_a_target_without_on_is_refused_with_the_new_spelling(edgeveil, verb):
    code, said = edgeveil(f"{verb} ssh://pi@edgepi")
    assert code == 2
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert f"{verb} {ON}" in said
    code, said = edgeveil(verb)
    assert code == 2
    assert "--on" in said


@pytest.mark.parametrize("old", ["--to ssh://pi@edgepi", "--to=image:card.img", "--to dir:/media/rootfs"])
def test_flash_to_is_refused_with_the_new_spelling(edgeveil, old):
    code, said = edgeveil(f"flash mnist.veil {old} --for raspberry-pi-cpu --trust root")
    assert code == 2
    assert said.count("\n") == 1
    assert "--on TARGET" in said


def test_options_that_hold_a_place_are_no_target(edgeveil):
    more = "--on serial:///dev/none --for raspberry-pi-cpu --trust root --update-from dir:/srv/releases"
    code, said = edgeveil(f"flash none.veil {more}")
    assert code == 2
    assert "none.veil" in said, "the bundle that is not there is what is wrong, not --update-from"


@pytest.mark.parametrize("verb", ["bench mnist.veil", "audit board mnist.veil"])
def test_bench_and_audit_take_their_board_alike(edgeveil, verb):
    code, said = edgeveil(f"{verb} ssh://pi@edgepi")
    assert code == 2
    assert f"{verb.removesuffix(' mnist.veil')} {ON}" in said


def test_every_command_for_a_board_has_the_same_options(monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "200")
    run = output.in_process(monkeypatch, capfd)
    for verb in ("flash", *BOARD, "bench", "audit board"):
        code, text, _ = run(*verb.split(), "--help")
        assert code == 0
        for option in ("--on", "--root", "--identity", "--known-hosts", "--password-file"):
            assert option in text, (verb, option)
        assert "Example" in text


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
    assert json.loads(run("board", "probe", *ON.split())[1]) == FACTS
    code, text, _ = run("board", "probe", *ON.split(), "--text")
    assert code == 0
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert lines["board"] == "Raspberry Pi?[2J 4", "what a board says cannot clear the terminal"
    assert lines["space"] == "2000 MB free, READ-ONLY"
    assert lines["interpreters"] == "tflite-runtime 2.14.0"
    assert lines["rights"] == "may NOT sudo, systemd runs"
    assert lines["edgeveil"] == "none"
