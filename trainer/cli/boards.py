"""Commands for one board: ``edgeveil flash``, ``edgeveil board status``, ``logs`` and the like."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.edge_runtime.device import check_device
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, LimitNotMet, shown
from edgeveil.trainer.cli.common import (
    AllowCommands,
    Boards,
    Bundle,
    Json,
    SiteBoard,
    board_command,
    board_profile,
    passphrase_of,
    print_done,
    print_either,
    print_json,
    print_text,
)
from edgeveil.trainer.cli.tree import BOARDS, app, board_group, updates
from edgeveil.trainer.progress import say, transfer

if TYPE_CHECKING:
    from edgeveil.devices.flashing.board import Board


class FlashAccepted(str, Enum):
    """What a board is flashed in spite of, where it is named."""

    again = "again"
    leak = "leak"
    new_ledger = "new-ledger"


OnCardToo = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="BOARD",
        help="A name in boards.toml (or in the file EDGEVEIL_BOARDS), user@host, ssh://, serial://, image:FILE or "
        "dir:FOLDER.",
    ),
]


@board_group.callback()
def open_boards(context: typer.Context, boards: Boards = None) -> None:
    """One board of a site, or at an address."""
    context.obj = boards


@board_group.command("list", epilog="Example: edgeveil board list")
def list_boards(context: typer.Context, as_json: Json = False) -> None:
    """Name the boards of boards.toml, and the board profiles."""
    from edgeveil.devices import profiles, site

    known = [(name, profiles.load(name).title) for name in profiles.names()]
    file = context.obj or Path(site.FILE)
    ours = site.load(file, say).boards if context.obj or file.is_file() else ()
    if as_json:
        named = [{"name": one.name, "address": one.address, "profile": one.profile} for one in ours]
        titles = [{"name": name, "title": title} for name, title in known]
        print_json({"schema": 1, "site": named, "boards": titles})
        return
    for one in ours:
        print_text(f"{one.name:24} {one.address:32} {one.profile or ''}")
    if ours:
        print_text("\nProfiles:")
    for name, title in known:
        print_text(f"{name:24} {title}")


@board_group.command("show", epilog="Example: edgeveil board show coral-dev-board")
def show(
    profile: Annotated[str, typer.Argument(help="A profile's name or a TOML file.")], as_json: Json = False
) -> None:
    """Show the facts of one board, and what was never run on a real one."""
    from edgeveil.devices import profiles

    loaded = profiles.load(profile, commands=True)
    print_either({"schema": 1, **loaded.model_dump(mode="json")}, loaded.text(), as_json=as_json)


@board_command(board_group, "Example: edgeveil board probe hall-1")
def probe(at: SiteBoard, as_json: Json = False) -> None:
    """Find out what a board is: processor, Python, space, interpreters, what runs there. Changes nothing."""
    with at.open() as board:
        if not as_json:
            print_text(board.facts().text())
        else:
            print_json(board.facts_document())


@board_command(board_group, "Example: edgeveil board check hall-1")
def check(
    at: SiteBoard,
    profile: Annotated[
        str | None, typer.Option("--for", help="Board profile, by name or TOML file; left out: the one it matches.")
    ] = None,
    allow_commands: AllowCommands = False,
    as_json: Json = False,
) -> None:
    """Say what of a board fits, what is missing, and the commands that cure it; code 3 where any is."""
    from edgeveil.devices import profiles
    from edgeveil.devices.flashing.needs import tests
    from edgeveil.devices.flashing.readiness import findings, matching, wanted_needs

    profile = profile or at.profile
    named = None if profile is None else board_profile(profile, allow_commands or at.allow_commands)
    with at.open() as board:
        if named is None:
            known = {name: profiles.load(name) for name in profiles.names()}
            chosen = matching(board.facts(), known, lambda path: bool(board.facts(path).accelerator))
        else:
            chosen = named
        board.environment = dict(chosen.service.environment)
        wants = wanted_needs(at.wanted, chosen.at(board.root))
        facts = board.facts(chosen.accelerator_path, tests(wants))
    board_findings = findings(facts, chosen, wants)
    missing = [one.what for one in board_findings if one.cure]
    if as_json:
        rows = [{"what": one.what, "found": one.found, "cure": one.cure} for one in board_findings]
        print_json({"schema": 1, "profile": chosen.name, "board": facts.board, "findings": rows})
    else:
        lines = [f"{facts.board or 'A board that does not say its model'}, as {chosen.name}"]
        for one in board_findings:
            cure = f" -> {one.cure}" if one.cure else ""
            lines.append(f"{'missing' if one.cure else 'ok':8} {one.what:24} {one.found}{cure}")
        print_text("\n".join(line.replace("\n", "?") for line in lines))
    if missing:
        raise LimitNotMet(f"not ready: {', '.join(missing)}. Cure them from the top, then check again.")


@board_command(
    app,
    "Examples: edgeveil flash mnist.veil --on hall-1; "
    "edgeveil flash mnist.veil --on ssh://pi@edgepi --for raspberry-pi-cpu --trust root",
    panel=BOARDS,
    on=OnCardToo,
)
def flash(
    at: SiteBoard,
    bundle: Bundle,
    profile: Annotated[str | None, typer.Option("--for", help="Board profile, by name or TOML file.")] = None,
    trust: Annotated[
        Path | None, typer.Option(help="Folder of edgeveil trust init; or of .pub files for a board in use.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="What the board will perturb: camera:0, rtsp://..., kinect:, csv:-, ...")
    ] = None,
    sink: Annotated[list[str] | None, typer.Option(help="Where perturbed frames go; may be repeated.")] = None,
    wheels: Annotated[
        Path | None, typer.Option(help="Folder of edgeveil board wheels, for a board that lacks them.")
    ] = None,
    service: Annotated[
        bool | None, typer.Option("--service/--no-service", help="Install and start the service; it needs systemd.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="What runs the model: cpu, edgetpu, myriad, cuda, ... (the accelerator, where all is there)."
        ),
    ] = None,
    setup: Annotated[
        Path | None, typer.Option(help="TOML file for a new card: host name, time zone, user, SSH keys, Wi-Fi.")
    ] = None,
    allow_commands: AllowCommands = False,
    accept: Annotated[
        list[FlashAccepted] | None,
        typer.Option(
            help="again: a release that failed there three times; leak: a bundle whose audit found that it leaks; "
            "new-ledger: an empty ledger, which forgets the epsilon that the board spent. May be repeated."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Put a bundle onto a board, try it there, and go back to the old one if it does not run.

    What is left out is as boards.toml has it for that board.
    """
    from edgeveil.devices.flashing.flash import flash_target

    accepted = accept or []
    given: dict[str, Any] = {
        "source": source,
        "sinks": tuple(sink) if sink else None,
        "service": service,
        "device": None if device is None else check_device(device),
        "again": FlashAccepted.again in accepted,
        "new_ledger": FlashAccepted.new_ledger in accepted or None,
        "accept_leak": FlashAccepted.leak in accepted or None,
    }
    wanted = replace(at.wanted, **{key: value for key, value in given.items() if value is not None})
    trust = trust or at.require("trust")
    with transfer("sending") as progress:
        done = flash_target(
            bundle,
            at.address,
            at.connection,
            board_profile(profile or at.require("profile"), allow_commands or at.allow_commands),
            trust=trust,
            wanted=wanted,
            wheels=wheels or at.wheels,
            source_credentials=at.source_credentials,
            setup=setup or at.setup,
            dry_run=dry_run,
            show=say,
            progress=progress,
        )
    for one in done.refused:
        say(f"note: records do not arrive at {one}. The service runs.")
    if as_json:
        document = {"schema": 1, "sha": done.sha, "steps": [step.kind for step in done.plan.steps], "dry_run": dry_run}
        document |= {"artefact": done.plan.artefact, "device": done.plan.device, "refused": list(done.refused)}
        print_json(document)
    elif done.root_key and not dry_run:
        say(
            f"This board trusts the root key {done.root_key} from now on. Compare it with that of "
            f"edgeveil trust show {trust}."
        )


