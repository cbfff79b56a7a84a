"""Reads and updates a trust folder: plain public keys, or the trust of a device.

On a workstation it holds public keys: ``*.pub``, each one line ``edgeveil-ed25519 <64 hex> <name>``, followed by
`` development`` for a throw-away key. On a device, root keys that stay offline sign what holds there::

    FOLDER/root.pub      the root key under which this trust began; only the first flash writes it
    FOLDER/trust.json    who may sign (``edgeveil.edge_runtime.bundle.trust_file``)
    FOLDER/policy.json   the owner's own demands (``edgeveil.edge_runtime.bundle.policy``), where there are any
    FOLDER/policy-signed.json   where root keys signed these: an envelope of kind ``policy``

One of these files is enough to say that a folder is a device's. It is then whole, or nothing is accepted: a file that
is lost or cannot be read never makes it a folder of public keys, nor a device without a policy.
"""

import os
from typing import Dict, List, NamedTuple, NoReturn, Optional, Tuple, Union

from edgeveil.edge_runtime.bundle.board_state import floor_beside
from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, Policy, read_policy
from edgeveil.edge_runtime.bundle.trust import ROOT, Trust
from edgeveil.edge_runtime.bundle.trust_file import (
    TrustFile,
    beginning,
    next_trust_file,
    parse_trust_file,
    read_trust_file,
)
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.formats.validate import record, whole
from edgeveil.edge_runtime.signing import envelope as envelopes
from edgeveil.edge_runtime.signing.envelope import MAX_BYTES
from edgeveil.edge_runtime.signing.keys import Key, read_public_key
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.storage.atomic import write_atomic

ROOT_KEY, TRUST_FILE, CHAIN_FILE = "root.pub", "trust.json", "trust-chain.json"
SIGNED_POLICY_FILE, POLICY_KIND = "policy-signed.json", "policy"
# How each file comes back, as the end of a sentence.
_CURES = {
    ROOT_KEY: "copy root.pub of the owner's trust folder there",
    TRUST_FILE: "remove what is left of it, then run edgeveil-edge trust FILE with trust-chain.json of the owner's "
    "trust folder (trust.json, where there is no chain)",
    POLICY_FILE: "run edgeveil-edge policy FILE with policy-signed.json of the owner's trust folder",
    SIGNED_POLICY_FILE: "remove it, then run edgeveil-edge policy FILE with the one of the owner's trust folder",
}


class _Device(NamedTuple):
    """The files of a device's trust, read and verified. ``policy``: the bytes of policy.json."""

    root: Key
    file: TrustFile
    policy: Optional[bytes]


def open_trust(
    folder: Union[str, "os.PathLike[str]"],
    *,
    floor: Optional[int] = None,
    policy: Optional[Policy] = None,
) -> Trust:
    """The trust of a folder: a device's own where one of its files is there, else every ``*.pub`` in it.

    ``floor`` is the least security version that is accepted here, where the trust file does not say a higher one; by
    default that of the board whose trust folder this is. ``policy`` replaces the device's. Raises ``BadInput`` for a
    folder without keys, with a file that is none of these, or in which one of a device's files is missing or cannot be
    read; ``BundleRefused`` for a ``trust.json`` that its root keys did not sign.
    """
    folder = os.fspath(folder)
    floor = floor_beside(folder) if floor is None else floor
    device = _read_device(folder)
    if device is None:
        keys = [read_public_key(os.path.join(folder, name)) for name in _key_files(folder)]
        return Trust(keys, floor=floor, policy=policy)
    file = device.file
    if policy is None and device.policy is not None:
        policy = read_policy(device.policy, os.path.join(folder, POLICY_FILE))
    return Trust(
        [key for key in file.keys if key.key not in file.revoked],
        floor=max(floor, file.security_version),
        audience=file.audience,
        revoked=frozenset(file.revoked),
        policy=policy,
        roles=dict(file.roles, **{ROOT: file.root}),
        product=file.product,
        runtimes=frozenset(file.runtimes),
        index_stale_days=file.index_stale_days,
        version=file.version,
    )


def read_part(folder: str, name: str) -> Optional[bytes]:
    """The bytes of one of a device's files; None only where there is nothing of that name. Raises ``BadInput``."""
    path = os.path.join(folder, name)
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _refuse_part(folder, name, "cannot be read ({})".format(error.strerror))
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        _refuse_part(folder, name, "cannot be read ({})".format(error.strerror))


