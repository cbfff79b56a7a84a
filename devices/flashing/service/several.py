"""Several services on one board: each has a folder, users, settings, a ledger and a camera of its own."""

from __future__ import annotations

from edgeveil.devices.flashing.checks import Refused
from edgeveil.devices.flashing.service.on_board import FIRST_PORT, OnBoard
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.kinds import SOURCES
from edgeveil.edge_runtime.paths import FIRST, named, service_of


def profile_for(profile: Profile, root: str) -> Profile:
    """The profile with the folder and users of the service of ``root``."""
    service, owner = service_of(root), profile.service
    users = {name: named(getattr(owner, name), service) for name in ("user", "inside_user", "camera_user")}
    return profile.model_copy(update={"service": owner.model_copy(update={"root": root, **users})})


def pages_at(root: str, services: tuple[OnBoard, ...]) -> str | None:
    """Where the pages of another service than the first are: as before, or the next free port. None for the first."""
    name = service_of(root)
    if name == FIRST:
        return None
    own = next((one.health for one in services if one.name == name), "")
    taken = {one.port for one in services if one.name != name} | {FIRST_PORT}
    free = next(port for port in range(FIRST_PORT, FIRST_PORT + len(taken) + 1) if port not in taken)
    return own or f"127.0.0.1:{free}"


def check_services(root: str, source: str | None, sinks: tuple[str, ...], services: tuple[OnBoard, ...]) -> list[str]:
    """Check that the service of ``root`` takes nothing from another one; lines for the plan. Raises ``Refused``."""
    name = service_of(root)
    for one in services:
        if one.name == name and one.root != root:
            raise Refused(
                "another-folder",
                f"The service {name} of this board has the folder {one.root}, and --root names {root}. Leave --root "
                f"out to flash that one; a service beside it has a folder of its own: --root /opt/{FIRST}-NAME.",
            )
        if source and one.name != name and _same_camera(source, one.source):
            raise Refused(
                "camera-in-use",
                f"{source} is the camera of the service {one.name} of this board. Name another --source, or flash that "
                f"service: --root {one.root}.",
            )
    folder, first = named(_STATE, name), f":{_STATE}/"
    if name != FIRST and any(first in sink for sink in sinks):
        raise Refused("another-folder", f"The service {name} may write to {folder} alone: name a --sink there.")
    lines = [f"note: the pages of {name} are at {pages_at(root, services)}"] if name != FIRST else []
    own = next((one.source for one in services if one.name == name), "")
    if source and own not in ("", source):
        shown = camera_address.parse(own).shown if camera_address.on_network(own) else own
        lines.append(
            f"note: {name} reads {shown} no more; a service beside it has a folder of its own: --root /opt/{FIRST}-NAME"
        )
    return lines


_STATE = "/var/lib/edgeveil"


def _same_camera(source: str, other: str) -> bool:
    kind = source.partition(":")[0]
    # A simulation, a network camera and the radio of wifi: may have several readers.
    alone = SOURCES[kind].sensor is not None and kind not in ("simulate", "wifi")
    return alone and not camera_address.on_network(source) and _device(source) == _device(other)


def _device(source: str) -> tuple[str, str]:
    kind, _, place = source.partition(":")
    return kind, f"/dev/video{place}" if place.isdigit() else place
