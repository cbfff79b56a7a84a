"""A bundle that a board took once, and what its owner said since: today it is refused, whichever way it comes."""

import functools
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from edgeveil.edge_runtime.bundle.reader import read_bundle, unverified_manifest
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy, update_trust
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.releases.index import update
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.roles import Role
from tests.edge_runtime.bundle.signed_trust import (
    audited_bundle,
    device,
    envelope,
    policy_file,
    private,
    role,
    trust_file,
)
from tests.support import bundles, once

MAKER = bundles.trusted()
HIDDEN = bundles.numpy_example()[0]["perturber"]["sensitive"]


def policy(sensitive=HIDDEN, most=None, **more):
    demand = {"sensitive": sensitive, "audited": True, "most_attack_over_chance": most}
    return {"schema": 1, "hide": [demand], **more}


# What the next trust file says, the policy that comes with it, and the reason of the refusal.
SINCE = {
    "revoked": ({"roles": {"maker": role(["other"])}, "revoked": (MAKER.key,)}, None, "revoked-key"),
    "removed": ({"roles": {"maker": role(["other"])}}, None, "untrusted-key"),
    "rotated": ({"root": ("root", "new"), "roles": {"maker": role(["other"])}}, None, "untrusted-key"),
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
    "audit signed by its maker": ({"roles": {"auditor": Role((MAKER,))}}, policy(countersigned=True), "policy-not-met"),
}
WAYS = ("install", "index", "rollback", "start", "service")


def counted(record_property, way, attack, cases=1):
    """Notes that all ``cases`` of a test that passes were refused."""
    for name, value in (("way", way), ("attack", attack), ("cases", cases)):
        record_property(name, value)


def passes(*_):
    """A trial that all pass."""


def releases_of(folder, disk=None):
    return Releases(str(folder.parent), lambda floor: open_trust(folder, floor=floor), disk)


def board(tmp_path):
    """A board of audience ward-7 that runs the second of two releases; the first one can be gone back to.

    Returns its trust folder, its releases and the file of the first one.
    """
    made, new = _made(), tmp_path / "opt"
    shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True)
    return new / "trust", releases_of(new / "trust"), tmp_path / "old.veil"


@functools.cache
def _made():
    made = Path(tempfile.mkdtemp(dir=os.environ[once.FOLDER]))
    releases = releases_of(device(made / "opt" / "trust", trust_file(1, audience="ward-7")))
    signers = [private("judge"), bundles.KEY]
    for name, day in (("old.veil", 21), ("new.veil", 22)):
        path = audited_bundle(made, signers, name=name, audience="ward-7", created=f"2026-11-{day}T12:00:00Z")
        assert releases.install(path.read_bytes(), passes) is True
    return made


def say(since, folder):
    """The owner's files reach the board, as ``edgeveil-edge trust`` and ``policy`` take them."""
    fields, demands, _ = SINCE[since]
    roles = {"release": role(["release"]), **fields.get("roles", {})}
    signers = fields.get("root", ("root",))
    update_trust(str(folder), trust_file(2, signers, **{"audience": "ward-7", **fields, "roles": roles}))
    if demands:
        update_policy(str(folder), policy_file(1, demands, signers))


def index_of(path, key="release"):
    data, manifest = path.read_bytes(), unverified_manifest(str(path))
    said = {name: json.loads(manifest)[name] for name in ("name", "security_version")}
    hashes = {"manifest_sha256": hashlib.sha256(manifest).hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}
    releases = [{**said, **hashes, "size": len(data), "url": path.name}]
    return envelope("index", {"schema": 1, "name": "hall", "version": 1, "releases": releases}, [key])


def attempt(way, folder, releases, old):
    """Bring the old bundle onto the board, or have it used there."""
    if way == "install":
        releases.install(old.read_bytes(), passes)
    elif way == "index":
        (old.parent / "index.json").write_bytes(index_of(old))
        committed = releases.state().committed

        def install(path):
            return releases.install(Path(path).read_bytes(), passes)

        update(releases.root, f"dir:{old.parent}", open_trust(folder), install, committed=committed)
    elif way == "rollback":
        releases.rollback()
    elif way == "start":
        Perturber.open(old, trust=folder).close()
    else:
        read_bundle(old, open_trust(folder))
