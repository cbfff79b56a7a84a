"""The files of a board's service: systemd units, and the settings they run with, as bytes; pure functions.

The names are those of the first service; ``paths.named`` gives those of another one, by its folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeveil.devices.flashing.records import Facts, Wanted, by_another_process, for_others, pages_at
from edgeveil.devices.profiles import Camera, Profile, Service
from edgeveil.edge_runtime import camera_address, config
from edgeveil.edge_runtime.device import CPU, TENSORRT, accelerator, hears_of_usb
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SOURCES, device_file, fact_of, needs_daemon
from edgeveil.edge_runtime.paths import CAMERA_PATH, ENGINES, FIRST, LEDGER, named, service_of

MAIN, INSIDE, RECOVER = "edgeveil.service", "edgeveil-inside.service", "edgeveil-recover.service"
UNITS = [RECOVER, INSIDE, MAIN]
# Next to them where a process of its own gets the frames for the inside: over a network, or from a camera's daemon.
CAMERA, CAMERA_FOLDER = "edgeveil-camera.service", "/run/edgeveil-camera"
UPDATE, TIMER = "edgeveil-update.service", "edgeveil-update.timer"
ALL_UNITS = (MAIN, INSIDE, RECOVER, CAMERA, UPDATE, TIMER)
UNIT_FOLDER = "/etc/systemd/system/"
CONFIG = config.DEFAULT_PATH
WATCHDOG = "/etc/systemd/system.conf.d/edgeveil-watchdog.conf"
_ADD = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]

_UPDATES = re.compile(r"https?://[A-Za-z0-9._~:/\[\]-]+|dir:/[A-Za-z0-9._/-]+")
_REPEATED = ("@DEVICE@", "@ENVIRONMENT@", "@CACHE@", "@FRAMES@")
_ROOT = re.compile(r"(/[A-Za-z0-9._-]+)+")
_PLACE = re.compile(r"/dev/[A-Za-z0-9._/:+@-]+")  # colons are in every name of /dev/v4l/by-path


def enable_commands(files: Mapping[str, bytes], service: str = FIRST) -> list[list[str]]:
    """The commands that have systemd start these units at boot."""
    known = [named(name, service) for name in (*UNITS, CAMERA)]
    units, timer = [name for name in known if UNIT_FOLDER + name in files], named(TIMER, service)
    commands = [["systemctl", "enable", *units]] if units else []
    commands += [["systemctl", "enable", "--now", timer]] if UNIT_FOLDER + timer in files else []
    reload = "daemon-reexec" if WATCHDOG in files else "daemon-reload"  # which reads the manager's own settings
    return [["systemctl", reload], *commands] if commands else []


def for_board(root: str, profile: Profile, wanted: Wanted, facts: Facts | None, device: str) -> dict[str, bytes]:
    """The files that a flash writes for a model on ``device``; none where the board keeps its settings.

    ``facts`` are None for a card. Raises ``BadInput`` where no service can be made of what is wanted.
    """
    contents: dict[str, bytes] = {}
    if facts is None or not wanted.keeps_settings(facts):
        pages = pages_at(root, facts.services if facts is not None else ())
        accept_raw = wanted.accept_raw_on_network
        contents |= files(root, wanted.source, wanted.sinks, profile, device, accept_raw=accept_raw, pages=pages)
    if wanted.update_from:
        contents |= update_files(root, wanted.update_from, profile.service, device=device)
    return contents


def update_files(root: str, place: str, service: Service, *, device: str = CPU) -> dict[str, bytes]:
    """The units that look for a newer release at ``place`` every six hours, by their paths on the board.

    ``device`` is what a release is tried on. Raises ``BadInput`` for a ``place`` that is not valid.
    """
    if not _UPDATES.fullmatch(place):
        raise BadInput(f"Expected https://HOST/FOLDER or dir:/FOLDER as update; got {place!r}.")
    words = {"@ROOT@": root, "@PYTHON@": service.python, "@FROM@": place, "@PRIVATE@": "yes" if device == CPU else "no"}
    lines, own = {"@ENVIRONMENT@": _environment(service)}, service_of(root)
    return {UNIT_FOLDER + named(name, own): filled(name, words, lines, own) for name in (UPDATE, TIMER)}


def user_commands(service: Service, made: Mapping[str, bytes]) -> dict[str, list[str]]:
    """The commands that make the users of the service of these files, in order: the second is in the first's group."""
    add = [*_ADD, "--comment", user_mark(service.root)]
    users = {
        service.user: [*add, "--user-group", service.user],
        service.inside_user: [*add, "-g", service.user, service.inside_user],
    }
    if named(CAMERA_PATH, service.name) in made:
        users[service.camera_user] = [*add, "--user-group", service.camera_user]
    return users


def user_mark(root: str) -> str:
    """What an account says that a flash into ``root`` made: ``board remove`` takes no other one away."""
    return f"EdgeVeil in {root}"


def groups(service: Service) -> dict[str, str]:
    """The files that may hold secrets, each with the only group that may read it."""
    own = service.name
    return {named(CONFIG, own): service.user, named(CAMERA_PATH, own): service.camera_user}


