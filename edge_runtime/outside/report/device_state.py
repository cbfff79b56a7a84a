"""The key of this board and the number of its last report, in one file: a number is never lost without its key.

``ROOT/device.json`` is root's alone. It is made at the first report, so that no two cards written from one image have
the same key.
"""

import binascii
import os
from typing import NamedTuple

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.signing.device_key import SEED_BYTES
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.edge_runtime.storage.filesystem import read_strict

FILE = "device.json"


class DeviceState(NamedTuple):
    """``seed`` of the key; ``number`` of the last report that was made, ``arrived`` of the last that arrived."""

    seed: bytes
    number: int = 0
    arrived: int = 0

    def keep(self, root: str) -> "DeviceState":
        """Write it to ``root``, whole, before anything is signed by it. Raises ``WriteFailed``."""
        document = {"schema": 1, "seed": self.seed.hex(), "number": self.number, "arrived": self.arrived}
        write_atomic(os.path.join(root, FILE), strict_json.dumps(document), mode=0o600)
        return self


def device_state(root: str) -> DeviceState:
    """What the board at ``root`` has; made and written where there is none. Raises ``DeviceFailed`` for damage."""
    path = os.path.join(root, FILE)
    try:
        data = read_strict(path)
        if data is None:
            return DeviceState(os.urandom(SEED_BYTES)).keep(root)
        document = strict_json.loads(data)
        state = DeviceState(binascii.unhexlify(document["seed"]), document["number"], document["arrived"])
        whole = sorted(document) == ["arrived", "number", "schema", "seed"] and document["schema"] == 1
        if not whole or len(state.seed) != SEED_BYTES or {type(state.number), type(state.arrived)} != {int}:
            raise ValueError("other keys or types")
        return state
    except (OSError, ValueError, LookupError, TypeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise DeviceFailed(
            "The key of this board was expected in {} ({}): nothing was reported. Run this as root. If the file is "
            "damaged, remove it: a new key is made, which the owner must accept.".format(path, what)
        ) from None
