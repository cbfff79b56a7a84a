"""A fleet: many boards in one TOML file, each with its target, profile and options.

::

    parallel = 4                 # boards at a time, once the first one runs it
    most_failures = 0            # more than so many stop the rest
    canary = "hall-1"            # the one that goes first, and alone; else the first

    [all]                        # for every board that does not say otherwise
    profile = "raspberry-pi-cpu"
    trust = "root"
    source = "camera:0"
    sink = ["mqtts://broker/{name}"]

    [[board]]
    name = "hall-1"
    target = "ssh://pi@10.0.0.11"

Paths are taken from the file's own folder; ``{name}`` in a source or sink is the board's name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.records import Wanted
from edgeveil.edge_runtime.device import check_device
from edgeveil.edge_runtime.errors import BadInput

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_USUAL = Wanted()
# key of a board -> its type, and what is said of it
_OPTIONS: dict[str, tuple[type, str]] = {
    "profile": (str, "a profile's name or TOML file"),
    "trust": (str, "the folder of edgeveil trust init"),
    "source": (str, "what the board perturbs, such as camera:0"),
    "sink": (list, "a list of places, such as mqtts://broker/hall"),
    "device": (str, "what runs the model: cpu, edgetpu, ..."),
    "wheels": (str, "a folder of edgeveil wheels"),
    "service": (bool, "true or false"),
    "frames": (int, "a number of frames, from 1"),
    "root": (str, "where EdgeVeil lies there"),
    "identity": (str, "a private key file"),
    "known_hosts": (str, "a file of host keys"),
    "password_file": (str, "a file that holds a password"),
}
_OF_A_BOARD = {
    "name": (str, "letters, digits, '.', '_' and '-'"),
    "target": (str, "ssh://pi@host or serial:///dev/..."),
}
_OF_ALL = {
    "parallel": (int, "a number of boards, from 1"),
    "most_failures": (int, "a number of boards, from 0"),
    "canary": (str, "the name of a board"),
    "all": (dict, "a table"),
    "board": (list, "a list of [[board]]"),
}


@dataclass(frozen=True)
class FleetBoard:
    """One board: where it is, how it is reached, and what it is to run."""

    name: str
    target: str
    profile: str
    trust: Path
    wanted: Wanted
    wheels: Path | None
    connection: Connection


@dataclass(frozen=True)
class Fleet:
    """The boards in the order in which they are taken, the canary first."""

    boards: tuple[FleetBoard, ...]
    parallel: int
    most_failures: int


def load(path: Path) -> Fleet:
    """The fleet that a TOML file describes. Raises ``BadInput`` where anything in it is not as it must be."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadInput(f"A fleet was expected in {path}: {reason}. docs/how-to/manage-a-fleet.md shows one.") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}. docs/how-to/manage-a-fleet.md shows a fleet.") from None
    top = _checked(document, _OF_ALL, str(path), "")
    parallel, most = top.get("parallel", 4), top.get("most_failures", 0)
    if parallel < 1 or most < 0:
        raise BadInput(f"{path}: parallel is a number from 1 and most_failures one from 0; got {parallel} and {most}.")
    common = _checked(top.get("all", {}), _OPTIONS, str(path), "all")
    tables = top.get("board", [])
    if not tables:
        raise BadInput(f"{path}: at least one [[board]] was expected; there is none.")
    boards = [_board(table, common, path, number) for number, table in enumerate(tables)]
    for what, found in (
        ("name", [b.name for b in boards]),
        ("target", [(b.target, b.connection.root) for b in boards]),
    ):
        twice = [value for number, value in enumerate(found) if value in found[:number]]
        if twice:
            raise BadInput(f"{path}: two boards have the {what} {twice[0]!r}. Each must have its own.")
    first = top.get("canary", boards[0].name)
    if first not in [board.name for board in boards]:
        raise BadInput(f"{path}: the canary {first!r} is none of the boards ({', '.join(b.name for b in boards)}).")
    return Fleet(tuple(sorted(boards, key=lambda board: board.name != first)), parallel, most)


def _board(table: Any, common: Mapping[str, Any], path: Path, number: int) -> FleetBoard:
    where = f"board[{number}]"
    own = _checked(table, {**_OF_A_BOARD, **_OPTIONS}, str(path), where)
    found = {**common, **own}
    for key in ("name", "target", "profile", "trust"):
        if key not in found:
            more = "" if key in _OF_A_BOARD else ", there or in [all]"
            raise BadInput(f"{path}: {where}.{key} is missing{more}; see docs/how-to/manage-a-fleet.md.")
    name = found["name"]
    if not _NAME.fullmatch(name):
        raise BadInput(f"{path}: {where}.name must be letters, digits, '.', '_' and '-'; got {name!r}.")
    if found.get("frames", 1) < 1 or not all(isinstance(sink, str) for sink in found.get("sink", [])):
        raise BadInput(f"{path}: {where} ({name}): frames is a number from 1, and sink a list of texts.")

    def at(name: str) -> Path:
        return path.parent / Path(name).expanduser()

    def place(key: str) -> Path | None:
        return at(found[key]) if key in found else None

    def filled(text: str | None) -> str | None:
        return None if text is None else text.replace("{name}", name)

    profile = found["profile"]
    return FleetBoard(
        name=name,
        target=found["target"],
        profile=str(path.parent / profile) if profile.endswith(".toml") else profile,
        trust=at(found["trust"]),
        wanted=Wanted(
            source=filled(found.get("source")),
            sinks=tuple(sink.replace("{name}", name) for sink in found.get("sink", [])),
            service=found.get("service", _USUAL.service),
            frames=found.get("frames", _USUAL.frames),
            device=check_device(found["device"]) if "device" in found else None,
        ),
        wheels=place("wheels"),
        connection=Connection(
            root=found.get("root", Connection.root),
            identity=place("identity"),
            known_hosts=place("known_hosts"),
            password_file=place("password_file"),
        ),
    )


def _checked(table: Any, known: Mapping[str, tuple[type, str]], source: str, where: str) -> dict[str, Any]:
    """The table, if every key of it is known and of its type."""
    if not isinstance(table, dict):
        raise BadInput(f"{source}: {where} must be a table, and is {table!r}.")
    for key, value in table.items():
        at = f"{where}.{key}" if where else key
        if key not in known:
            near = difflib.get_close_matches(key, list(known), n=1)
            hint = f" Did you mean {near[0]}?" if near else f" Known here are {', '.join(known)}."
            raise BadInput(f"{source}: {at} is not a known key.{hint}")
        kind, expected = known[key]
        if type(value) is not kind or (kind is str and not str(value).strip()):
            raise BadInput(f"{source}: {at} must be {expected}, and is {value!r}.")
    return table
