"""The passphrase of a key: from a file, the environment or nobody, in the same way for every command that signs."""

import io
import json
import os

import pytest

from edgeveil.trainer.sealing.keys import is_encrypted


@pytest.fixture(autouse=True)
def _nobody_there(monkeypatch):
    monkeypatch.delenv("EDGEVEIL_PASSPHRASE", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())


@pytest.fixture
def signing(edgeveil, tmp_path):
    assert edgeveil("key", "new", tmp_path / "keys", "--no-passphrase")[0] == 0
    return tmp_path / "keys/signing.pub"


def test_a_root_key_without_a_passphrase_asks_for_none(edgeveil, signing, tmp_path):
    code, out, _ = edgeveil("trust", "init", tmp_path / "root", "--key", signing, "--no-passphrase")
    assert (code, is_encrypted(tmp_path / "root/signing.key")) == (0, False)
    assert "version 1," in out
    code, out, _ = edgeveil("trust", "set", tmp_path / "root", "require=5")
    assert code == 0
    assert "least security version 5" in out
    code, out, _ = edgeveil("trust", "show", tmp_path / "root", "--json")
    assert json.loads(out)["security_version"] == 5


def test_a_root_key_with_a_passphrase_is_opened_by_it_alone(edgeveil, signing, tmp_path, monkeypatch):
    words = tmp_path / "words"
    words.write_text("tulip 7\n")
    root = tmp_path / "root"
    assert edgeveil("trust", "init", root, "--key", signing, "--passphrase-file", words)[0] == 0
    assert is_encrypted(root / "signing.key")
    code, _, err = edgeveil("trust", "set", root, "require=5")
    assert code == 2
    assert "EDGEVEIL_PASSPHRASE_FILE" in err
    assert "--no-passphrase" in err
    monkeypatch.setenv("EDGEVEIL_PASSPHRASE", "tulip 8")
    assert "The passphrase is not the right one" in edgeveil("trust", "set", root, "require=5")[2]
    assert edgeveil("trust", "set", root, "require=5", "--passphrase-file", words)[0] == 0


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["requires=5"], "got requires=5. Did you mean require=?"),
        (["require"], "Expected KEY=VALUE with a key of product, index-stale-days, "),
        (["require=5", "require=6"], "require: one value was expected; got 2."),
        (["require=five"], "require: a whole number from 0 to 2147483647 was expected; got five."),
        (["index-stale-days=3651"], "index-stale-days: a whole number from 0 to 3650 was expected; got 3651."),
        (["require=5", "product=hall"], "One change was expected: "),
        (["floor=5", "--upgrade"], "One change was expected: "),
        ([], "One change was expected: "),
    ],
)
def test_a_setting_that_cannot_be_taken_is_refused_with_its_key(edgeveil, signing, tmp_path, words, refused):
    root = tmp_path / "root"
    assert edgeveil("trust", "init", root, "--key", signing, "--no-passphrase")[0] == 0
    before = (root / "trust.json").read_bytes()
    code, out, err = edgeveil("trust", "set", root, *words)
    assert (code, out, refused in err) == (2, "", True), err
    assert (root / "trust.json").read_bytes() == before


def test_the_options_that_became_settings_still_work(edgeveil, signing, tmp_path):
    root = tmp_path / "root"
    assert edgeveil("trust", "init", root, "--key", signing, "--no-passphrase")[0] == 0
    for words, least in ((["trust", "set", root, "--require=5"], 5), (["trust", "require", root, "6"], 6)):
        code, out, err = edgeveil(*words)
        assert (code, f"least security version {least}" in out, "require=" in err) == (0, True, True), err


@pytest.mark.parametrize("command", [("keygen",), ("trust", "init")])
def test_a_passphrase_and_none_exclude_each_other(edgeveil, signing, tmp_path, command):
    key = ("--key", signing) if command[0] == "trust" else ()
    code, _, err = edgeveil(*command, tmp_path / "new", *key, "--passphrase-file", signing, "--no-passphrase")
    assert code == 2
    assert err.endswith("error: EDGEVEIL_PASSPHRASE_FILE and --no-passphrase exclude each other: give one of them.\n")
    assert "EDGEVEIL_PASSPHRASE_FILE" not in os.environ, "for that command alone"
    assert not (tmp_path / "new").exists()
