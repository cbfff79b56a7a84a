"""Reads and updates a trust folder: plain public keys, or the trust of a device.

On a workstation it holds public keys: ``*.pub``, each one line ``edgeveil-ed25519 <64 hex> <name>``, followed by
`` development`` for a throw-away key. On a device, root keys that stay offline sign what holds there::

    FOLDER/root.pub      the root key under which this trust began; only the first flash writes it
    FOLDER/trust.json    who may sign (``edgeveil.edge_runtime.bundle.trust_file``)
    FOLDER/policy.json   the owner's own demands (``edgeveil.edge_runtime.bundle.policy``), where there are any
    FOLDER/policy-signed.json   where root keys signed these: an envelope of kind ``policy``

One of these files is enough to say that a folder is a device's. It is then whole, or nothing is accepted: a file that
is lost or cannot be read never makes it a folder of public keys, nor a device without a policy. A board remembers which
of them it took last (``bundle.board_state``): those of a backup, which are older, are refused as a lost file is.
"""

import hashlib
import os
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Tuple, Union

from edgeveil.edge_runtime.bundle.board_state import (
    Accepted,
    State,
    accept,
    accepted_beside,
    amend,
    board_of,
    floor_beside,
)
from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, Policy, read_policy
from edgeveil.edge_runtime.bundle.trust_file import (
    ROOT,
    Trust,
    TrustFile,
    beginning,
    next_trust_file,
    parse_trust_file,
    read_trust_file,
)
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.signing import envelope as envelopes
from edgeveil.edge_runtime.signing.keys import Key, parse_public_key, read_public_key
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.filesystem import read_strict
from edgeveil.edge_runtime.util.validate import ANY, check, record, whole

ROOT_KEY, TRUST_FILE, CHAIN_FILE = "root.pub", "trust.json", "trust-chain.json"
SIGNED_POLICY_FILE, POLICY_KIND = "policy-signed.json", "policy"
_SIGNED = {"schema": whole(1, 1), "version": whole(1, 2**31 - 1), "policy": ANY}
# How each file comes back, as the end of a sentence.
_CURES = {
    ROOT_KEY: "copy root.pub of the owner's trust folder there",
    TRUST_FILE: "run edgeveil-edge trust FILE with trust-chain.json of the owner's trust folder (trust.json, where "
    "there is no chain)",
    POLICY_FILE: "run edgeveil-edge policy FILE with policy-signed.json of the owner's trust folder (edgeveil trust "
    "policy makes it)",
    SIGNED_POLICY_FILE: "run edgeveil-edge policy FILE with the one of the owner's trust folder",
}
_UNKNOWN = "flash the board again over a channel you trust: nothing tells any more which one it took last"


class _Device(NamedTuple):
    """The files of a device's trust, read and verified. ``trust``, ``policy``: the bytes of the two."""

    file: TrustFile
    trust: bytes
    policy: Optional[bytes]
    policy_version: int

    @property
    def accepted(self) -> Accepted:
        """What a board remembers of them."""
        policy = () if self.policy is None else (_sha256(self.policy),)
        return Accepted(self.file.schema, self.file.version, (_sha256(self.trust),), self.policy_version, policy)


def open_trust(
    folder: Union[str, "os.PathLike[str]"], *, floor: Optional[int] = None, policy: Optional[Policy] = None
) -> Trust:
    """The trust of a folder: a device's own where one of its files is there, else every ``*.pub`` in it.

    ``floor`` is the least security version that is accepted here, where the trust file does not say a higher one; by
    default that of the board whose trust folder this is. ``policy`` replaces the device's. Raises ``BadInput`` for a
    folder without keys, with a file that is none of these, or in which one of a device's files is missing or cannot be
    read, or is another than this board took last; ``BundleRefused`` for a ``trust.json`` that its root keys did not
    sign.
    """
    folder = os.fspath(folder)
    floor = floor_beside(folder) if floor is None else floor
    device = _read_device(folder)
    _check_last(folder, device)
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
        accepted=device.accepted,
        floor_reset=file.floor_reset,
    )


def read_part(folder: str, name: str) -> Optional[bytes]:
    """The bytes of one of a device's files; None only where there is nothing of that name. Raises ``BadInput``."""
    try:
        return read_strict(os.path.join(folder, name))
    except OSError as error:
        _refuse_part(folder, name, "cannot be read ({})".format(error.strerror))


