"""``trust.json``: who may sign what for a device. Its root keys, which stay offline, sign it.

Schema 2 is a root document as TUF has it, an envelope (``edgeveil.edge_runtime.signing.envelope``) of kind ``trust``::

    {"schema":2,"version":7,"first_root":KEY,
     "root":{"keys":[{"key":...,"name":...,"development":false}],"threshold":1},
     "roles":{"maker":{...},"auditor":{...},"release":{...},"runtime":{...},"settings":{...}},
     "revoked":[KEY],"security_version":0,"audience":"","product":"","runtimes":[SHA256],"index_stale_days":null}

*maker* signs bundles, *auditor* audits, *release* the index of updates, *runtime* edge runtimes, *settings* a board's
settings; *root* signs this file, and what the last two do where no one has their role (without ``settings`` there is no
such key: older boards know none). Version n + 1 is signed by a threshold of the root keys of version n and of its own,
so that the root keys can be replaced; a device that is behind is given the versions in between (the chain).
``first_root`` is the key in the device's ``root.pub``, under which this trust began: it names the trust for ever, and
signed the first version.
``security_version`` is the least that is accepted, ``audience`` the name of this device or fleet, ``product`` the name
that bundles and an index of updates must have (empty: bundles any, an index that of the first one taken), ``runtimes``
the SHA-256 of approved edge runtimes, and ``index_stale_days`` after how many days without a newer index the service
ends (null: never). Where the root keys reset the floor, ``"floor_reset":{"floor":3,"version":7}`` stands in version 7
and all later ones: a board that takes one of them for the first time goes back to floor 3, once.

Schema 1 had ``keys`` in place of roles and one root key for ever, that of ``root.pub``. It is still read. A file of
schema 2 that this key signed takes the device over, and there is no way back. No clock is used: a board's may say 1970.
"""

from typing import Any, Dict, FrozenSet, Iterable, Mapping, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.bundle.board_state import NOTHING, Accepted, FloorReset
from edgeveil.edge_runtime.bundle.policy import Policy
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.signing import envelope as envelopes
from edgeveil.edge_runtime.signing.envelope import MOST_SIGNATURES, Envelope, unwrap
from edgeveil.edge_runtime.signing.keys import Key
from edgeveil.edge_runtime.signing.roles import NOBODY, Role
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.validate import Field, Problem, Table

KIND, SCHEMA = "trust", 2
MAKER, AUDITOR, RELEASE, RUNTIME, SETTINGS = ROLES = ("maker", "auditor", "release", "runtime", "settings")
GAP = "chain-gap"  # the reason of a refusal: no bundle has it
_MOST_VERSION = 2**31 - 1
_SAYS = {"file": "trust.json", "cure": "Get it again from the owner of this device's keys."}


def _counted_once(role: Any, _owner: Any, _document: Any) -> Iterable[Problem]:
    keys, threshold = role["keys"], role["threshold"]
    if len({key["key"] for key in keys}) != len(keys):
        yield "bad-value", "keys", "a key is listed twice: it would count twice"
    if threshold > max(len(keys), 1):
        yield "bad-value", "threshold", "{} of {} keys".format(threshold, len(keys))


_KEY: Table = {"key": field.sha256(), "name": field.text(), "development": field.truth()}
_ROLE = field.record(
    {"keys": field.each(field.record(_KEY), 0, MOST_SIGNATURES), "threshold": field.whole(1, MOST_SIGNATURES)},
    rule=_counted_once,
)
_COMMON: Table = {
    "schema": field.whole(1, SCHEMA),
    "version": field.whole(1, _MOST_VERSION),
    "revoked": field.each(field.sha256()),
    "security_version": field.whole(0, _MOST_VERSION),
    "audience": field.text(),
}


def _reset(_payload: Any, document: Any) -> Field:
    return field.record({"floor": field.whole(0, _MOST_VERSION), "version": field.whole(1, document["version"])})


_TABLES: Dict[int, Table] = {
    1: dict(_COMMON, keys=field.each(field.record(_KEY))),
    2: dict(
        _COMMON,
        first_root=field.sha256(),
        root=_ROLE,
        roles=field.record({name + "?" * (name == SETTINGS): _ROLE for name in ROLES}),
        product=lambda payload, _: field.text() if payload["product"] == "" else field.identifier(),
        runtimes=field.each(field.sha256()),
        index_stale_days=field.whole(1, 3650, null=True),
        **{"floor_reset?": _reset},  # older boards know no such key
    ),
}


