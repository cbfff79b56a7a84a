"""A device's trust is whole, or nothing is accepted: no lost, damaged or unreadable file opens anything."""

import errno
import itertools
import os
import re

import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.signing.keys import public_key_line
from tests.edge_runtime.bundle.signed_trust import contents, device, policy_file, private, public, trust_file
from tests.support import bundles

PARTS = ("root.pub", "trust.json", "policy.json", "policy-signed.json")
POLICY = {"schema": 1, "hide": [{"sensitive": "identity", "audited": False, "most_attack_over_chance": None}]}


@pytest.fixture
def trust(tmp_path):
    """All four files, and a maker's public key that somebody left beside them."""
    folder = device(tmp_path / "trust", trust_file(1))
    assert update_policy(str(folder), policy_file(1, POLICY)) is True
    (folder / "maker.pub").write_text(public_key_line(bundles.trusted()))
    return folder


def subsets():
    for count in range(len(PARTS)):
        yield from itertools.combinations(PARTS, count)


# policy-signed.json lost leaves the policy in force; both of them lost is a device that never had a policy.
WHOLE = {frozenset(PARTS), frozenset(PARTS[:3]), frozenset(PARTS[:2])}


@pytest.mark.parametrize("left", list(subsets()), ids=lambda left: "+".join(left) or "nothing")
def test_every_loss_is_refused_or_leaves_all_that_counts(trust, left):
    for name in set(PARTS) - set(left):
        (trust / name).unlink()
    if not left:
        assert list(open_trust(trust).keys) == [bundles.public_hex(bundles.KEY)]  # a folder of public keys
    elif frozenset(left) in WHOLE:
        assert (open_trust(trust).policy is not None) == ("policy.json" in left)
    else:
        with pytest.raises(BadInput, match=r"not whole, so nothing is accepted: .* is missing\. To mend it, "):
            open_trust(trust)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("data", [b"", b"\0" * 64, b"{}", b"garbage\n"], ids=["empty", "zeros", "object", "text"])
def test_garbage_in_one_of_them_is_refused(trust, name, data):
    (trust / name).write_bytes(data)
    with pytest.raises(BadInput):
        open_trust(trust)


@pytest.mark.parametrize("name", PARTS)
def test_garbage_beside_plain_keys_is_refused(tmp_path, name):
    (tmp_path / "maker.pub").write_text(public_key_line(bundles.trusted()))
    assert open_trust(tmp_path).policy is None
    (tmp_path / name).write_bytes(b"garbage")
    with pytest.raises(BadInput, match="not whole"):
        open_trust(tmp_path)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ELOOP], ids=errno.errorcode.get)
def test_what_cannot_be_read_is_refused_and_said(trust, monkeypatch, name, number):
    path, real = str(trust / name), os.open

    def failing(asked, *arguments, **options):
        if str(asked) == path:
            raise OSError(number, os.strerror(number), path)
        return real(asked, *arguments, **options)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(BadInput, match=f"{re.escape(path)} cannot be read.*To mend it"):
        open_trust(trust)


@pytest.mark.parametrize("name", PARTS)
def test_a_link_to_nothing_and_a_folder_are_not_absent(trust, name):
    (trust / name).unlink()
    (trust / name).symlink_to(trust / "nothing")
    with pytest.raises(BadInput, match="cannot be read"):
        open_trust(trust)
    (trust / name).unlink()
    (trust / name).mkdir()
    with pytest.raises(BadInput, match="cannot be read"):
        open_trust(trust)


@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_a_lost_policy_comes_back_by_the_file_that_it_came_by(trust, damage):
    """It was "has it already" before."""
    before = contents(trust)
    policy = trust / "policy.json"
    policy.unlink()
    if damage == "damaged":
        policy.write_bytes(b"garbage")
    assert update_policy(str(trust), (trust / "policy-signed.json").read_bytes()) is True
    assert contents(trust) == before
    assert update_policy(str(trust), (trust / "policy-signed.json").read_bytes()) is False


def test_a_root_key_signs_no_bundle(tmp_path, trust):
    """Neither with its trust file nor, as once, where that was lost."""
    made = bundles.make_bundle(tmp_path, key=private("root"))
    with pytest.raises(BundleRefused, match="signs trust files alone") as refused:
        read_bundle(made.path, open_trust(trust))
    assert refused.value.reason == "untrusted-key"
    (trust / "trust.json").unlink()
    with pytest.raises(BadInput, match=r"trust\.json is missing"):
        read_bundle(made.path, open_trust(trust))


def test_a_root_key_among_the_makers_of_schema_1_signs_no_bundle(tmp_path):
    keys = [public("root")._asdict(), bundles.trusted()._asdict()]
    old = trust_file(1, schema=1, change=lambda payload: payload.update(keys=keys))
    made = bundles.make_bundle(tmp_path, key=private("root"))
    with pytest.raises(BundleRefused, match="signs trust files alone"):
        read_bundle(made.path, open_trust(device(tmp_path / "device", old)))


def test_the_file_of_another_trust_is_not_this_one(trust):
    (trust / "trust.json").write_bytes(trust_file(1, ("eve",), root=("eve",), first="eve"))
    with pytest.raises(BundleRefused, match="began under the root key"):
        open_trust(trust)
