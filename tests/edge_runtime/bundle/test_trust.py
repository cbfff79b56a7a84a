"""The trust folder: what is a key file, what is not, and what policy goes with the keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.signing.keys import Key, public_key_line, read_public_key
from tests.support import bundles

HEX = bundles.public_hex(bundles.KEY)
OTHER = bundles.public_hex(bundles.STRANGER)
GOOD = f"edgeveil-ed25519 {HEX} ward"


def test_keys_of_a_folder_are_read_and_other_files_passed_over(tmp_path):
    (tmp_path / "one.pub").write_text(GOOD + "\n")
    (tmp_path / "two.pub").write_text(f"edgeveil-ed25519 {OTHER} lab@site_2.b development")
    (tmp_path / "README").write_text("not a key")
    trust = open_trust(tmp_path)
    assert trust.keys == {HEX: Key(HEX, "ward", False), OTHER: Key(OTHER, "lab@site_2.b", True)}
    assert open_trust(str(tmp_path), floor=3).floor == 3


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n", "é" * 10, "-----BEGIN PUBLIC KEY-----", "edgeveil-ed25519 " + "x" * 100_000),
        *(GOOD + more for more in ("\n\n", "\r\n", " Development", " development!", "\x1b[2J", "\n" + GOOD)),
        *(
            GOOD.replace(old, new)
            for old, new in ((HEX, HEX.upper()), (HEX, HEX[:-2]), (" ward", ""), ("ed25519", "rsa"))
        ),
        " " + GOOD,
    ],
)
def test_a_file_that_is_no_key_is_named(tmp_path, text):
    (tmp_path / "bad.pub").write_text(text)
    (tmp_path / "good.pub").write_text(GOOD)
    with pytest.raises(BadInput, match=r"bad\.pub (is no public key: expected one line|.*it has more than)"):
        open_trust(tmp_path)


@pytest.mark.parametrize("weak", [bytes(32), b"\x01" + bytes(31), b"\xff" * 32, b"\x02" + bytes(31)])
def test_an_unsafe_key_is_refused_when_the_folder_is_opened(tmp_path, weak):
    (tmp_path / "weak.pub").write_text(f"edgeveil-ed25519 {weak.hex()} weak")
    with pytest.raises(BadInput, match=r"weak\.pub is not a safe Ed25519 key"):
        open_trust(tmp_path)


def test_what_is_wrong_with_the_folder_is_said(tmp_path):
    with pytest.raises(BadInput, match=r"found nothing there.*edgeveil key new"):
        open_trust(tmp_path / "none")
    (tmp_path / "file").write_text(GOOD)
    with pytest.raises(BadInput, match="found a file there"):
        open_trust(tmp_path / "file")
    with pytest.raises(BadInput, match=r"holds no \.pub file"):
        open_trust(tmp_path)
    (tmp_path / "folder.pub").mkdir()
    with pytest.raises(BadInput, match="cannot be read"):
        open_trust(tmp_path)


def test_one_key_cannot_be_both_ordinary_and_for_development(tmp_path):
    (tmp_path / "a.pub").write_text(GOOD)
    (tmp_path / "b.pub").write_text(GOOD + " development")
    with pytest.raises(BadInput, match="the same, but one is called a development key"):
        open_trust(tmp_path)
    (tmp_path / "b.pub").write_text(GOOD)
    assert len(open_trust(tmp_path).keys) == 1


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", fullmatch=True)


@given(names, st.booleans())
def test_what_is_written_is_read(tmp_path_factory, name, development):
    path = tmp_path_factory.mktemp("trust") / "k.pub"
    key = Key(HEX, name, development)
    path.write_text(public_key_line(key))
    assert read_public_key(path) == key


@pytest.mark.parametrize(
    ("trust", "says", "reason"),
    [
        ({}, {"security_version": 0}, None),
        ({"floor": 5}, {"security_version": 4}, "rolled-back"),
        ({"floor": 5}, {"security_version": 5}, None),
        ({}, {"audience": "ward-7"}, "other-audience"),
        ({"audience": "ward-8"}, {"audience": "ward-7"}, "other-audience"),
        ({"audience": "ward-7"}, {"audience": "ward-7"}, None),
        ({"audience": "ward-7"}, {"audience": ""}, None),
        ({}, {"development": True}, "development-mismatch"),
    ],
)
def test_policy(trust, says, reason):
    manifest = {**bundles.numpy_example()[0], "security_version": 1, "audience": "", "development": False, **says}
    key = bundles.trusted()
    policy = Trust([key], **trust)
    if reason is None:
        policy.check_claims(parse(manifest), key)
        return
    with pytest.raises(BundleRefused) as refusal:
        policy.check_claims(parse(manifest), key)
    assert refusal.value.reason == reason


def test_development_key_and_flag_must_agree():
    key = bundles.trusted(development=True)
    manifest = {**bundles.numpy_example()[0], "development": True}
    Trust([key]).check_claims(parse(manifest), key)
    with pytest.raises(BundleRefused, match="not marked as a development bundle"):
        Trust([key]).check_claims(parse({**manifest, "development": False}), key)


def test_stranger_is_named_by_the_beginning_of_the_key():
    with pytest.raises(BundleRefused, match=OTHER[:16]) as refusal:
        bundles.trust().key_of(OTHER)
    assert refusal.value.reason == "untrusted-key"
