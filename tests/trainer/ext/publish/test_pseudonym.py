"""Pseudonyms: RFC 5297's vectors, keys for one recipient, field and epoch, and what does not decrypt."""

import base64
import itertools
import os

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.publish.master_key import (
    Cipher,
    MasterKey,
    Scope,
    is_sealed,
    keygen,
    normalised,
    open_key,
    padded,
    unpadded,
)

PHRASE = "correct horse"
KEY = MasterKey(bytes(range(64)))
SCOPE = Scope("university", "visitor", 1)


@pytest.mark.parametrize(
    ("key", "data", "plain", "sealed"),
    [
        (
            "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
            ["101112131415161718191a1b1c1d1e1f2021222324252627"],
            "112233445566778899aabbccddee",
            "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c",
        ),
        (
            "7f7e7d7c7b7a79787776757473727170404142434445464748494a4b4c4d4e4f",
            [
                "00112233445566778899aabbccddeeffdeaddadadeaddadaffeeddccbbaa99887766554433221100",
                "102030405060708090a0",
                "09f911029d74e35bd84156c5635688c0",
            ],
            "7468697320697320736f6d6520706c61696e7465787420746f20656e6372797074207573696e67205349562d414553",
            "7bdb6e3b432667eb06f4d14bff2fbd0fcb900f2fddbe404326601965c889bf17dba77ceb094fa663b7a3f748ba8af829ea64ad54"
            "4a272e9c485b62a3fd5c0d",
        ),
    ],
)
def test_vectors_of_rfc_5297(key, data, plain, sealed):
    found = Cipher(KEY, SCOPE)
    found._siv, found._data = AESSIV(bytes.fromhex(key)), [bytes.fromhex(one) for one in data]
    pseudonym = found.seal(bytes.fromhex(plain))
    assert found.open(pseudonym).hex() == plain
    assert base64.urlsafe_b64decode(pseudonym + "=" * (-len(pseudonym) % 4)).hex() == sealed


def test_no_scope_has_a_value_of_another_or_opens_it():
    scopes = [Scope(*one) for one in itertools.product(["university", "ministry"], ["visitor", "door"], [1, 2])]
    values = [os.urandom(16) for _ in range(20)]
    made = {scope: [Cipher(KEY, scope).seal(value) for value in values] for scope in scopes}
    assert len({one for many in made.values() for one in many}) == len(scopes) * len(values)
    for one, other in itertools.permutations(scopes, 2):
        with pytest.raises(BadInput, match="does not decrypt"):
            Cipher(KEY, other).open(made[one][0])
    with pytest.raises(BadInput):
        Cipher(MasterKey(bytes(64)), SCOPE).open(made[SCOPE][0])


@pytest.mark.parametrize(
    "change", [lambda s: s[:-1] + ("A" if s[-1] != "A" else "E"), lambda s: s[:5], lambda s: s + "!"]
)
def test_an_altered_pseudonym_is_refused(change):
    cipher = Cipher(KEY, SCOPE)
    with pytest.raises(BadInput, match="does not decrypt"):
        cipher.open(change(cipher.seal(bytes(16))))


def test_the_names_of_a_key_do_not_run_together():
    assert KEY.derive("p", "ab", "c") != KEY.derive("p", "a", "bc")
    assert len(KEY.derive("p", size=32)) == 32


def test_the_length_of_an_identifier_does_not_show():
    cipher = Cipher(KEY, SCOPE)
    names = ["", "a", "room 12", "x" * 31]
    assert len({len(cipher.seal(padded(name))) for name in names}) == 1
    assert [unpadded(padded(name)) for name in [*names, "é" * 40]] == [*names, "é" * 40]


@pytest.mark.parametrize(
    ("text", "steps", "same"),
    [
        ("  Ann   LEE ", ["nfkc", "case", "spaces"], "ann lee"),
        ("\uff21nn\u00a0Lee", ["nfkc", "case", "spaces"], "ann lee"),
        ("Straße", ["case"], "strasse"),
        ("01.02.1980", ["date"], "1980-02-01"),
        ("1980/02/01", ["date"], "1980-02-01"),
        ("Ann", [], "Ann"),
    ],
)
def test_two_spellings_are_one_person(text, steps, same):
    assert normalised(text, steps) == same


@pytest.mark.parametrize(("text", "steps"), [(" ", ["spaces"]), ("02/03/1980", ["date"]), ("", [])])
def test_what_cannot_be_normalised(text, steps):
    with pytest.raises(ValueError, match="n"):
        normalised(text, steps)


def test_a_key_is_of_mode_600_and_never_overwritten(tmp_path):
    path = tmp_path / "key"
    keygen(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_bytes()) == 64
    assert open_key(path).derive("x") == open_key(path).derive("x")
    with pytest.raises(BadInput, match="there already"):
        keygen(path)
    path.chmod(0o640)
    with pytest.raises(BadInput, match="mode 640"):
        open_key(path)


def test_a_key_of_another_length_is_refused(tmp_path):
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(bytes(63))
    with pytest.raises(BadInput, match="63 bytes"):
        open_key(path)
    with pytest.raises(BadInput, match="cannot be read"):
        open_key(tmp_path / "none")


def test_a_sealed_key_wants_its_passphrase(tmp_path):
    path = tmp_path / "key"
    keygen(path, passphrase=PHRASE)
    assert is_sealed(path)
    assert open_key(path, passphrase=PHRASE).derive("x") == open_key(path, passphrase=PHRASE).derive("x")
    for passphrase, said in ((None, "needs a passphrase"), ("cow", "not the right one")):
        with pytest.raises(BadInput, match=said):
            open_key(path, passphrase=passphrase)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BadInput, match="damaged"):
        open_key(path, passphrase=PHRASE)
    with pytest.raises(BadInput, match="empty"):
        keygen(tmp_path / "other", passphrase="")
