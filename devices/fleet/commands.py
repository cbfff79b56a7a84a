"""The work on the boards of a fleet (flash, status, rollback), and the file that records a roll-out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgeveil.devices.flashing import sd_card
from edgeveil.devices.flashing.board import Board, runtime_output
from edgeveil.devices.flashing.flash import flash_target
from edgeveil.devices.fleet.inventory import FleetBoard
from edgeveil.devices.fleet.rollout import ALREADY, DONE, WELL, WOULD, Outcome
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, reason
from edgeveil.edge_runtime.ledger.board_total import board_total_text
from edgeveil.edge_runtime.storage.atomic import write_atomic

Say = Callable[[str], None]
_KEYS = {"schema", "release", "boards"}


@dataclass
class Record:
    """The last roll-out of a fleet: the release's manifest hash, and the outcome of each board so far.

    What a board runs is always asked of the board itself. This file decides which boards come first when a roll-out is
    resumed, and which release a rollback takes back.
    """

    path: Path
    release: str | None = None
    boards: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, fleet: Path) -> Record:
        """The record next to a fleet's file. Raises ``BadInput`` for an invalid one."""
        path = fleet.with_suffix(".state.json")
        try:
            document = json.loads(path.read_bytes())
            if set(document) != _KEYS or document["schema"] != 1 or not isinstance(document["boards"], dict):
                raise ValueError("other keys")
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"{path} is not a record of a roll-out ({reason(error)}). Remove it: the boards are asked again."
            ) from None
        return cls(path, document["release"], document["boards"])

    def begin(self, release: str) -> None:
        """Start a release: a new one has no outcomes yet."""
        if release != self.release:
            self.release, self.boards = release, {}
            self._write()

    def keep(self, outcome: Outcome) -> None:
        """Record a board's outcome, on the disk."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.boards[outcome.board] = {"state": outcome.state, "said": outcome.said, "at": now}
        self._write()

    def ordered(self, boards: Sequence[FleetBoard]) -> list[FleetBoard]:
        """The canary, then the boards that failed or are open, then those that are done."""
        first, *rest = boards
        return [first, *sorted(rest, key=lambda board: self.boards.get(board.name, {}).get("state") in WELL)]

    def _write(self) -> None:
        document = {"schema": 1, "release": self.release, "boards": self.boards}
        write_atomic(str(self.path), (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())


def flash_work(bundle: Path, *, again: bool, dry_run: bool) -> Callable[[FleetBoard, Say], tuple[str, str]]:
    """Work that installs ``bundle`` on a board."""

    def work(board: FleetBoard, say: Say) -> tuple[str, str]:
        last = time.monotonic()

        def progress(there: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > 0.5:
                last = time.monotonic()
                say(f"sends {there / 2**20:.1f} of {total / 2**20:.1f} MB")

        done = flash_target(
            bundle,
            board.target,
            board.connection,
            board.profile,
            trust=board.trust,
            wanted=replace(board.wanted, again=again),
            wheels=board.wheels,
            dry_run=dry_run,
            show=lambda text: say(text.strip().splitlines()[-1] if text.strip() else ""),
            progress=progress,
        )
        if not done.plan.steps:
            return ALREADY, f"already runs {done.sha:.12}"
        if dry_run:
            return WOULD, f"would {', '.join(step.kind for step in done.plan.steps)}: {done.plan.size} bytes"
        new = f"; trusts the root key {done.root_key:.16}... from now on" if done.root_key else ""
        return DONE, f"runs {done.sha:.12} on {done.plan.artefact}{new}"

    return work


def read_status(board: FleetBoard, say: Say) -> tuple[str, str]:
    """Work that asks a board what it runs."""
    with open_board(board, say) as there:
        found = _status(there)
    failed = f"; the last trial failed: {found['reason']}" if found["failed"] else ""
    said = f"runs {found['name']} {found['committed']!s:.12}, floor {found['floor']}{index_text(found['index'])}"
    said += found["spent"]
    return DONE, said + failed


def index_text(index: Mapping[str, Any] | None) -> str:
    """How old a board's update index is: one that grows old everywhere, or on one board alone, may be a freeze."""
    if index is None:
        return ""  # a board that is not updated by an index, or a runtime that says nothing of it
    days = index["age_s"] // 86400
    return f", index {index['version']} since {days} days" if index["name"] else f", no index for {days} days"


def spent_text(spent: Mapping[str, Any] | None) -> str:
    """What all services of a board told of one person, where any counts it."""
    return f", {board_total_text(dict(spent))}" if spent and spent["services"] else ""


def rollback_work(release: str) -> Callable[[FleetBoard, Say], tuple[str, str]]:
    """Work that rolls back a board that runs ``release``; other boards are left alone."""

    def work(board: FleetBoard, say: Say) -> tuple[str, str]:
        with open_board(board, say) as there:
            found = _status(there)
            if found["committed"] != release:
                return ALREADY, f"does not run {release:.12}, but {found['committed']!s:.12}; left alone"
            return DONE, there.rollback()

    return work


def open_board(board: FleetBoard, say: Say) -> Board:
    """The board, reached over its connection. Raises ``BadInput`` for a card, and what the connection raises."""
    if board.target.startswith(sd_card.KINDS):
        raise BadInput(f"{board.target} is a card, which can only be flashed. Use its board's address once it runs.")
    return board.connection.open(board.target, say=say)


def _status(there: Board) -> Mapping[str, Any]:
    printed = runtime_output(there.edge("status", "--root", there.root, "--json"))
    try:
        found = json.loads(printed)
        index = found.get("index")
        # A runtime of before said no age.
        aged = index if isinstance(index, dict) and isinstance(index.get("age_s"), int) else None
        # One of before said nothing of what was spent.
        kept = {key: found[key] for key in ("name", "committed", "floor", "failed", "reason")}
        return {**kept, "index": aged, "spent": spent_text(found.get("spent"))}
    except (ValueError, LookupError, TypeError):
        raise DeviceFailed(f"{there.transport.name} did not answer with its status. Flash it again.") from None
