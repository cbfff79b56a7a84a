"""What a board committed to, in two places: ``ROOT/state.json``, and ``ROOT/state-copy.json`` written after it.

The first decides; of the two floors the higher holds, and so does the newer trust and policy. A board that never had a
release has neither file, no link and no folder of releases; anything else that is missing, unreadable or damaged is a
fault, never an empty state.
"""

import errno
import hashlib
import os
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, NamedTuple, NoReturn, Optional, Tuple, Union

from edgeveil.edge_runtime.errors import BundleRefused, DeviceFailed
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.signing import envelope as envelopes
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.filesystem import Filesystem, read_strict, replace_file

STATE_FILE, COPY_FILE = "state.json", "state-copy.json"
RELEASES, CURRENT, PREVIOUS = "releases", "current", "previous"
MEND = "Nothing was changed. Run edgeveil-edge recover --repair, and check what it says."
_KEYS_1 = ["committed", "failed", "floor", "previous", "reason", "schema"]
_KEYS_2 = sorted(_KEYS_1 + ["accepted"])
_KEYS = sorted(_KEYS_2 + ["has_index", "ledger", "spent"])


class StateLost(DeviceFailed):
    """What this board committed to cannot be known for certain."""


class Accepted(NamedTuple):
    """Which trust and policy files this board took last, so that neither a lost file nor an older one passes for them.

    ``trust`` and ``policy`` are SHA-256 of ``trust.json`` and ``policy.json``: none where there never was one, two
    while one takes the place of another; the versions are then those of the older. A policy that came unsigned, with
    the first flash, has version 0. ``floor_reset``: the version of the trust file by which the floor was last reset.
    """

    trust_schema: int = 0
    trust_version: int = 0
    trust: Tuple[str, ...] = ()
    policy_version: int = 0
    policy: Tuple[str, ...] = ()
    floor_reset: int = 0


NOTHING = Accepted()


class FloorReset(NamedTuple):
    """The root keys' word that boards go back to ``floor``, once: when they take ``version`` of the trust file."""

    version: int
    floor: int


class State(NamedTuple):
    """``state.json``. ``failed`` counts the failed trials of each release, ``reason`` is why the last one failed.

    ``has_index``: it once had the files of ``bundle.index_seen``. ``ledger`` is the identity of the ledger in which it
    counts, empty where it has none, and ``spent`` the 1e-6 epsilon in it at the last start: a lost one is not empty.
    """

    committed: Optional[str] = None
    previous: Optional[str] = None
    floor: int = 0
    failed: Dict[str, int] = {}  # noqa: RUF012 - never changed in place
    reason: str = ""
    accepted: Accepted = Accepted()
    has_index: bool = False
    ledger: str = ""
    spent: int = 0


def read_state(root: str) -> State:
    """The state of the board at ``root``; ``State()`` only where it never had a release. Raises ``StateLost``."""
    state, copy = read_one(root, STATE_FILE), read_one(root, COPY_FILE)
    if state is None:
        if copy is not None or had_a_release(root):
            path = os.path.join(root, STATE_FILE)
            raise StateLost("{} is missing, and this board had a release. {}".format(path, MEND))
        return State()
    # A board of version 0.1 has no copy yet.
    return state if copy is None else merged(state, copy)


def read_one(root: str, name: str) -> Optional[State]:
    """One of the two files; None where there is none. Raises ``StateLost`` where it cannot be read or is damaged."""
    path = os.path.join(root, name)
    try:
        data = read_strict(path)
        return None if data is None else _parse(data)
    except OSError as error:
        raise StateLost("{} cannot be read ({}). {}".format(path, error.strerror, MEND)) from None
    except (LookupError, ValueError, TypeError, AttributeError):
        raise StateLost("{} is damaged. {}".format(path, MEND)) from None


def write_state(filesystem: Filesystem, root: str, state: State) -> None:
    """Replace both files, one after the other: at no moment is the copy newer. It lasts after ``sync_folder(root)``."""
    data = _encoded(state)
    replace_file(filesystem, os.path.join(root, STATE_FILE), data)
    filesystem.sync_folder(root)
    replace_file(filesystem, os.path.join(root, COPY_FILE), data)


def board_of(trust: Union[str, "os.PathLike[str]"]) -> Optional[str]:
    """The root of the board whose trust folder this is; None for a folder of no board."""
    folder = os.path.realpath(os.fspath(trust))
    root = os.path.dirname(folder)
    return root if os.path.basename(folder) == "trust" and had_a_release(root) else None


def accepted_beside(trust: str) -> Optional[Accepted]:
    """What the board whose trust folder this is took last; ``Accepted()`` for a folder of no board.

    None where a board's state is lost in both places. One of them is enough: the trust is mended before the state.
    """
    root = board_of(trust)
    if root is None:
        return Accepted()
    states = [state for _, state in _whole(root)]
    return merged(states[0], states[-1]).accepted if states else None


def amend(trust: str, change: Callable[[State], State]) -> None:
    """Change what the board whose trust folder this is remembers, wherever its state is whole; else do nothing."""
    root = board_of(trust)
    states = [] if root is None else [(name, state, change(state)) for name, state in _whole(root)]
    changed = [(name, now) for name, before, now in states if now != before]
    for name, now in changed:
        last = name == changed[-1][0]
        write_atomic(os.path.join(str(root), name), _encoded(now), mode=0o644, lasting=last)


