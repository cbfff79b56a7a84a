"""Which device key speaks for which board of a fleet: the keys that the owner accepted.

``hall.devices.json`` beside ``hall.toml``: ``{"devices": {NAME: KEY}, "schema": 1}``, or that as the payload of an
envelope of kind ``devices``, countersigned by a key that may sign the fleet's releases. Once
countersigned, it stays so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeveil.devices.fleet.inventory import Fleet
from edgeveil.edge_runtime.bundle.trust_file import RELEASE
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, reason
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.storage.atomic import write_atomic

KIND = "devices"
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass
class Accepted:
    """The accepted key of each board by its name, and whether the file is countersigned."""

    path: Path
    trust: Path  # the folder of keys, of which those for releases may countersign
    keys: dict[str, str] = field(default_factory=dict)
    countersigned: bool = False

    @classmethod
    def of(cls, file: Path, fleet: Fleet) -> Accepted:
        """The accepted keys beside a fleet's ``file``; its countersignature is verified. Raises ``BadInput``."""
        path, trust = file.with_suffix(".devices.json"), fleet.boards[0].trust
        try:
            data = path.read_bytes()
            document = strict_json.loads(data)
            countersigned = "payload" in document
            if countersigned:
                document = open_trust(trust).unwrap(KIND, data, RELEASE)
            if set(document) != {"schema", "devices"} or document["schema"] != 1:
                raise ValueError("other keys")
            for name, key in document["devices"].items():
                _check(name, key)
            return cls(path, trust, dict(document["devices"]), countersigned)
        except FileNotFoundError:
            return cls(path, trust)
        except BundleRefused as error:
            raise BadInput(f"{path} is not countersigned as it should be: {error}") from None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{path} does not say which device keys were accepted ({reason(error)}). Restore it, or remove it and "
                "accept the boards again."
            ) from None

    def accept(self, name: str, key: str, envelope: Callable[[str, Any], bytes] | None = None) -> bool:
        """Accept ``key`` for the board ``name`` in place of any other; whether it is new. ``envelope`` countersigns.

        Raises ``BadInput`` for a key that is none, or of another board, for a countersigned file without ``envelope``,
        and for one by a key that may not countersign.
        """
        _check(name, key)
        other = self.owner(key)
        if other not in (None, name):
            raise BadInput(f"The key {key:.16}... is accepted for {other}: two boards must not have one key.")
        if self.countersigned and envelope is None:
            raise BadInput(f"{self.path} is countersigned: give the key that signs it anew, with --key.")
        keys = {**self.keys, name: key}
        document = {"schema": 1, "devices": keys}
        data = strict_json.dumps(document) if envelope is None else envelope(KIND, document)
        if envelope is not None:
            open_trust(self.trust).unwrap(KIND, data, RELEASE)
        write_atomic(str(self.path), data)
        new, self.keys = keys != self.keys, keys
        return new

    def owner(self, key: str) -> str | None:
        """The board that a key was accepted for."""
        return next((name for name, known in self.keys.items() if known == key), None)


def _check(name: str, key: str) -> None:
    if not _KEY.fullmatch(key):
        raise BadInput(
            f"The device key of {name} was expected as 64 hexadecimal digits, as edgeveil-edge report --key prints it; "
            f"got {ascii(key)[:80]}."
        )
    try:
        ed25519.check_public_key(bytes.fromhex(key))
    except ed25519.Rejected as rejected:
        raise BadInput(f"The device key of {name} is not a safe Ed25519 key ({rejected.reason}).") from None
