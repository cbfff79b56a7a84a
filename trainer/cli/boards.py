"""Commands for one board: ``edgeveil flash``, ``status``, ``logs`` and the like."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.devices.flashing.connection import Connection
from edgeveil.edge_runtime.device import check_device
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli.common import (
    AllowCommands,
    Bundle,
    Json,
    On,
    PassphraseFile,
    board_command,
    board_profile,
    passphrase_of,
    print_json,
)
from edgeveil.trainer.progress import say, transfer

if TYPE_CHECKING:
    from edgeveil.devices.flashing.board import Board

OnCardToo = Annotated[
    str,
    typer.Option(
        "--on", metavar="TARGET", help="ssh://user@host[:port], serial:///dev/ttyUSB0, image:FILE or dir:FOLDER."
    ),
]


app = typer.Typer()
devices = typer.Typer(help="The boards EdgeVeil knows.", no_args_is_help=True)


@devices.command("list", epilog="Example: edgeveil devices list")
def list_boards(as_json: Json = False) -> None:
    """Name the board profiles."""
    from edgeveil.devices import profiles

    found = [(name, profiles.load(name).title) for name in profiles.names()]
    if as_json:
        print_json({"schema": 1, "boards": [{"name": name, "title": title} for name, title in found]})
        return
    for name, title in found:
        print(f"{name:24} {title}")


@devices.command("show", epilog="Example: edgeveil devices show coral-dev-board")
def show(profile: Annotated[str, typer.Argument(help="A profile's name or a TOML file.")]) -> None:
    """Show the facts of one board, and what was never run on a real one."""
    from edgeveil.devices import profiles

    print(profiles.load(profile, commands=True).text())


@board_command(devices, "Example: edgeveil devices probe --on ssh://pi@edgepi --text")
def probe(
    connection: Connection,
    on: On,
    text: Annotated[bool, typer.Option("--text", help="Lines for people instead of JSON.")] = False,
) -> None:
    """Find out what a board is: processor, Python, space, interpreters, what runs there. Changes nothing."""
    with connection.open(on) as board:
        if text:
            print(board.facts().text())
        else:
            print_json(board.facts_document())


@board_command(devices, "Example: edgeveil devices check --on ssh://pi@edgepi")
def check(
    connection: Connection,
    on: On,
    profile: Annotated[
        str | None, typer.Option("--for", help="Board profile, by name or TOML file; left out: the one it matches.")
    ] = None,
    allow_commands: AllowCommands = False,
    as_json: Json = False,
) -> None:
    """Say what of a board fits, what is missing, and the commands that cure it; code 3 where any is."""
    from edgeveil.devices import profiles
    from edgeveil.devices.flashing.readiness import findings, matching

    named = None if profile is None else board_profile(profile, allow_commands)
    with connection.open(on) as board:
        if named is None:
            known = {name: profiles.load(name) for name in profiles.names()}
            chosen = matching(board.facts(), known, lambda path: bool(board.facts(path).accelerator))
        else:
            chosen = named
        board.environment = dict(chosen.service.environment)
        facts = board.facts(chosen.accelerator_path)
    found = findings(facts, chosen)
    missing = [one.what for one in found if one.cure]
    if as_json:
        rows = [{"what": one.what, "found": one.found, "cure": one.cure} for one in found]
        print_json({"schema": 1, "profile": chosen.name, "board": facts.board, "findings": rows})
    else:
        lines = [f"{facts.board or 'A board that does not say its model'}, as {chosen.name}"]
        for one in found:
            cure = f" -> {one.cure}" if one.cure else ""
            lines.append(f"{'missing' if one.cure else 'ok':8} {one.what:24} {one.found}{cure}")
        # What a board says of itself may hold control characters of the terminal.
        print("\n".join("".join(letter if letter.isprintable() else "?" for letter in line) for line in lines))
    if missing:
        raise LimitNotMet(f"not ready: {', '.join(missing)}. Cure them from the top, then check again.")


@board_command(app, "Example: edgeveil flash mnist.veil --on ssh://pi@edgepi --for raspberry-pi-cpu --trust root")
def flash(
    connection: Connection,
    bundle: Bundle,
    on: OnCardToo,
    profile: Annotated[str, typer.Option("--for", help="Board profile, by name or TOML file.")],
    trust: Annotated[Path, typer.Option(help="Folder of edgeveil trust init; or of .pub files for a board in use.")],
    source: Annotated[
        str | None, typer.Option(help="What the board will perturb: camera:0, rtsp://..., kinect:, csv:-, ...")
    ] = None,
    source_credentials: Annotated[
        Path | None, typer.Option(help="File with USER:PASSWORD of a network camera; the board's own process has it.")
    ] = None,
    accept_raw_on_network: Annotated[
        bool, typer.Option("--accept-raw-on-network", help="Read a camera over a network where others can read it.")
    ] = False,
    sink: Annotated[list[str] | None, typer.Option(help="Where perturbed frames go; may be repeated.")] = None,
    wheels: Annotated[Path | None, typer.Option(help="Folder of edgeveil wheels, for a board that lacks them.")] = None,
    service: Annotated[
        bool, typer.Option("--service/--no-service", help="Install and start the service; it needs systemd.")
    ] = True,
    device: Annotated[
        str | None,
        typer.Option(
            help="What runs the model: cpu, edgetpu, myriad, cuda, ... (the accelerator, where all is there)."
        ),
    ] = None,
    update_from: Annotated[
        str | None, typer.Option(help="Have the board look for newer releases there: https://... or dir:/FOLDER.")
    ] = None,
    setup: Annotated[
        Path | None, typer.Option(help="TOML file for a new card: host name, time zone, user, SSH keys, Wi-Fi.")
    ] = None,
    frames: Annotated[int, typer.Option(help="Frames of the trial on the board.")] = 30,
    allow_commands: AllowCommands = False,
    again: Annotated[bool, typer.Option("--again", help="Even if this release failed there three times.")] = False,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Make an empty ledger, and forget the epsilon that the board spent.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Put a bundle onto a board, try it there, and go back to the old one if it does not run."""
    from edgeveil.devices.flashing.flash import flash_target
    from edgeveil.devices.flashing.records import Wanted

    wanted = Wanted(
        source,
        tuple(sink or ()),
        service,
        frames,
        again,
        update_from=update_from,
        device=None if device is None else check_device(device),
        accept_raw_on_network=accept_raw_on_network,
        new_ledger=new_ledger,
    )
    with transfer("sending") as progress:
        done = flash_target(
            bundle,
            on,
            connection,
            board_profile(profile, allow_commands),
            trust=trust,
            wanted=wanted,
            wheels=wheels,
            source_credentials=source_credentials,
            setup=setup,
            dry_run=dry_run,
            show=say,
            progress=progress,
        )
    if as_json:
        document = {"schema": 1, "sha": done.sha, "steps": [step.kind for step in done.plan.steps], "dry_run": dry_run}
        print_json({**document, "artefact": done.plan.artefact, "device": done.plan.device})
    elif done.root_key and not dry_run:
        say(
            f"This board trusts the root key {done.root_key} from now on. Compare it with that of "
            f"edgeveil trust show {trust}."
        )


