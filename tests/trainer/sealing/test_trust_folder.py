"""Several holders of root keys: each signs where their key is, and enough of them put a version in force."""

import json
import shutil

import pytest

from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy, update_trust
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.signing.keys import public_key_line, read_public_key
from edgeveil.trainer.sealing.keys import Signer, keygen
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.edge_runtime.bundle.signed_trust import contents, public, trust_file
from tests.support import bundles

HOLDERS = ("ann", "bob", "eve")


@pytest.fixture
def keys(tmp_path):
    """A folder with a key for each holder, for a maker and for an auditor."""
    for name in (*HOLDERS, "maker", "auditor", "new"):
        keygen(tmp_path / name)
    return tmp_path


@pytest.fixture
def two_of_three(keys):
    roots = [keys / name / "signing.pub" for name in HOLDERS]
    return TrustFolder.init(keys / "root", [keys / "maker/signing.pub"], roots=roots, threshold=2)


def sign(keys, *names):
    for name in names:
        made = TrustFolder.open(keys / "root").sign(keys / name / "signing.key")
    return made


def board(keys, name="board"):
    folder = keys / name
    folder.mkdir()
    for part in ("root.pub", "trust.json"):
        shutil.copy(keys / "root" / part, folder / part)
    return folder


def test_two_of_three_put_the_first_version_in_force(keys, two_of_three, edgeveil):
    assert two_of_three.file is None
    assert not (keys / "root/trust.json").exists()
    code, out, err = edgeveil("trust", "sign", keys / "root", "--key", keys / "bob/signing.key")
    assert (code, "waits in" in out, "trust sign" in err) == (0, True, True)
    assert sign(keys, "bob").file is None  # again: a key counts once
    with pytest.raises(BadInput, match="not signed yet"):
        TrustFolder.open(keys / "root").require(3)
    made = sign(keys, "ann")
    assert (made.file.version, made.pending) == (1, None)
    assert not (keys / "root/trust-pending.json").exists()
    assert open_trust(keys / "root").roles["root"].threshold == 2


def test_the_first_of_the_root_keys_must_be_among_those_who_begin(keys, two_of_three):
    """Its key is in root.pub: a board that lost its trust file finds the way back by it."""
    assert sign(keys, "bob", "eve").file is None
    assert sign(keys, "ann").file.version == 1


def test_every_change_waits_and_the_chain_is_kept_for_boards_that_are_behind(keys, two_of_three, edgeveil):
    sign(keys, "ann", "bob")
    folder = board(keys)
    code, _, err = edgeveil("trust", "add", keys / "root", keys / "auditor/signing.pub", "--role", "auditor")
    assert (code, "trust sign" in err) == (0, True)
    code, _, err = edgeveil("trust", "set", keys / "root", "require=4")
    assert (code, "Version 2 waits for signatures" in err) == (2, True)
    sign(keys, "eve", "bob")
    TrustFolder.open(keys / "root").rotate([keys / "new/signing.pub"])
    sign(keys, "ann", "eve")
    assert TrustFolder.open(keys / "root").file.version == 2  # the new key has not signed
    assert sign(keys, "new").file.version == 3
    shown = json.loads(edgeveil("trust", "show", keys / "root", "--json")[1])
    assert (shown["version"], shown["pending"]) == (3, None)
    assert [key["key"] for key in shown["root_role"]["keys"]] == [read_public_key(keys / "new/signing.pub").key]
    assert update_trust(str(folder), (keys / "root/trust-chain.json").read_bytes()) is True
    trust = open_trust(folder)
    assert (trust.version, len(trust.roles["auditor"].keys)) == (3, 1)


def test_a_policy_needs_as_many_signatures(keys, two_of_three, edgeveil):
    sign(keys, "ann", "bob")
    folder = board(keys)
    demand = {"sensitive": "identity", "audited": False, "most_attack_over_chance": None}
    (keys / "policy.json").write_text(json.dumps({"schema": 1, "hide": [demand]}))
    code, out, _ = edgeveil("trust", "set", keys / "root", f"policy={keys / 'policy.json'}")
    assert (code, "waits in" in out) == (0, True)
    assert not (keys / "root/policy-signed.json").exists()
    sign(keys, "ann", "eve")
    assert update_policy(str(folder), (keys / "root/policy-signed.json").read_bytes()) is True


def test_only_a_root_key_signs_and_only_what_waits(keys, two_of_three):
    before = contents(keys / "root")
    with pytest.raises(BadInput, match=r"is no root key that must sign this\. Expected one of: key-"):
        sign(keys, "maker")
    assert contents(keys / "root") == before
    sign(keys, "ann", "bob")
    with pytest.raises(BadInput, match="Nothing waits for a signature"):
        sign(keys, "ann")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 2}, "1 key.s., of which 2"),
        ({"roots": ["ann", "bob"], "threshold": 3}, r"2 key.s., of which 3"),
        ({"roots": ["ann", "ann"], "threshold": 2}, "named twice"),
        ({"roots": ["maker", "bob"]}, "A root key signs trust files alone"),
        ({"audience": "a\nb"}, "audience"),
    ],
)
def test_a_mistake_at_the_beginning_leaves_nothing_behind(keys, options, words):
    options = {**options, "roots": [keys / name / "signing.pub" for name in options.get("roots", ())]}
    with pytest.raises(BadInput, match=words):
        TrustFolder.init(keys / "root", [keys / "maker/signing.pub"], **options)
    assert not (keys / "root").exists()


