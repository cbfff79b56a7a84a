"""Several services on one board: folder, users and pages of each, and what one may not take from the others."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from edgeveil.devices.flashing.checks import Refused
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.flashing.service.camera_unit import for_others
from edgeveil.devices.flashing.service.on_board import FIRST_PORT, OnBoard
from edgeveil.devices.profiles import Profile, Service
from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.kinds import SOURCES
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


_STATE = "/var/lib/edgeveil"
_STATES = re.compile(rf"{_STATE}[^/]*")
_WRITTEN = re.compile(r"(/var/lib|/var/cache|/run|/var/run)/edgeveil")


def check_beside(owner: Service, wanted: Wanted, services: tuple[OnBoard, ...], *, spends: bool) -> list[str]:
    """Check that the wanted service takes nothing from another one; lines for the plan. Raises ``Refused``.

    ``owner`` has its folder and users (``several.profile_for``); ``spends``: its bundle promises an epsilon.
    """
    root = owner.root
    name = service_of(root)
    others = [one for one in services if one.name != name]
    check_folder(root, services)
    for one in services:
        if one.name == name and one.root != root:
            raise Refused(
                "another-folder",
                f"The service {name} of this board has the folder {one.root}, and --root names {root}. Leave --root "
                f"out to flash that one; a service beside it has a folder of its own: --root /opt/{FIRST}-NAME.",
            )
    for one in others:
        if wanted.source and _same_camera(wanted.source, one.source):
            raise Refused(
                "camera-in-use",
                f"{wanted.source} is the camera of the service {one.name} of this board. Name another --source, or "
                f"flash that service: --root {one.root}.",
            )
        for user in (owner.user, owner.inside_user, owner.camera_user):
            if user in one.users:
                raise Refused(
                    "another-user",
                    f"The service {name} would run as {user}, as {one.name} of this board does, and could change its "
                    "ledger. Give one of them a profile with other users, or another name.",
                )
    _check_sinks(name, wanted.sinks)
    return [f"note: {line}" for line in (*_pages_and_camera(root, wanted.source, services), *_spending(others, spends))]


def check_folder(root: str, services: tuple[OnBoard, ...]) -> None:
    """No releases and root key may lie where another service's users write, or in its folder. Raises ``Refused``."""
    place = posixpath.normpath(root)
    inside = any(place.startswith(one.root + "/") for one in services)
    if {".", ".."} & set(root.split("/")) or inside or _WRITTEN.match(place):
        raise Refused(
            "another-folder",
            f"A folder outside those of the services was expected as --root, written out; got {root}, where a service "
            f"could change what lies there. Name /opt/{FIRST} or /opt/{FIRST}-NAME.",
        )


def _check_sinks(name: str, sinks: tuple[str, ...]) -> None:
    for sink in sinks:
        path = re.sub("^/+", "/", sink.partition(":")[2].partition("?")[0])
        found = _STATES.match(posixpath.normpath(path) if path else "")
        if found and found[0] != named(_STATE, name):
            raise Refused(
                "another-folder",
                f"The service {name} may write to {named(_STATE, name)} alone, and {sink} is in {found[0]}: name a "
                "--sink there.",
            )


def _pages_and_camera(root: str, source: str | None, services: tuple[OnBoard, ...]) -> Iterator[str]:
    name = service_of(root)
    if name != FIRST:
        yield f"the pages of {name} are at {pages_at(root, services)}"
    own = next((one.source for one in services if one.name == name), "")
    if source and own not in ("", for_others(source)):
        beside = f"a service beside it has a folder of its own: --root /opt/{FIRST}-NAME"
        yield f"{name} reads {for_others(own)} no more; {beside}"


def _spending(others: list[OnBoard], spends: bool) -> Iterator[str]:
    """A person before several cameras is told of by each of their services, and no ledger knows of another one."""
    counted = [one.name for one in others if one.counts]
    without = [one.name for one in others if not one.counts]
    if spends and counted:
        yield (
            f"{', '.join(counted)} and this service count epsilon apart: a person before all their cameras pays in "
            "each ledger, and each limit holds alone; edgeveil status shows the sum"
        )
    if spends and without:
        yield f"no ledger counts what {', '.join(without)} tells of a person; it comes on top of this service's"
    if counted and not spends:
        yield f"no ledger counts what this service tells of a person; it comes on top of what {', '.join(counted)} does"


def _same_camera(source: str, other: str) -> bool:
    kind = source.partition(":")[0]
    # A simulation, a network camera and the radio of wifi: have as many readers as one likes.
    alone = SOURCES[kind].sensor is not None and kind not in ("simulate", "wifi")
    return alone and not camera_address.on_network(source) and _device(source) == _device(other)


def _device(source: str) -> tuple[str, str]:
    kind, _, place = source.partition(":")
    return kind, f"/dev/video{place}" if place.isdigit() else place