@board_command(app, "Example: edgeveil status --on ssh://pi@edgepi")
def status(connection: Connection, on: On, as_json: Json = False) -> None:
    """Show what a board runs, which release it would go back to, and what failed there."""
    with connection.open(on) as board:
        _print_runtime(board, "status", *(["--json"] if as_json else []))


@board_command(app, "Example: edgeveil rollback --on ssh://pi@edgepi")
def rollback(connection: Connection, on: On) -> None:
    """Have a board run its previous release again; refused if that is below the board's floor."""
    with connection.open(on) as board:
        print(board.rollback())


@board_command(app, "Example: edgeveil logs --on ssh://pi@edgepi --lines 50")
def logs(
    connection: Connection,
    on: On,
    lines: Annotated[int, typer.Option(min=1, max=100_000, help="Number of lines.")] = 200,
) -> None:
    """Print the last lines of a board's service log. They hold no frames."""
    with _open_service(connection, on) as board:
        sys.stdout.write(board.logs(lines).decode("utf-8", "replace"))


@board_command(app, "Example: edgeveil start --on ssh://pi@edgepi")
def start(connection: Connection, on: On) -> None:
    """Start a board's service; returns when it has sent a new frame."""
    with _open_service(connection, on) as board:
        board.control("start")


@board_command(app, "Example: edgeveil stop --on ssh://pi@edgepi")
def stop(connection: Connection, on: On) -> None:
    """Stop a board's service until it is started or the board boots again."""
    with _open_service(connection, on) as board:
        board.control("stop")


@board_command(app, "Example: edgeveil releases --on ssh://pi@edgepi --keep 3")
def releases(
    connection: Connection,
    on: On,
    keep: Annotated[int | None, typer.Option(help="Remove all but this many of the newest.")] = None,
    as_json: Json = False,
) -> None:
    """List the releases on a board, or remove old ones; the current and the previous one stay."""
    from edgeveil.devices.transports.base import check

    words = [] if keep is None else ["--keep", str(keep)]
    with connection.open(on) as board:
        if not as_json:
            _print_runtime(board, "releases", *words)
            return
        lines = check(board.edge("releases", "--root", board.root, *words), "Listing releases").decode().splitlines()
    rows = [[*line.split(), None][:2] for line in lines]
    print_json({"schema": 1, "releases": [{"release": release, "is": mark} for release, mark in rows]})


