"""What must hold for any bytes at all: they are refused with a reason, or they are one exact, sound bundle."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from edgeveil.edge_runtime.bundle.archive import pack
from edgeveil.edge_runtime.bundle.reader import SIGNED_PREFIX, read_all, read_bundle
from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.schema import RUNTIME_MEMBER, referenced_files
from tests.fuzz.mutations import DEVELOPMENT, TRUST
from tests.support import bundles

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((ROOT / "docs" / "reference" / "schemas" / "manifest.schema.json").read_text())
)
# The files whose lines are counted; the fuzzer is led by all but the arithmetic.
SUBJECT = (
    "bundle/archive",
    "bundle/reader",
    "manifest/capture",
    "manifest/dataflow",
    "manifest/schema",
    "signing/ed25519",
    "util/strict_json",
    "util/validate",
)


def outcome(data: bytes, path: Path | None = None) -> str:
    """``"accepted"`` or the reason of the refusal. Anything else that comes out is a finding, and raises.

    ``path``: read them from this file, where they are, instead of from memory.
    """
    if path is not None:
        with path.open("rb") as file:
            if read_all(file.fileno()) != data:
                raise AssertionError("an open bundle must read as it lies there")
    try:
        bundle = read_bundle(path or data, TRUST)
    except BundleRefused as refusal:
        message = str(refusal)
        if not refusal.reason or not message.isprintable() or len(message) > 1000:
            raise AssertionError("a refusal must have a reason and a short, printable message") from refusal
        return refusal.reason
    _judge(data, bundle.manifest.document, bundle.members)
    return "accepted"


def _judge(data: bytes, manifest: dict[str, Any], members: dict[str, bytes]) -> None:
    """Is an accepted bundle what it should be, by the word of other programs?"""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        listed = [(info.filename, archive.read(info)) for info in archive.infolist()]
    assert pack(listed) == data, "another reader sees other members"
    assert [name for name, _ in listed[:2]] == ["manifest.json", "signature.json"]
    assert dict(listed[2:]) == members
    text = dict(listed)["manifest.json"]
    said = json.loads(dict(listed)["signature.json"])
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(said["key"])).verify(
        bytes.fromhex(said["signature"]), SIGNED_PREFIX + text
    )
    assert said["key"] in (bundles.public_hex(bundles.KEY), bundles.public_hex(DEVELOPMENT))
    assert manifest["development"] == (said["key"] == bundles.public_hex(DEVELOPMENT))
    assert manifest["security_version"] >= 1
    assert manifest["audience"] in ("", "x")
    assert json.loads(text) == manifest
    SCHEMA.validate(manifest)
    assert {entry["name"]: (entry["size"], entry["sha256"]) for entry in manifest["members"]} == {
        name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in members.items()
    }
    assert {*referenced_files(manifest), RUNTIME_MEMBER} == set(members)
    assert not _raw_leaves(manifest), "the raw reading leaves"


def _raw_leaves(manifest: dict[str, Any]) -> bool:
    """Whether some output is the input itself, or that and no more than rescaled."""
    bare = {manifest["input"]["name"]}
    for stage in manifest["stages"]:
        if stage["stage"] in ("preprocess", "output") and stage["input"] in bare:
            bare.add(stage["output"])
    return any(output["tensor"] in bare for output in manifest["outputs"])