def left_over(made: Mapping[str, bytes], service: str = FIRST) -> list[str]:
    """The files of an earlier source that these new settings make meaningless: they may hold a camera's password."""
    if named(CONFIG, service) not in made or named(CAMERA_PATH, service) in made:
        return []
    wanted_by = f"{UNIT_FOLDER}{MAIN}.wants/{CAMERA}"
    return [named(path, service) for path in (CAMERA_PATH, UNIT_FOLDER + CAMERA, wanted_by)]


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
        raise BadInput(f"Expected a plain path as root for a service; got {root!r}. Leave it at /opt/edgeveil.")
    service, camera, place, own = profile.service, profile.camera, profile.accelerator_path, service_of(root)
    devices, groups_of = _devices(source, camera)
    by_another = by_another_process(source)
    if device != CPU and place is not None and place.startswith("usb:"):
        devices += ("char-usb_device",)
        groups_of.append(camera.usb_group)
    elif device != CPU and place is not None and _PLACE.fullmatch(place):
        devices += (place, *profile.accelerator_devices)
        groups_of += [profile.accelerator_group] if profile.accelerator_group else []
    document: dict[str, object] = {"bundle": f"{root}/current/bundle.veil", "trust": f"{root}/trust"}
    document |= {"source": for_others(source), "sink": list(sinks)}
    if by_another:
        document["frames-at"] = named(CAMERA_FOLDER, own)
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
    lines = {"@DEVICE@": list(dict.fromkeys(devices)), "@ENVIRONMENT@": _environment(service)}
    # Not where the source's library writes files, too: then nothing would keep a frame out of that folder.
    keeps = accelerator(device) == TENSORRT and (by_another or not fact_of(SOURCES, source, "writes_files"))
    lines["@CACHE@"] = [named(ENGINES, own).rpartition("/")[2]] * keeps
    lines["@FRAMES@"] = [named(CAMERA_FOLDER, own)] * by_another
    contents = {named(CONFIG, own): _json(document)}
    if service.watchdog_s is not None:
        contents[WATCHDOG] = f"[Manager]\nRuntimeWatchdogSec={service.watchdog_s}\n".encode()
    if by_another:
        unit = CAMERA
        words_of = words | _camera_words(source, profile, accept_raw)
        lines_of = lines | {"@DEVICE@": _camera_devices(source, profile)}
        contents[named(CAMERA_PATH, own)] = _json(
            {"bundle": document["bundle"], "trust": document["trust"], "source": source}
        )
        contents[UNIT_FOLDER + named(unit, own)] = filled(unit, words_of, lines_of, own)
    return contents | {UNIT_FOLDER + named(name, own): filled(name, words, lines, own) for name in UNITS}


def _camera_words(source: str, profile: Profile, accepted: bool) -> dict[str, str]:
    """What is filled into the unit, besides the devices. ``accepted``: raw pictures may cross a network unencrypted.

    Raises ``BadInput`` where they would and ``accepted`` is false.
    """
    if needs_daemon(source):
        own = [getattr(profile.camera, group) for group in fact_of(SOURCES, source, "groups") or ()]
        groups = [profile.camera.group, *own, *([profile.accelerator_group] if profile.accelerator_group else [])]
        return {
            "@ACCEPT@": "",
            "@NAMESPACE@": "yes",
            "@FAMILIES@": "AF_UNIX AF_NETLINK",
            "@TMP@": "yes" if fact_of(SOURCES, source, "apart") else "no",  # nvargus-daemon's socket lies there
            "@SPACES@": "user net",
            "@GROUP@": " ".join(dict.fromkeys(groups)),
        }
    camera_address.check_private(source, accepted)
    return {
        "@ACCEPT@": "" if camera_address.is_private(source) else " --accept-raw-on-network",
        "@NAMESPACE@": "no",
        "@FAMILIES@": "AF_INET AF_INET6 AF_NETLINK",
        "@TMP@": "yes",
        "@SPACES@": "yes",
        "@GROUP@": "",
    }


def _camera_devices(source: str, profile: Profile) -> list[str]:
    """The device files that the unit may open: those of the processor that a camera's daemon shares frames through, or
    those that a helper or a vendor's library opens."""
    if fact_of(SOURCES, source, "apart"):
        return list(fact_of(SOURCES, source, "devices") or ())
    place = profile.accelerator_path
    if not needs_daemon(source) or place is None or not _PLACE.fullmatch(place):
        return []
    return [place, *profile.accelerator_devices]


def _json(settings: Mapping[str, object]) -> bytes:
    return (json.dumps(settings, indent=1, sort_keys=True) + "\n").encode()


def _environment(service: Service) -> list[str]:
    return [f"{name}={value}" for name, value in service.environment.items()]


def _devices(source: str, camera: Camera) -> tuple[tuple[str, ...], list[str]]:
    """The devices that the inside may open for a source, and the groups it needs for them."""
    groups = [getattr(camera, group) for group in fact_of(SOURCES, source, "groups") or ()]
    path = device_file(source)
    if path is not None:
        if not _PLACE.fullmatch(path) or ".." in path:
            raise BadInput(
                f"Expected {' or '.join(fact_of(SOURCES, source, 'forms'))}, or a name below /dev/v4l/by-path or "
                f"by-id, for a unit; got {source!r}."
            )
        return (path,), groups
    if by_another_process(source):
        return (), []
    # DeviceAllow= takes a path, or a class of /proc/devices.
    devices = fact_of(SOURCES, source, "devices")
    kind, _, place = source.partition(":")
    own_unit = fact_of(SOURCES, source, "own_unit")
    if own_unit is not None and re.match(own_unit, place):
        why = f"The units let the inside write no settings of a device, which {source} does"
    elif devices is not None:
        return devices, groups
    elif fact_of(SOURCES, source, "interface"):
        why = f"The units give the inside no network, and {kind}: needs one"
    else:
        why = f"{kind}: names no devices that a unit would have to give the inside (devices of its class)"
    raise BadInput(
        f"{why}: flash with --no-service and have one unit of your own run edgeveil-edge run, which starts the inside "
        "by itself (docs/how-to/run-the-capture-loop.md)."
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
