"""The one door to a trust folder: plain public keys, or the trust of a device.

On a workstation it holds public keys: ``*.pub``, each one line ``edgeveil-ed25519 <64 hex> <name>``, followed by
`` development`` for a throw-away key. On a device a root key that stays offline signs who may sign, who may no more,
and the least version::

    FOLDER/root.pub      the root key, put there by the first flash and by nothing since
    FOLDER/trust.json    an envelope by that key (``edgeveil.edge_runtime.signing.envelope``), of kind ``trust``
    FOLDER/policy.json   the owner's own demands (``edgeveil.edge_runtime.bundle.policy``), where there are any
    FOLDER/policy-signed.json   where they were changed later: an envelope by the root key, of kind ``policy``

The payload has ``schema`` 1, ``version`` (a device never goes back to a smaller one), ``keys`` (``key``, ``name``,
``development``), ``revoked`` (keys), ``security_version`` (the least that is taken) and ``audience`` (the name of this
device or fleet). Nothing here looks at a clock: a board's may say 1970.
"""

import os
from typing import Any, Dict, List, NamedTuple, Tuple, Union

from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, NoPolicyForAudit, Policy, open_policy, read_policy
from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.formats.validate import record, sequence, sha256, text, truth, whole
from edgeveil.edge_runtime.signing.envelope import signed_by, unwrap
from edgeveil.edge_runtime.signing.keys import Key, read_public_key
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.edge_runtime.storage.filesystem import read

ROOT_KEY, TRUST_FILE, KIND = "root.pub", "trust.json", "trust"
SIGNED_POLICY_FILE, POLICY_KIND = "policy-signed.json", "policy"
_KEYS = ("audience", "keys", "revoked", "schema", "security_version", "version")


class TrustFile(NamedTuple):
    """What a verified ``trust.json`` says."""

    version: int
    keys: List[Key]
    revoked: List[str]
    security_version: int
    audience: str


def open_trust(
    folder: Union[str, "os.PathLike[str]"],
    *,
    floor: int = 0,
    audience: str = "",
    policy: Union[Policy, NoPolicyForAudit, None] = None,
) -> Trust:
    """The trust of a folder: a device's own where it has a ``trust.json``, else every ``*.pub`` in it.

    ``floor`` is what the least security version has risen to here, ``audience`` what bundles may be made out to by keys
    of a plain folder (a device's trust file says its own). ``policy`` is taken in place of the device's. Raises
    ``BadInput`` for a folder without keys or with a file that is none of these, ``BundleRefused`` for a ``trust.json``
    that the root key did not sign.
    """
    folder = os.fspath(folder)
    on_device = os.path.exists(os.path.join(folder, TRUST_FILE))
    names = [ROOT_KEY] if on_device else _key_files(folder)
    keys = [read_public_key(os.path.join(folder, name)) for name in names]
    file = TrustFile(0, keys, [], floor, audience)  # a plain folder demands no more than its caller
    if on_device:
        data = read(os.path.join(folder, TRUST_FILE))
        if data is None:
            raise BadInput("Expected {} in {}; it cannot be read. Flash the trust again.".format(TRUST_FILE, folder))
        file = read_trust_file(data, keys[0])
        policy = open_policy(os.path.join(folder, POLICY_FILE)) if policy is None else policy
    return Trust(
        [key for key in file.keys if key.key not in file.revoked],
        floor=max(floor, file.security_version),
        audience=file.audience,
        revoked=frozenset(file.revoked),
        policy=policy,
    )


def _key_files(folder: str) -> List[str]:
    """The names of a folder's ``*.pub``, sorted. Raises ``BadInput`` where there are none."""
    advice = "Name the folder that holds the signing.pub of those who may sign (edgeveil keygen makes one)."
    if not os.path.isdir(folder):
        came = "a file" if os.path.exists(folder) else "nothing"
        raise BadInput("Expected a trust folder at {}, found {} there. {}".format(folder, came, advice))
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pub"))
    except OSError as error:
        raise BadInput("The trust folder {} cannot be read: {}.".format(folder, error.strerror)) from None
    if not names:
        raise BadInput("The trust folder {} holds no .pub file. {}".format(folder, advice))
    return names


def read_trust_file(data: bytes, root: Key) -> TrustFile:
    """What ``trust.json`` says, once ``root`` is seen to have signed it. Raises ``BundleRefused``."""
    trusted = signed_by(root, KIND)
    payload: Dict[str, Any] = unwrap(KIND, data, trusted)
    record(payload, "trust", _KEYS)
    whole(payload["schema"], "schema", 1, 1)
    keys = [_key(entry, "keys[{}]".format(place)) for place, entry in enumerate(sequence(payload["keys"], "keys"))]
    revoked = [sha256(key, "revoked[{}]".format(i)) for i, key in enumerate(sequence(payload["revoked"], "revoked"))]
    return TrustFile(
        whole(payload["version"], "version", 1, 2**31 - 1),
        keys,
        revoked,
        whole(payload["security_version"], "security_version", 0, 2**31 - 1),
        text(payload["audience"], "audience"),
    )


def update_trust(folder: str, data: bytes) -> bool:
    """Put a newer ``trust.json`` in the place of the one that is there; False where it is the same.

    Raises ``BundleRefused`` where the root key of this device did not sign it, or where it is older.
    """
    root = read_public_key(os.path.join(folder, ROOT_KEY))
    new, there = read_trust_file(data, root), read(os.path.join(folder, TRUST_FILE))
    if there == data:
        return False
    if there is not None and new.version <= read_trust_file(there, root).version:
        raise BundleRefused(
            "rolled-back",
            "This trust file has version {}, and the device has {} already. Revoke or add on top of the newest.".format(
                new.version, read_trust_file(there, root).version
            ),
        )
    write_atomic(os.path.join(folder, TRUST_FILE), data, mode=0o644)
    return True


def read_signed_policy(data: bytes, root: Key) -> Tuple[int, bytes]:
    """Version and ``policy.json`` of a policy that ``root`` signed. Raises ``BundleRefused`` or ``BadInput``."""
    payload = unwrap(POLICY_KIND, data, signed_by(root, POLICY_KIND))
    record(payload, "policy", ("policy", "schema", "version"))
    whole(payload["schema"], "schema", 1, 1)
    policy = strict_json.dumps(payload["policy"])
    read_policy(policy)
    return whole(payload["version"], "version", 1, 2**31 - 1), policy


def update_policy(folder: str, data: bytes) -> bool:
    """Put a newer policy in the place of the one that is there; False where it is the same.

    Raises ``BundleRefused`` where the root key of this device did not sign it, or where it is older.
    """
    root = read_public_key(os.path.join(folder, ROOT_KEY))
    version, policy = read_signed_policy(data, root)
    there = read(os.path.join(folder, SIGNED_POLICY_FILE))
    if there == data:
        return False
    if there is not None and version <= read_signed_policy(there, root)[0]:
        raise BundleRefused(
            "rolled-back",
            "This policy has version {}, and the device has {} already. Sign a newer one.".format(
                version, read_signed_policy(there, root)[0]
            ),
        )
    # In this order: after a power cut between the two the new one holds, and may be sent again.
    write_atomic(os.path.join(folder, POLICY_FILE), policy, mode=0o644)
    write_atomic(os.path.join(folder, SIGNED_POLICY_FILE), data, mode=0o644)
    return True


def _key(entry: Any, at: str) -> Key:
    record(entry, at, ("development", "key", "name"))
    return Key(
        sha256(entry["key"], at + ".key"),
        text(entry["name"], at + ".name"),
        truth(entry["development"], at + ".development"),
    )
