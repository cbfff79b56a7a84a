"""Downgrade and mix-and-match: every cell is one thing that somebody may send to a board, and every cell is refused.

Ways: a bundle is installed by hand, fetched by a signed index, gone back to, or opened at a start; a trust file or a
policy is sent, alone or in a chain. The name of each test says which cell of how many it is.
"""

import hashlib
import itertools
import json

import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle, unverified_manifest
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy, update_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.releases.update import read_index, update
from edgeveil.edge_runtime.signing.roles import Role
from tests.edge_runtime.bundle.signed_trust import (
    audited_bundle,
    contents,
    device,
    envelope,
    policy_file,
    private,
    public,
    role,
    trust_file,
)
from tests.support import bundles

MAKER = bundles.trusted()
HIDDEN = bundles.numpy_example()[0]["perturber"]["sensitive"]
ROOTS = ("ann", "bob", "eve")


def policy(sensitive=HIDDEN, most=None, **more):
    demand = {"sensitive": sensitive, "audited": True, "most_attack_over_chance": most}
    return {"schema": 1, "hide": [demand], **more}


# A bundle that a board took once, and what the owner said since: today it is refused, whichever way it comes.
SINCE = {
    "revoked": ({"roles": {"maker": role(["other"])}, "revoked": (MAKER.key,)}, None, "revoked-key"),
    "removed": ({"roles": {"maker": role(["other"])}}, None, "untrusted-key"),
    "old version": ({"security_version": 9}, None, "rolled-back"),
    "wrong audience": ({"audience": "ward-8"}, None, "other-audience"),
    "wrong product": ({"product": "toilet"}, None, "other-product"),
    "policy not met": ({}, policy("gait"), "policy-not-met"),
    "policy over its limit": ({}, policy(most=0.01), "policy-not-met"),
    "audit not countersigned": ({"roles": {"auditor": role(["jury"])}}, policy(countersigned=True), "policy-not-met"),
    "audit below its threshold": (
        {"roles": {"auditor": role(["judge", "jury"], 2)}},
        policy(countersigned=True),
        "policy-not-met",
    ),
    "audit signed by its maker": (
        {"roles": {"auditor": Role((MAKER,))}},
        policy(countersigned=True),
        "policy-not-met",
    ),
}
WAYS = ("install", "index", "rollback", "start", "service")


def cells(*axes):
    """Every combination, each named by its place among all of them."""
    every = list(itertools.product(*axes))
    named = (f"{place} of {len(every)}: {', '.join(cell)}" for place, cell in enumerate(every, 1))
    return [pytest.param(*cell, id=name) for cell, name in zip(every, named, strict=True)]


def board(tmp_path, first_signers=("root",)):
    """A board of audience ward-7 that runs the second of two releases; the first one can be gone back to."""
    folder = device(tmp_path / "opt" / "trust", trust_file(1, first_signers, audience="ward-7"))
    releases = Releases(str(folder.parent), lambda floor: open_trust(folder, floor=floor))
    signers = [private("judge"), bundles.KEY]
    old = audited_bundle(tmp_path, signers, name="old.veil", audience="ward-7", created="2026-11-21T12:00:00Z")
    new = audited_bundle(tmp_path, signers, name="new.veil", audience="ward-7", created="2026-11-22T12:00:00Z")
    for path in (old, new):
        assert releases.install(path.read_bytes(), lambda *_: None) is True
    return folder, releases, old


def index_of(path, key="release"):
    data, manifest = path.read_bytes(), unverified_manifest(str(path))
    said = {name: json.loads(manifest)[name] for name in ("name", "security_version")}
    hashes = {"manifest_sha256": hashlib.sha256(manifest).hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}
    releases = [{**said, **hashes, "size": len(data), "url": path.name}]
    return envelope("index", {"schema": 1, "name": "hall", "version": 1, "releases": releases}, [key])


def attempt(way, tmp_path, folder, releases, old):
    if way == "install":
        releases.install(old.read_bytes(), lambda *_: None)
    elif way == "index":
        (tmp_path / "index.json").write_bytes(index_of(old))
        install = lambda data: releases.install(data, lambda *_: None)  # noqa: E731
        update(releases.root, f"dir:{tmp_path}", open_trust(folder), install, committed=releases.state().committed)
    elif way == "rollback":
        releases.rollback()
    elif way == "start":
        Perturber.open(old, trust=folder).close()
    else:
        read_bundle(old, open_trust(folder))


@pytest.mark.parametrize(("since", "way"), cells(SINCE, WAYS))
def test_a_bundle_that_was_taken_once_is_refused_today(tmp_path, since, way):
    fields, demands, reason = SINCE[since]
    folder, releases, old = board(tmp_path)
    if way in ("start", "service"):
        assert read_bundle(old, open_trust(folder))
    roles = {"release": role(["release"]), **fields.get("roles", {})}
    assert update_trust(str(folder), trust_file(2, **{"audience": "ward-7", **fields, "roles": roles}))
    if demands:
        assert update_policy(str(folder), policy_file(1, demands))
    current = releases.current
    with pytest.raises(BundleRefused) as refused:
        attempt(way, tmp_path, folder, releases, old)
    assert refused.value.reason == reason
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
def test_a_trust_file_is_refused_and_nothing_changes(settled, what):
    before = contents(settled)
    with pytest.raises(BundleRefused):
        update_trust(str(settled), TRUST[what]())
    assert contents(settled) == before
    assert update_trust(str(settled), sent(6)) is True  # the true one is still taken


@pytest.mark.parametrize("what", cells(POLICIES))
def test_a_policy_is_refused_and_nothing_changes(settled, what):
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
def test_an_index_that_the_role_release_did_not_sign_is_refused(tmp_path, who):
    """The maker's key signs bundles and no index, once release is a role of its own."""
    two = role(["release", "second"], 2)
    roles = {"maker": role(["judge"]), "auditor": role(["auditor"]), "release": two}
    trust = open_trust(device(tmp_path / "trust", sent(5, roles=roles, revoked=(public("gone").key,)), first="ann"))
    path = audited_bundle(tmp_path)
    releases = json.loads(json.loads(index_of(path))["payload"])["releases"]
    document = {"schema": 1, "name": "hall", "version": 1, "releases": releases}
    with pytest.raises(BundleRefused):
        read_index(envelope("index", document, INDEXES[who]), trust)
    assert read_index(envelope("index", document, ["release", "second"]), trust).name == "hall"
