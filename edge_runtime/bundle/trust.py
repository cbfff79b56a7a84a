"""Whom this device trusts. ``edgeveil.edge_runtime.bundle.trust_store.open_trust`` reads it from a folder.

The device's owner put the files into that folder; nothing in a bundle can add to them.
"""

from typing import Any, Dict, FrozenSet, Iterable, Mapping, Optional

from edgeveil.edge_runtime.bundle.board_state import NOTHING, Accepted, FloorReset
from edgeveil.edge_runtime.bundle.policy import Policy
from edgeveil.edge_runtime.bundle.trust_file import AUDITOR, MAKER, RELEASE, RUNTIME
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.formats.validate import show
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.signing.envelope import unwrap
from edgeveil.edge_runtime.signing.keys import Key
from edgeveil.edge_runtime.signing.roles import NOBODY, Role

ROOT = "root"


class Trust(object):
    """The keys that may sign, and what a bundle signed by one of them must say to be accepted.

    ``keys``: those that may sign bundles. ``floor``: the smallest ``security_version`` that is accepted. ``audience``:
    the name of this device in bundles made for it alone; bundles without an audience are always accepted. ``revoked``:
    keys that may not sign any more, even if they are in ``keys``. ``policy``: the owner's further demands; None where
    there is no policy, ``NoPolicyForAudit`` where it was set aside. ``roles``: who may sign anything else, ``root``
    among them; without roles, the keys may sign the index of updates. The rest is as in
    ``edgeveil.edge_runtime.bundle.trust_file``: ``product``, ``runtimes`` (SHA-256 of approved edge runtimes),
    ``index_stale_days``, ``floor_reset`` and ``version``, 0 for a folder of public keys. ``accepted``: the files that
    this was read from.
    """

    def __init__(
        self,
        keys: Iterable[Key],
        *,
        floor: int = 0,
        audience: str = "",
        revoked: FrozenSet[str] = frozenset(),
        policy: Optional[Policy] = None,
        roles: Optional[Mapping[str, Role]] = None,
        product: str = "",
        runtimes: FrozenSet[str] = frozenset(),
        index_stale_days: Optional[int] = None,
        version: int = 0,
        accepted: Accepted = NOTHING,
        floor_reset: Optional[FloorReset] = None,
    ) -> None:
        self.revoked, self.policy = revoked, policy
        self.keys: Dict[str, Key] = {}
        for key in keys:
            known = self.keys.setdefault(key.key, key)
            if known.development != key.development:
                problem = "The keys {} and {} are the same, but one is called a development key. Remove one of them."
                raise BadInput(problem.format(known.name, key.name))
        self.floor = floor
        self.audience = audience
        makers = Role(tuple(self.keys.values()))
        plain = {MAKER: makers, AUDITOR: NOBODY, RELEASE: makers, RUNTIME: NOBODY, ROOT: NOBODY}
        self.roles: Dict[str, Role] = dict(plain, **(roles or {}))
        self.product, self.runtimes, self.index_stale_days = product, runtimes, index_stale_days
        self.version, self.accepted, self.floor_reset = version, accepted, floor_reset

    def key_of(self, public_key: str) -> Key:
        """The trusted key of these 64 hexadecimal digits; raises ``BundleRefused`` where there is none."""
        if public_key in self.revoked:
            message = "This bundle is signed by the revoked key {}.... Ask for one signed by another key."
            raise BundleRefused("revoked-key", message.format(public_key[:16]))
        if any(public_key == root.key for root in self.roles[ROOT].keys):
            message = (
                "This bundle is signed by the root key {}..., which signs trust files alone. Seal it with another."
            )
            raise BundleRefused("untrusted-key", message.format(public_key[:16]))
        if public_key not in self.keys:
            message = (
                "This bundle is signed by the key {}..., which is not in the trust folder. If you trust its owner, "
                "put their signing.pub there; otherwise do not use the bundle."
            )
            raise BundleRefused("untrusted-key", message.format(public_key[:16]))
        return self.keys[public_key]

    def unwrap(self, kind: str, data: bytes, role: str) -> Any:
        """The payload of an envelope of that ``kind``, signed by enough keys of ``role``. Raises ``BundleRefused``."""
        wanted = self.roles[role]
        return unwrap(kind, data, lambda signers: wanted.check(signers, kind, role, revoked=self.revoked))

    def check_claims(self, manifest: Manifest, key: Key) -> None:
        """Raise ``BundleRefused`` where a checked manifest says what this signer or this device does not allow."""
        if key.development and not manifest.development:
            message = "It is signed by the development key {} but is not marked as a development bundle. Seal it again."
            raise BundleRefused("development-mismatch", message.format(key.name))
        if manifest.development and not key.development:
            message = (
                "It is marked as a development bundle, but {} is no development key in the trust folder. "
                "Seal it with another key, or correct the .pub file."
            )
            raise BundleRefused("development-mismatch", message.format(key.name))
        if manifest.audience not in ("", self.audience):
            message = "This bundle is for {}, not for this device. Ask for one that is for this device or for all."
            raise BundleRefused("other-audience", message.format(show(manifest.audience)))
        if self.product and manifest.name != self.product:
            message = (
                "This bundle is {}, and the trust of this device names the product {}. Use one of that name, or have "
            )
            message += "the owner of the device name another (edgeveil trust set --product)."
            raise BundleRefused("other-product", message.format(show(manifest.name), show(self.product)))
        if manifest.security_version < self.floor:
            message = "This bundle has security version {}; this device takes {} or later. Use a newer bundle."
            raise BundleRefused("rolled-back", message.format(manifest.security_version, self.floor))

    def check_policy(self, manifest: Manifest, members: Dict[str, bytes], maker: str) -> None:
        """Raise ``BundleRefused`` where a verified bundle, signed by the key ``maker``, does not meet the policy."""
        if self.policy is None:
            return
        self.policy.check(manifest, members)
        if self.policy.countersigned:
            from edgeveil.edge_runtime.bundle.countersignature import check_countersigned  # few policies ask for it

            check_countersigned(manifest, members, maker, self.roles[AUDITOR], self.revoked)
