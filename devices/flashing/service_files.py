"""What makes a service of a board: systemd units, their configuration and their users, as bytes; a pure function."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeveil.devices.flashing.records import Facts
from edgeveil.devices.profiles import Camera, Service
from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.device import CPU, hears_of_usb
from edgeveil.edge_runtime.errors import BadInput

MAIN, INSIDE, RECOVER = "edgeveil.service", "edgeveil-inside.service", "edgeveil-recover.service"
UNITS = [RECOVER, INSIDE, MAIN]
UPDATE, TIMER = "edgeveil-update.service", "edgeveil-update.timer"
UNIT_FOLDER = "/etc/systemd/system/"
CONFIG = config.DEFAULT_PATH
INIT = "/etc/init.d/edgeveil"
CRON_UPDATE = "/etc/cron.d/edgeveil-update"
# Where a system without systemd looks at boot; update-rc.d is a command of its own.
_AT_BOOT = {
    "cron": ("/etc/cron.d/edgeveil", f"@reboot root {INIT} start\n"),
    "rcS": ("/etc/init.d/S99edgeveil", f'#!/bin/sh\nexec {INIT} "$1"\n'),
}
_ADD = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]

# kind of source: the devices it opens, and the groups that may. DeviceAllow= takes a path, or a class of /proc/devices.
_DEVICES = {
    "libcamera": (("char-video4linux", "char-media", "char-dma_heap"), "{0.group}"),
    "gst": (("char-video4linux",), "{0.group}"),
    "kinect": (("char-usb_device",), "{0.usb_group}"),
    "openni": (("char-usb_device",), "{0.usb_group}"),
    "realsense": (("char-usb_device", "char-video4linux"), "{0.usb_group} {0.group}"),
}
_NO_DEVICE = ("simulate", "csv", "arff", "npz", "images", "video")
_UPDATES = re.compile(r"https?://[A-Za-z0-9._~:/\[\]-]+|dir:/[A-Za-z0-9._/-]+")
_ROOT = re.compile(r"(/[A-Za-z0-9._-]+)+")
_PLACE = re.compile(r"/dev/[A-Za-z0-9._/-]+")


def enabling(files: Mapping[str, bytes]) -> list[list[str]]:
    """The commands that have these files of a service be started at boot."""
    units = [name for name in UNITS if UNIT_FOLDER + name in files]
    timer = [["systemctl", "enable", "--now", TIMER]] if UNIT_FOLDER + TIMER in files else []
    if units or timer:
        return [["systemctl", "daemon-reload"], *([["systemctl", "enable", *units]] if units else []), *timer]
    if INIT not in files or any(path in files for path, _ in _AT_BOOT.values()):
        return []
    # Where there is neither, this finds nothing to do it with, and the plan has said so.
    return [["sh", "-c", "! test -e /etc/inittab || ! command -v update-rc.d || update-rc.d edgeveil defaults"]]


def executable(path: str) -> bool:
    """Whether a file of the service is a program."""
    return path.startswith("/etc/init.d/")


def updates_itself(facts: Facts) -> bool:
    """Whether what looks for newer releases is on this board already."""
    there = facts.edgeveil.service_files if facts.edgeveil else {}
    return UNIT_FOLDER + UPDATE in there


def update_files(
    root: str,
    place: str,
    *,
    python: str = "/usr/bin/python3",
    systemd: bool = True,
    starter: str | None = None,
    device: str = CPU,
) -> dict[str, bytes]:
    """What looks for a newer release at ``place`` every six hours, by its path on the board: a timer, or cron's line.

    ``device``: what a release is tried on. Raises ``BadInput`` where ``place`` is none, or where nothing on the board
    starts programs at times.
    """
    if not _UPDATES.fullmatch(place):
        raise BadInput(f"Expected https://HOST/FOLDER or dir:/FOLDER as --update-from; got {place!r}.")
    words = {"@ROOT@": root, "@PYTHON@": python, "@FROM@": place, "@PRIVATE@": "yes" if device == CPU else "no"}
    if systemd:
        return {UNIT_FOLDER + name: _filled(name, words, ()) for name in (UPDATE, TIMER)}
    if starter != "cron":
        raise BadInput(
            "Updates need systemd or cron on the board; leave --update-from out, or start one of them there."
        )
    # No two boards of a fleet at the same second: cron has no random delay, a board's name is as good.
    command = f"{python} {root}/current/edgeveil-edge.pyz update --root {root} --from {place}"
    line = f"17 */6 * * * root sleep $(hostname | cksum | cut -c1-3); {command} 2>&1 | logger -t edgeveil\n"
    return {CRON_UPDATE: line.encode()}


def users(service: Service) -> dict[str, list[str]]:
    """The commands that make the service's users; one after the other: the second is of the first one's group."""
    return {
        service.user: [*_ADD, "--user-group", service.user],
        service.inside_user: [*_ADD, "-g", service.user, service.inside_user],
    }


def files(
    root: str,
    source: str | None,
    sinks: Sequence[str],
    accelerator: str | None = None,
    *,
    device: str = CPU,
    accelerator_devices: Sequence[str] = (),
    accelerator_group: str | None = None,
    service: Service | None = None,
    camera: Camera | None = None,
    systemd: bool = True,
    starter: str | None = None,  # noqa: ARG001
) -> dict[str, bytes]:
    """The service's files by their paths on the board.

    ``root``: where EdgeVeil lies there; ``source``, ``sinks``, ``device``: as ``edgeveil-edge run`` has them;
    ``accelerator``: its device file or ``usb:`` and its numbers, ``accelerator_devices``: what else is opened for it,
    ``accelerator_group``, ``service`` and ``camera``: all as the profile has them, for a ``device`` that is not the
    processor. Without ``systemd`` an
    init script that keeps the service, and what has ``starter`` start it at boot. Raises ``BadInput`` where no service
    can be made of them.
    """
    if not source or not sinks:
        raise BadInput(
            "The service must know what to perturb and where it goes: give --source and --sink, or --no-service."
        )
    if not _ROOT.fullmatch(root):
        raise BadInput(f"Expected a plain path as --root for a service; got {root!r}. Leave it at /opt/edgeveil.")
    service, camera = service or Service(), camera or Camera()
    devices, groups = _devices(source, camera)
    if device == CPU:
        accelerator, accelerator_devices = None, ()
    if accelerator is not None and accelerator.startswith("usb:"):
        devices = tuple(dict.fromkeys((*devices, "char-usb_device")))
        groups = " ".join(dict.fromkeys([*groups.split(), camera.usb_group]))
    elif accelerator is not None and _PLACE.fullmatch(accelerator):
        devices = tuple(dict.fromkeys((*devices, accelerator, *accelerator_devices)))
        groups = " ".join(dict.fromkeys([*groups.split(), *([accelerator_group] if accelerator_group else [])]))
    settings = {"bundle": f"{root}/current/bundle.veil", "trust": f"{root}/trust", "source": source}
    document = {**settings, "sink": list(sinks)}
    if device != CPU:
        document["device"] = device  # left out otherwise: the runtime of an older release does not know the word
    config.merged({}, {name: config.check(name, value, "as --" + name) for name, value in document.items()})
    words = {"@ROOT@": root, "@USER@": service.user, "@INSIDE@": service.inside_user, "@PYTHON@": service.python}
    words["@NAMESPACE@"] = "no" if hears_of_usb(device) else "yes"
    made = {CONFIG: (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()}
    if systemd:
        return made | {UNIT_FOLDER + name: _filled(name, {**words, "@GROUP@": groups}, devices) for name in UNITS}
    return made


def _devices(source: str, camera: Camera) -> tuple[tuple[str, ...], str]:
    """What the inside may open for a source, and its groups."""
    kind, _, place = source.partition(":")
    if kind == "camera":
        path = f"/dev/video{place}" if place.isdigit() else place
        if not _PLACE.fullmatch(path) or ".." in path:
            raise BadInput(f"Expected camera:0 or camera:/dev/video0; got {source!r}.")
        return (path,), camera.group
    if kind in _DEVICES:
        devices, groups = _DEVICES[kind]
        return devices, groups.format(camera)
    if kind in _NO_DEVICE:
        return (), ""
    raise BadInput(
        f"The units give the inside no network, and {kind}: needs one: flash with --no-service and have one unit of "
        "your own run edgeveil-edge run, which starts the inside by itself (docs/how-to/run-the-capture-loop.md)."
    )


def _filled(name: str, words: dict[str, str], devices: Sequence[str]) -> bytes:
    text = (Path(__file__).parent / "units" / name).read_text()
    lines = []
    for line in text.splitlines():
        if line.startswith("#") and name.endswith((".service", ".timer")):
            continue  # they speak of what is filled in here
        if "@DEVICE@" in line:
            lines += [line.replace("@DEVICE@", device) for device in devices]
        elif "@GROUP@" not in line or words.get("@GROUP@"):
            for word, value in words.items():
                line = line.replace(word, value)
            lines.append(line)
    return ("\n".join(lines) + "\n").encode()


# Run by the board's Python as root where there is no useradd: the group's name and the user's.
ACCOUNTS = """
import fcntl, grp, pwd, shutil, subprocess, sys
group, user = sys.argv[1:]
names = [entry.gr_name for entry in grp.getgrall()]
if shutil.which("adduser") and shutil.which("busybox"):
    if group not in names:
        subprocess.check_call(["addgroup", "-S", group])
    command = ["adduser", "-S", "-D", "-H", "-h", "/nonexistent", "-s", "/sbin/nologin", "-G", group, user]
    sys.exit(subprocess.call(command))

def free(taken):
    return next(number for number in range(998, 100, -1) if number not in taken)

def add(path, line):
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line)

if group not in names:
    add("/etc/group", "%s:x:%d:\\n" % (group, free([entry.gr_gid for entry in grp.getgrall()])))
number = free([entry.pw_uid for entry in pwd.getpwall()])
add("/etc/shadow", "%s:!*:19000::::::\\n" % user)
add("/etc/passwd", "%s:x:%d:%d::/nonexistent:/usr/sbin/nologin\\n" % (user, number, grp.getgrnam(group).gr_gid))
"""
