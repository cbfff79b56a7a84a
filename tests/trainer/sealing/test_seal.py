"""Keys and sealing: what goes in, what is refused, and that what comes out is what was meant."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.signing.keys import read_public_key
from edgeveil.trainer.report.card_page import brief_lines
from edgeveil.trainer.results import locked
from edgeveil.trainer.sealing import seal as seal_module
from edgeveil.trainer.sealing.inspect import inspect, verify
from edgeveil.trainer.sealing.keys import Signer
from edgeveil.trainer.sealing.seal import is_encrypted, keygen, seal
from tests.support import bundles
from tests.support.checkout import ROOT


@pytest.fixture(autouse=True)
def _small_runtime(monkeypatch):
    monkeypatch.setattr(seal_module, "zipapp_bytes", lambda: b"the runtime as a zipapp")


@pytest.fixture
def keys(tmp_path) -> Path:
    keygen(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture
def exported(tmp_path) -> Path:
    return bundles.export_folder(tmp_path / "export")


PASSPHRASE = "tülip 7"  # noqa: S105 - a test's


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def change_json(path: Path, change) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


# Keys


def test_keygen_writes_a_secret_key_and_a_public_one(tmp_path):
    public = keygen(tmp_path / "a" / "keys")
    assert public == tmp_path / "a" / "keys" / "signing.pub"
    assert stat.S_IMODE((public.parent / "signing.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(public.parent.stat().st_mode) == 0o700
    assert listing(public.parent) == ["signing.key", "signing.pub"]
    key = read_public_key(public)
    assert key.name == f"key-{key.key[:8]}"
    assert not key.development
    assert open_trust(public.parent).keys == {key.key: key}
    assert Signer.open(public.parent / "signing.key").key == key


def test_development_key_says_so_in_its_public_half(tmp_path):
    public = keygen(tmp_path, development=True)
    assert public.read_text().endswith(" development\n")


def test_keygen_never_writes_over_a_key(tmp_path, keys):
    before = (keys / "signing.key").read_bytes()
    with pytest.raises(BadInput, match=r"signing\.key is there already"):
        keygen(keys)
    (keys / "signing.key").rename(tmp_path / "kept")
    with pytest.raises(BadInput, match=r"signing\.pub is there already"):
        keygen(keys)
    assert (tmp_path / "kept").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be made"):
        keygen(tmp_path / "file")


def test_passphrase_is_needed_and_checked(tmp_path, exported):
    keygen(tmp_path / "keys", passphrase=PASSPHRASE)
    key, out = tmp_path / "keys" / "signing.key", tmp_path / "b.veil"
    assert is_encrypted(key)
    assert b"ENCRYPTED" in key.read_bytes()
    with pytest.raises(BadInput, match="needs a passphrase, and none was given"):
        seal(exported, key, out)
    with pytest.raises(BadInput, match="The passphrase is not the right one"):
        seal(exported, key, out, passphrase=PASSPHRASE.replace("ü", "u"))
    assert not out.exists()
    seal(exported, key, out, passphrase=PASSPHRASE)
    read_bundle(out, open_trust(tmp_path / "keys"))
    with pytest.raises(BadInput, match="at least one character"):
        keygen(tmp_path / "more", passphrase="")


def test_a_plain_key_takes_no_passphrase(keys):
    assert not is_encrypted(keys / "signing.key")
    with pytest.raises(BadInput, match="has no passphrase, and one was given"):
        Signer.open(keys / "signing.key", passphrase=PASSPHRASE)


def test_a_key_that_others_can_read_is_refused(keys):
    (keys / "signing.key").chmod(0o640)
    with pytest.raises(BadInput, match=r"can be read by others \(mode 640; 600 was expected\)"):
        Signer.open(keys / "signing.key")


def test_what_is_no_key_is_said(tmp_path, keys):
    with pytest.raises(BadInput, match=r"none\.key cannot be read"):
        Signer.open(tmp_path / "none.key")
    (keys / "signing.key").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(BadInput, match="could not be opened as a signing key"):
        Signer.open(keys / "signing.key")
    with pytest.raises(BadInput, match=r"signing\.pub .* holds no private key. Name .*signing\.key"):
        Signer.open(keys / "signing.pub")


def test_a_key_of_another_kind_is_refused(keys):
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (keys / "signing.key").write_bytes(pem)
    with pytest.raises(BadInput, match="not one for Ed25519"):
        Signer.open(keys / "signing.key")


def test_the_public_half_must_be_there_and_fit(tmp_path, keys):
    keygen(tmp_path / "other")
    (tmp_path / "other" / "signing.pub").replace(keys / "signing.pub")
    with pytest.raises(BadInput, match="is not the public half of"):
        Signer.open(keys / "signing.key")
    (keys / "signing.pub").unlink()
    with pytest.raises(BadInput, match=r"signing\.pub cannot be read"):
        Signer.open(keys / "signing.key")


# Sealing


def test_sealed_bundle_is_verified_and_holds_what_was_exported(tmp_path, keys, exported):
    out = seal(exported, keys / "signing.key", tmp_path / "b.veil")
    assert out == tmp_path / "b.veil"
    bundle = read_bundle(out, open_trust(keys))
    assert not bundle.development
    assert bundle.manifest.document["privacy"]["speaks_of"].keys() == {"tflite-int8"}
    assert bundle.members["privacy/audit.json"] == (exported / "audit.json").read_bytes()
    for name, data in bundle.members.items():
        if name.startswith(("artefacts/", "golden/")):
            assert data == (exported / name).read_bytes()
    assert "export.json" not in bundle.members
    assert listing(tmp_path) == ["b.veil", "export", "keys"]


def test_the_same_folder_and_key_give_the_same_bytes(tmp_path, keys, exported):
    first = seal(exported, keys / "signing.key", tmp_path / "a.veil").read_bytes()
    for path in exported.rglob("*"):
        os.utime(path, (1, 1))
    assert seal(exported, keys / "signing.key", tmp_path / "b.veil").read_bytes() == first


def test_a_bundle_that_is_there_is_kept(exported, tmp_path):
    keys, out = tmp_path / "keys", tmp_path / "a.veil"
    keygen(keys, development=True)
    first = seal(exported, keys / "signing.key", out).read_bytes()
    with pytest.raises(BadInput, match="--replace"):
        seal(exported, keys / "signing.key", out)
    with locked(out, "seal"), pytest.raises(BadInput, match="is being written by edgeveil seal"):
        seal(exported, keys / "signing.key", out, replace=True)
    assert out.read_bytes() == first
    seal(exported, keys / "signing.key", out, replace=True)
    (old,) = tmp_path.glob("a.2*Z.veil")
    assert old.read_bytes() == first


def test_other_examples_are_sealed_too(tmp_path, keys):
    for number, example in enumerate((bundles.numpy_example, bundles.channel_example)):
        folder = bundles.export_folder(tmp_path / str(number), example())
        out = seal(folder, keys / "signing.key", tmp_path / f"{number}.veil", allow_unaudited=True)
        assert read_bundle(out, open_trust(keys)).manifest.privacy.file is None


@pytest.mark.parametrize(("example", "noted"), [("captured_example", True), ("artefact_example", False)])
def test_codes_that_nothing_holds_are_noted_where_the_bundle_is_for_a_camera(
    example, noted, tmp_path, keys, capsys, monkeypatch
):
    monkeypatch.setattr(seal_module.stream_bound, "unheld", lambda stages, stream: stream is None)
    folder = bundles.export_folder(tmp_path / "made", getattr(bundles, example)())
    seal(folder, keys / "signing.key", tmp_path / "made.veil", allow_unaudited=True)
    assert ("nothing holds it" in capsys.readouterr().err) == noted


def test_development_key_makes_a_development_bundle(tmp_path, exported):
    keygen(tmp_path / "keys", development=True)
    out = seal(exported, tmp_path / "keys" / "signing.key", tmp_path / "b.veil")
    assert read_bundle(out, open_trust(tmp_path / "keys")).development
    assert "DEVELOPMENT" in verify(out, tmp_path / "keys").text()
    public = tmp_path / "keys" / "signing.pub"
    public.write_text(public.read_text().replace(" development", ""))
    with pytest.raises(BundleRefused) as refusal:
        read_bundle(out, open_trust(tmp_path / "keys"))
    assert refusal.value.reason == "development-mismatch"


def test_without_an_audit_it_refuses(tmp_path, keys, exported):
    (exported / "audit.json").unlink()
    with pytest.raises(BadInput, match=r"audit of these artefacts was expected.*edgeveil audit .*--no-audit"):
        seal(exported, keys / "signing.key", tmp_path / "b.veil")
    assert not (tmp_path / "b.veil").exists()
    out = seal(exported, keys / "signing.key", tmp_path / "b.veil", allow_unaudited=True)
    assert read_bundle(out, open_trust(keys)).manifest.document["privacy"] == bundles.not_audited()
    assert "not audited" in inspect(out, keys).text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a["speaks_of"]["tflite-int8"].update(generator="0" * 64), "is of another tflite-int8 than"),
        (lambda a: a["speaks_of"].update(tflite={"generator": "0" * 64}), "which was not exported"),
        (lambda a: a["speaks_of"]["tflite-int8"].clear(), "is of another tflite-int8 than"),
        (lambda a: a["speaks_of"].clear(), "speaks of no artefact that ships"),
    ],
)
def test_an_audit_of_something_else_is_no_audit(tmp_path, keys, exported, change, message):
    change_json(exported / "audit.json", change)
    with pytest.raises(BadInput, match=message):
        seal(exported, keys / "signing.key", tmp_path / "b.veil")
    out = seal(exported, keys / "signing.key", tmp_path / "b.veil", allow_unaudited=True)
    assert read_bundle(out, open_trust(keys)).manifest.privacy.file is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"speaks_of": []}', '{"speaks_of": {"a": 1}}', '{"a": NaN}', "\x00"])
def test_an_audit_that_is_none_is_said(tmp_path, keys, exported, text):
    (exported / "audit.json").write_text(text)
    with pytest.raises(BadInput, match=r"audit"):
        seal(exported, keys / "signing.key", tmp_path / "b.veil")


def test_audits_of_further_artefacts_count_too(tmp_path, keys, exported):
    manifest = json.loads((exported / "manifest.json").read_text())
    other = bundles.audit_document(manifest, "onnx-float32")
    keras = {**bundles.audit_document(manifest), "artefact": "keras", "speaks_of": {}, "pipeline": {}}
    change_json(exported / "audit.json", lambda audit: audit.update(others=[other, keras]))
    out = seal(exported, keys / "signing.key", tmp_path / "b.veil")
    assert verify(out, keys).document()["audited"] == ["onnx-float32", "tflite-int8"]
    assert verify(out, keys).document()["not_audited"] == []


@pytest.mark.parametrize(
    "text", ["/home/ann/x.npz", "npz:/data/x.npz", "~/x", "../x", r"C:\Users\ann", "see /tmp/x", "'/etc/x'"]
)
def test_paths_stay_out_of_the_bundle(tmp_path, keys, exported, text):
    change_json(exported / "audit.json", lambda audit: audit.update(data={"name": text}))
    with pytest.raises(BadInput, match=r"audit\.json names a path of this machine"):
        seal(exported, keys / "signing.key", tmp_path / "b.veil")
    (exported / "audit.json").unlink()
    change_json(exported / "manifest.json", lambda manifest: manifest["perturber"].update(target=text))
    with pytest.raises(BadInput, match=r"manifest\.json names a path of this machine"):
        seal(exported, keys / "signing.key", tmp_path / "b.veil", allow_unaudited=True)


@pytest.mark.parametrize("text", ["95 % / 90 %", "and/or", "1/2", "https://example.org/x", "a: b", "Wilson"])
def test_what_is_no_path_may_go_in(tmp_path, keys, exported, text):
    change_json(exported / "audit.json", lambda audit: audit.update(note=text))
    seal(exported, keys / "signing.key", tmp_path / "b.veil")


def test_its_own_output_is_read_again_before_it_takes_its_name(tmp_path, keys, exported, monkeypatch):
    (tmp_path / "b.veil").write_bytes(b"the old one")
    monkeypatch.setattr(seal_module, "pack", lambda members: b"PK broken")
    with pytest.raises(BundleRefused):
        seal(exported, keys / "signing.key", tmp_path / "b.veil", replace=True)
    assert (tmp_path / "b.veil").read_bytes() == b"the old one"
    assert listing(tmp_path) == ["b.veil", "export", "keys"]


def test_a_full_disk_leaves_nothing_half_written(keys, exported):
    with pytest.raises(DeviceFailed, match="cannot write"):
        seal(exported, keys / "signing.key", Path("/nonexistent/b.veil"))
    assert not Path("/nonexistent").exists()


# What a bundle says of itself


def test_card_shows_the_adaptive_number_first_and_calls_the_others_what_they_are(tmp_path, keys, exported):
    out = seal(exported, keys / "signing.key", tmp_path / "b.veil")
    text = inspect(out, keys, full=True).text()
    assert re.search(r"The best attack found of \d+ \(forest", text).start() < text.index("non-adaptive")
    assert "64.0 % [62.0 %, 66.0 %]" in text
    for line in text.splitlines():
        assert "52.0 %" not in line or "non-adaptive" in line or "D_y" in line
    assert "NOT audited: onnx-float32" in text
    for name, data in read_bundle(out, open_trust(keys)).members.items():
        assert name in text
        assert f"{len(data):>10}" in text


def test_the_short_view_is_25_lines_at_most_and_names_what_matters(tmp_path, keys, exported):
    out = seal(exported, keys / "signing.key", tmp_path / "b.veil")
    view = inspect(out, keys)
    lines = view.text().splitlines()
    assert len(lines) <= 25
    for word in ("verified", "signed by", "perturber ", "sensor ", "leaves ", "tflite-int8: ", "NOT audited", "--full"):
        assert any(word in line for line in lines), word
    assert "is read right" in view.text()
    assert len(inspect(out, keys, full=True).text().splitlines()) > 2 * len(lines)


def test_a_card_of_many_warnings_and_artefacts_is_told_in_a_dozen_lines(tmp_path, keys, exported):
    out = seal(exported, keys / "signing.key", tmp_path / "b.veil")
    card = inspect(out, keys).document()["card"]
    part = card["artefacts"][0]
    found = {"artefact": "tflite-int8", "sentence": "At most 70 %."}
    many = {**card, "warnings": list("abcdefg"), "artefacts": [part] * 5, "guarantees": [found] * 6}
    lines = list(brief_lines(many))
    assert len(lines) <= 12
    assert [line for line in lines if line.startswith("  and ")] == ["  and 5 more warnings", "  and 3 more artefacts"]
    assert "  certified (tflite-int8): At most 70 %." in lines


def test_view_as_json(tmp_path, keys, exported):
    out = seal(exported, keys / "signing.key", tmp_path / "b.veil")
    document = json.loads(json.dumps(inspect(out, keys).document()))
    assert document["verified"] is True
    assert document["audited"] == ["tflite-int8"]
    assert document["not_audited"] == ["onnx-float32"]
    assert document["audit"] == json.loads((exported / "audit.json").read_text())
    assert document["card"]["schema"] == 2
    assert document["manifest"]["name"] == "artefact-example"
    assert "manifest" not in verify(out, keys).document()


def test_nothing_of_a_bundle_by_a_stranger_is_shown(tmp_path, keys, exported):
    keygen(tmp_path / "other")
    out = seal(exported, tmp_path / "other" / "signing.key", tmp_path / "b.veil")
    for look in (inspect, verify):
        with pytest.raises(BundleRefused) as refusal:
            look(out, keys)
        assert refusal.value.reason == "untrusted-key"


def test_a_card_of_an_unknown_form_is_no_traceback_and_plays_no_tricks(tmp_path, keys, exported):

    def rename(audit):
        for one in (*audit["adversaries"], audit["worst_adaptive"], audit["most_bits"]):
            one["name"] = "\x1b[2Jforest"

    change_json(exported / "audit.json", rename)
    text = inspect(seal(exported, keys / "signing.key", tmp_path / "a.veil"), keys).text()
    assert "\x1b" not in text
    change_json(exported / "audit.json", lambda audit: audit.pop("intervals"))
    with pytest.raises(BadInput, match="lacks what a privacy card must say"):
        seal(exported, keys / "signing.key", tmp_path / "b.veil")
    strange = bundles.make_bundle(tmp_path, example=bundles.artefact_example())
    assert "cannot show" in inspect(strange.path, strange.trust).text()


CARD = json.loads((ROOT / "docs/reference/schemas" / "privacy.schema.json").read_text())


def test_the_card_says_whose_statement_it_is_and_nothing_unassumed_is_a_guarantee(tmp_path, keys, exported):
    document = read_bundle(seal(exported, keys / "signing.key", tmp_path / "b.veil"), open_trust(keys))
    card = json.loads(document.members["privacy/privacy.json"])
    page = document.members["privacy/card.html"].decode()
    assert set(card) == set(CARD["required"])
    assert "the maker's own statement" in card["statement"]
    assert "maker&#39;s own statement" in page
    assert card["guarantees"] == []
    assert "Guarantees" in page
    assert any("Several releases" in line for line in card["not_tested"])
    assert not re.search(r"url\(|@import|https?:", page)
    assert "default-src 'none'; " in page


def test_tables_changed_between_audit_and_seal_are_refused(tmp_path, keys):
    """The weights are the ones that were audited; what they choose from is not."""
    manifest, members = bundles.numpy_example()
    folder = bundles.export_folder(tmp_path / "export", (manifest, members))
    audited = bundles.audit_document(manifest, "numpy", members)
    table = next(iter(manifest["tables"].values()))
    (folder / "audit.json").write_text(json.dumps(audited))
    assert verify(seal(folder, keys / "signing.key", tmp_path / "a.veil"), keys).document()["audited"] == ["numpy"]
    rows = np.load(folder / table["file"])
    np.save(folder / table["file"], rows + 1)
    with pytest.raises(BadInput, match="its stages or tables have changed since"):
        seal(folder, keys / "signing.key", tmp_path / "b.veil")
