"""Root keys replace themselves by a chain, thresholds hold, and a board of schema 1 is taken over by one file."""

import pytest

from edgeveil.edge_runtime.bundle.trust_file import read_trust_file
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from tests.edge_runtime.bundle.signed_trust import contents, device, public, role, trust_file
from tests.support import bundles

THREE = ("ann", "bob", "eve")


def version_of(folder):
    return open_trust(folder).version


def test_the_root_rotates_when_old_and_new_keys_sign(tmp_path):
    folder = device(tmp_path / "trust", trust_file(1))
    second = trust_file(2, ("root", "ann", "eve"), root=THREE, threshold=2)
    assert update_trust(str(folder), second) is True
    trust = open_trust(folder)
    assert (trust.version, trust.roles["root"]) == (2, role(THREE, 2))
    # The old root key says nothing any more; two of the new ones do.
    with pytest.raises(BundleRefused) as refused:
        update_trust(str(folder), trust_file(3, ("root",), root=THREE, threshold=2))
    assert refused.value.reason == "untrusted-key"
    assert update_trust(str(folder), trust_file(3, ("bob", "eve"), root=THREE, threshold=2)) is True


@pytest.mark.parametrize("signers", [("root",), ("root", "ann"), ("ann", "bob"), THREE], ids="-".join)
def test_a_rotation_that_one_side_did_not_sign_is_refused(tmp_path, signers):
    folder = device(tmp_path / "trust", trust_file(1))
    before = contents(folder)
    with pytest.raises(BundleRefused) as refused:
        update_trust(str(folder), trust_file(2, signers, root=THREE, threshold=2))
    assert refused.value.reason in ("below-threshold", "untrusted-key")
    assert contents(folder) == before


def chain():
    """Five versions; the root key changes in the third and in the fifth."""
    return [
        trust_file(1),
        trust_file(2, security_version=2),
        trust_file(3, ("root", "ann"), root=("ann",)),
        trust_file(4, ("ann",), root=("ann",), security_version=4),
        trust_file(5, ("ann", "bob"), root=("bob",)),
    ]


@pytest.mark.parametrize("start", range(5))
def test_a_board_that_is_behind_walks_the_chain_from_where_it_is(tmp_path, start):
    files = chain()
    folder = device(tmp_path / "trust", files[start])
    assert update_trust(str(folder), b"\n".join(files)) is (start < 4)
    assert version_of(folder) == 5
    assert (folder / "trust.json").read_bytes() == files[-1]


def test_a_board_that_lost_its_trust_file_gets_it_back_by_the_chain_from_root_pub(tmp_path, capsys):
    files = chain()
    folder = device(tmp_path / "opt" / "trust", files[2])
    (folder / "trust.json").unlink()
    with pytest.raises(BadInput, match=r"edgeveil-edge trust FILE with trust-chain\.json"):
        open_trust(folder)
    with pytest.raises(BundleRefused):
        update_trust(str(folder), files[4])  # root.pub does not know who signed it
    (tmp_path / "trust-chain.json").write_bytes(b"\n".join(files))
    assert main(["trust", str(tmp_path / "trust-chain.json"), "--root", str(tmp_path / "opt")]) == 0
    assert capsys.readouterr().out == "taken\n"
    assert version_of(folder) == 5


def test_a_board_of_schema_1_is_taken_over_by_one_file_and_never_goes_back(tmp_path):
    old = trust_file(3, schema=1, revoked=(public("gone").key,), audience="ward-7")
    folder = device(tmp_path / "trust", old)
    assert bundles.public_hex(bundles.KEY) in open_trust(folder).keys
    # Versions may lie between: schema 1 had no chain.
    newer = trust_file(6, ("root", "ann"), root=("ann",), audience="ward-7", runtimes=("a" * 64,))
    assert update_trust(str(folder), newer) is True
    trust = open_trust(folder)
    assert (trust.version, trust.audience, trust.runtimes) == (6, "ward-7", frozenset(["a" * 64]))
    for back in (old, trust_file(7, schema=1)):
        with pytest.raises(BundleRefused) as refused:
            update_trust(str(folder), back)
        assert refused.value.reason == "rolled-back"


def test_a_stranger_cannot_take_a_board_of_schema_1_over(tmp_path):
    folder = device(tmp_path / "trust", trust_file(3, schema=1))
    for first in ("root", "eve"):
        with pytest.raises(BundleRefused) as refused:
            update_trust(str(folder), trust_file(4, ("eve",), root=("eve",), first=first))
        assert refused.value.reason == "untrusted-key"


def test_what_a_trust_file_says_reaches_the_board(tmp_path):
    said = {"product": "hall", "runtimes": ("b" * 64,), "index_stale_days": 30, "security_version": 4}
    roles = {"auditor": role(["judge", "jury"], 2), "runtime": role(["smith"])}
    trust = open_trust(device(tmp_path / "trust", trust_file(1, roles=roles, **said)), floor=2)
    assert (trust.product, trust.index_stale_days, trust.floor) == ("hall", 30, 4)
    assert trust.runtimes == frozenset(["b" * 64])
    assert {name: trust.roles[name] for name in roles} == roles


def put(path, value):
    def change(payload):
        owner = payload
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = value

    return change


def listed(*names, threshold=1):
    return {"keys": [public(name)._asdict() for name in names], "threshold": threshold}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["root"], listed("root", "root"), "listed twice"),
        (["root"], listed("root", threshold=2), "2 of 1 keys"),
        (["root"], listed("root", threshold=0), "expected 1 to 16"),
        (["root"], listed(), "at least one root key"),
        (["roles", "auditor"], listed("ann", "ann", threshold=2), "listed twice"),
        (["roles", "maker"], listed("ann", "bob", threshold=2), "one signature"),
        (["roles", "maker"], listed("root"), "may sign trust files alone"),
        (["roles", "release"], listed("root"), "may sign trust files alone"),
        (["revoked"], [public("root").key], "was revoked"),
        (["revoked"], [bundles.public_hex(bundles.KEY)], "was revoked"),
        (["runtimes"], ["A" * 64], "lower-case"),
        (["product"], "Hall 7", "expected at most"),
        (["index_stale_days"], 0, "expected 1 to 3650"),
        (["schema"], 1, "schema 2"),
        (["extra"], 1, "not known here"),
    ],
)
def test_a_trust_file_that_says_nonsense_is_refused_however_well_it_is_signed(path, value, words):
    with pytest.raises(BundleRefused, match=words):
        read_trust_file(trust_file(1, change=put(path, value)), public("root"))