@board_command(board_group, "Example: edgeveil board status hall-1")
def status(at: SiteBoard, as_json: Json = False) -> None:
    """Show what a board runs, whether its service does, and what failed there; code 3 where it is not well."""
    from edgeveil.devices.fleet import UNSAID, board_document, not_well
    from edgeveil.edge_runtime.cli.releases import status_lines

    with at.open() as board:
        document = board_document(board)
        ill = not_well(board, document.get("service", UNSAID))
    try:
        text = "\n".join(status_lines(document))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise DeviceFailed("The board did not answer with its status. Flash it again.") from None
    print_either(document, text, as_json=as_json)
    if ill:
        raise LimitNotMet(f"the service is not well: {ill}. See edgeveil board logs.")


@board_command(board_group, "Example: edgeveil board rollback hall-1")
def rollback(at: SiteBoard, as_json: Json = False) -> None:
    """Have a board run its previous release again; refused if that is below the board's floor."""
    with at.open() as board:
        answer = board.rollback()
    print_either({"schema": 1, "now_runs": answer.split()[-1]}, answer, as_json=as_json)


@board_command(board_group, "Example: edgeveil board logs hall-1 --lines 50")
def logs(at: SiteBoard, lines: Annotated[int, typer.Option(min=1, max=100_000, help="Number of lines.")] = 200) -> None:
    """Print the last lines of a board's service log. They hold no frames."""
    with _open_service(at) as board:
        print_text(board.logs(lines).decode("utf-8", "replace"), end="")


