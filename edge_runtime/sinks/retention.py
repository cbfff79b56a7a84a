"""``keep=30`` or ``keep=10GB``: how many closed parts of a rotating sink stay; the oldest go first."""

import os
import re
from typing import List, NamedTuple, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.uri import size_bytes

PART = re.compile(r"part-([0-9]{8})(?:\.[a-z0-9]+)?")


class Keep(NamedTuple):
    """The most parts, or the most bytes of them all together; one of the two is None."""

    parts: Optional[int]
    size: Optional[int]


def retention(text: str) -> Keep:
    """``"30"`` or ``"10GB"``; raises ``BadInput``."""
    if re.fullmatch("[1-9][0-9]{0,7}", text):
        return Keep(int(text), None)
    if text.endswith("B"):
        return Keep(None, size_bytes(text))
    raise BadInput("expected a number of parts or a size, as keep=30 or keep=10GB; got {!r}".format(text))


def parts_to_remove(folder: str, keep: Keep, open_part: str) -> List[str]:
    """The paths of the parts that have to go, the oldest first. ``open_part`` is written to and counts as none."""
    found = sorted(name for name in os.listdir(folder) if PART.fullmatch(name))
    closed = [os.path.join(folder, name) for name in found if os.path.join(folder, name) != open_part]
    if keep.parts is not None:
        return closed[: max(0, len(closed) - keep.parts)]
    held, gone = sum(_size(path) for path in closed), []
    for path in closed[:-1]:  # the newest stays, whatever its size
        if held <= (keep.size or 0):
            break
        held -= _size(path)
        gone.append(path)
    return gone


def _size(path: str) -> int:
    """Bytes of a part, which is a file or a folder of files."""
    names = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    return sum(os.stat(name).st_size for name in names)