def update_trust(folder: str, data: bytes) -> bool:
    """Replace ``trust.json`` by a newer one; False where it is the same.

    ``data`` is one trust file, or a chain: one a line, oldest first. A device walks it from the version that it has;
    the last one is written. Raises ``BundleRefused`` where a file is not signed as it must be or is older, or where a
    version is missing in between; nothing is changed then.
    """
    root, there = _root_key(folder), read_part(folder, TRUST_FILE)
    lines = data.split(b"\n")
    newest = lines[-1]
    if newest == there:
        return False
    current = beginning(root) if there is None else _verified_file(folder, there, root)
    if len(lines) > 1:
        lines = [line for line in lines if parse_trust_file(line, root).version > current.version] or [newest]
    for line in lines:
        current = next_trust_file(current, line, root)
    write_atomic(os.path.join(folder, TRUST_FILE), newest, mode=0o644)
    return True


def read_signed_policy(data: bytes, root: Role) -> Tuple[int, bytes]:
    """Version and ``policy.json`` of a policy that ``root`` signed. Raises ``BundleRefused`` or ``BadInput``."""
    return _policy_of(envelopes.unwrap(POLICY_KIND, data, lambda signers: root.check(signers, "policy", ROOT)))


def update_policy(folder: str, data: bytes) -> bool:
    """Replace the policy by a newer one, or put a lost ``policy.json`` back; False where it is the same.

    Raises ``BundleRefused`` where the root keys of this device did not sign it, or where it is older.
    """
    root, there = _root_key(folder), read_part(folder, SIGNED_POLICY_FILE)
    path = os.path.join(folder, POLICY_FILE)
    if there == data:
        # It was verified when it came, perhaps by root keys that were replaced since.
        wanted = _policy_of(_peek(folder, data))[1]
        if _is_there(folder, wanted):
            return False
        write_atomic(path, wanted, mode=0o644)
        return True
    trust = read_part(folder, TRUST_FILE)
    if trust is None:
        _refuse_part(folder, TRUST_FILE, "is missing")
    version, wanted = read_signed_policy(data, _verified_file(folder, trust, root).root)
    newest = 0 if there is None else _policy_of(_peek(folder, there))[0]
    if version <= newest:
        message = "This policy has version {}, and the device has {} already. Sign a newer one."
        raise BundleRefused("rolled-back", message.format(version, newest))
    # In this order: after a power cut between the two, the new policy is in force and can be sent again.
    write_atomic(path, wanted, mode=0o644)
    write_atomic(os.path.join(folder, SIGNED_POLICY_FILE), data, mode=0o644)
    return True


def _read_device(folder: str) -> Optional[_Device]:
    """A device's trust, whole; None where none of its files is there. Raises ``BadInput`` or ``BundleRefused``."""
    parts: Dict[str, Optional[bytes]] = {name: read_part(folder, name) for name in _CURES}
    if not any(part is not None for part in parts.values()):
        return None
    trust, policy, signed = parts[TRUST_FILE], parts[POLICY_FILE], parts[SIGNED_POLICY_FILE]
    root = _root_key(folder)
    if trust is None:
        _refuse_part(folder, TRUST_FILE, "is missing")
    if signed is not None:
        _policy_of(_peek(folder, signed))
        if policy is None:
            _refuse_part(folder, POLICY_FILE, "is missing")
    return _Device(root, _verified_file(folder, trust, root), policy)


def _verified_file(folder: str, data: bytes, root: Key) -> TrustFile:
    """The device's own trust.json, with how it comes back in the message where it is damaged."""
    try:
        return read_trust_file(data, root)
    except BundleRefused as error:
        message = "{} To mend {}: {}.".format(error, os.path.join(folder, TRUST_FILE), _CURES[TRUST_FILE])
        raise BundleRefused(error.reason, message) from None


def _root_key(folder: str) -> Key:
    if read_part(folder, ROOT_KEY) is None:
        _refuse_part(folder, ROOT_KEY, "is missing")
    try:
        return read_public_key(os.path.join(folder, ROOT_KEY))
    except BadInput:
        _refuse_part(folder, ROOT_KEY, "is damaged")


def _is_there(folder: str, policy: bytes) -> bool:
    try:
        return read_part(folder, POLICY_FILE) == policy
    except BadInput:
        return False  # unreadable: it is put back


def _peek(folder: str, data: bytes) -> object:
    """The payload of the device's own policy-signed.json, which was verified when it came."""
    try:
        return envelopes.unverified(POLICY_KIND, envelopes.parse(POLICY_KIND, data))
    except BundleRefused:
        _refuse_part(folder, SIGNED_POLICY_FILE, "is damaged")


def _policy_of(payload: object) -> Tuple[int, bytes]:
    checked = record(payload, "policy", ("policy", "schema", "version"))
    whole(checked["schema"], "schema", 1, 1)
    policy = strict_json.dumps(checked["policy"])
    read_policy(policy)
    return whole(checked["version"], "version", 1, 2**31 - 1), policy


def _refuse_part(folder: str, name: str, what: str) -> NoReturn:
    message = "The trust of this device is not whole, so nothing is accepted: {} {}. To mend it, {}."
    raise BadInput(message.format(os.path.join(folder, name), what, _CURES[name]))


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