class TrustFile(NamedTuple):
    """What a ``trust.json`` says; the fields are those of schema 2."""

    version: int
    first_root: str
    root: Role
    roles: Mapping[str, Role]
    revoked: Tuple[str, ...] = ()
    security_version: int = 0
    audience: str = ""
    product: str = ""
    runtimes: Tuple[str, ...] = ()
    index_stale_days: Optional[int] = None
    schema: int = SCHEMA
    floor_reset: Optional[FloorReset] = None

    @property
    def keys(self) -> Tuple[Key, ...]:
        """The keys that may sign bundles."""
        return self.roles[MAKER].keys


def beginning(root: Key) -> TrustFile:
    """What a device trusts that has its ``root.pub`` and nothing else: this key may sign the first trust file."""
    return TrustFile(0, root.key, Role((root,)), dict.fromkeys(ROLES, NOBODY), schema=1)


def read_trust_file(data: bytes, first: Key) -> TrustFile:
    """The content of one ``trust.json``, signed by a threshold of its own root keys. Raises ``BundleRefused``.

    ``first`` is the key in ``root.pub``.
    """
    envelope = envelopes.parse(KIND, data)
    file = _parse(envelope, first)
    file.root.check(envelope.signers, "trust file", "root")
    envelopes.verify(KIND, envelope)
    return file


def next_trust_file(current: TrustFile, data: bytes, first: Key) -> TrustFile:
    """The content of the ``trust.json`` that may replace ``current``; as ``read_trust_file``.

    Raises ``BundleRefused`` where it is older, where a version between the two is missing, or where fewer root keys of
    ``current`` signed it than must.
    """
    envelope = envelopes.parse(KIND, data)
    file = _parse(envelope, first)
    if file.version <= current.version or file.schema < current.schema:
        message = (
            "This trust file has version {} (schema {}), and the device has {} (schema {}) already. Revoke or add "
        )
        raise BundleRefused(
            "rolled-back",
            (message + "on top of the newest.").format(file.version, file.schema, current.version, current.schema),
        )
    if current.schema == SCHEMA and file.version != current.version + 1:
        message = "This trust file has version {}, and the device has {}: those between are missing. Give it "
        message += "trust-chain.json of the owner's trust folder."
        raise BundleRefused(GAP, message.format(file.version, current.version))
    for of in (current, file):
        of.root.check(envelope.signers, "trust file", "root (of version {})".format(of.version))
    envelopes.verify(KIND, envelope)
    return file


def parse_trust_file(data: bytes, first: Key) -> TrustFile:
    """As ``read_trust_file``, whichever key signed it: for one that waits for signatures, or to find it in a chain."""
    return _parse(envelopes.parse(KIND, data), first)


def payload_of(file: TrustFile) -> Dict[str, Any]:
    """The payload of an envelope that says this, in the schema of ``file``."""
    common = {
        "schema": file.schema,
        "version": file.version,
        "revoked": list(file.revoked),
        "security_version": file.security_version,
        "audience": file.audience,
    }
    if file.schema == 1:
        return dict(common, keys=_role_document(file.roles[MAKER])["keys"])
    if file.floor_reset is not None:
        common["floor_reset"] = dict(file.floor_reset._asdict())
    return dict(
        common,
        first_root=file.first_root,
        root=_role_document(file.root),
        roles={name: _role_document(role) for name, role in file.roles.items() if name != SETTINGS or role.keys},
        product=file.product,
        runtimes=list(file.runtimes),
        index_stale_days=file.index_stale_days,
    )


def _role_document(role: Role) -> Dict[str, Any]:
    keys = [{"key": key.key, "name": key.name, "development": key.development} for key in role.keys]
    return {"keys": keys, "threshold": role.threshold}