def update_trust(folder: str, data: bytes) -> bool:
    """Replace ``trust.json`` by a newer one, or put a lost one back; False where it is the same.

    ``data`` is one trust file, or a chain: one a line, oldest first. A device walks it from the version that it took
    last, also where that one is lost or damaged; the last one is written. Raises ``BundleRefused`` where a file is not
    signed as it must be or is older, or where a version is missing in between; nothing is changed then.
    """
    root, lines = _root_key(folder, read_part(folder, ROOT_KEY)), data.split(b"\n")
    newest, stored = lines[-1], _read_any(folder, TRUST_FILE)
    last, current = _last_trust(folder, root, lines)
    if newest == last == stored:
        return False
    if newest != last:
        if len(lines) > 1:
            lines = [line for line in lines if parse_trust_file(line, root).version > current.version] or [newest]
        for line in lines:
            current = next_trust_file(current, line, root)
    file, sha = current, _sha256(newest)

    def expect(state: State) -> State:
        before = state.accepted
        old = before.trust or (() if last is None else (_sha256(last),))
        return state._replace(accepted=before._replace(trust=_either(old, sha)))

    def settle(state: State) -> State:
        before = state.accepted
        now = before._replace(trust_schema=file.schema, trust_version=file.version, trust=(sha,))
        return accept(state, now, file.floor_reset)

    _replace_part(folder, {TRUST_FILE: newest}, expect, settle)
    return True


def read_signed_policy(data: bytes, root: Role) -> Tuple[int, bytes]:
    """Version and ``policy.json`` of a policy that ``root`` signed. Raises ``BundleRefused`` or ``BadInput``."""
    return _policy_of(envelopes.unwrap(POLICY_KIND, data, lambda signers: root.check(signers, "policy", ROOT)))


def update_policy(folder: str, data: bytes) -> bool:
    """Replace the policy by a newer one, or put a lost one back; False where it is the same.

    Raises ``BundleRefused`` where the root keys of this device did not sign it, or where it is older.
    """
    root, taken = _root_key(folder, read_part(folder, ROOT_KEY)), accepted_beside(folder)
    stored = _last_signed_policy(folder, taken or Accepted())
    if taken is None and stored is None:
        cure = "run edgeveil-edge recover --repair first"
        _refuse_part(folder, SIGNED_POLICY_FILE, "is missing, and so is the state of this board", cure)
    taken, before = taken or Accepted(), _said(stored)
    newest = max(taken.policy_version, before[0] if before else 0)
    # The one that this board has was verified when it came, perhaps by root keys that were replaced since.
    parsed = _said(data)
    if parsed and parsed[0] == newest and (_sha256(parsed[1]) in taken.policy if taken.policy else stored == data):
        version, wanted = parsed
        if stored == data and _read_any(folder, POLICY_FILE) == wanted:
            return False
    else:
        trust = read_part(folder, TRUST_FILE)
        _check_part(folder, TRUST_FILE, taken.trust, trust)
        if trust is None:
            _refuse_part(folder, TRUST_FILE, "is missing")
        version, wanted = read_signed_policy(data, _verified_file(folder, trust, root).root)
        if version <= newest:
            message = "This policy has version {}, and the device has {} already. Sign a newer one."
            raise BundleRefused("rolled-back", message.format(version, newest))
    sha = _sha256(wanted)
    old = _read_any(folder, POLICY_FILE)

    def expect(state: State) -> State:
        known = state.accepted.policy or (() if old is None else (_sha256(old),))
        return state._replace(accepted=state.accepted._replace(policy=_either(known, sha)))

    def settle(state: State) -> State:
        return state._replace(accepted=state.accepted._replace(policy_version=version, policy=(sha,)))

    # In this order: after a power cut between the two, the new policy is in force and can be sent again.
    _replace_part(folder, {POLICY_FILE: wanted, SIGNED_POLICY_FILE: data}, expect, settle)
    return True


def _read_device(folder: str) -> Optional[_Device]:
    """A device's trust, whole; None where none of its files is there. Raises ``BadInput`` or ``BundleRefused``."""
    parts: Dict[str, Optional[bytes]] = {name: read_part(folder, name) for name in _CURES}
    if not any(part is not None for part in parts.values()):
        return None
    trust, policy, signed = parts[TRUST_FILE], parts[POLICY_FILE], parts[SIGNED_POLICY_FILE]
    root, version = _root_key(folder, parts[ROOT_KEY]), 0
    if trust is None:
        _refuse_part(folder, TRUST_FILE, "is missing")
    if signed is not None:
        version = _policy_of(_peek(folder, signed))[0]
        if policy is None:
            _refuse_part(folder, POLICY_FILE, "is missing")
    return _Device(_verified_file(folder, trust, root), trust, policy, version)


def _check_last(folder: str, device: Optional[_Device]) -> None:
    """Raise ``BadInput`` where the files are not those that this board took last."""
    taken = accepted_beside(folder) or Accepted()
    _check_part(folder, TRUST_FILE, taken.trust, device and device.trust)
    _check_part(folder, POLICY_FILE, taken.policy, device and device.policy)


def _check_part(folder: str, name: str, taken: Tuple[str, ...], stored: Optional[bytes]) -> None:
    if taken and (stored is None or _sha256(stored) not in taken):
        what = "is missing" if stored is None else "is not the one that this board took last"
        _refuse_part(folder, name, what)


