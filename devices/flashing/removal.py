"""``edgeveil board remove``: all that a flash and its service leave on a board, found, shown and taken off again.

``job`` is the one list of it. What a flash writes and this does not name fails a test
(``tests/devices/flashing/test_removal.py``).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgeveil.devices.agents import read_agent
from edgeveil.devices.flashing import sd_card, service_files
from edgeveil.devices.flashing.board import Board
from edgeveil.devices.flashing.steps import UNFINISHED
from edgeveil.edge_runtime.bundle import aims
from edgeveil.edge_runtime.bundle.board_state import COPY_FILE, STATE_FILE
from edgeveil.edge_runtime.bundle.index_seen import COPY_FILE as SEEN_COPY
from edgeveil.edge_runtime.bundle.index_seen import OFFERED_FILE, SEEN_FILE
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.paths import CAMERA_PATH, ENGINES, FIRST, LEDGER, SYSTEMD, named, service_of
from edgeveil.edge_runtime.releases import confinement, settings
from edgeveil.edge_runtime.releases.index import INCOMING
from edgeveil.edge_runtime.releases.index import LOCK_FILE as UPDATE_LOCK
from edgeveil.edge_runtime.sources import install_hints
from edgeveil.edge_runtime.util.root_lock import LOCK_FILE

WHY = (
    "The ledger is how a board keeps a promised epsilon: without it, a new flash begins a new budget for the same "
    "people, and what was counted is on no other machine."
)
ERASE_S = 600  # gigabytes on a slow card
_BOOT = ("/boot", "/boot/firmware")
_FOLDERS = (
    *("trust", "runtime", "releases", "current", "previous", "site", "site-[0-9a-f]+"),
    *(UNFINISHED, INCOMING, settings.FOLDER),
)
_FILES = (
    *(STATE_FILE, COPY_FILE, SEEN_FILE, SEEN_COPY, OFFERED_FILE, UPDATE_LOCK, LOCK_FILE),
    *(settings.KEY_FILE, settings.PUBLIC_FILE, aims.FILE),
)


def job(root: str) -> dict[str, Any]:
    """What the board is asked to take off (``devices/agents/erase_board.py``): EdgeVeil in ``root``."""
    service, root = service_of(root), root.rstrip("/")
    names = [*_FOLDERS, *(re.escape(name) for name in _FILES)]
    return {
        "root": root,
        "names": f"({'|'.join(names)})([.](tmp|new))?",
        "default_root": f"/opt/{service}",
        "systemd": SYSTEMD,
        "unit_folder": service_files.UNIT_FOLDER.rstrip("/"),
        "units": [named(unit, service) for unit in service_files.ALL_UNITS],
        "shared": [service_files.WATCHDOG, posixpath.join(confinement.LOCKS, confinement.USERS)],
        "settings": named(service_files.CONFIG, service),
        "files": [named(CAMERA_PATH, service)],
        "folders": [
            posixpath.dirname(named(LEDGER, service)),
            named(ENGINES, service),
            f"/run/{service}",
            named(service_files.CAMERA_FOLDER, service),
        ],
        # Uploads and rows of an audit that a lost connection left, and what a card's first boot left.
        "named": [
            ["~/.cache", "edgeveil-[A-Za-z0-9-]+"],
            *([place, f"{sd_card.TREE}.*"] for place in _BOOT if service == FIRST),
        ],
        "locks": [[folder, install_hints.LOCK] for folder in install_hints.FOLDERS],  # of cameras
        "mark": service_files.user_mark(root),
        "users": [named(user, service) for user in ("edgeveil", "edgeveil-inside", "edgeveil-camera")],
    }


@dataclass(frozen=True)
class Found:
    """What of EdgeVeil a board has. ``removed``: paths with their bytes; ``spent``: 1e-6 epsilon, None if unknown;
    ``mine``: whether the user may remove all of it."""

    removed: tuple[tuple[str, int], ...]
    users: tuple[str, ...]
    units: tuple[str, ...]
    kept: tuple[str, ...]
    links: tuple[str, ...]
    spent: int | None
    mine: bool

    @property
    def nothing(self) -> bool:
        """Whether nothing of EdgeVeil is there."""
        return not (self.removed or self.users)

    def lines(self) -> Iterator[str]:
        """The plan for people, a line for each thing, in the order of its removal."""
        if self.units:
            yield f"stop {', '.join(self.units)}"
        for path, size in self.removed:
            yield f"remove {path} ({size} bytes)"
        for user in self.users:
            yield f"remove the user {user}"
        for path in self.kept:
            yield f"stays: {path}, which no flash into this folder wrote"
        yield f"goes with it: the root key and the floor, so that the next flash is a first one; {self.epsilon}"

    @property
    def epsilon(self) -> str:
        """What the ledger counted."""
        if self.spent == 0:
            return "no epsilon was counted"
        counted = "an unknown epsilon" if self.spent is None else f"epsilon {self.spent / 1e6:g}"
        return f"the ledger, which counted {counted}"

    def check(self, *, yes: bool, erase_ledger: bool) -> None:
        """Raise ``BadInput`` where it may not go, with what to do."""
        for link in self.links:
            raise BadInput(
                f"{link} was expected to be a folder; it is a link, and what it names may hold more than EdgeVeil's. "
                "Nothing was removed: remove that folder and the link on the board, then repeat this."
            )
        if self.spent != 0 and not erase_ledger:
            raise BadInput(
                f"Nothing was removed: this would erase {self.epsilon}. {WHY} Keep the board as it is until all "
                "periods have ended, or give --erase-ledger where none of these people will be before it again."
            )
        if not yes:
            raise BadInput("Nothing was removed. Give --yes to remove all of this.")


def look(board: Board) -> Found:
    """What is there. Raises ``BadInput`` where this user may not take it off, ``DeviceFailed``."""
    found = _ask(board, "look")
    if not found.mine:
        raise BadInput(
            "Root is needed to remove what is there, and this user cannot sudo without a password: give it with "
            "password_file in boards.toml, or log in as another user."
        )
    return found


def erase(board: Board) -> None:
    """Take it all off. Raises ``DeviceFailed`` where something stays; the same again goes on from there."""
    left = _ask(board, "erase")
    if not left.nothing:
        raise DeviceFailed(f"{', '.join([path for path, _ in left.removed] + list(left.users))} could not be removed.")


def _ask(board: Board, what: str) -> Found:
    run = board.sudo.run if board.sudo.allowed() else board.transport.run
    command = [*board.python(), "-", what, json.dumps(job(board.root))]
    done = run(command, data=read_agent("erase_board"), timeout_s=ERASE_S)
    try:
        document = json.loads(done.out) if done.code == 0 else {}
        lists = {name: tuple(document[name]) for name in ("users", "units", "kept", "links")}
        removed = tuple((path, size) for path, size in document["removed"])
        return Found(removed=removed, spent=document["spent"], mine=document["mine"], **lists)
    except (ValueError, LookupError, TypeError):
        text = done.last_line().removeprefix("error: ")
        raise DeviceFailed(f"{text or 'The board gave no answer'}. Cure that and repeat this: it goes on.") from None
