"""``edgeveil fleet flash|status|rollback``: all boards of ``boards.toml``, a row for each."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import Boards, Bundle, Json, print_json
from edgeveil.trainer.cli.tree import fleet
from edgeveil.trainer.progress import say


class Accepted(str, Enum):
    """What a flash of all boards is done in spite of, where it is named."""

    again = "again"
    leak = "leak"


@fleet.callback()
def open_fleet(context: typer.Context, boards: Boards = Path("boards.toml")) -> None:
    """All boards of a site (docs/how-to/manage-a-fleet.md)."""
    context.obj = boards


@fleet.command(epilog="Example: edgeveil fleet flash mnist.veil")
def flash(
    context: typer.Context,
    bundle: Bundle,
    accept: Annotated[
        list[Accepted] | None,
        typer.Option(
            help="again: a release that failed three times; leak: a bundle whose audit found that it leaks, on all "
            "boards. May be repeated."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask every board, and change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Flash the first board alone, then the others; the same command again continues where it ended."""
    from edgeveil.devices.flashing.wheels import owners_trust
    from edgeveil.devices.fleet import WELL, Record, flash_work
    from edgeveil.devices.site import load
    from edgeveil.edge_runtime.bundle.reader import read_bundle, read_file
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    boards, record = load(context.obj, say), Record.open(context.obj)
    for board in boards.boards:
        board.require("profile"), board.require("trust")
    # The first board's keys verify the release; each board's own keys are checked again when it is flashed.
    trust = boards.boards[0].require("trust")
    owners_trust(trust)  # a trust folder that a flash would refuse is refused here too
    release = read_bundle(read_file(str(bundle)), open_trust(trust)).manifest_sha256
    settings: dict[str, Any] = {"parallel": boards.parallel, "most_failures": boards.most_failures}
    if dry_run:
        settings |= {"canary": False, "most_failures": len(boards.boards)}
    else:
        if record.release == release:
            well = sum(board["state"] in WELL for board in record.boards.values())
            say(f"Continuing with {release:.12}: {well} of {len(boards.boards)} boards are done.")
        record.begin(release)
        settings["keep"] = record.keep
    accepted = accept or []
    work = flash_work(bundle, again=Accepted.again in accepted, accept_leak=Accepted.leak in accepted, dry_run=dry_run)
    _run(record.ordered(boards.boards), work, settings, as_json, {"release": release, "dry_run": dry_run})


@fleet.command(epilog="Example: edgeveil fleet status")
def status(context: typer.Context, as_json: Json = False) -> None:
    """Ask every board what it runs, and whether its service does; code 3 where one is not well."""
    from edgeveil.devices.fleet import read_status
    from edgeveil.devices.site import load

    boards = load(context.obj, say)
    settings = {"parallel": boards.parallel, "most_failures": len(boards.boards), "canary": False}
    _run(boards.boards, read_status, settings, as_json, {})


@fleet.command(epilog="Example: edgeveil fleet rollback")
def rollback(context: typer.Context, as_json: Json = False) -> None:
    """Roll back the release of the last flash on the boards that run it, the first one alone first."""
    from edgeveil.devices.fleet import Record, rollback_work
    from edgeveil.devices.site import load

    boards, record = load(context.obj, say), Record.open(context.obj)
    if record.release is None:
        raise BadInput(
            f"Nothing was flashed with {context.obj} yet ({record.path} does not exist): there is nothing to roll back."
        )
    settings = {"parallel": boards.parallel, "most_failures": boards.most_failures}
    _run(boards.boards, rollback_work(record.release), settings, as_json, {"release": record.release})


def _run(boards: Sequence[Any], work: Any, settings: dict[str, Any], as_json: bool, facts: dict[str, Any]) -> None:
    from edgeveil.devices.fleet import NOT_TRIED, WELL, exit_code, roll_out

    with _live([board.name for board in boards]) if sys.stderr.isatty() else _lines() as tell:
        outcomes = roll_out(boards, work, tell=tell, **settings)
    well = sum(outcome.state in WELL for outcome in outcomes)
    left = sum(outcome.state == NOT_TRIED for outcome in outcomes)
    if as_json:
        print_json({"schema": 1, **facts, "boards": [vars(outcome) for outcome in outcomes]})
    more = f", {left} not tried: fix what failed, then run the same command again" if left else ""
    say(f"{well} of {len(outcomes)} boards well{more}.")
    if code := exit_code(outcomes):
        raise typer.Exit(code)


# What ``_run`` shows on stderr, by ``tell(board, state, text)``, which any thread may call.


@contextmanager
def _lines() -> Iterator[Any]:
    """A line for each change of state."""
    from edgeveil.devices.fleet import IN_PROGRESS

    lock = threading.Lock()
    states: dict[str, str] = {}

    def tell(board: str, state: str, text: str) -> None:
        with lock:
            # Every step of a board is too much for a log; that it began and how it ended is not.
            if states.get(board) != state:
                states[board] = state
                say(f"{board}: {state}{': ' + text if text and state != IN_PROGRESS else ''}")

    yield tell


@contextmanager
def _live(names: Sequence[str]) -> Iterator[Any]:
    """A live table of boards on a terminal."""
    from rich.console import Console
    from rich.live import Live

    from edgeveil.devices.fleet import WAITING

    lock = threading.Lock()
    rows = dict.fromkeys(names, (WAITING, ""))
    with Live(_drawn(rows), console=Console(stderr=True), refresh_per_second=4) as live:

        def tell(board: str, state: str, text: str) -> None:
            with lock:
                rows[board] = (state, text)
                live.update(_drawn(rows))

        yield tell


def _drawn(rows: dict[str, tuple[str, str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    from edgeveil.devices.fleet import FAILED, IN_PROGRESS, NOT_TRIED, NOT_WELL, REFUSED, WAITING

    colours = {IN_PROGRESS: "cyan", FAILED: "red", REFUSED: "red", NOT_WELL: "red", NOT_TRIED: "yellow", WAITING: "dim"}
    drawn = Table(box=None, pad_edge=False)
    for title in ("board", "state", ""):
        drawn.add_column(title, overflow="fold")
    for board, (state, text) in rows.items():
        # As plain text: what a board says is no markup of ours.
        drawn.add_row(Text(board), Text(state, style=colours.get(state, "green")), Text(text))
    return drawn
