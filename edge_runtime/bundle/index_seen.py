"""What a board last saw of its update index: ``ROOT/index-seen.json``."""

import os
from typing import Any, Dict, NamedTuple, Optional

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.storage.filesystem import read_strict

SEEN_FILE = "index-seen.json"


class Seen(NamedTuple):
    """The last index that was accepted. Times are in seconds since 1970 by the board's own clock, which may be wrong.

    ``changed_at``: when this version came; ``asked_at``: when a server last had a valid index. ``others`` are further
    products that a board of version 0.1 followed, with their versions.
    """

    name: str
    audience: str
    version: int
    sha256: str
    changed_at: int
    asked_at: int
    others: Dict[str, int]


def read_seen(root: str) -> Optional[Seen]:
    """The last index that was accepted; None where there was none. Raises ``DeviceFailed`` for a damaged record."""
    path = os.path.join(root, SEEN_FILE)
    try:
        data = read_strict(path)
        if data is None:
            return None
        document = strict_json.loads(data)
        if document.pop("schema", 1) == 2:
            return Seen(**document)
        # Version 0.1: a version for each name.
        versions = {str(name): int(version) for name, version in document.items()}
        name = sorted(versions)[0]
        return Seen(name, "", versions.pop(name), "", 0, 0, versions)
    except (OSError, ValueError, AttributeError, TypeError, IndexError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise DeviceFailed(
            "{} cannot be read ({}): nothing was fetched. Check the disk and what this board runs, then remove that "
            "file and repeat edgeveil-edge update: the next index is accepted as the first was.".format(path, what)
        ) from None


def index_seen(root: str) -> Optional[Dict[str, Any]]:
    """What ``status`` shows of the index: a freeze is seen by a version that has not changed for long."""
    seen = read_seen(root)
    if seen is None:
        return None
    return {name: getattr(seen, name) for name in ("name", "audience", "version", "changed_at", "asked_at")}
