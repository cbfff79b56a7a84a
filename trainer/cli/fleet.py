"""``edgeveil fleet FILE flash|status|rollback``: many boards at once, a row for each."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from edgeveil.devices.fleet import FAILED, IN_PROGRESS, NOT_TRIED, REFUSED, WAITING, Tell
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli.common import Json, TrustForBundle, print_json
from edgeveil.trainer.progress import say

if TYPE_CHECKING:
    from edgeveil.devices.published import Nearest


fleet = typer.Typer(
    help="Many boards, by one TOML file: edgeveil fleet hall.toml flash mnist.veil (docs/how-to/manage-a-fleet.md).",
    no_args_is_help=True,
)
Parallel = Annotated[int | None, typer.Option(min=1, help="Boards at a time; else what the file says.")]
MostFailures = Annotated[
    int | None, typer.Option(min=0, help="Stop when more boards than that have failed; else what the file says.")
]


@fleet.callback()
def open_fleet(context: typer.Context, file: Annotated[Path, typer.Argument(help="The fleet's TOML file.")]) -> None:
    """Many boards, by one TOML file (docs/how-to/manage-a-fleet.md)."""
    context.obj = file


@fleet.command(epilog="Example: edgeveil fleet hall.toml flash mnist.veil")
def flash(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="The sealed .veil file.")],
    parallel: Parallel = None,
    most_failures: MostFailures = None,
    again: Annotated[bool, typer.Option("--again", help="Even where this release failed three times.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask every board, and change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Flash the first board alone, then the others; the same command again continues where it ended."""
    from edgeveil.devices.flashing.wheels import owners_trust
    from edgeveil.devices.fleet import WELL, Record, flash_work, load
    from edgeveil.edge_runtime.bundle.reader import read_bundle, read_file
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    boards, record = load(context.obj), Record.of(context.obj)
    # The first board's keys verify the release; each board's own keys are checked again when it is flashed.
    trust = boards.boards[0].trust
    owners_trust(trust)  # a trust folder that a flash would refuse is refused here too
    release = read_bundle(read_file(str(bundle)), open_trust(trust)).manifest_sha256
    many = boards.most_failures if most_failures is None else most_failures
    settings: dict[str, Any] = {"parallel": parallel or boards.parallel, "most_failures": many}
    if dry_run:
        settings |= {"canary": False, "most_failures": len(boards.boards)}
    else:
        if record.release == release:
            well = sum(board["state"] in WELL for board in record.boards.values())
            say(f"Continuing with {release:.12}: {well} of {len(boards.boards)} boards are done.")
        record.begin(release)
        settings["keep"] = record.keep
    work = flash_work(bundle, again=again, dry_run=dry_run)
    _run(record.ordered(boards.boards), work, settings, as_json, {"release": release, "dry_run": dry_run})


@fleet.command(epilog="Example: edgeveil fleet hall.toml status")
def status(context: typer.Context, parallel: Parallel = None, as_json: Json = False) -> None:
    """Ask every board what it runs."""
    from edgeveil.devices.fleet import load, read_status

    boards = load(context.obj)
    settings = {"parallel": parallel or boards.parallel, "most_failures": len(boards.boards), "canary": False}
    _run(boards.boards, read_status, settings, as_json, {})


@fleet.command(epilog="Example: edgeveil fleet hall.toml rollback")
def rollback(
    context: typer.Context,
    parallel: Parallel = None,
    most_failures: MostFailures = None,
    as_json: Json = False,
) -> None:
    """Roll back the release of the last flash on the boards that run it, the first one alone first."""
    from edgeveil.devices.fleet import Record, load, rollback_work

    boards, record = load(context.obj), Record.of(context.obj)
    if record.release is None:
        raise BadInput(
            f"Nothing was flashed with {context.obj} yet ({record.path} does not exist): there is nothing to roll back."
        )
    many = boards.most_failures if most_failures is None else most_failures
    settings = {"parallel": parallel or boards.parallel, "most_failures": many}
    _run(boards.boards, rollback_work(record.release), settings, as_json, {"release": record.release})


def _run(boards: Sequence[Any], work: Any, settings: dict[str, Any], as_json: bool, facts: dict[str, Any]) -> None:
    from edgeveil.devices.fleet import NOT_TRIED, WELL, exit_code, roll_out

    with table([board.name for board in boards]) as tell:
        outcomes = roll_out(boards, work, tell=tell, **settings)
    well = sum(outcome.state in WELL for outcome in outcomes)
    left = sum(outcome.state == NOT_TRIED for outcome in outcomes)
    if as_json:
        print_json({"schema": 1, **facts, "boards": [vars(outcome) for outcome in outcomes]})
    more = f", {left} not tried: fix what failed, then run the same command again" if left else ""
    say(f"{well} of {len(outcomes)} boards well{more}.")
    if code := exit_code(outcomes):
        raise typer.Exit(code)


# ``edgeveil estimate``: what others measured on a board that is not at hand, of networks of a bundle's size.


app = typer.Typer()


