"""``boards.toml``: the boards of a site in one file, which every command for a board takes by their names.

::

    parallel = 4                 # boards at a time, once the canary runs the release
    most_failures = 0            # more failures than this stop the roll-out
    canary = "hall-1"            # the board that goes first, and alone; left out: the first one

    [all]                        # defaults for every board
    profile = "raspberry-pi-cpu"
    trust = "root"
    source = "camera:0"
    sinks = ["mqtts://broker/{name}"]

    [board.hall-1]
    address = "pi@10.0.0.11"

Paths are relative to the file's folder; ``{name}`` in a source or a sink is the board's name. Passwords and keys are in
files of their own, which it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from edgeveil.devices.flashing.board import Board, Say
from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.toml_tables import Table, Text, Texts, checked, did_you_mean, matching, read_toml
from edgeveil.devices.transports import split_target
from edgeveil.edge_runtime.device import check_device
from edgeveil.edge_runtime.errors import BadInput

FILE = "boards.toml"
PAGE = "docs/how-to/manage-a-fleet.md"
ADDRESS = re.compile(r"(ssh|serial)://.*|(image|dir):.*", re.DOTALL)
_Name = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "letters, digits, '.', '_' and '-'")]
_GONE = ("report_to", "report_logs")
_OLD = {"target": "address", "sink": "sinks", "update_from": "update"}  # keys of a fleet file of 0.1 and 0.2


class Settings(Table):
    """Keys of a board, and of ``[all]`` for every board."""

    profile: Text | None = Field(default=None, description="a profile's name or TOML file")
    allow_commands: bool = Field(default=False, description="true to run the commands of a profile of your own")
    trust: Text | None = Field(default=None, description="the folder of edgeveil trust init")
    source: Text | None = Field(default=None, description="what the board perturbs, such as camera:0")
    source_credentials: Text | None = Field(default=None, description="a file with USER:PASSWORD of a network camera")
    accept_raw_on_network: bool = Field(
        default=Wanted.accept_raw_on_network, description="true where others may read the camera's pictures"
    )
    accept_leak: bool = Field(
        default=Wanted.accept_leak, description="true to flash a bundle whose audit found that it leaks"
    )
    sinks: Texts = Field(default=(), description="a list of places, such as mqtts://broker/hall")
    device: Text | None = Field(default=None, description="what runs the model: cpu, edgetpu, ...")
    update: Text | None = Field(default=None, description="where newer releases are: https://... or dir:/FOLDER")
    wheels: Text | None = Field(default=None, description="a folder of edgeveil board wheels")
    setup: Text | None = Field(default=None, description="a TOML file for a new card")
    service: bool = Field(default=Wanted.service, description="false to install no service")
    frames: int = Field(default=Wanted.frames, ge=1, description="a number of frames for the trial, from 1")
    root: Text = Field(default=Connection.root, description="EdgeVeil's folder on the board")
    identity: Text | None = Field(default=None, description="a private key file for SSH")
    known_hosts: Text | None = Field(default=None, description="a file of host keys")
    password_file: Text | None = Field(default=None, description="a file that holds the board user's password")


class BoardTable(Settings):
    """A board: its address and its keys."""

    address: Text = Field(description="user@host, an alias, ssh://, serial://, image: or dir:")


class File(Table):
    """The document as a whole."""

    parallel: int = Field(default=4, ge=1, description="a number of boards at a time, from 1")
    most_failures: int = Field(default=0, ge=0, description="a number of failures that do not stop it, from 0")
    canary: Text | None = Field(default=None, description="the board that goes first, alone (the first)")
    all: Settings = Field(default=Settings(), description="a table: defaults for every board")
    board: dict[_Name, BoardTable] = Field(min_length=1, description="a table [board.NAME] for each board")


@dataclass(frozen=True)
class SiteBoard:
    """One board: its address, the login, and what it should run."""

    name: str
    address: str
    connection: Connection = field(default_factory=Connection)
    profile: str | None = None
    allow_commands: bool = False
    trust: Path | None = None
    wanted: Wanted = field(default_factory=Wanted)
    wheels: Path | None = None
    source_credentials: Path | None = None
    setup: Path | None = None

    def open(self, say: Say = lambda _: None) -> Board:
        """The board itself; close it, or use it as a context manager. Raises as ``Connection.open``."""
        return self.connection.open(self.address, say=say)

    def require(self, key: str) -> Any:
        """Its ``profile`` or ``trust``. Raises ``BadInput`` where the file has none."""
        value = getattr(self, key)
        if value is None:
            option = {"profile": "--for"}.get(key, f"--{key}")
            raise BadInput(f"{self.name}: {key} is missing; give {option}, or write {key} in {FILE} ({PAGE}).")
        return value


@dataclass(frozen=True)
class Site:
    """The boards in the order of a roll-out, the canary first."""

    boards: tuple[SiteBoard, ...]
    parallel: int
    most_failures: int


def load(path: Path, say: Say = lambda _: None) -> Site:
    """The site that a TOML file describes; ``say`` takes a warning. Raises ``BadInput`` if it is not valid."""
    document = read_toml(path, "file of boards", PAGE)
    _refuse_gone(path, document)
    if isinstance(document.get("board"), list):
        document = _of_old_fleet(path, document)
        say(
            f"warning: {path} is a fleet file of an earlier version: this version reads it, the next refuses it. Write "
            "[board.NAME] for [[board]] and its name, address for target, sinks for sink, update for update_from. "
            f"See {PAGE}."
        )
    file = checked(File, document, str(path), PAGE, text=path.read_text(encoding="utf-8"))
    boards = [_board(name, board, file.all, path) for name, board in file.board.items()]
    seen: dict[tuple[str, str], str] = {}
    for board in boards:
        other = seen.setdefault((board.address, board.connection.root), board.name)
        if other != board.name:
            raise BadInput(f"{path}: {other} and {board.name} have the same address and root. Each must have its own.")
    first = file.canary or boards[0].name
    if first not in file.board:
        raise BadInput(f"{path}: the canary {first!r} is none of the boards{did_you_mean(first, file.board)}")
    boards.sort(key=lambda board: board.name != first)
    return Site(tuple(boards), file.parallel, file.most_failures)


def find(name: str, path: Path | None = None, say: Say = lambda _: None) -> SiteBoard:
    """The board of that name or address in the file (``boards.toml`` of the working folder for None), or elsewhere.

    An address is ``ssh://...``, ``serial://...``, a card, ``user@host``, or an alias of ``~/.ssh/config``. Raises
    ``BadInput`` where it is none of these, with the nearest name.
    """
    file = path or Path(FILE)
    boards = load(file, say).boards if path is not None or file.is_file() else ()
    is_address = ADDRESS.fullmatch(name) is not None or "@" in name
    same = [board for board in boards if (board.address == _address(name) if is_address else board.name == name)]
    if len(same) > 1:
        raise BadInput(f"{file} has several boards at {name}: name {' or '.join(board.name for board in same)}.")
    if same:
        return replace(same[0], connection=replace(same[0].connection, ask=True))
    if not is_address:
        from edgeveil.devices.transports.ssh_login import has_alias

        if not has_alias(name):
            if boards:
                raise BadInput(f"{file} has no board {name!r}{did_you_mean(name, [board.name for board in boards])}")
            raise BadInput(
                f"There is no board {name!r}: {file} is not here, and ~/.ssh/config has no such host. Write user@host, "
                "ssh://user@host[:port] or serial:///dev/ttyUSB0?baud=115200."
            )
    return SiteBoard(name, _address(name), Connection(ask=True))


def _address(text: str) -> str:
    return text if ADDRESS.fullmatch(text) else f"ssh://{text}"


def _refuse_gone(path: Path, document: Mapping[str, Any]) -> None:
    boards = document.get("board")
    boards = boards.values() if isinstance(boards, dict) else boards if isinstance(boards, list) else ()
    for table in [document.get("all"), *boards]:
        for key in _GONE:
            if isinstance(table, dict) and key in table:
                raise BadInput(
                    f"{path}: {key} was removed with the boards' reports: delete the key, and read TOPIC/status of "
                    "each board's MQTT sink (commit baecb1ef had it)."
                )


def _of_old_fleet(path: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    """A fleet file of 0.1 or 0.2 in today's keys. Raises ``BadInput`` for a board without a name, or of another's."""

    def renamed(table: Any) -> Any:
        return {_OLD.get(key, key): value for key, value in table.items()} if isinstance(table, dict) else table

    boards: dict[str, Any] = {}
    for number, table in enumerate(document["board"]):
        name = table.get("name") if isinstance(table, dict) else None
        if not isinstance(name, str):
            raise BadInput(f"{path}: board[{number}].name is missing. See {PAGE}.")
        if name in boards:
            raise BadInput(f"{path}: two boards have the name {name!r}. Each must have its own.")
        boards[name] = renamed({key: value for key, value in table.items() if key != "name"})
    return {**document, "all": renamed(document.get("all", {})), "board": boards}


def _board(name: str, own: BoardTable, common: Settings, path: Path) -> SiteBoard:
    board = BoardTable(**{**common.model_dump(exclude_unset=True), **own.model_dump(exclude_unset=True)})
    address = _address(board.address)
    if split_target(address).password:  # refused here, and not once the first of its boards is changed
        raise BadInput(f"{path}: board.{name}.address holds a password: name a file by password_file instead.")

    def at(place: str | None) -> Path | None:
        return None if place is None else path.parent / Path(place).expanduser()

    return SiteBoard(
        name=name,
        address=address,
        profile=str(at(board.profile)) if board.profile and board.profile.endswith(".toml") else board.profile,
        allow_commands=board.allow_commands,
        trust=at(board.trust),
        wanted=Wanted(
            source=board.source and board.source.replace("{name}", name),
            sinks=tuple(sink.replace("{name}", name) for sink in board.sinks),
            service=board.service,
            frames=board.frames,
            device=board.device and check_device(board.device),
            update_from=board.update,
            accept_raw_on_network=board.accept_raw_on_network,
            accept_leak=board.accept_leak,
        ),
        wheels=at(board.wheels),
        source_credentials=at(board.source_credentials),
        setup=at(board.setup),
        connection=Connection(
            root=board.root,
            identity=at(board.identity),
            known_hosts=at(board.known_hosts),
            password_file=at(board.password_file),
        ),
    )