def test_roles_are_given_taken_and_revoked(keys):
    folder = TrustFolder.init(keys / "root", [keys / "maker/signing.pub"]).folder
    names = {name: read_public_key(keys / name / "signing.pub").name for name in ("maker", "auditor", "new")}
    TrustFolder.open(folder).add(keys / "auditor/signing.pub", role="auditor")
    with pytest.raises(BadInput, match="has the role auditor already"):
        TrustFolder.open(folder).add(keys / "auditor/signing.pub", role="auditor")
    with pytest.raises(BadInput, match=r"2 key.s., of which 3"):
        TrustFolder.open(folder).add(keys / "new/signing.pub", role="auditor", threshold=3)
    TrustFolder.open(folder).add(keys / "new/signing.pub", role="auditor", threshold=2)
    with pytest.raises(BadInput, match=r"1 key.s., of which 2"):
        TrustFolder.open(folder).remove(names["new"], role="auditor")
    made = TrustFolder.open(folder).remove(names["new"], role="auditor", threshold=1)
    assert made.file.roles["auditor"].keys == (read_public_key(keys / "auditor/signing.pub"),)
    with pytest.raises(BadInput, match="cannot have the role maker too"):
        TrustFolder.open(folder).add(folder / "root.pub")
    with pytest.raises(BadInput, match="threshold of the makers is 1"):
        TrustFolder.open(folder).add(keys / "new/signing.pub", threshold=2)
    gone = read_public_key(keys / "new/signing.pub").key
    assert TrustFolder.open(folder).revoke(gone).file.revoked == (gone,)  # it has no role any more
    for known in (gone, read_public_key(folder / "root.pub").key, "0" * 63):
        with pytest.raises(BadInput, match="Expected one key that may sign"):
            TrustFolder.open(folder).revoke(known)
    made = TrustFolder.open(folder).revoke(names["maker"])
    assert (made.file.keys, made.file.roles["release"].keys) == ((), ())  # in every role
    assert open_trust(folder).version == made.file.version


def test_a_folder_of_schema_1_goes_on_and_is_upgraded_once(keys, edgeveil):
    """Made by 0.1: root.pub, signing.key and a trust.json without roles. Its commands are the same."""
    keygen(keys / "root")
    shutil.copy(keys / "root/signing.pub", keys / "root/root.pub")
    signer = Signer.open(keys / "root/signing.key")
    payload = json.loads(json.loads(trust_file(3, schema=1, revoked=(public("gone").key,)))["payload"])
    (keys / "root/trust.json").write_bytes(signer.envelope("trust", payload))
    folder = board(keys)
    assert edgeveil("trust", "set", keys / "root", "require=2")[0] == 0
    assert open_trust(keys / "root").version == 4
    code, _, err = edgeveil("trust", "add", keys / "root", keys / "auditor/signing.pub", "--role", "auditor")
    assert (code, "edgeveil trust upgrade" in err) == (2, True)
    assert edgeveil("trust", "set", keys / "root", "--upgrade")[0] == 0
    assert edgeveil("trust", "set", keys / "root", "--upgrade")[0] == 2
    assert edgeveil("trust", "set", keys / "root", "product=hall", f"runtime={'a' * 64}")[0] == 0
    # A board of 0.1 is taken over by the first file with roles alone, or by the chain.
    assert update_trust(str(folder), (keys / "root/trust-chain.json").read_bytes()) is True
    trust = open_trust(folder)
    assert (trust.version, trust.floor, trust.product, trust.runtimes) == (6, 2, "hall", frozenset(["a" * 64]))
    assert trust.revoked == {public("gone").key}
    assert list(trust.keys) == [bundles.public_hex(bundles.KEY)]
    assert public_key_line(signer.key).split()[1] == trust.roles["root"].keys[0].key


def test_the_floor_is_reset_once_by_the_next_version(keys, edgeveil):
    folder = TrustFolder.init(keys / "root", [keys / "maker/signing.pub"]).folder
    assert edgeveil("trust", "set", folder, "require=7")[0] == 0
    code, out, _ = edgeveil("trust", "set", folder, "floor=3")
    assert (code, "version 3 set the floor of boards back to 3" in out) == (0, True)
    made = TrustFolder.open(folder).require(4)
    assert (made.file.version, made.file.security_version, made.file.floor_reset) == (4, 4, (3, 3))
    assert json.loads(edgeveil("trust", "show", folder, "--json")[1])["floor_reset"] == {"floor": 3, "version": 3}
    assert edgeveil("trust", "set", folder, "floor=-1")[0] == 2


def test_a_file_that_is_not_as_it_must_be_is_named(keys):
    folder = TrustFolder.init(keys / "root", [keys / "maker/signing.pub"]).folder
    document = json.loads(json.loads((folder / "trust.json").read_bytes())["payload"])
    document["index_stale_days"] = 0
    data = Signer.open(folder / "signing.key").envelope("trust", document)
    with pytest.raises(BadInput, match=r"^trust\.json is not one to follow"):
        update_trust(str(board(keys)), data)