def _last_trust(folder: str, root: Key, lines: List[bytes]) -> Tuple[Optional[bytes], TrustFile]:
    """The trust file that this board took last: its bytes, None where they are lost, and what it says.

    ``lines`` are those that were sent: a lost one may be among them. Raises ``BadInput`` where it cannot be told.
    """
    taken, stored = accepted_beside(folder), _read_any(folder, TRUST_FILE)
    if taken is None or not taken.trust:
        if stored is None and (taken is None or board_of(folder) is not None):
            _refuse_part(folder, TRUST_FILE, "is missing", _UNKNOWN)
        stored = read_part(folder, TRUST_FILE)
        return stored, beginning(root) if stored is None else _verified_file(folder, stored, root)
    for data in [stored, *lines]:
        if data is not None and _sha256(data) in taken.trust:
            return data, read_trust_file(data, root)
    if taken.trust_schema == 1:  # one root key for ever, and no chain
        return None, beginning(root)._replace(version=taken.trust_version)
    what = "is not that of version {}, which this board took last and which is not in the file that was sent either"
    _refuse_part(folder, TRUST_FILE, what.format(taken.trust_version))


def _last_signed_policy(folder: str, taken: Accepted) -> Optional[bytes]:
    """The bytes of policy-signed.json; None also for a damaged one, where the board remembers its policy."""
    if not taken.policy:
        stored = read_part(folder, SIGNED_POLICY_FILE)
        if stored is not None:
            _policy_of(_peek(folder, stored))
        return stored
    stored = _read_any(folder, SIGNED_POLICY_FILE)
    return stored if _said(stored) else None


def _replace_part(
    folder: str, parts: Dict[str, bytes], expect: Callable[[State], State], settle: Callable[[State], State]
) -> None:
    """Write some of a device's files in order: before, the board expects old and new ones; after, the new alone."""
    amend(folder, expect)
    for name, data in parts.items():
        write_atomic(os.path.join(folder, name), data, mode=0o644)
    amend(folder, settle)


def _verified_file(folder: str, data: bytes, root: Key) -> TrustFile:
    """The device's own trust.json, with how it comes back in the message where it is damaged."""
    try:
        return read_trust_file(data, root)
    except BundleRefused as error:
        message = "{} To mend {}: {}.".format(error, os.path.join(folder, TRUST_FILE), _CURES[TRUST_FILE])
        raise BundleRefused(error.reason, message) from None


def _root_key(folder: str, data: Optional[bytes]) -> Key:
    if data is None:
        _refuse_part(folder, ROOT_KEY, "is missing")
    try:
        return parse_public_key(data, os.path.join(folder, ROOT_KEY))
    except BadInput:
        _refuse_part(folder, ROOT_KEY, "is damaged")


def _read_any(folder: str, name: str) -> Optional[bytes]:
    """As ``read_part``, None also for what cannot be read: it is put back."""
    try:
        return read_part(folder, name)
    except BadInput:
        return None


def _peek(folder: str, data: bytes) -> object:
    """The payload of the device's own policy-signed.json, which was verified when it came."""
    try:
        return envelopes.unverified(POLICY_KIND, envelopes.parse(POLICY_KIND, data))
    except BundleRefused:
        _refuse_part(folder, SIGNED_POLICY_FILE, "is damaged")


def _said(data: Optional[bytes]) -> Optional[Tuple[int, bytes]]:
    """Version and ``policy.json`` of a signed policy, whichever key signed it; None for anything else."""
    try:
        return _policy_of(envelopes.unverified(POLICY_KIND, envelopes.parse(POLICY_KIND, data or b"")))
    except BadInput:
        return None


def _policy_of(payload: Any) -> Tuple[int, bytes]:
    cure = "Sign the policy again (edgeveil trust policy)."
    check(payload, "policy", record(_SIGNED), file=SIGNED_POLICY_FILE, cure=cure)
    policy = strict_json.dumps(payload["policy"])
    read_policy(policy)
    return payload["version"], policy


def _refuse_part(folder: str, name: str, what: str, cure: str = "") -> NoReturn:
    message = "The trust of this device is not whole, so nothing is accepted: {} {}. To mend it, {}."
    raise BadInput(message.format(os.path.join(folder, name), what, cure or _CURES[name]))


def _either(old: Tuple[str, ...], new: str) -> Tuple[str, ...]:
    """While ``new`` is written: nothing is expected yet where there was none."""
    return tuple(sorted({*old, new})) if old else ()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _key_files(folder: str) -> List[str]:
    """The names of a folder's ``*.pub``, sorted. Raises ``BadInput`` where there are none."""
    advice = "Name the folder that holds the signing.pub of those who may sign (edgeveil key new makes one)."
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
