"""``edgeveil flash``: a sealed bundle to a board or a card, by a plan that is made once and then executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgeveil.devices.flashing import needs, sd_card, service_files
from edgeveil.devices.flashing.board import Board, Say
from edgeveil.devices.flashing.card import flash_card, read_setup
from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.plan import plan
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.flashing.steps import Flashed, execute
from edgeveil.devices.flashing.wheels import Inputs, read_inputs
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.bundle.policy import NOT_AUDITED_ON, is_audited
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.counters import schedule
from edgeveil.edge_runtime.kinds import SINKS, check_sensor, check_shape, check_sink, check_source, fact_of
from edgeveil.edge_runtime.manifest.manifest import expected
from edgeveil.edge_runtime.paths import FIRST, service_of
from edgeveil.edge_runtime.sinks import traffic
from edgeveil.edge_runtime.sinks.uri import without_secrets


def flash_target(
    bundle: Path,
    target: str,
    connection: Connection,
    profile: str | Profile,
    *,
    trust: Path,
    wanted: Wanted,
    wheels: Path | None = None,
    source_credentials: Path | None = None,
    setup: Path | None = None,
    dry_run: bool = False,
    show: Say = lambda _: None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Flashed:
    """Install ``bundle`` on the board or card that ``target`` names. Raises ``EdgeVeilError``."""
    if wanted.source is not None:
        check_source(wanted.source)
    wanted = with_credentials(wanted, source_credentials)
    for sink in wanted.sinks:
        check_sink(sink)
        if wanted.service:
            _check_service(sink)
    inputs = read_inputs(bundle, profile, trust, wheels)
    manifest = inputs.opened.manifest
    if wanted.source is not None:
        check_sensor(wanted.source, manifest.input.sensor)
        check_shape(wanted.source, expected(manifest.input, manifest.capture)["shape"])
    # What the sinks of the wanted service send, and how long their spools hold.
    sinks = wanted.sinks if wanted.service else ()
    sends = [f"sends {line}" for line in traffic.lines(sinks, manifest, schedule(manifest))]
    if target.startswith(sd_card.KINDS):
        if service_of(connection.root) != FIRST:
            raise BadInput(f"A card brings the first service, and root {connection.root} is another: flash it later.")
        own = None if setup is None else read_setup(setup)
        for line in sends:
            show(line)
        return flash_card(inputs, target, wanted, root=connection.root, setup=own, dry_run=dry_run, show=show)
    if setup is not None:
        raise BadInput("--setup is for a card (image:FILE, dir:FOLDER): a board that is reached is set up already.")
    with connection.open(target, say=show) as board:
        wanted = replace(wanted, trusted_channel=board.transport.trusted)
        return flash(inputs, board, wanted, sends=sends, dry_run=dry_run, show=show, progress=progress)


def with_credentials(wanted: Wanted, file: Path | None) -> Wanted:
    """The same, with the name and password of ``file`` in the address of a network camera. Raises ``BadInput``."""
    source = wanted.source or ""
    networked = camera_address.on_network(source)
    if networked and camera_address.parse(source).user is not None:
        raise BadInput(
            "A password on the command line shows up in process lists: put USER:PASSWORD into a file that only you may "
            "read, and name it by source_credentials in boards.toml."
        )
    if wanted.accept_raw_on_network and not (networked and wanted.service):
        raise BadInput("accept_raw_on_network is for the service of a camera on a network: leave it out.")
    if file is None:
        return wanted
    if not (networked and wanted.service):
        raise BadInput("source_credentials is for the service of a camera on a network: leave it out.")
    return replace(wanted, source=camera_address.with_credentials(source, str(file)))


def _check_service(sink: str) -> None:
    """Raise ``BadInput`` where a service that flash sets up could not open this sink."""
    if fact_of(SINKS, sink, "device"):
        raise BadInput(
            f"{without_secrets(sink)} needs a device, and the service that sends has none: flash with --no-service, "
            "and start edgeveil-edge run on the board."
        )


def flash(
    inputs: Inputs,
    board: Board,
    wanted: Wanted,
    *,
    sends: Sequence[str] = (),
    dry_run: bool = False,
    show: Say = lambda _: None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Flashed:
    """Plan from the board's facts, show the plan and what it ``sends``, and execute it unless this is a dry run.
    Raises ``EdgeVeilError``."""
    if wanted.service or wanted.source:
        board.sudo.allowed()  # asks for the password, where somebody sits there
    profile = inputs.profile.at(board.root)
    board.environment = dict(profile.service.environment)
    facts = board.facts(profile.accelerator_path, needs.tests(needs.of_wanted(wanted, profile.service)))
    planned = plan(
        facts,
        inputs.bundle,
        profile,
        wanted,
        trust=inputs.trust,
        wheels=inputs.wheels,
        service_files=partial(service_files.for_board, board.root, profile, wanted, facts),
    )
    manifest, audit, artefact, device = inputs.opened.manifest, inputs.opened.audit, planned.artefact, planned.device
    if inputs.policy is not None:
        inputs.policy.check(manifest, audit, artefact, device)
    notes = []
    if device != CPU and audit is not None and not is_audited(manifest, audit, artefact, device):
        notes = ["note: " + NOT_AUDITED_ON.format(artefact=artefact, device=device)]
    show("\n".join([planned.text(), *notes, *sends]))
    refused = () if dry_run else execute(planned, board, progress)
    return Flashed(planned, inputs.bundle.sha, refused)
