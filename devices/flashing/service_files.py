"""The files of a board's service: systemd units, and the settings they run with, as bytes; pure functions.

The names are those of the first service; ``paths.named`` gives those of another one, by its folder.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from edgeveil.devices.flashing import camera_unit
from edgeveil.devices.flashing.camera_unit import FIRST_PORT, OnBoard, for_others
from edgeveil.devices.flashing.placement import Refused
from edgeveil.devices.flashing.records import Facts, Wanted
from edgeveil.devices.profiles import Camera, Profile, Service
from edgeveil.edge_runtime import camera_address, config
from edgeveil.edge_runtime.device import CPU, TENSORRT, accelerator, hears_of_usb
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SOURCES, device_file, fact_of
from edgeveil.edge_runtime.paths import CAMERA_PATH, ENGINES, FIRST, LEDGER, named, service_of

# Several services on one board: folder, users and pages of each, and what one may not take from the others.


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
    # A simulation, a network camera and the radio of wifi: have as many readers as one likes.
    alone = fact_of(SOURCES, source, "sensor") is not None and not fact_of(SOURCES, source, "shared")
    return alone and not camera_address.on_network(source) and _device(source) == _device(other)


def _device(source: str) -> tuple[str, str]:
    kind, _, place = source.partition(":")
    return kind, f"/dev/video{place}" if place.isdigit() else place


# The main part, described by the docstring.


MAIN, INSIDE, RECOVER = "edgeveil.service", "edgeveil-inside.service", "edgeveil-recover.service"
UNITS = [RECOVER, INSIDE, MAIN]  # next to them, camera_unit.UNIT where a process of its own gets the frames
UPDATE, TIMER = "edgeveil-update.service", "edgeveil-update.timer"
UNIT_FOLDER = "/etc/systemd/system/"
CONFIG = config.DEFAULT_PATH
WATCHDOG = "/etc/systemd/system.conf.d/edgeveil-watchdog.conf"
_ADD = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]

_UPDATES = re.compile(r"https?://[A-Za-z0-9._~:/\[\]-]+|dir:/[A-Za-z0-9._/-]+")
_REPEATED = ("@DEVICE@", "@ENVIRONMENT@", "@CACHE@", "@FRAMES@")
_ROOT = re.compile(r"(/[A-Za-z0-9._-]+)+")
_PLACE = re.compile(r"/dev/[A-Za-z0-9._/-]+")


def enable_commands(files: Mapping[str, bytes], service: str = FIRST) -> list[list[str]]:
    """The commands that have systemd start these units at boot."""
    known = [named(name, service) for name in (*UNITS, camera_unit.UNIT)]
    units, timer = [name for name in known if UNIT_FOLDER + name in files], named(TIMER, service)
    commands = [["systemctl", "enable", *units]] if units else []
    commands += [["systemctl", "enable", "--now", timer]] if UNIT_FOLDER + timer in files else []
    reload = "daemon-reexec" if WATCHDOG in files else "daemon-reload"  # which reads the manager's own settings
    return [["systemctl", reload], *commands] if commands else []


def for_board(root: str, profile: Profile, wanted: Wanted, facts: Facts | None, device: str) -> dict[str, bytes]:
    """The files that a flash writes for a model on ``device``; none where the board keeps its settings.

    ``facts`` are None for a card. Raises ``BadInput`` where no service can be made of what is wanted.
    """
    made: dict[str, bytes] = {}
    if facts is None or not wanted.keeps_settings(facts):
        pages = pages_at(root, facts.services if facts is not None else ())
        accept_raw = wanted.accept_raw_on_network
        made |= files(root, wanted.source, wanted.sinks, profile, device, accept_raw=accept_raw, pages=pages)
    if wanted.update_from:
        made |= update_files(root, wanted.update_from, profile.service, device=device)
    return made


def update_files(root: str, place: str, service: Service, *, device: str = CPU) -> dict[str, bytes]:
    """The units that look for a newer release at ``place`` every six hours, by their paths on the board.

    ``device`` is what a release is tried on. Raises ``BadInput`` for a ``place`` that is not valid.
    """
    if not _UPDATES.fullmatch(place):
        raise BadInput(f"Expected https://HOST/FOLDER or dir:/FOLDER as --update-from; got {place!r}.")
    words = {"@ROOT@": root, "@PYTHON@": service.python, "@FROM@": place, "@PRIVATE@": "yes" if device == CPU else "no"}
    lines, own = {"@ENVIRONMENT@": _environment(service)}, service_of(root)
    return {UNIT_FOLDER + named(name, own): filled(name, words, lines, own) for name in (UPDATE, TIMER)}


def user_commands(service: Service, made: Mapping[str, bytes]) -> dict[str, list[str]]:
    """The commands that make the users of the service of these files, in order: the second is in the first's group."""
    users = {
        service.user: [*_ADD, "--user-group", service.user],
        service.inside_user: [*_ADD, "-g", service.user, service.inside_user],
    }
    if named(CAMERA_PATH, service_of(service.root)) in made:
        users[service.camera_user] = [*_ADD, "--user-group", service.camera_user]
    return users


def groups(service: Service) -> dict[str, str]:
    """The files that may hold secrets, each with the only group that may read it."""
    own = service_of(service.root)
    return {named(CONFIG, own): service.user, named(CAMERA_PATH, own): service.camera_user}


def left_over(made: Mapping[str, bytes], service: str = FIRST) -> list[str]:
    """The files of an earlier source that these new settings make meaningless: they may hold a camera's password."""
    if named(CONFIG, service) not in made or named(CAMERA_PATH, service) in made:
        return []
    wanted_by = f"{UNIT_FOLDER}{MAIN}.wants/{camera_unit.UNIT}"
    return [named(path, service) for path in (CAMERA_PATH, UNIT_FOLDER + camera_unit.UNIT, wanted_by)]


