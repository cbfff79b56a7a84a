"""``edgeveil-edge report``: this board tells its owner what it runs and how it is."""

import argparse
import sys
import time
from typing import Any, Dict

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.cli import options
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError

_LOCK = "report.lock"


def add_commands(commands: Any) -> None:
    """Add it to the parser of ``edgeveil-edge``."""
    report = options.add_command(
        commands,
        "report",
        _report,
        "send a signed report of release, last update and health to the owner; the update unit calls it",
        "edgeveil-edge report --to mqtts://broker/fleet/hall-1",
    )
    report.add_argument("--to", metavar="WHERE", help="mqtts://HOST/TOPIC/NAME or https://HOST/PATH/NAME of this board")
    report.add_argument("--logs", action="store_true", help="with the last lines of the event log")
    report.add_argument("--key", action="store_true", help="print this board's public key instead")
    report.add_argument(
        "--root", default=paths.ROOT, metavar="DIR", help="folder of the releases ({})".format(paths.ROOT)
    )


def _report(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.outside.report import condition, delivery, report_form
    from edgeveil.edge_runtime.outside.report.device_state import device_state
    from edgeveil.edge_runtime.releases.trial import open_releases
    from edgeveil.edge_runtime.signing.device_key import DeviceKey
    from edgeveil.edge_runtime.storage import root_lock

    root = arguments.root
    if bool(arguments.to) == arguments.key:
        raise BadInput("expected --to WHERE, or --key: give one of the two")
    open_releases(root)
    with root_lock.held(root, "report", name=_LOCK):
        if arguments.key:
            sys.stdout.write(DeviceKey(device_state(root).seed).public + "\n")
            return
        destination = delivery.Destination(arguments.to)
        state = device_state(root)
        state = state._replace(number=state.number + 1).keep(root)
        key = DeviceKey(state.seed)
        document = dict(
            _release(root),
            schema=1,
            board=destination.board,
            number=state.number,
            time_s=int(time.time()),
            unsent=state.number - state.arrived - 1,
            update=condition.last_update(root),
            health=condition.condition(root),
        )
        logs = condition.event_lines(root) if arguments.logs else None
        destination.send(report_form.sealed(document, key, logs))
        state._replace(arrived=state.number).keep(root)
    sys.stdout.write(
        "report {} of {} arrived, signed by {:.16}...\n".format(state.number, destination.board, key.public)
    )


def _release(root: str) -> Dict[str, Any]:
    """What runs here; all unknown where the board's state is lost: that is when a report is needed most."""
    from edgeveil.edge_runtime.releases.trial import status

    try:
        found = status(root)
    except EdgeVeilError:
        found = {}
    name, index = found.get("name"), found.get("index")
    return {
        "release": {
            "sha256": found.get("committed"),
            "name": None if name is None else ascii(name)[1:-1][:120],
            "security_version": found.get("security_version"),
        },
        "floor": found.get("floor"),
        "runtime": found.get("runtime"),
        "index_age_s": None if index is None else index["age_s"],
    }
