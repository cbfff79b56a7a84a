"""The owner's side of a device's trust: root keys, and the versioned ``trust.json`` that a threshold of them signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.bundle.board_state import FloorReset
from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, read_policy
from edgeveil.edge_runtime.bundle.trust_file import (
    KIND,
    MAKER,
    RELEASE,
    ROLES,
    SCHEMA,
    TrustFile,
    beginning,
    next_trust_file,
    payload_of,
    read_trust_file,
)
from edgeveil.edge_runtime.bundle.trust_store import (
    CHAIN_FILE,
    POLICY_KIND,
    ROOT_KEY,
    SIGNED_POLICY_FILE,
    TRUST_FILE,
    read_signed_policy,
)
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.signing.envelope import parse, unverified
from edgeveil.edge_runtime.signing.keys import Key, public_key_line, read_public_key
from edgeveil.edge_runtime.signing.roles import NOBODY, Role
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.validate import HEX_64
from edgeveil.trainer.sealing.keys import KEY_FILE, PUBLIC_FILE, Signer, keygen
from edgeveil.trainer.sealing.seal import Pending, read_part

ROOT = "root"


@dataclass(frozen=True)
class TrustFolder:
    """A folder with ``root.pub``, ``trust.json`` and all its versions, ``trust-chain.json``.

    With one root key, ``signing.key`` is in it too: keep it offline. With several, each holder keeps one and runs
    ``edgeveil trust sign``; until enough have signed, the next version waits as ``pending``. ``first`` is the key in
    ``root.pub``, ``file`` the version in force, or None before the first one is signed.
    """

    folder: Path
    first: Key
    file: TrustFile | None
    pending: Pending | None

    @classmethod
    def init(
        cls,
        folder: Path,
        keys: list[Path],
        *,
        audience: str = "",
        product: str = "",
        passphrase: str | None = None,
        roots: Sequence[Path] = (),
        threshold: int = 1,
        others: dict[str, Sequence[Path]] | None = None,
    ) -> TrustFolder:
        """Make the first trust file: the keys in ``keys`` (``signing.pub`` files) may sign bundles.

        ``roots``: public keys of the root's holders, of which ``threshold`` must sign, the first of them among these;
        without any, one root key is made here. ``others``: keys by role; without ``release``, the makers sign the index
        of updates. Raises ``BadInput``.
        """
        roles = {role: _role(paths) for role, paths in {MAKER: keys, **(others or {})}.items()}
        if not roles[MAKER].keys:
            raise BadInput("At least one key that may sign bundles was expected: give signing.pub files.")
        if not roles.get(RELEASE, NOBODY).keys:
            roles[RELEASE] = roles[MAKER]
        stand_in = Role((Key("0" * 64, ROOT, False),), threshold)  # nothing is written before all else is right
        root = Role(_role(roots).keys, threshold) if roots else stand_in
        file = TrustFile(1, root.keys[0].key, root, {**dict.fromkeys(ROLES, NOBODY), **roles}, (), 0, audience, product)
        _check(file, root.keys[0])
        if roots:
            _new_folder(folder)
        else:
            keygen(folder, passphrase=passphrase)
            public_key = read_public_key(folder / PUBLIC_FILE)
            root = Role((public_key._replace(name=f"root-{public_key.key[:8]}"),), threshold)
            write_atomic(folder / PUBLIC_FILE, public_key_line(root.keys[0]).encode("ascii"))
        first = root.keys[0]
        write_atomic(folder / ROOT_KEY, public_key_line(first).encode("ascii"))
        return cls(folder, first, None, None)._change(file._replace(first_root=first.key, root=root), passphrase)

    @classmethod
    def open(cls, folder: Path) -> TrustFolder:
        """Read a trust folder. Raises ``BadInput`` where it is none, ``BundleRefused`` where it is not signed."""
        first, pending = read_public_key(folder / ROOT_KEY), Pending.read(folder, KIND)
        data = read_part(folder / TRUST_FILE)
        if data is None and pending is None:
            raise BadInput(f"Expected {TRUST_FILE} in {folder}, found none. Make one with `edgeveil trust init`.")
        return cls(folder, first, None if data is None else read_trust_file(data, first), pending)

    def add(
        self, key: Path, *, role: str = MAKER, threshold: int | None = None, passphrase: str | None = None
    ) -> TrustFolder:
        """Give a key a role. Raises ``BadInput`` for one that has it or was revoked."""
        new, file = read_public_key(key), self._in_force()
        if new.key in file.revoked:
            raise BadInput(f"The key {new.name} was revoked, and a revoked key cannot be added again. Make a new one.")
        current = self._role_of(role)
        if any(new.key == other.key for other in current.keys):
            raise BadInput(f"The key {new.name} has the role {role} already. Give another one.")
        return self._with_role(role, Role((*current.keys, new), threshold or current.threshold), passphrase)

    def remove(
        self, key: str, *, role: str = MAKER, threshold: int | None = None, passphrase: str | None = None
    ) -> TrustFolder:
        """Take a role from a key, by its name or its first digits (8 or more); it may get it again. ``BadInput``."""
        current = self._role_of(role)
        gone = _named(key, current.keys, f"of the role {role}")
        left = tuple(other for other in current.keys if other is not gone)
        return self._with_role(role, Role(left, threshold or current.threshold), passphrase)

    def revoke(self, key: str, *, passphrase: str | None = None) -> TrustFolder:
        """Revoke a key in all its roles, for ever; as ``remove``. Root keys are replaced with ``rotate``.

        By all its digits, a key can be revoked that has no role (any more).
        """
        file = self._in_force()
        every = {other.key: other for role in file.roles.values() for other in role.keys}
        known = {*every, *file.revoked, *(root.key for root in file.root.keys)}
        if HEX_64.fullmatch(key) and key not in known:
            every[key] = Key(key, "", False)
        gone = _named(key, tuple(every.values()), "that may sign")
        roles = {
            name: role._replace(keys=tuple(other for other in role.keys if other.key != gone.key))
            for name, role in file.roles.items()
        }
        return self._next(passphrase, roles=roles, revoked=(*file.revoked, gone.key))

    def require(self, security_version: int, *, passphrase: str | None = None) -> TrustFolder:
        """Raise the least security version that devices accept. Raises ``BadInput`` where it would fall."""
        now = self._in_force().security_version
        if security_version <= now:
            raise BadInput(f"The least security version is {now} and only rises; got {security_version}.")
        return self._next(passphrase, security_version=security_version)

    def reset_floor(self, floor: int, *, passphrase: str | None = None) -> TrustFolder:
        """Have devices go back to the floor ``floor``, once: when they take the next version. Raises ``BadInput``.

        A device takes each version once and no older one, so that no one can repeat it.
        """
        self._needs_roles()
        file = self._in_force()
        reset = FloorReset(file.version + 1, floor)
        least = min(file.security_version, floor)
        return self._next(passphrase, floor_reset=reset, security_version=least)

    def settle(self, *, passphrase: str | None = None, **settings: Any) -> TrustFolder:
        """Change ``product``, ``index_stale_days`` (0: never) or ``runtimes`` (SHA-256, replaced as a whole)."""
        self._needs_roles()
        return self._next(passphrase, **settings)

    def rotate(self, roots: Sequence[Path], threshold: int = 1, *, passphrase: str | None = None) -> TrustFolder:
        """Replace the root keys. Holders of the old ones and of the new ones must sign. Raises ``BadInput``."""
        self._needs_roles()
        if not roots:
            raise BadInput(
                "The new root keys were expected: make one with edgeveil key new and give --root-key signing.pub."
            )
        return self._next(passphrase, root=Role(_role(roots).keys, threshold))

    def upgrade(self, *, passphrase: str | None = None) -> TrustFolder:
        """From a trust file of schema 1 to the first one with roles, which takes over its boards. No way back."""
        if self._in_force().schema == SCHEMA:
            raise BadInput(f"{self.folder / TRUST_FILE} has roles already (schema {SCHEMA}); there is nothing to do.")
        return self._next(passphrase, schema=SCHEMA)

    def sign(self, key: str | Path, *, passphrase: str | None = None) -> TrustFolder:
        """Add the signature of one root key to what waits here: a trust file or a policy. Raises ``BadInput``."""
        policy = Pending.read(self.folder, POLICY_KIND)
        waiting = self.pending or policy
        if waiting is None:
            raise BadInput(
                f"Nothing waits for a signature in {self.folder}. Change something first (edgeveil trust add)."
            )
        signer = Signer.open(key, passphrase=passphrase)
        roots = self._roots() if waiting is self.pending else self._in_force().root.keys
        if signer.key.key not in {root.key for root in roots}:
            names = ", ".join(f"{root.name} ({root.key[:16]}...)" for root in roots)
            raise BadInput(f"{signer.key.key[:16]}... is no root key that must sign this. Expected one of: {names}.")
        signed = waiting.with_signature(signer)
        if waiting is self.pending:
            return self._take(signed)
        self._take_policy(signed)
        return self

    def sign_policy(self, policy: Path, *, passphrase: str | None = None) -> int:
        """Sign a ``policy.json`` for boards in use, as ``policy-signed.json`` here; returns its version, the next one.

        Boards that are flashed for the first time get it too. With several root keys it waits for ``sign``. Raises
        ``BadInput``.
        """
        wanted = read_part(policy)
        if wanted is None:
            raise BadInput(f"Expected a policy.json at {policy}, found none.")
        read_policy(wanted, str(policy))
        file, previous = self._in_force(), read_part(self.folder / SIGNED_POLICY_FILE)
        # Root keys that were replaced since may have signed the one before.
        version = 1 + (unverified(POLICY_KIND, parse(POLICY_KIND, previous))["version"] if previous is not None else 0)
        document = {"schema": 1, "version": version, "policy": strict_json.loads(wanted)}
        waiting = Pending.from_payload(self.folder, POLICY_KIND, file.schema, strict_json.dumps(document))
        self._take_policy(self._signed_here(waiting, file.root.keys, passphrase))
        return version

    def text(self) -> str:
        """The trust file for a terminal, with the fingerprints that a board shows too."""
        lines = [f"root key {self.first.key}"]
        if self.file is not None:
            lines += _lines(self.file)
        if self.pending is not None:
            signed = ", ".join(key[:16] + "..." for key in self.pending.signatures) or "no one"
            version = self._waiting().version
            lines += [f"version {version} waits in {self.pending.path} for more signatures; signed by {signed}"]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The content of ``text``, for JSON."""
        file = self.file
        waiting = None
        if self.pending is not None:
            waiting = {"version": self._waiting().version, "signed_by": sorted(self.pending.signatures)}
        if file is None:
            return {"schema": 1, "root": self.first.key, "pending": waiting}
        body = payload_of(file) if file.schema == SCHEMA else {**payload_of(file), "roles": {}}
        makers = [key._asdict() for key in file.keys]
        return {**body, "trust_schema": file.schema, "schema": 1, "root": self.first.key, "root_role": body.get("root"),
                "keys": makers, "pending": waiting}  # fmt: skip

    def _in_force(self) -> TrustFile:
        if self.file is None:
            raise BadInput(
                f"The first trust file in {self.folder} is not signed yet. Sign it with `edgeveil trust sign`."
            )
        return self.file

    def _needs_roles(self) -> None:
        if self._in_force().schema != SCHEMA:
            raise BadInput(
                f"{self.folder / TRUST_FILE} is of schema 1, which has makers and one root key alone. Once its boards "
                "run this version, run edgeveil trust upgrade."
            )

    def _role_of(self, role: str) -> Role:
        if role != MAKER:
            self._needs_roles()
        file = self._in_force()
        return file.root if role == ROOT else file.roles[role]

    def _with_role(self, name: str, role: Role, passphrase: str | None) -> TrustFolder:
        if name == ROOT:
            return self._next(passphrase, root=role)
        return self._next(passphrase, roles={**self._in_force().roles, name: role})

    def _next(self, passphrase: str | None, **changes: Any) -> TrustFolder:
        if self.pending is not None:
            raise BadInput(
                f"Version {self._waiting().version} waits for signatures: finish it (edgeveil trust sign), or remove "
                f"{self.pending.path}."
            )
        file = self._in_force()
        return self._change(file._replace(version=file.version + 1, **changes), passphrase)

    def _change(self, file: TrustFile, passphrase: str | None) -> TrustFolder:
        waiting = Pending.from_payload(self.folder, KIND, file.schema, strict_json.dumps(payload_of(file)))
        changed = replace(self, pending=waiting)
        _check(file, self.first)
        return changed._take(changed._signed_here(waiting, changed._roots(), passphrase))

    def _waiting(self) -> TrustFile:
        assert self.pending is not None  # noqa: S101 - its callers looked
        return self.pending.trust_file(self.first)

    def _before(self) -> TrustFile:
        return beginning(self.first) if self.file is None else self.file

    def _roots(self) -> tuple[Key, ...]:
        """The root keys whose signatures count for what waits: those in force and the new ones."""
        both = (*self._before().root.keys, *self._waiting().root.keys)
        return tuple({key.key: key for key in both}.values())

    def _signed_here(self, waiting: Pending, roots: Sequence[Key], passphrase: str | None) -> Pending:
        """With the signature of the key in this folder, where there is one that counts."""
        if waiting.schema == SCHEMA and not (self.folder / KEY_FILE).exists():
            return waiting
        signer = Signer.open(self.folder / KEY_FILE, passphrase=passphrase)
        return waiting.with_signature(signer) if signer.key.key in {root.key for root in roots} else waiting

    def _take(self, waiting: Pending) -> TrustFolder:
        """Put it in force where enough keys signed, else keep it waiting."""
        data = waiting.data()
        file = waiting.unless_missing(lambda: next_trust_file(self._before(), data, self.first))
        if file is None:
            waiting.write()
            return replace(self, pending=waiting)
        if file.schema == SCHEMA:
            chain = read_part(self.folder / CHAIN_FILE)
            write_atomic(self.folder / CHAIN_FILE, data if chain is None else chain + b"\n" + data)
        write_atomic(self.folder / TRUST_FILE, data)
        waiting.remove()
        return replace(self, file=file, pending=None)

    def _take_policy(self, waiting: Pending) -> None:
        data = waiting.data()
        read = waiting.unless_missing(lambda: read_signed_policy(data, self._in_force().root))
        if read is None:
            waiting.write()
            return
        write_atomic(self.folder / POLICY_FILE, read[1])
        write_atomic(self.folder / SIGNED_POLICY_FILE, data)
        waiting.remove()


