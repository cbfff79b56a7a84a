"""A fleet: many boards in one TOML file, each with its target, profile and options.

::

    parallel = 4                 # boards at a time, once the canary runs the release
    most_failures = 0            # more failures than this stop the roll-out
    canary = "hall-1"            # the board that goes first, and alone; left out: the first one

    [all]                        # defaults for every board
    profile = "raspberry-pi-cpu"
    trust = "root"
    source = "camera:0"
    sink = ["mqtts://broker/{name}"]

    [[board]]
    name = "hall-1"
    target = "ssh://pi@10.0.0.11"

Paths are relative to the file's folder; ``{name}`` in a source or a sink is the board's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.toml_tables import Table, Text, Texts, checked, matching, read_toml
from edgeveil.devices.transports import split_target
from edgeveil.edge_runtime.device import check_device
from edgeveil.edge_runtime.errors import BadInput

PAGE = "docs/how-to/manage-a-fleet.md"
_Name = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "letters, digits, '.', '_' and '-'")]


class _Options(Table):
    profile: Text | None = Field(default=None, description="a profile's name or TOML file")
    trust: Text | None = Field(default=None, description="the folder of edgeveil trust init")
    source: Text | None = Field(default=None, description="what the board perturbs, such as camera:0")
    sink: Texts = Field(default=(), description="a list of places, such as mqtts://broker/hall")
    device: Text | None = Field(default=None, description="what runs the model: cpu, edgetpu, ...")
    update_from: Text | None = Field(default=None, description="where newer releases are: https://... or dir:/FOLDER")
    wheels: Text | None = Field(default=None, description="a folder of edgeveil wheels")
    service: bool = Field(default=Wanted.service, description="true or false")
    frames: int = Field(default=Wanted.frames, ge=1, description="a number of frames, from 1")
    root: Text = Field(default=Connection.root, description="EdgeVeil's folder on the board")
    identity: Text | None = Field(default=None, description="a private key file")
    known_hosts: Text | None = Field(default=None, description="a file of host keys")
    password_file: Text | None = Field(default=None, description="a file that holds a password")


class _Board(_Options):
    name: _Name
    target: Text = Field(description="ssh://pi@host or serial:///dev/...")


class _File(Table):
    parallel: int = Field(default=4, ge=1, description="a number of boards, from 1")
    most_failures: int = Field(default=0, ge=0, description="a number of boards, from 0")
    canary: Text | None = Field(default=None, description="the name of a board")
    all: _Options = _Options()
    board: Annotated[tuple[_Board, ...], Field(strict=False, min_length=1)]


@dataclass(frozen=True)
class FleetBoard:
    """One board: its address, the login, and what it should run."""

    name: str
    target: str
    profile: str
    trust: Path
    wanted: Wanted
    wheels: Path | None
    connection: Connection


@dataclass(frozen=True)
class Fleet:
    """The boards in the order of the roll-out, the canary first."""

    boards: tuple[FleetBoard, ...]
    parallel: int
    most_failures: int


def load(path: Path) -> Fleet:
    """The fleet that a TOML file describes. Raises ``BadInput`` for a file that is not valid."""
    document = read_toml(path, "fleet", PAGE)
    _refuse_gone(path, document)
    file = checked(_File, document, str(path), PAGE)
    boards = [_board(board, file.all, path, number) for number, board in enumerate(file.board)]
    for what, found in (
        ("name", [b.name for b in boards]),
        ("target", [(b.target, b.connection.root) for b in boards]),
    ):
        twice = [value for number, value in enumerate(found) if value in found[:number]]
        if twice:
            raise BadInput(f"{path}: two boards have the {what} {twice[0]!r}. Each must have its own.")
    first = file.canary or boards[0].name
    if first not in [board.name for board in boards]:
        raise BadInput(f"{path}: the canary {first!r} is none of the boards ({', '.join(b.name for b in boards)}).")
    return Fleet(tuple(sorted(boards, key=lambda board: board.name != first)), file.parallel, file.most_failures)


def _refuse_gone(path: Path, document: dict[str, Any]) -> None:
    boards = document.get("board")
    for table in [document.get("all"), *(boards if isinstance(boards, list) else [])]:
        for key in ("report_to", "report_logs"):
            if isinstance(table, dict) and key in table:
                raise BadInput(
                    f"{path}: {key} was removed with the boards' reports: delete the key, and read TOPIC/status of "
                    "each board's MQTT sink (commit baecb1ef had it)."
                )


def _board(own: _Board, common: _Options, path: Path, number: int) -> FleetBoard:
    board = _Board(**{**common.model_dump(exclude_unset=True), **own.model_dump(exclude_unset=True)})
    if board.profile is None or board.trust is None:
        missing = "profile" if board.profile is None else "trust"
        raise BadInput(f"{path}: board[{number}].{missing} is missing, there or in [all]; see {PAGE}.")

    split_target(board.target)  # here, and not once the first of its boards is changed

    def at(place: str | None) -> Path | None:
        return None if place is None else path.parent / Path(place).expanduser()

    return FleetBoard(
        name=board.name,
        target=board.target,
        profile=str(path.parent / board.profile) if board.profile.endswith(".toml") else board.profile,
        trust=path.parent / Path(board.trust).expanduser(),
        wanted=Wanted(
            source=board.source and board.source.replace("{name}", board.name),
            sinks=tuple(sink.replace("{name}", board.name) for sink in board.sink),
            service=board.service,
            frames=board.frames,
            device=board.device and check_device(board.device),
            update_from=board.update_from,
        ),
        wheels=at(board.wheels),
        connection=Connection(
            root=board.root,
            identity=at(board.identity),
            known_hosts=at(board.known_hosts),
            password_file=at(board.password_file),
        ),
    )
