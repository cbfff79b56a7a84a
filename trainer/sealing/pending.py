"""What waits in a trust folder until enough root keys have signed it: an envelope that is not complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from edgeveil.edge_runtime.bundle.trust_file import TrustFile, parse_trust_file
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.signing.envelope import message, parse, verify, wrap, wrap_all
from edgeveil.edge_runtime.signing.keys import Key
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.sealing.keys import Signer

Checked = TypeVar("Checked")


@dataclass(frozen=True)
class Pending:
    """A payload of one kind and its signatures so far, by key, in ``<kind>-pending.json`` of a trust folder."""

    path: Path
    kind: str
    schema: int
    payload: bytes
    signatures: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, kind: str, schema: int, payload: bytes) -> Pending:
        """One that nobody has signed yet. It is not written."""
        return cls(folder / f"{kind}-pending.json", kind, schema, payload)

    @classmethod
    def read(cls, folder: Path, kind: str) -> Pending | None:
        """The one in ``folder``, every signature in it valid; None where nothing waits. Raises ``BundleRefused``."""
        path = folder / f"{kind}-pending.json"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}. Make it readable, or remove it.") from None
        envelope = parse(kind, data)
        verify(kind, envelope)
        return cls(path, kind, envelope.schema, envelope.payload, dict(envelope.signatures))

    def with_signature(self, signer: Signer) -> Pending:
        """The same with one more signature; a key that signs again counts once."""
        signature = signer.sign(message(self.kind, self.payload, self.schema))
        return replace(self, signatures={**self.signatures, signer.key.key: signature})

    def data(self) -> bytes:
        """The envelope as a device reads it."""
        if self.schema == 1:
            key, signature = next(iter(self.signatures.items()), ("0" * 64, bytes(64)))  # this schema always has one
            return wrap(self.payload, key, signature)
        return wrap_all(self.payload, self.signatures)

    def trust_file(self, first: Key) -> TrustFile:
        """What it says, of the kind ``trust``. Raises ``BundleRefused`` for what a device would refuse."""
        return parse_trust_file(self.data(), first)

    def unless_missing(self, check: Callable[[], Checked]) -> Checked | None:
        """What ``check()`` returns, None where it refused for want of signatures."""
        try:
            return check()
        except BundleRefused as error:
            if error.reason in ("below-threshold", "untrusted-key"):
                return None
            raise

    def write(self) -> None:
        """Keep it in its folder."""
        write_atomic(self.path, self.data())

    def remove(self) -> None:
        """Take it away: it is complete."""
        self.path.unlink(missing_ok=True)
