"""Keys on a token: SoftHSM2 signs as a key file does, and a PIN never stands in an address.

``test_pkcs11_key`` runs these in a process of their own: next to TensorFlow, SoftHSM2's module ends the process.
"""

import os
import subprocess
from pathlib import Path

import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.sealing import seal as seal_module
from edgeveil.trainer.sealing.keys import Address, Signer, is_encrypted
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles, programs

pytestmark = pytest.mark.programs

MODULES = [Path("/usr/lib/softhsm/libsofthsm2.so"), *Path("/usr/lib").glob("*/softhsm/libsofthsm2.so")]
PIN, LABEL = "4711", "edge veil"
ED25519 = bytes.fromhex("06032b6570")  # its OID in DER


@pytest.fixture(scope="module")
def token(tmp_path_factory):
    """An address of the key ``maker`` on a new token, without its PIN."""
    pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed: pip install 'edgeveil[pkcs11]'")
    module = next(str(path) for path in MODULES if path.exists())
    folder = tmp_path_factory.mktemp("token")
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder}/tokens\nobjectstore.backend = file\n")
    os.environ["SOFTHSM2_CONF"] = str(folder / "softhsm2.conf")  # read once a process, by the library
    words = [
        programs.need("softhsm2-util"),
        "--init-token",
        "--free",
        "--label",
        LABEL,
        "--so-pin",
        "0000",
        "--pin",
        PIN,
    ]
    subprocess.run(words, check=True, capture_output=True)
    import pkcs11

    with pkcs11.lib(module).get_token(token_label=LABEL).open(rw=True, user_pin=PIN) as session:
        for label in ("maker", "ann", "twin", "twin"):
            _make(session, label)
    return f"pkcs11:token=edge%20veil;object=maker?module-path={module}"


def _make(session, label):
    import pkcs11

    template = {pkcs11.Attribute.EC_PARAMS: ED25519}
    parameters = session.create_domain_parameters(pkcs11.KeyType.EC_EDWARDS, template, local=True)
    parameters.generate_keypair(mechanism=pkcs11.Mechanism.EC_EDWARDS_KEY_PAIR_GEN, store=True, label=label)


def test_a_bundle_is_sealed_and_trusted_by_a_key_on_a_token(token, tmp_path, edgeveil, monkeypatch):
    monkeypatch.setattr(seal_module, "zipapp_bytes", lambda: b"the runtime as a zipapp")
    monkeypatch.setattr(
        seal_module, "card_files", lambda document, _manifest: (bundles.card_of(document), b"<!doctype html>")
    )
    pin, export = tmp_path / "pin", bundles.export_folder(tmp_path / "export")
    pin.write_text(PIN + "\n")
    pin.chmod(0o600)
    by_file = f"{token}&pin-source=file:{pin}"
    assert edgeveil("key", "new", tmp_path / "keys", token, "--passphrase-file", pin)[0] == 0
    code, _, err = edgeveil("seal", export, "--key", by_file, "--out", tmp_path / "b.veil")
    assert (code, "Sealed" in err) == (0, True)
    assert read_bundle(tmp_path / "b.veil", open_trust(tmp_path / "keys")).key == Signer.open(by_file).key.key
    # A root key on the token: the folder holds none.
    ann = by_file.replace("object=maker", "object=ann")
    assert edgeveil("key", "new", tmp_path / "ann", ann)[0] == 0
    made = TrustFolder.init(tmp_path / "root", [tmp_path / "keys/signing.pub"], roots=[tmp_path / "ann/signing.pub"])
    assert made.file is None
    assert edgeveil("trust", "sign", tmp_path / "root", "--key", ann)[0] == 0
    assert open_trust(tmp_path / "root").version == 1
    assert edgeveil("audit", "sign", export, "--key", ann)[0] == 0


@pytest.mark.parametrize(
    ("change", "pin", "words"),
    [
        (("edge%20veil", "other"), PIN, "NoSuchToken"),
        (("object=maker", "object=none"), PIN, "Expected one private key .* found 0"),
        (("object=maker", "object=twin"), PIN, "Expected one private key .* found 2"),
        (("", ""), "1", "PinIncorrect|PinLenRange"),
        (("", ""), None, "needs the token's PIN, and none was given"),
        (("libsofthsm2.so", "none.so"), PIN, "cannot be used: .* No such file"),
    ],
)
def test_what_is_wrong_is_one_sentence(token, change, pin, words):
    with pytest.raises(BadInput, match=words):
        Signer.open(token.replace(*change), passphrase=pin)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("pkcs11:token=a;object=b?pin-value=1234", "can be seen by others"),
        ("pkcs11:object=b", "Expected the token and the key"),
        ("pkcs11:token=a", "Expected the token and the key"),
        ("pkcs11:token=a;object=b;slot-id=3", "got 'slot-id=3'"),
        ("pkcs11:token=a;token=b;object=c", "once each"),
        ("pkcs11:token=a;object=b?module-name=softhsm", "got 'module-name=softhsm'"),
        ("pkcs11:", "Expected the token and the key"),
    ],
)
def test_an_address_is_read_strictly(address, words):
    with pytest.raises(BadInput, match=words) as refused:
        is_encrypted(address)
    assert "1234" not in str(refused.value)


def test_the_parts_of_an_address_are_decoded(tmp_path, monkeypatch):
    monkeypatch.delenv("PKCS11_MODULE_PATH", raising=False)
    (tmp_path / "pin").write_text("1234\n")
    found = Address.parse(f"pkcs11:token=a%3Bb;id=%01%ff;object=c%20d?pin-source=file:{tmp_path}/pin")
    assert (found.path["token"], found.path["object"]) == ("a;b", "c d")
    assert found.path["id"].encode("latin-1") == b"\x01\xff"
    with pytest.raises(BadInput, match="can be read by others"):
        found.pin(None)
    (tmp_path / "pin").chmod(0o600)
    assert found.pin(None) == "1234"
    with pytest.raises(BadInput, match="module-path"):
        found.module()
    assert is_encrypted("pkcs11:token=a;object=b") is True
    assert is_encrypted(found.text) is False


def test_without_the_package_it_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pkcs11", None)
    with pytest.raises(BadInput, match=r"edgeveil\[pkcs11\]"):
        Signer.open("pkcs11:token=a;object=b?module-path=/none", passphrase=PIN)
