"""The auditor's word on an audit: signatures by other keys than the maker's, in the bundle beside the audit.

``privacy/countersignature.json`` is an envelope (``edgeveil.edge_runtime.signing.envelope``, schema 2) of kind
``audit``. Its payload has ``schema`` 1, ``audit_sha256`` (of the audit document's bytes), ``speaks_of`` (the hash of
each artefact that was audited) and ``pipeline`` (of the stages around it), as they stand in the manifest: it is of this
audit of these artefacts and of no other.
"""

import hashlib
from typing import Any, Dict, FrozenSet, List, Mapping, NoReturn

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.signing import envelope as envelopes
from edgeveil.edge_runtime.signing.roles import Role

KIND = "audit"


def statement(audit: bytes, speaks_of: Mapping[str, Any], pipeline: Mapping[str, Any]) -> bytes:
    """What an auditor signs: the payload of the envelope."""
    sha256 = hashlib.sha256(audit).hexdigest()
    return strict_json.dumps({"schema": 1, "audit_sha256": sha256, "speaks_of": speaks_of, "pipeline": pipeline})


def check_countersigned(
    manifest: Manifest,
    members: Dict[str, bytes],
    maker: str,
    auditors: Role,
    revoked: FrozenSet[str] = frozenset(),
) -> None:
    """Raise ``BundleRefused`` unless enough ``auditors`` signed the audit in a verified bundle.

    ``maker`` is the key that signed the bundle. It does not count, whatever its role.
    """
    privacy = manifest.privacy
    if privacy.file is None or privacy.countersignature is None:
        _refuse("it has no countersigned audit")
    try:
        envelope = _of_this_audit(manifest, members)
        others = auditors._replace(keys=tuple(key for key in auditors.keys if key.key != maker))
        others.check(envelope.signers, "audit", "auditor", revoked=revoked)
        envelopes.verify(KIND, envelope)
    except BundleRefused as error:
        if error.reason == "policy-not-met":
            raise
        _refuse(str(error))


def signers_of(manifest: Manifest, members: Dict[str, bytes]) -> List[str]:
    """The keys that signed the audit in a verified bundle, whoever they are. Raises ``BundleRefused``."""
    if manifest.privacy.countersignature is None:
        return []
    envelope = _of_this_audit(manifest, members)
    envelopes.verify(KIND, envelope)
    return sorted(envelope.signers)


def _of_this_audit(manifest: Manifest, members: Dict[str, bytes]) -> envelopes.Envelope:
    """The countersignature, which says the right thing; its signatures are not verified."""
    privacy = manifest.privacy
    envelope = envelopes.parse(KIND, members[str(privacy.countersignature)])
    if envelope.payload != statement(members[str(privacy.file)], privacy.speaks_of, privacy.pipeline):
        _refuse("its countersignature is of another audit or of other artefacts")
    return envelope


def _refuse(what: str) -> NoReturn:
    message = "The bundle does not meet this device's policy, which asks for an audit that an auditor other than its "
    message += "maker signed: {}. Have an auditor sign it (edgeveil audit EXPORT --sign KEY), then seal it again."
    raise BundleRefused("policy-not-met", message.format(what.rstrip(".")))
