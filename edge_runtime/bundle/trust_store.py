"""Reads and updates a trust folder: plain public keys, or the trust of a device.

On a workstation it holds public keys: ``*.pub``, each one line ``edgeveil-ed25519 <64 hex> <name>``, followed by
`` development`` for a throw-away key. On a device, a root key that stays offline signs which keys may sign, which are
revoked, and the least version::

    FOLDER/root.pub      the root key; only the first flash writes it
    FOLDER/trust.json    an envelope by that key (``edgeveil.edge_runtime.signing.envelope``), of kind ``trust``
    FOLDER/policy.json   the owner's own demands (``edgeveil.edge_runtime.bundle.policy``), where there are any
    FOLDER/policy-signed.json   where they were changed later: an envelope by the root key, of kind ``policy``

The payload has ``schema`` 1, ``version`` (a device never goes back to a smaller one), ``keys`` (``key``, ``name``,
``development``), ``revoked`` (keys), ``security_version`` (the least that is accepted) and ``audience`` (the name of
this device or fleet). No clock is used: a board's may say 1970.
"""

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from edgeveil.edge_runtime.bundle.board_state import floor_beside
from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, Policy, open_policy, read_policy
from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.formats.validate import each, fields, record, sha256, text, truth, whole
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
    floor: Optional[int] = None,
    policy: Optional[Policy] = None,
) -> Trust:
    """The trust of a folder: a device's own where it has a ``trust.json``, else every ``*.pub`` in it.

    ``floor`` is the least security version that is accepted here, where the trust file does not say a higher one; by
    default that of the board whose trust folder this is.
    ``policy`` replaces the device's. Raises ``BadInput`` for a folder without keys or with a file that is none of
    these, ``BundleRefused`` for a ``trust.json`` that the root key did not sign.
    """
    folder = os.fspath(folder)
    floor = floor_beside(folder) if floor is None else floor
    on_device = os.path.exists(os.path.join(folder, TRUST_FILE))
    names = [ROOT_KEY] if on_device else _key_files(folder)
    keys = [read_public_key(os.path.join(folder, name)) for name in names]
    file = TrustFile(0, keys, [], floor, "")  # a plain folder demands no more than its caller
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
    """The content of ``trust.json``, signed by ``root``. Raises ``BundleRefused``."""
    payload: Dict[str, Any] = record(unwrap(KIND, data, signed_by(root, KIND)), "trust", _KEYS)
    whole(payload["schema"], "schema", 1, 1)
    return TrustFile(
        whole(payload["version"], "version", 1, 2**31 - 1),
        each(payload["keys"], "keys", _key),
        each(payload["revoked"], "revoked", sha256),
        whole(payload["security_version"], "security_version", 0, 2**31 - 1),
        text(payload["audience"], "audience"),
    )


def update_trust(folder: str, data: bytes) -> bool:
    """Replace ``trust.json`` by a newer one; False where it is the same.

    Raises ``BundleRefused`` where the root key of this device did not sign it, or where it is older.
    """
    root, path = read_public_key(os.path.join(folder, ROOT_KEY)), os.path.join(folder, TRUST_FILE)
    advice = "This trust file has version {}, and the device has {} already. Revoke or add on top of the newest."
    if not _is_newer(path, data, lambda text: read_trust_file(text, root).version, advice):
        return False
    write_atomic(path, data, mode=0o644)
    return True


def read_signed_policy(data: bytes, root: Key) -> Tuple[int, bytes]:
    """Version and ``policy.json`` of a policy that ``root`` signed. Raises ``BundleRefused`` or ``BadInput``."""
    payload = record(unwrap(POLICY_KIND, data, signed_by(root, POLICY_KIND)), "policy", ("policy", "schema", "version"))
    whole(payload["schema"], "schema", 1, 1)
    policy = strict_json.dumps(payload["policy"])
    read_policy(policy)
    return whole(payload["version"], "version", 1, 2**31 - 1), policy


def update_policy(folder: str, data: bytes) -> bool:
    """Replace the policy by a newer one; False where it is the same.

    Raises ``BundleRefused`` where the root key of this device did not sign it, or where it is older.
    """
    root, path = read_public_key(os.path.join(folder, ROOT_KEY)), os.path.join(folder, SIGNED_POLICY_FILE)
    advice = "This policy has version {}, and the device has {} already. Sign a newer one."
    if not _is_newer(path, data, lambda text: read_signed_policy(text, root)[0], advice):
        return False
    # In this order: after a power cut between the two, the new policy is in force and can be sent again.
    write_atomic(os.path.join(folder, POLICY_FILE), read_signed_policy(data, root)[1], mode=0o644)
    write_atomic(path, data, mode=0o644)
    return True


def _is_newer(path: str, data: bytes, version_of: Callable[[bytes], int], advice: str) -> bool:
    """Whether ``data`` differs from the file at ``path``; raises ``BundleRefused`` unless it has a higher version."""
    version, there = version_of(data), read(path)
    if there == data:
        return False
    if there is not None and version <= version_of(there):
        raise BundleRefused("rolled-back", advice.format(version, version_of(there)))
    return True


def _key(entry: Any, at: str) -> Key:
    return Key(**fields(entry, at, key=sha256, name=text, development=truth))