@board_command(board_group, "Example: edgeveil board start hall-1")
def start(at: SiteBoard) -> None:
    """Start a board's service; returns when it has sent a new frame."""
    with _open_service(at) as board:
        board.control("start")


@board_command(board_group, "Example: edgeveil board stop hall-1")
def stop(at: SiteBoard) -> None:
    """Stop a board's service until it is started or the board boots again."""
    with _open_service(at) as board:
        board.control("stop")


@board_command(board_group, "Example: edgeveil board releases hall-1 --keep 3")
def releases(
    at: SiteBoard,
    keep: Annotated[int | None, typer.Option(help="Remove all but this many of the newest.")] = None,
    as_json: Json = False,
) -> None:
    """List the releases on a board, or remove old ones; the current and the previous one stay."""
    from edgeveil.devices.transports.base import check

    words = [] if keep is None else ["--keep", str(keep)]
    with at.open() as board:
        if not as_json:
            _print_runtime(board, "releases", *words)
            return
        lines = check(board.edge("releases", "--root", board.root, *words), "Listing releases").decode().splitlines()
    rows = [[*line.split(), None][:2] for line in lines]
    print_json({"schema": 1, "releases": [{"release": release, "is": mark} for release, mark in rows]})


@board_command(board_group, "Example: edgeveil board remove hall-1 --yes")
def remove(
    at: SiteBoard,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it; else the plan is printed and nothing changes.")
    ] = False,
    erase_ledger: Annotated[
        bool,
        typer.Option(
            "--erase-ledger",
            help="Even if the board's ledger counted epsilon. It is the only record of what was spent, and a new flash "
            "would give the same people a new budget: so --yes alone does not erase it.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Take EdgeVeil off a board: service, releases, trust, settings, spools, ledger and users.

    Files are deleted, not overwritten. After an interruption, the same command goes on.
    """
    from edgeveil.devices.flashing import removal

    with at.open() as board:
        found = removal.look(board)
        if not found.nothing:
            say("\n".join(found.lines()))
            found.check(yes=yes, erase_ledger=erase_ledger)
            removal.erase(board)
        text = f"Nothing of EdgeVeil is on {board.transport.name}{' any more' if found.removed else ''}."
    print_done(text, {"removed": [path for path, _ in found.removed], "kept": list(found.kept)}, as_json=as_json)


@updates.command(epilog="Example: edgeveil update index mnist-7.veil --key keys/signing.key --out www/index.json")
def index(
    bundles: Annotated[list[Path], typer.Argument(help="Sealed .veil files, the newest first; boards fetch that one.")],
    key: Annotated[str, typer.Option(help="signing.key of the role release, or its pkcs11: address.")],
    out: Annotated[Path, typer.Option(help="index.json to write; put it and the bundles into one folder of a server.")],
    name: Annotated[
        str, typer.Option(help="Name of the product; a board follows one, and remembers its last version.")
    ] = "all",
    audience: Annotated[str, typer.Option(help="Name of the fleet that it is for; any board's, where empty.")] = "",
    as_json: Json = False,
) -> None:
    """Sign what boards fetch with edgeveil-edge update. The version is one more than that of the index at --out."""
    from edgeveil.trainer.sealing.keys import write_index

    passphrase = passphrase_of(key)
    offer = write_index(bundles, key, out, name=name, audience=audience, passphrase=passphrase)
    text = f"Version {offer.version} of {out} offers {offer.releases[0].name}. Copy it to the server after the bundles."
    print_done(text, {"index": str(out), "version": offer.version}, as_json=as_json)


@updates.command(
    "settings",
    epilog="Example: edgeveil update settings hall.json hall-1.pub --file broker.password=hall-1.password --key "
    "root/signing.key --out www",
)
def board_settings(
    settings: Annotated[Path, typer.Argument(help="Settings as in edge.json; @FILES@/NAME is a file of --file.")],
    boards: Annotated[list[Path], typer.Argument(help="The key of each board, which board status shows, in a file.")],
    key: Annotated[str, typer.Option(help="signing.key of the role settings, of root where no one has it.")],
    out: Annotated[Path, typer.Option(help="Folder with index.json, from which the boards update.")],
    file: Annotated[
        list[str] | None, typer.Option("--file", metavar="NAME=FILE", help="A password or CA that the settings name.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sign settings for boards that update themselves, each sealed so that its board alone can open it."""
    from edgeveil.trainer.sealing.keys import write_settings

    if wrong := [text for text in file or () if "=" not in text]:
        raise BadInput(f"Expected --file NAME=FILE, such as broker.password=hall-1.password; got {wrong[0]!r}.")
    files = {name: Path(path) for name, _, path in (text.partition("=") for text in file or ())}
    numbers = write_settings(settings, boards, files, key, out, passphrase=passphrase_of(key))
    text = "\n".join(f"Number {number} is {out / name}." for name, number in numbers.items())
    print_done(text, {"settings": {str(out / name): number for name, number in numbers.items()}}, as_json=as_json)


@updates.command(epilog="Example: edgeveil update runtime --key root/signing.key --out edge.runtime")
def runtime(
    key: Annotated[Path, typer.Option(help="signing.key of the root key that the boards have.")],
    out: Annotated[Path, typer.Option(help="File to write; on a board, edgeveil-edge runtime takes it.")],
    as_json: Json = False,
) -> None:
    """Sign this toolkit's edge runtime for boards in use. A bundle never brings the runtime that a board runs."""
    from edgeveil.trainer.sealing.keys import write_runtime

    file = write_runtime(key, out, passphrase=passphrase_of(key))
    text = f"Version {file.version} is in {out}, SHA-256 {file.sha256}. Next, on each board: edgeveil-edge runtime FILE"
    print_done(text, {"runtime": str(out), "version": file.version, "sha256": file.sha256}, as_json=as_json)


@board_group.command(epilog="Example: edgeveil board wheels raspberry-pi-cpu --out wheels")
def wheels(
    profile: Annotated[str, typer.Argument(help="Board profile, by name or TOML file.")],
    out: Annotated[Path, typer.Option(help="New folder for site.zip and site.json.")],
    requirement: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Package and version, for the profile's: ai-edge-litert==2.3.0; or a source or sink, whose library "
            "comes along: camera:0, mqtt.",
        ),
    ] = None,
    python: Annotated[str | None, typer.Option(help="The board's Python, where it is not the profile's: 3.13.")] = None,
    pin: Annotated[list[str] | None, typer.Option(help="SHA-256 of a wheel that no recipe names.")] = None,
    as_json: Json = False,
) -> None:
    """Collect wheels for a board that cannot install them itself. Nothing is compiled and nothing else is added.

    EDGEVEIL_FIND_LINKS names a folder of wheels that only a vendor offers.
    """
    from edgeveil.devices import profiles
    from edgeveil.devices.flashing.wheels import collect

    chosen = profiles.load(profile, commands=True)  # nothing of it runs
    requirements, pins = requirement or (), pin or ()
    find_links = Path(folder) if (folder := os.environ.get("EDGEVEIL_FIND_LINKS")) else None
    packages = [one for one in requirements if "=" in one.partition(":")[0]]
    served = [one for one in requirements if one not in packages]
    site = collect(chosen, out, packages, python=python, served=served, find_links=find_links, pins=pins)
    names = ", ".join(f"{name} {version}" for name, version in site.interpreters.items())
    text = f"Collected {names} as {site.name} ({site.size} bytes) in {out}. Next: edgeveil flash ... --wheels {out}"
    print_done(text, {"folder": str(out), "interpreters": dict(site.interpreters)}, as_json=as_json)


@contextlib.contextmanager
def _open_service(at: SiteBoard) -> Iterator[Board]:
    """The board there. Raises ``BadInput`` if it has no service."""
    with at.open() as board:
        if not board.has_service():
            raise BadInput(
                f"There is no EdgeVeil service on {board.transport.name}: flash it with --source and --sink."
            )
        yield board


def _print_runtime(board: Board, command: str, *options: str) -> None:
    """Run a command of the board's runtime, print its output, and end with its exit code."""
    done = board.edge(command, "--root", board.root, *options)
    print_text(done.out.decode("utf-8", "replace"), end="")
    sys.stderr.write(shown(done.err.decode("utf-8", "replace")))
    if done.code:
        raise typer.Exit(done.code)
