"""Several services on one board: each has a folder, users, and pages of its own."""

from __future__ import annotations

from edgeveil.devices.flashing.service.on_board import FIRST_PORT, OnBoard
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.paths import FIRST, named, service_of


def profile_for(profile: Profile, root: str) -> Profile:
    """The profile with the folder and users of the service of ``root``."""
    service, owner = service_of(root), profile.service
    users = {name: _user(getattr(owner, name), service) for name in ("user", "inside_user", "camera_user")}
    return profile.model_copy(update={"service": owner.model_copy(update={"root": root, **users})})


def _user(user: str, service: str) -> str:
    """The service's own user: a profile may name one that is called otherwise."""
    return named(user, service) if FIRST in user else user + service[len(FIRST) :]


def pages_at(root: str, services: tuple[OnBoard, ...]) -> str | None:
    """Where the pages of another service than the first are: as before, or the next free port. None for the first."""
    name = service_of(root)
    if name == FIRST:
        return None
    own = next((one.health for one in services if one.name == name), "")
    taken = {one.port for one in services if one.name != name} | {FIRST_PORT}
    free = next(port for port in range(FIRST_PORT, FIRST_PORT + len(taken) + 1) if port not in taken)
    return own or f"127.0.0.1:{free}"