def files(
    root: str,
    source: str | None,
    sinks: Sequence[str],
    profile: Profile,
    device: str = CPU,
    *,
    accept_raw: bool = False,
    pages: str | None = None,
) -> dict[str, bytes]:
    """The service's files by their paths on the board.

    ``root`` is EdgeVeil's folder there; ``source``, ``sinks`` and ``device`` are those of ``edgeveil-edge run``, and
    ``accept_raw`` its --accept-raw-on-network, ``pages`` its --health. Raises ``BadInput`` where no service can be made
    of them.
    """
    if not source or not sinks:
        raise BadInput("The service needs a source and a sink: give --source and --sink, or --no-service.")
    if not _ROOT.fullmatch(root):
        raise BadInput(f"Expected a plain path as --root for a service; got {root!r}. Leave it at /opt/edgeveil.")
    service, camera, place, own = profile.service, profile.camera, profile.accelerator_path, service_of(root)
    devices, groups_of = _devices(source, camera)
    by_another = camera_unit.by_another_process(source)
    if device != CPU and place is not None and place.startswith("usb:"):
        devices += ("char-usb_device",)
        groups_of.append(camera.usb_group)
    elif device != CPU and place is not None and _PLACE.fullmatch(place):
        devices += (place, *profile.accelerator_devices)
        groups_of += [profile.accelerator_group] if profile.accelerator_group else []
    document: dict[str, object] = {"bundle": f"{root}/current/bundle.veil", "trust": f"{root}/trust"}
    document |= {"source": camera_unit.for_others(source), "sink": list(sinks)}
    if by_another:
        document["frames-at"] = named(camera_unit.FOLDER, own)
    if own != FIRST:
        document["ledger"] = named(LEDGER, own)
    if pages is not None:
        document["health"] = pages
    if device != CPU:
        document["device"] = device  # left out otherwise: the runtime of an older release does not know the word
    config.merged({}, {name: config.check(name, value, "as --" + name) for name, value in document.items()})
    words = {"@ROOT@": root, "@USER@": service.user, "@INSIDE@": service.inside_user, "@PYTHON@": service.python}
    words["@CAMERA@"] = service.camera_user
    words["@NAMESPACE@"] = "no" if hears_of_usb(device) else "yes"
    words["@GROUP@"] = " ".join(dict.fromkeys(groups_of))
    settings = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    lines = {"@DEVICE@": list(dict.fromkeys(devices)), "@ENVIRONMENT@": _environment(service)}
    # Not where the source's library writes files, too: then nothing would keep a frame out of that folder.
    keeps = accelerator(device) == TENSORRT and (by_another or not fact_of(SOURCES, source, "writes_files"))
    lines["@CACHE@"] = [named(ENGINES, own).rpartition("/")[2]] * keeps
    lines["@FRAMES@"] = [named(camera_unit.FOLDER, own)] * by_another
    made = {named(CONFIG, own): settings}
    if service.watchdog_s is not None:
        made[WATCHDOG] = f"[Manager]\nRuntimeWatchdogSec={service.watchdog_s}\n".encode()
    if by_another:
        unit = camera_unit.UNIT
        words_of = words | camera_unit.words(source, profile, accept_raw)
        lines_of = lines | {"@DEVICE@": camera_unit.devices(source, profile)}
        made[named(CAMERA_PATH, own)] = camera_unit.settings(root, source)
        made[UNIT_FOLDER + named(unit, own)] = filled(unit, words_of, lines_of, own)
    return made | {UNIT_FOLDER + named(name, own): filled(name, words, lines, own) for name in UNITS}


def _environment(service: Service) -> list[str]:
    return [f"{name}={value}" for name, value in service.environment.items()]


def _devices(source: str, camera: Camera) -> tuple[tuple[str, ...], list[str]]:
    """The devices that the inside may open for a source, and the groups it needs for them."""
    groups = [getattr(camera, group) for group in fact_of(SOURCES, source, "groups") or ()]
    path = device_file(source)
    if path is not None:
        if not _PLACE.fullmatch(path) or ".." in path:
            raise BadInput(f"Expected camera:0 or camera:/dev/video0; got {source!r}.")
        return (path,), groups
    if camera_unit.by_another_process(source):
        return (), []
    # DeviceAllow= takes a path, or a class of /proc/devices.
    devices = fact_of(SOURCES, source, "devices")
    if devices is not None:
        return devices, groups
    kind = source.partition(":")[0]
    raise BadInput(
        f"The units give the inside no network, and {kind}: needs one: flash with --no-service and have one unit of "
        "your own run edgeveil-edge run, which starts the inside by itself (docs/how-to/run-the-capture-loop.md)."
    )


def filled(
    name: str, words: Mapping[str, str], repeated: Mapping[str, Sequence[str]] | None = None, service: str = FIRST
) -> bytes:
    """The unit ``name`` as ``service`` has it, with its words replaced, without comments.

    A line with a word of ``repeated`` (@DEVICE@, @ENVIRONMENT@, ...) is written once for each of its values.
    """
    text = named((Path(__file__).parent / "units" / name).read_text(), service)
    lines = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue  # a comment about what is filled in here
        again = next((word for word in _REPEATED if word in line), None)
        if "@GROUP@" in line and not words.get("@GROUP@"):
            continue
        for word, value in words.items():
            line = line.replace(word, value)
        values = [""] if again is None else (repeated or {}).get(again, ())
        lines += [line.replace(again or "", value) if again else line for value in values]
    return ("\n".join(lines) + "\n").encode()
