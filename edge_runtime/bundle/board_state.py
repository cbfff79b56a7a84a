"""What a board committed to, in two places: ``ROOT/state.json``, and ``ROOT/state-copy.json`` written after it.

The first decides; of the two floors the higher holds. A board that never had a release has neither file, no link and
no folder of releases; anything else that is missing, unreadable or damaged is a fault, never an empty state.
"""

import errno
import os
from typing import Any, Dict, List, NamedTuple, Optional, Union

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.storage.filesystem import Filesystem, read_strict

STATE_FILE, COPY_FILE = "state.json", "state-copy.json"
RELEASES, CURRENT, PREVIOUS = "releases", "current", "previous"
MEND = "Nothing was changed. Run edgeveil-edge recover --repair, and check what it says."
_KEYS = ["committed", "failed", "floor", "previous", "reason", "schema"]


class StateLost(DeviceFailed):
    """What this board committed to cannot be known for certain."""


class State(NamedTuple):
    """``state.json``. ``failed`` counts the failed trials of each release, ``reason`` is why the last one failed."""

    committed: Optional[str] = None
    previous: Optional[str] = None
    floor: int = 0
    failed: Dict[str, int] = {}  # noqa: RUF012 - never changed in place
    reason: str = ""


def read_state(root: str) -> State:
    """The state of the board at ``root``; ``State()`` only where it never had a release. Raises ``StateLost``."""
    state, copy = read_one(root, STATE_FILE), read_one(root, COPY_FILE)
    if state is None:
        if copy is not None or had_a_release(root):
            path = os.path.join(root, STATE_FILE)
            raise StateLost("{} is missing, and this board had a release. {}".format(path, MEND))
        return State()
    # A board of version 0.1 has no copy yet.
    return state if copy is None else state._replace(floor=max(state.floor, copy.floor))


def read_one(root: str, name: str) -> Optional[State]:
    """One of the two files; None where there is none. Raises ``StateLost`` where it cannot be read or is damaged."""
    path = os.path.join(root, name)
    try:
        data = read_strict(path)
        return None if data is None else _parse(data)
    except OSError as error:
        raise StateLost("{} cannot be read ({}). {}".format(path, error.strerror, MEND)) from None
    except (ValueError, TypeError, AttributeError):
        raise StateLost("{} is damaged. {}".format(path, MEND)) from None


def write_state(filesystem: Filesystem, root: str, state: State) -> None:
    """Replace both files, one after the other: at no moment is the copy newer. It lasts after ``sync_folder(root)``."""
    data = strict_json.dumps(dict(state._asdict(), schema=1))
    state_file, copy = os.path.join(root, STATE_FILE), os.path.join(root, COPY_FILE)
    filesystem.write(state_file + ".tmp", data)
    filesystem.sync(state_file + ".tmp")
    filesystem.rename(state_file + ".tmp", state_file)
    filesystem.sync_folder(root)
    filesystem.write(copy + ".tmp", data)
    filesystem.sync(copy + ".tmp")
    filesystem.rename(copy + ".tmp", copy)


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
    folder = os.path.realpath(os.fspath(trust))
    root = os.path.dirname(folder)
    on_board = os.path.basename(folder) == "trust" and had_a_release(root)
    return read_state(root).floor if on_board else 0


def _parse(data: bytes) -> State:
    document: Any = strict_json.loads(data)
    if sorted(document) != _KEYS or document.pop("schema") != 1:
        raise ValueError("other keys")
    state = State(**document)
    if type(state.floor) is not int or state.floor < 0 or type(state.failed) is not dict:
        raise ValueError("other types")
    return state
