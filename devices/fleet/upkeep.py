"""Work on a fleet's boards that is no roll-out: a newer trust file for all, and a board in another one's place."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edgeveil.devices.flashing.flash import flash_target
from edgeveil.devices.flashing.inputs import owners_trust
from edgeveil.devices.fleet import host_keys
from edgeveil.devices.fleet.commands import open_board
from edgeveil.devices.fleet.inventory import Fleet, FleetBoard
from edgeveil.devices.fleet.rollout import ALREADY, DONE
from edgeveil.edge_runtime.bundle.trust_store import CHAIN_FILE
from edgeveil.edge_runtime.errors import BadInput, reason

Say = Callable[[str], None]
KNOWN_HOSTS = Path("~/.ssh/known_hosts")


def send_trust(board: FleetBoard, say: Say) -> tuple[str, str]:
    """Work that brings the versions of a board's trust folder to it; the board takes those that it lacks."""
    owner = owners_trust(board.trust)
    try:
        chain = (board.trust / CHAIN_FILE).read_bytes()
    except OSError as error:
        raise BadInput(
            f"{CHAIN_FILE} of edgeveil trust was expected in {board.trust}: {reason(error)}. Without it no board can "
            "follow from one version to the next."
        ) from None
    with open_board(board, say) as there:
        taken = there.take_trust(chain)
    version = owner.version if owner is not None else 0
    return (DONE, f"took trust version {version}") if taken else (ALREADY, f"has trust version {version}")


def named(fleet: Fleet, name: str) -> FleetBoard:
    """The board of that name. Raises ``BadInput``."""
    for board in fleet.boards:
        if board.name == name:
            return board
    raise BadInput(f"No board of the fleet is named {name!r}: {', '.join(board.name for board in fleet.boards)}.")


def replace_board(
    board: FleetBoard,
    bundle: Path,
    *,
    host_key: Path | None = None,
    card: str | None = None,
    setup: Path | None = None,
    dry_run: bool = False,
    say: Say = lambda _: None,
) -> str:
    """Give a new board all that the fleet's file says of ``board``: settings, trust, wheels, release.

    The new one answers at the old one's address with ``host_key``, the public key of its sshd, which replaces the old
    one's in ``known_hosts`` once it runs the release. Or its ``card`` (``image:FILE``, ``dir:FOLDER``) is written, with
    the ``setup`` of a fresh image. Returns what was done. Raises ``EdgeVeilError``.
    """
    over_ssh = card is None and board.target.startswith("ssh:")
    if host_key is not None and not over_ssh:
        raise BadInput("--host-key is for a board that ssh reaches now: leave it out for a card or a serial line.")
    if over_ssh and host_key is None:
        raise BadInput(
            "The new board's host key was expected: copy /etc/ssh/ssh_host_ed25519_key.pub at its console, and name "
            f"that file with --host-key. Without it any machine could take the place of {board.name}."
        )
    place = (board.connection.known_hosts or KNOWN_HOSTS).expanduser()
    before = host_keys.known(place) if host_key is not None else ""
    after = before if host_key is None else host_keys.exchanged(before, board.target, host_keys.read_host_key(host_key))
    with tempfile.TemporaryDirectory() as folder:
        connection = board.connection
        if host_key is not None:
            (Path(folder) / "known_hosts").write_text(after)
            connection = replace(connection, known_hosts=Path(folder) / "known_hosts")
        done = flash_target(
            bundle,
            card or board.target,
            connection,
            board.profile,
            trust=board.trust,
            wanted=board.wanted,
            wheels=board.wheels,
            setup=setup,
            dry_run=dry_run,
            show=say,
        )
    if dry_run:
        return f"would {', '.join(step.kind for step in done.plan.steps) or 'do nothing'}"
    if after != before:
        host_keys.write(place, after)
    return f"{'its card was written with' if card else 'in its place a board runs'} {done.sha:.12}"