def _parse(envelope: Envelope, first: Key) -> TrustFile:
    """Everything that the payload says, checked; its signatures are not."""
    payload = envelopes.unverified(KIND, envelope)
    if type(payload) is not dict or payload.get("schema") != envelope.schema:
        field.refuse(
            "schema", "trust", "expected schema {} in an envelope of that schema".format(envelope.schema), **_SAYS
        )
    field.check(payload, "trust", field.record(_TABLES[envelope.schema]), **_SAYS)
    same = {key: payload[key] for key in ("schema", "version", "security_version", "audience")}
    same["revoked"] = tuple(payload["revoked"])
    if envelope.schema == 1:
        makers = Role(_keys(payload["keys"]))  # those who may sign bundles may sign the index of updates too
        return beginning(first)._replace(roles=dict(dict.fromkeys(ROLES, NOBODY), maker=makers, release=makers), **same)
    file = TrustFile(
        first_root=payload["first_root"],
        root=_role(payload["root"]),
        roles={name: _role(payload["roles"][name]) if name in payload["roles"] else NOBODY for name in ROLES},
        product=payload["product"],
        runtimes=tuple(payload["runtimes"]),
        index_stale_days=payload["index_stale_days"],
        floor_reset=FloorReset(**payload["floor_reset"]) if "floor_reset" in payload else None,
        **same,
    )
    if file.first_root != first.key:
        message = (
            "This trust file is of the trust that began under the root key {:.16}..., not under {:.16}... of this {}."
        )
        raise BundleRefused("untrusted-key", message.format(file.first_root, first.key, "device's root.pub"))
    field.follow(_of_roles(file), **_SAYS)
    return file


def _of_roles(file: TrustFile) -> Iterable[Problem]:
    """A root key has no other role, a revoked key none at all; and bundles carry one signature."""
    if not file.root.keys:
        yield "bad-count", "root.keys", "expected at least one root key"
    if file.roles[MAKER].threshold != 1:
        yield "bad-value", "roles.maker.threshold", "expected 1: a bundle carries one signature"
    roots = {key.key for key in file.root.keys} | {file.first_root}
    for name, role in file.roles.items():
        for key in role.keys:
            if key.key in roots:
                yield "bad-value", "roles." + name, "the root key {} may sign trust files alone".format(key.name)
    for name, role in dict(file.roles, root=file.root).items():
        for key in role.keys:
            if key.key in file.revoked:
                yield "bad-value", name, "the key {} was revoked".format(key.name)


def _role(entry: Mapping[str, Any]) -> Role:
    return Role(_keys(entry["keys"]), entry["threshold"])


def _keys(entries: Iterable[Mapping[str, Any]]) -> Tuple[Key, ...]:
    return tuple(Key(**entry) for entry in entries)


# Whom this device trusts. ``edgeveil.edge_runtime.bundle.trust_store.open_trust`` reads it from a folder.
#
# The device's owner put the files into that folder; nothing in a bundle can add to them.


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
        plain = dict(dict.fromkeys((*ROLES, ROOT), NOBODY), maker=makers, release=makers)
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

    def role_or_root(self, name: str) -> Role:
        """The keys of a role that are not revoked; the root keys where no one has it."""
        role = self.roles[name] if self.roles[name].keys else self.roles[ROOT]
        return role._replace(keys=tuple(key for key in role.keys if key.key not in self.revoked))

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
            raise BundleRefused("other-audience", message.format(field.show(manifest.audience)))
        if self.product and manifest.name != self.product:
            message = (
                "This bundle is {}, and the trust of this device names the product {}. Use one of that name, or have "
            )
            message += "the owner of the device name another (edgeveil trust set product=)."
            raise BundleRefused("other-product", message.format(field.show(manifest.name), field.show(self.product)))
        if manifest.security_version < self.floor:
            message = "This bundle has security version {}; this device takes {} or later. Use a newer bundle."
            raise BundleRefused("rolled-back", message.format(manifest.security_version, self.floor))

    def check_policy(
        self, manifest: Manifest, members: Dict[str, bytes], audit: Optional[Mapping[str, Any]], maker: str
    ) -> None:
        """Raise ``BundleRefused`` where a verified bundle, signed by the key ``maker``, does not meet the policy.

        ``audit`` is its checked audit document, None where it has none.
        """
        if self.policy is None:
            return
        self.policy.check(manifest, audit)
        if self.policy.countersigned:
            from edgeveil.edge_runtime.bundle.board_state import check_countersigned  # few policies ask for it

            check_countersigned(manifest, members, maker, self.roles[AUDITOR], self.revoked)