@app.command(epilog="Example: edgeveil estimate mnist.veil --trust trust --for jetson-nano")
def estimate(
    what: Annotated[Path, typer.Argument(help="A .veil bundle, an export folder, or one .tflite or .onnx file.")],
    profile: Annotated[str, typer.Option("--for", help="Board profile, by name or TOML file.")],
    trust: TrustForBundle = None,
    measured: Annotated[
        list[Path] | None, typer.Option(help="Your own results, of edgeveil-edge bench --json; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the networks measured on a board that are nearest by MACs, each with its source. Nothing is run.

    A network of twice the MACs does not take twice as long. Exit code 3 where nothing was measured on any board.
    """
    from edgeveil.devices import profiles, published

    board = profiles.load(profile)
    found = published.for_profile(
        macs_of(what, trust), board, published.published(), published.measured(measured or [])
    )
    if as_json:
        rows = [one.document() for one in found]
        print_json({"schema": 2, "kind": "estimate", "profile": board.name, "estimates": rows})
    else:
        print(f"{board.title}: measured by others, networks alone; those nearest by MACs")
        for one in found:
            print("\n".join(_lines(one)))
    if not any(one.rows for one in found):
        raise LimitNotMet("nothing was measured on any of these boards; measure there with edgeveil bench --on.")


def macs_of(what: Path, trust: Path | None) -> dict[str, float]:
    """The MACs of each artefact by name: the sum over the models of a pipeline. Raises ``BadInput``."""
    from edgeveil.trainer.cli.cost_command import costs_of

    found: dict[str, float] = {}
    for name, cost in costs_of(what, trust).items():
        artefact = name.partition("/")[2] or _artefact_of(name)
        found[artefact] = found.get(artefact, 0) + cost.macs
    if any(macs <= 0 for macs in found.values()):
        raise BadInput(f"{what} has no multiply-adds to count, so no network is near it.")
    return found


def _artefact_of(name: str) -> str:
    suffix = name.rpartition(".")[2]
    precision = next((p for p in ("int8", "float16", "float32") if p in name), None)
    if suffix not in ("tflite", "onnx") or precision is None:
        raise BadInput(
            f"An artefact such as generator-int8.tflite was expected, its precision in its name; got {name}."
        )
    return f"{suffix}-{precision}"


def _lines(one: Nearest) -> list[str]:
    head = f"  {one.group}, {one.artefact} as {one.precision}, {one.macs / 1e6:.3g} M MACs:"
    rows = [f"    {row.macs / 1e6:.3g} M MACs, {_times(row.macs / one.macs)}: {row.describe()}" for row in one.rows]
    return [head, *(rows or ["    nothing was measured there"])]


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times as many" if ratio >= 1 else f"{1 / ratio:.3g} times fewer"


# A live table of boards on a terminal; elsewhere a line for each change of state.


_COLOURS = {IN_PROGRESS: "cyan", FAILED: "red", REFUSED: "red", NOT_TRIED: "yellow", WAITING: "dim"}


@contextmanager
def table(names: Sequence[str]) -> Iterator[Tell]:
    """Yield ``tell(board, state, text)``, which any thread may call; shown on stderr."""
    with _live(names) if sys.stderr.isatty() else _fleet_table_lines() as tell:
        yield tell


@contextmanager
def _fleet_table_lines() -> Iterator[Tell]:
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
def _live(names: Sequence[str]) -> Iterator[Tell]:
    from rich.console import Console
    from rich.live import Live

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

    drawn = Table(box=None, pad_edge=False)
    for title in ("board", "state", ""):
        drawn.add_column(title, overflow="fold")
    for board, (state, text) in rows.items():
        # As plain text: what a board says is no markup of ours.
        drawn.add_row(Text(board), Text(state, style=_COLOURS.get(state, "green")), Text(text))
    return drawn


# Commands and options of earlier versions that were deleted: each is refused with one sentence, which names what
# replaces it. A key is a command (``fleet replace``) or an option of one (``recipe new --of``).


_ROUNDS = (
    "training by rounds over MQTT was deleted: estimate from private reports with edgeveil collect, or train on "
    "recorded or simulated private gradients with edgeveil.trainer.ext.local.lpsgd; commit baecb1ef has it"
)
GONE = {
    "accept": "taps of an operator were deleted: a service compares what it sends with its audit by itself (shift in "
    "/healthz, on_shift of a policy); commit baecb1ef has them",
    "federate": _ROUNDS,
    "recipe new --of": _ROUNDS,
    "fleet accept": "boards' reports were deleted: an MQTT sink publishes TOPIC/status; commit baecb1ef has them",
    "fleet replace": "set the new board up as docs/how-to/replace-a-board.md describes, then run edgeveil fleet FILE "
    "flash; commit baecb1ef has it",
    "fleet trust": "run edgeveil-edge trust trust-chain.json on each board, see docs/how-to/rotate-root-keys.md; "
    "commit baecb1ef has it",
    "fleet status --reports": "edgeveil fleet FILE status asks each board, and an MQTT sink publishes TOPIC/status; "
    "commit baecb1ef has it",
    "fleet status --silent-after": "watch the age of TOPIC/status at your broker; commit baecb1ef has it",
    "estimate --reference": "edgeveil estimate shows the nearest published rows; commit baecb1ef has it",
    "flash --report-to": "an MQTT sink publishes TOPIC/status, and Mender and RAUC report updates; "
    "commit baecb1ef has it",
    "flash --report-logs": "edgeveil logs --on TARGET prints the log; commit baecb1ef has it",
}


class Commands(TyperGroup):
    """A group of commands that refuses the deleted ones."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As usual. Raises ``BadInput`` for a deleted command, or a deleted option of one."""
        path = f"{_path(ctx)} {args[0]}".strip()
        options = [f"{path} {word.partition('=')[0]}" for word in args[1:] if word.startswith("--")]
        for word in (path, *options):
            if word in GONE:
                raise BadInput(f"edgeveil {word}: {GONE[word]}.")
        return super().resolve_command(ctx, args)


def _path(ctx: Any) -> str:
    """The commands that lead to this group, without arguments between them."""
    return "" if ctx.parent is None else f"{_path(ctx.parent)} {ctx.info_name}".strip()
