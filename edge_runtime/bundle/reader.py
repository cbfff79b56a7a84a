"""Reads and verifies a bundle, or refuses it. All code that reads a bundle does it here.

The order matters (``docs/reference/bundle-format.md``): of a file, the first two members alone, until a trusted key has
signed them; then all of it is read, once, and its form is checked; then the manifest; then size and SHA-256 of every
member. The bytes returned are those that were hashed. No interpreter, array reader or importer sees them before.
"""

import hashlib
import os
import re
import stat
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Tuple, Union

from edgeveil.edge_runtime.bundle.archive import read_archive, read_first
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES
from edgeveil.edge_runtime.manifest.manifest import Manifest, Member
from edgeveil.edge_runtime.manifest.model_lint import check_all
from edgeveil.edge_runtime.manifest.schema import MAX_MANIFEST_BYTES, check_manifest
from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.util import strict_json

MANIFEST, SIGNATURE = "manifest.json", "signature.json"
SIGNED_PREFIX = b"edgeveil manifest 1\n"  # so that a signature of another kind of text is none of a manifest

_BEGINNING_BYTES = MAX_MANIFEST_BYTES + 4096  # the manifest, its signature and both headers
_SIGNATURE = re.compile(
    rb'{"algorithm":"ed25519","key":"([0-9a-f]{64})","schema":1,"signature":"([0-9a-f]{128})"}'
)  # the one spelling: a bundle has no byte that could be changed and still be the same bundle


class _Signed(NamedTuple):
    """What stands at the beginning of a bundle, and the trusted key that signed it."""

    manifest: bytes
    signature: bytes
    key: str


class Bundle(NamedTuple):
    """A verified bundle. ``members`` has all files but the manifest and its signature, by name."""

    manifest: Manifest
    members: Dict[str, bytes]
    manifest_sha256: str
    key: str  # of the signer, 64 hexadecimal digits
    development: bool  # signed by a throw-away key: the user must be warned
    audit: Optional[Mapping[str, Any]] = None  # the audit document, checked; None where the bundle was not audited

    def __repr__(self) -> str:
        size, audited = sum(map(len, self.members.values())), "not audited" if self.audit is None else "audited"
        form = "<Bundle {}: {} files, {:.1f} MB, {}, signed by {}...>"
        return form.format(self.manifest.name, len(self.members), size / 1e6, audited, self.key[:16])


def read_bundle(path_or_bytes: Union[str, "os.PathLike[str]", bytes], trust: Trust) -> Bundle:
    """Read and verify one bundle.

    Raises ``BundleRefused`` (``reason`` is a word of the table in ``docs/reference/bundle-format.md``) for anything
    that is not exactly what a key of ``trust`` signed, ``BadInput`` for a path at which there is no file to read.
    """
    signed: List[Optional[_Signed]] = []
    if isinstance(path_or_bytes, bytes):
        data = path_or_bytes
    else:
        data = read_file(os.fspath(path_or_bytes), lambda handle: signed.append(check_beginning(handle, trust)))
    members = read_archive(data)
    manifest_bytes, signature_bytes = _manifest_and_signature(members)
    before = signed[0] if signed else None
    if before is not None and before[:2] == (manifest_bytes, signature_bytes):
        key = before.key
    else:
        key = _check_signature(manifest_bytes, signature_bytes, trust)
    manifest = check_manifest(_parse(manifest_bytes))
    trust.check_claims(manifest, trust.key_of(key))
    verified = _check_members(members[2:], manifest.members)
    check_all(manifest.document, verified)
    if manifest.spending is not None:
        # Here, as below: a bundle that promises nothing starts without it.
        from edgeveil.edge_runtime.manifest.spending import check_promise

        check_promise(manifest.document, verified)
    audit = None
    if manifest.privacy.file is not None:
        # Here: a bundle that was not audited starts without it.
        from edgeveil.edge_runtime.bundle.audit_document import check_card, read_audit

        audit = read_audit(manifest, verified)
        if audit is not None:
            check_card(manifest, verified, audit)
    trust.check_policy(manifest, verified, audit, key)
    return Bundle(manifest, verified, hashlib.sha256(manifest_bytes).hexdigest(), key, manifest.development, audit)


def signed_message(manifest_bytes: bytes) -> bytes:
    """What is signed: ``SIGNED_PREFIX`` and the bytes of ``manifest.json``."""
    return SIGNED_PREFIX + manifest_bytes


def signature_member(key: str, signature: bytes) -> bytes:
    """The bytes of ``signature.json``. ``key``: 64 hexadecimal digits; ``signature``: 64 bytes."""
    document = {"algorithm": "ed25519", "key": key, "schema": 1, "signature": signature.hex()}
    return strict_json.dumps(document)