def _check(file: TrustFile, first: Key) -> None:
    """Raise ``BadInput`` where a device would refuse this file, whichever key signs it."""
    for name, role in {ROOT: file.root, **file.roles}.items():
        keys = {key.key for key in role.keys}
        if len(keys) != len(role.keys):
            raise BadInput(f"A key is named twice for the role {name}, and it counts once. Leave one of them out.")
        if not 1 <= role.threshold <= max(len(keys), 1):
            raise BadInput(
                f"The role {name} has {len(keys)} key(s), of which {role.threshold} cannot be asked for. "
                "Give --threshold, or add a key first."
            )
        if name != ROOT and keys & {file.first_root, *(key.key for key in file.root.keys)}:
            raise BadInput(f"A root key signs trust files alone; it cannot have the role {name} too. Make another key.")
    if file.roles[MAKER].threshold != 1:
        raise BadInput("A bundle carries one signature, so that the threshold of the makers is 1.")
    Pending.from_payload(Path(), KIND, file.schema, strict_json.dumps(payload_of(file))).trust_file(first)


def _lines(file: TrustFile) -> list[str]:
    lines = [
        f"version {file.version}, least security version {file.security_version}, for {file.audience or 'any audience'}"
    ]
    if file.schema == SCHEMA:
        for name, role in {ROOT: file.root, **file.roles}.items():
            lines += [f"{name}: {role.threshold} of {len(role.keys)} must sign" if role.keys else f"{name}: no one"]
            lines += [f"  {_shown(key)}" for key in role.keys]
        lines += [f"product of the update index: {file.product or 'that of the first index'}"]
        lines += [f"approved runtime: {sha}" for sha in file.runtimes]
        if file.index_stale_days is not None:
            lines += [f"the service stops {file.index_stale_days} days after the last new index"]
        if file.floor_reset is not None:
            lines += [f"version {file.floor_reset.version} set the floor of boards back to {file.floor_reset.floor}"]
    else:
        lines += [f"may sign: {_shown(key)}" for key in file.keys]
    return lines + [f"revoked:  {key}" for key in file.revoked]


def _shown(key: Key) -> str:
    return f"{key.key} {key.name}{' (development)' if key.development else ''}"


def _role(paths: Sequence[Path]) -> Role:
    return Role(tuple(read_public_key(path) for path in paths))


def _named(key: str, keys: Sequence[Key], what: str) -> Key:
    matches = [known for known in keys if known.name == key or (len(key) >= 8 and known.key.startswith(key))]
    if len(matches) != 1:
        names = ", ".join(f"{known.name} ({known.key[:16]}...)" for known in keys) or "none"
        raise BadInput(f"Expected one key {what}, by name or first digits; got {key!r}. There are: {names}.")
    return matches[0]


def _new_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {folder} cannot be made: {error.strerror}. Give another one.") from None
    if (folder / ROOT_KEY).exists():
        raise BadInput(f"{folder / ROOT_KEY} is there already: this folder holds a trust. Give another one.")