def accept(state: State, accepted: Accepted, reset: Optional[FloorReset]) -> State:
    """The state of a board on which these files are in place. Its floor falls where ``reset`` is one it did not have.

    The version of a policy stays where ``policy-signed.json``, which tells it, was lost.
    """
    before, floor = state.accepted, state.floor
    if reset is not None and reset.version > before.floor_reset:
        floor = min(floor, reset.floor)
    now = accepted._replace(
        policy_version=max(accepted.policy_version, before.policy_version),
        floor_reset=max(before.floor_reset, reset.version if reset is not None else 0),
    )
    return state._replace(accepted=now, floor=floor)


def had_a_release(root: str) -> bool:
    """Whether anything of a release lies at ``root``. Raises ``StateLost`` where that cannot be found out."""
    for name in (CURRENT, PREVIOUS, RELEASES):
        try:
            os.lstat(os.path.join(root, name))
            return True
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                path = os.path.join(root, name)
                raise StateLost("{} cannot be read ({}). {}".format(path, error.strerror, MEND)) from None
    return False


def files_beside(trust: Union[str, "os.PathLike[str]"]) -> List[str]:
    """The files that ``floor_beside`` reads, whether they are there or not."""
    root = os.path.dirname(os.path.realpath(os.fspath(trust)))
    return [os.path.join(root, name) for name in (STATE_FILE, COPY_FILE)]


def floor_beside(trust: Union[str, "os.PathLike[str]"]) -> int:
    """The floor of the board whose trust folder this is, 0 for any other folder. Raises ``StateLost``."""
    root = board_of(trust)
    return 0 if root is None else read_state(root).floor


def _whole(root: str) -> List[Tuple[str, State]]:
    """Those of the two files that are there and whole."""
    states = []
    for name in (STATE_FILE, COPY_FILE):
        try:
            state = read_one(root, name)
        except StateLost:
            continue
        if state is not None:
            states.append((name, state))
    return states


def merged(state: State, copy: State) -> State:
    """Of the floor, the trust and the policy, the newer in each of the two; a floor that was reset since is newer."""
    one, two = state.accepted, copy.accepted
    accepted = one._replace(floor_reset=max(one.floor_reset, two.floor_reset))
    if (two.trust_schema, two.trust_version) > (one.trust_schema, one.trust_version):
        accepted = accepted._replace(trust_schema=two.trust_schema, trust_version=two.trust_version, trust=two.trust)
    if (two.policy_version, bool(two.policy)) > (one.policy_version, bool(one.policy)):
        accepted = accepted._replace(policy_version=two.policy_version, policy=two.policy)
    floors = [each.floor for each in (state, copy) if each.accepted.floor_reset == accepted.floor_reset]
    return state._replace(floor=max(floors), accepted=accepted)


def _encoded(state: State) -> bytes:
    document = dict(state._asdict(), accepted=dict(state.accepted._asdict()), schema=3)
    if not (state.has_index or state.ledger or state.spent):
        # A runtime of 0.2 reads this, and a board may go back to one.
        del document["has_index"], document["ledger"], document["spent"]
        document["schema"] = 2
    return strict_json.dumps(document)


def _parse(data: bytes) -> State:
    document: Any = strict_json.loads(data)
    schema = document["schema"]
    # An older board wrote schema 1, which remembers no trust, or 2, which remembers no ledger.
    if sorted(document) != {1: _KEYS_1, 2: _KEYS_2, 3: _KEYS}[schema]:
        raise ValueError("other keys")
    del document["schema"]
    state = State(**dict(document, accepted=_accepted(document.get("accepted", {}))))
    wrong = (type(state.has_index), type(state.ledger), type(state.spent)) != (bool, str, int)
    if wrong or type(state.floor) is not int or state.floor < 0 or type(state.failed) is not dict:
        raise ValueError("other types")
    return state


def _accepted(document: Any) -> Accepted:
    taken = Accepted(**document)
    taken = taken._replace(trust=tuple(taken.trust), policy=tuple(taken.policy))
    numbers = (taken.trust_schema, taken.trust_version, taken.policy_version, taken.floor_reset)
    if any(type(number) is not int for number in numbers) or {type(sha) for sha in taken.trust + taken.policy} - {str}:
        raise ValueError("other types")
    return taken


# The auditor's word on an audit: signatures by other keys than the maker's, in the bundle next to the audit.
#
# ``privacy/countersignature.json`` is an envelope (``edgeveil.edge_runtime.signing.envelope``, schema 2) of kind
# ``audit``. Its payload has ``schema`` 1, ``audit_sha256`` (of the audit document's bytes), ``speaks_of`` (the hash of
# each artefact that was audited) and ``pipeline`` (of the stages around it), as they stand in the manifest: it is of
# this audit of these artefacts and of no other.


KIND = "audit"


def statement(audit: bytes, speaks_of: Mapping[str, Any], pipeline: Mapping[str, Any]) -> bytes:
    """What an auditor signs: the payload of the envelope."""
    sha256 = hashlib.sha256(audit).hexdigest()
    return strict_json.dumps({"schema": 1, "audit_sha256": sha256, "speaks_of": speaks_of, "pipeline": pipeline})


def check_countersigned(
    manifest: Manifest, members: Dict[str, bytes], maker: str, auditors: Role, revoked: FrozenSet[str] = frozenset()
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
    """The keys that signed the audit in a verified bundle, whichever they are. Raises ``BundleRefused``."""
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
    message += "maker signed: {}. Have an auditor sign it (edgeveil audit sign EXPORT --key KEY), then seal it again."
    raise BundleRefused("policy-not-met", message.format(what.rstrip(".")))