def open_file(path: str) -> int:
    """A descriptor of the bundle's file at ``path``, for reading. Raises as ``read_bundle`` does."""
    try:
        # Without O_NONBLOCK, opening a pipe would block until another process writes to it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput("There is no bundle to read at {}: {}.".format(path, error.strerror)) from None
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise BadInput("Expected a bundle at {}, which is no regular file. Name a .veil file.".format(path))
        if facts.st_size > MAX_BUNDLE_BYTES:  # before a board's memory is filled with it
            _refuse("too-large", "it has {} bytes and {} are the most allowed".format(facts.st_size, MAX_BUNDLE_BYTES))
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_file(path: str, check: Callable[[int], Any] = lambda _: None) -> bytes:
    """The bytes at ``path``, read once, as ``read_all`` does, after ``check``. Raises as ``read_bundle`` does.

    With ``check_beginning``, a stranger's file costs no more memory than a manifest may have.
    """
    handle = open_file(path)
    try:
        check(handle)
        return read_all(handle)
    except OSError as error:
        raise BadInput("The bundle {} cannot be read: {}.".format(path, error.strerror)) from None
    finally:
        os.close(handle)


def check_beginning(handle: int, trust: Trust) -> Optional[_Signed]:
    """Raise ``BundleRefused`` unless a large file begins with a manifest and its signature by a key of ``trust``."""
    if os.fstat(handle).st_size <= _BEGINNING_BYTES:
        return None  # all of it costs no more
    members = read_first(os.pread(handle, _BEGINNING_BYTES, 0), 2)
    manifest_bytes, signature_bytes = _manifest_and_signature(members)
    return _Signed(manifest_bytes, signature_bytes, _check_signature(manifest_bytes, signature_bytes, trust))


def unverified_manifest(path: str) -> bytes:
    """The bytes of a bundle's manifest, whichever key signed it; raises as ``read_bundle`` does."""
    handle = open_file(path)
    try:
        return _manifest_and_signature(read_first(os.pread(handle, _BEGINNING_BYTES, 0), 2))[0]
    finally:
        os.close(handle)


def read_all(handle: int) -> bytes:
    """A bundle's bytes from its beginning; the descriptor's own position is neither used nor changed."""
    data = os.pread(handle, os.fstat(handle).st_size + 1, 0)  # in one piece: joined, they would be there twice
    while len(data) <= MAX_BUNDLE_BYTES:  # a file that grew is seen as too large
        part = os.pread(handle, 1 << 22, len(data))
        if not part:
            break
        data += part
    return data


def _manifest_and_signature(members: List[Tuple[str, bytes]]) -> Tuple[bytes, bytes]:
    names = [name for name, _ in members]
    for place, name, reason in ((0, MANIFEST, "no-manifest"), (1, SIGNATURE, "unsigned")):
        if name not in names:
            _refuse(reason, "it has no {}".format(name))
        if names[place] != name:
            _refuse("member-order", "member {} is {}, not {}".format(place, names[place], name))
    (_, manifest_bytes), (_, signature_bytes) = members[:2]
    if len(manifest_bytes) > MAX_MANIFEST_BYTES:
        _refuse("manifest-too-large", "its manifest is larger than {} bytes".format(MAX_MANIFEST_BYTES))
    return manifest_bytes, signature_bytes


def _check_signature(manifest_bytes: bytes, signature_bytes: bytes, trust: Trust) -> str:
    match = _SIGNATURE.fullmatch(signature_bytes)
    if not match:
        _refuse("signature-format", "its {} is not written as one of schema 1".format(SIGNATURE))
    key = match.group(1).decode("ascii")
    trust.key_of(key)
    try:
        signature = bytes.fromhex(match.group(2).decode("ascii"))
        ed25519.verify(bytes.fromhex(key), signed_message(manifest_bytes), signature)
    except ed25519.Rejected as rejected:
        if rejected.reason.startswith("key-"):
            problem = "anyone could sign with its key ({}): remove that key from the trust folder"
            _refuse("weak-key", problem.format(rejected.reason))
        if rejected.reason == "equation":
            _refuse("bad-signature", "the signature is not that of its manifest by the key it names")
        _refuse("signature-encoding", "its signature is not in the one allowed form ({})".format(rejected.reason))
    return key


def _parse(manifest_bytes: bytes) -> Any:
    try:
        return strict_json.loads(manifest_bytes)
    except strict_json.BadJson as error:
        _refuse(error.reason, "its manifest is no strict JSON: {}".format(error))


def _check_members(members: List[Tuple[str, bytes]], listed: List[Member]) -> Dict[str, bytes]:
    """The members by name, if they are exactly the listed ones, in order, with the listed sizes and hashes."""
    wanted = [entry.name for entry in listed]
    names = [name for name, _ in members]
    for name in wanted:
        if name not in names:
            _refuse("missing-member", "the member {} is missing".format(name))
    for name in names:
        if name not in wanted:
            _refuse("extra-member", "the member {} is not in the signed list".format(name))
    if names != wanted:
        _refuse("member-order", "its members are not in the signed order")
    for (name, content), entry in zip(members, listed):
        if len(content) != entry.size:
            _refuse("size-mismatch", "{} has {} bytes where {} were signed".format(name, len(content), entry.size))
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            _refuse("hash-mismatch", "{} is not what was signed".format(name))
    return dict(members)


def _refuse(reason: str, what: str) -> NoReturn:
    message = "The bundle is refused: {}. Copy it again, or ask its maker for a new one."
    raise BundleRefused(reason, message.format(what))
