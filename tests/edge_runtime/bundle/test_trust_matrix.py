"""Downgrade and mix-and-match: every cell is one thing that somebody may send to a board, and every cell is refused.

Ways: a bundle is installed by hand, fetched by a signed index, gone back to, or opened at a start; a trust file or a
policy is sent, alone or in a chain. The name of each test says which cell of how many it is.
"""

import itertools
import json

import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy, update_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.releases.index import read_index
from tests.edge_runtime.bundle.signed_trust import (
    audited_bundle,
    contents,
    device,
    envelope,
    policy_file,
    public,
    role,
    trust_file,
)
from tests.edge_runtime.bundle.taken_once import SINCE, WAYS, attempt, board, counted, index_of, policy, say

ROOTS = ("ann", "bob", "eve")


def cells(*axes):
    """Every combination, each named by its place among all of them."""
    every = list(itertools.product(*axes))
    named = (f"{place} of {len(every)}: {', '.join(cell)}" for place, cell in enumerate(every, 1))
    return [pytest.param(*cell, id=name) for cell, name in zip(every, named, strict=True)]


@pytest.mark.parametrize(("since", "way"), cells(SINCE, WAYS))
def test_a_bundle_that_was_taken_once_is_refused_today(tmp_path, since, way, record_property):
    counted(record_property, way, since)
    folder, releases, old = board(tmp_path)
    if way in ("start", "service"):
        assert read_bundle(old, open_trust(folder))
    say(since, folder)
    current = releases.current
    with pytest.raises(BundleRefused) as refused:
        attempt(way, folder, releases, old)
    assert refused.value.reason == SINCE[since][2]
    assert (releases.current, releases.state().committed) == (current, current)


# What somebody may send to a board whose root is 2 of ann, bob and eve, at version 5, with version 3 of a policy.
def sent(version, signers=("ann", "bob"), **more):
    return trust_file(version, signers, **{"root": ROOTS, "threshold": 2, "first": "ann", **more})


def twice(data):
    """One signature listed twice."""
    document = json.loads(data)
    document["signatures"] *= 2
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def capitals(data):
    key = public("ann").key.encode()
    return data.replace(b'"key":"' + key + b'","sig', b'"key":"' + key.upper() + b'","sig')


TRUST = {
    "the version before": lambda: sent(4),
    "the same version, otherwise": lambda: sent(5, security_version=3),
    "a gap": lambda: sent(7),
    "a chain with a gap": lambda: b"\n".join([sent(4), sent(5), sent(7)]),
    "a chain whose middle is not signed": lambda: b"\n".join([sent(6, ("ann",)), sent(7)]),
    "a chain whose end is not signed": lambda: b"\n".join([sent(6), sent(7, ("ann",))]),
    "a chain of old files": lambda: b"\n".join([sent(3), sent(4)]),
    "a chain with a line of garbage": lambda: b"\n".join([sent(6), b"", sent(7)]),
    "below the threshold": lambda: sent(6, ("ann",)),
    "nobody's": lambda: sent(6, ()),
    "one signature twice": lambda: twice(sent(6, ("ann",))),
    "one signature twice, one in capitals": lambda: capitals(twice(sent(6, ("ann",)))),
    "one of ours and a stranger": lambda: sent(6, ("ann", "stranger")),
    "strangers": lambda: sent(6, ("stranger", "other")),
    "a rotation by the new keys alone": lambda: sent(6, ("new",), root=("new",), threshold=1),
    "a rotation by the old keys alone": lambda: sent(6, ("ann", "bob"), root=("new",), threshold=1),
    "a threshold lowered by one key": lambda: sent(6, ("ann",), threshold=1),
    "schema 1": lambda: sent(6, ("ann",), schema=1),
    "the trust of somebody else": lambda: trust_file(6, ("stranger",), root=("stranger",), first="stranger"),
    "a policy": lambda: policy_file(4, policy(), ("ann", "bob")),
    "signed as if it were a policy": lambda: envelope(
        "policy", json.loads(json.loads(sent(6))["payload"]), ("ann", "bob")
    ),
    "a key in its file": lambda: b"edgeveil-ed25519 " + public("ann").key.encode(),
}
POLICIES = {
    "the version before": lambda: policy_file(2, policy(), ("ann", "bob")),
    "the same version, otherwise": lambda: policy_file(3, policy(most=0.9), ("ann", "bob")),
    "below the threshold": lambda: policy_file(4, policy(), ("ann",)),
    "one signature twice": lambda: twice(policy_file(4, policy(), ("ann",))),
    "strangers": lambda: policy_file(4, policy(), ("stranger", "other")),
    "one of ours and a stranger": lambda: policy_file(4, policy(), ("ann", "stranger")),
    "a trust file": lambda: sent(6),
    "without a demand": lambda: policy_file(4, {"schema": 1, "hide": []}, ("ann", "bob")),
}


@pytest.fixture
def settled(tmp_path):
    folder = device(tmp_path / "trust", sent(5), first="ann")
    assert update_policy(str(folder), policy_file(3, policy(), ("ann", "bob")))
    return folder


@pytest.mark.parametrize("what", cells(TRUST))
def test_a_trust_file_is_refused_and_nothing_changes(settled, what, record_property):
    counted(record_property, "trust file sent", what)
    before = contents(settled)
    with pytest.raises(BundleRefused):
        update_trust(str(settled), TRUST[what]())
    assert contents(settled) == before
    assert update_trust(str(settled), sent(6)) is True  # the true one is still taken


@pytest.mark.parametrize("what", cells(POLICIES))
def test_a_policy_is_refused_and_nothing_changes(settled, what, record_property):
    counted(record_property, "policy sent", what)
    before = contents(settled)
    with pytest.raises(BadInput):
        update_policy(str(settled), POLICIES[what]())
    assert contents(settled) == before
    assert update_policy(str(settled), policy_file(4, policy(), ("bob", "eve"))) is True


INDEXES = {
    "a maker": ["judge"],
    "an auditor": ["auditor"],
    "a root key": ["ann", "bob"],
    "a stranger": ["stranger"],
    "a revoked key": ["gone"],
    "one of two": ["release"],
}


@pytest.mark.parametrize("who", cells(INDEXES))
def test_an_index_that_the_role_release_did_not_sign_is_refused(tmp_path, who, record_property):
    """The maker's key signs bundles and no index, once release is a role of its own."""
    counted(record_property, "index sent", "signed by " + who)
    two = role(["release", "second"], 2)
    roles = {"maker": role(["judge"]), "auditor": role(["auditor"]), "release": two}
    trust = open_trust(device(tmp_path / "trust", sent(5, roles=roles, revoked=(public("gone").key,)), first="ann"))
    path = audited_bundle(tmp_path)
    releases = json.loads(json.loads(index_of(path))["payload"])["releases"]
    document = {"schema": 1, "name": "hall", "version": 1, "releases": releases}
    with pytest.raises(BundleRefused):
        read_index(envelope("index", document, INDEXES[who]), trust)
    assert read_index(envelope("index", document, ["release", "second"]), trust).name == "hall"
