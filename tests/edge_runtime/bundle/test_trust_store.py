"""A device's trust: only its root key says who may sign, nothing goes back, nothing depends on a clock."""

import contextlib
import json

import pytest

from edgeveil.edge_runtime.bundle.trust_file import read_trust_file
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy, update_trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.signing.envelope import message, unwrap, wrap
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.sealing.keys import keygen
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles

SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here


@pytest.fixture
def root(tmp_path):
    """The owner's folder: one key may sign, bundles.KEY."""
    (tmp_path / "test.pub").write_text(public_key_line(bundles.trusted()))
    return TrustFolder.init(tmp_path / "root", [tmp_path / "test.pub"], audience="ward-7", passphrase=SECRET)


def device(tmp_path, root):
    """What lies on a board after its first flash: no private key among it."""
    folder = tmp_path / "device"
    folder.mkdir(exist_ok=True)
    for name in ("root.pub", "trust.json"):
        (folder / name).write_bytes((root.folder / name).read_bytes())
    return folder


def test_a_device_takes_what_a_named_key_signed(tmp_path, root):
    trust = open_trust(device(tmp_path, root), floor=4)
    assert list(trust.keys) == [bundles.public_hex(bundles.KEY)]
    assert (trust.floor, trust.audience) == (4, "ward-7")


def test_a_revoked_key_is_refused_for_what_it_is(tmp_path, root):
    folder = device(tmp_path, root)
    newer = root.revoke("test", passphrase=SECRET)
    assert update_trust(str(folder), (newer.folder / "trust.json").read_bytes()) is True
    trust = open_trust(folder)
    with pytest.raises(BundleRefused) as refused:
        trust.key_of(bundles.public_hex(bundles.KEY))
    assert refused.value.reason == "revoked-key"
    with pytest.raises(BadInput, match="cannot be added again"):
        newer.add(tmp_path / "test.pub", passphrase=SECRET)


def test_a_policy_changes_by_the_root_keys_word_alone_and_never_goes_back(tmp_path, root, capsys):
    folder, signed = device(tmp_path, root), root.folder / "policy-signed.json"

    def policy(sensitive):
        hide = {"sensitive": sensitive, "audited": False, "most_attack_over_chance": None}
        (tmp_path / "policy.json").write_text(json.dumps({"schema": 1, "hide": [hide]}))
        assert root.sign_policy(tmp_path / "policy.json", passphrase=SECRET)
        return signed.read_bytes()

    first, second = policy("identity"), policy("gender")
    assert update_policy(str(folder), first) is True
    assert [demand.sensitive for demand in open_trust(folder).policy.demands] == ["identity"]
    (tmp_path / "opt").mkdir()
    folder.rename(tmp_path / "opt/trust")
    folder = tmp_path / "opt/trust"
    assert main(["policy", str(signed), "--root", str(tmp_path / "opt")]) == 0
    assert main(["policy", str(signed), "--root", str(tmp_path / "opt")]) == 0
    assert capsys.readouterr().out == "taken\nthis board has it already\n"
    assert [demand.sensitive for demand in open_trust(folder).policy.demands] == ["gender"]
    with pytest.raises(BundleRefused, match="has version 1, and the device has 2"):
        update_policy(str(folder), first)
    assert (folder / "policy-signed.json").read_bytes() == second


def test_the_floor_is_the_higher_of_the_two(tmp_path, root):
    root.require(7, passphrase=SECRET)
    folder = device(tmp_path, root)
    assert open_trust(folder, floor=3).floor == 7
    assert open_trust(folder, floor=9).floor == 9
    with pytest.raises(BadInput, match="only rises"):
        TrustFolder.open(root.folder).require(7, passphrase=SECRET)


def test_no_byte_of_a_trust_file_can_be_another(root):
    whole, taken = (root.folder / "trust.json").read_bytes(), []
    for place in range(0, 700, 7):
        data = bytearray(whole)
        data[place % len(data)] ^= 1
        with contextlib.suppress(BundleRefused):
            read_trust_file(bytes(data), root.first)
            taken.append(place)
    assert taken == []


def test_a_signature_of_one_kind_is_none_of_another(tmp_path):
    keygen(tmp_path / "k", development=True)
    from edgeveil.trainer.sealing.keys import Signer

    signer, payload = Signer.open(tmp_path / "k" / "signing.key"), strict_json.dumps({"a": 1})
    data = wrap(payload, signer.key.key, signer.sign(message("index", payload)))
    assert unwrap("index", data, lambda _key: None) == {"a": 1}
    with pytest.raises(BundleRefused) as refused:
        unwrap("trust", data, lambda _key: None)
    assert refused.value.reason == "bad-signature"


def test_the_commands(tmp_path, root, capsys, monkeypatch):
    monkeypatch.setenv("EDGEVEIL_PASSPHRASE", SECRET)
    (tmp_path / "second.pub").write_text(public_key_line(bundles.trusted(bundles.STRANGER)))
    for arguments in (["add", str(root.folder), str(tmp_path / "second.pub")], ["require", str(root.folder), "3"]):
        app(["trust", *arguments], standalone_mode=False)
    capsys.readouterr()
    app(["trust", "show", str(root.folder), "--json"], standalone_mode=False)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["version"], shown["security_version"], len(shown["keys"])) == (3, 3, 2)
    app(["trust", "revoke", str(root.folder), bundles.public_hex(bundles.STRANGER)[:8]], standalone_mode=False)
    assert bundles.public_hex(bundles.STRANGER) in capsys.readouterr().out.split("revoked:")[1]