@app.command(epilog="Example: edgeveil index mnist-7.veil --key keys/signing.key --out www/index.json")
def index(
    bundles: Annotated[list[Path], typer.Argument(help="Sealed .veil files, the newest first; boards fetch that one.")],
    key: Annotated[str, typer.Option(help="signing.key of the role release, or its pkcs11: address.")],
    out: Annotated[Path, typer.Option(help="index.json to write; put it and the bundles into one folder of a server.")],
    name: Annotated[
        str, typer.Option(help="Name of the product; a board follows one, and remembers its last version.")
    ] = "all",
    audience: Annotated[str, typer.Option(help="Name of the fleet that it is for; any board's, where empty.")] = "",
    passphrase_file: PassphraseFile = None,
) -> None:
    """Sign what boards fetch with edgeveil-edge update. The version is one more than that of the index at --out."""
    from edgeveil.trainer.sealing.keys import write_index

    passphrase = passphrase_of(key, passphrase_file)
    made = write_index(bundles, key, out, name=name, audience=audience, passphrase=passphrase)
    say(f"Version {made.version} of {out} offers {made.releases[0].name}. Copy it to the server after the bundles.")


@app.command(epilog="Example: edgeveil runtime --key root/signing.key --out edge.runtime")
def runtime(
    key: Annotated[Path, typer.Option(help="signing.key of the root key that the boards have.")],
    out: Annotated[Path, typer.Option(help="File to write; on a board, edgeveil-edge runtime takes it.")],
    version: Annotated[
        int | None, typer.Option(min=1, help="Its version (one more than that of the file at --out).")
    ] = None,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Sign this toolkit's edge runtime for boards in use. A bundle never brings the runtime that a board runs."""
    from edgeveil.trainer.sealing.keys import write_runtime

    made = write_runtime(key, out, version=version, passphrase=passphrase_of(key, passphrase_file))
    say(f"Version {made.version} is in {out}, SHA-256 {made.sha256}. Next, on each board: edgeveil-edge runtime FILE")


@app.command(epilog="Example: edgeveil wheels raspberry-pi-cpu --out wheels")
def wheels(
    profile: Annotated[str, typer.Argument(help="Board profile, by name or TOML file.")],
    out: Annotated[Path, typer.Option(help="New folder for site.zip and site.json.")],
    requirement: Annotated[
        list[str] | None, typer.Option("--with", help="Package and version, for the profile's: ai-edge-litert==2.3.0.")
    ] = None,
    mqtt: Annotated[bool, typer.Option("--mqtt", help="With paho-mqtt, for sinks by MQTT.")] = False,
    python: Annotated[str | None, typer.Option(help="The board's Python, where it is not the profile's: 3.13.")] = None,
    find_links: Annotated[Path | None, typer.Option(help="Folder of wheels that only a vendor offers.")] = None,
    pin: Annotated[list[str] | None, typer.Option(help="SHA-256 of a wheel that no recipe names.")] = None,
) -> None:
    """Collect wheels for a board that cannot install them itself. Nothing is compiled and nothing else is added."""
    from edgeveil.devices import profiles
    from edgeveil.devices.flashing.wheels import collect

    chosen = profiles.load(profile, commands=True)  # nothing of it runs
    packages, pins = requirement or (), pin or ()
    site = collect(chosen, out, packages, python=python, mqtt=mqtt, find_links=find_links, pins=pins)
    names = ", ".join(f"{name} {version}" for name, version in site.interpreters.items())
    say(f"Collected {names} as {site.name} ({site.size} bytes) in {out}. Next: edgeveil flash ... --wheels {out}")


@contextlib.contextmanager
def _open_service(connection: Connection, on: str) -> Iterator[Board]:
    """The board at ``on``. Raises ``BadInput`` if it has no service."""
    with connection.open(on) as board:
        if not board.has_service():
            raise BadInput(
                f"There is no EdgeVeil service on {board.transport.name}: flash it with --source and --sink."
            )
        yield board


def _print_runtime(board: Board, command: str, *options: str) -> None:
    """Run a command of the board's runtime, print its output, and end with its exit code."""
    done = board.edge(command, "--root", board.root, *options)
    sys.stdout.write(done.out.decode("utf-8", "replace"))
    sys.stderr.write(done.err.decode("utf-8", "replace"))
    if done.code:
        raise typer.Exit(done.code)
