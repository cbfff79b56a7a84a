"""What makes a service of a board: systemd units, their configuration and their users, as bytes; a pure function."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from devices.profiles import Camera, Service
from edge_runtime import config
from edge_runtime.errors import BadInput

MAIN, INSIDE, RECOVER = "edgeveil.service", "edgeveil-inside.service", "edgeveil-recover.service"
UNITS = [RECOVER, INSIDE, MAIN]
UNIT_FOLDER = "/etc/systemd/system/"
CONFIG = config.DEFAULT_PATH
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
_ROOT = re.compile(r"(/[A-Za-z0-9._-]+)+")
_PLACE = re.compile(r"/dev/[A-Za-z0-9._/-]+")


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
    service: Service | None = None,
    camera: Camera | None = None,
) -> dict[str, bytes]:
    """The service's files by their paths on the board.

    ``root``: where EdgeVeil lies there; ``source``, ``sinks``: as ``edgeveil-edge run`` has them; ``accelerator``: its
    device or ``usb:`` and its numbers, ``service`` and ``camera``: all as the profile has them. Raises ``BadInput``
    where no service can be made of them.
    """
    if not source or not sinks:
        raise BadInput(
            "The service must know what to perturb and where it goes: give --source and --sink, or --no-service."
        )
    if not _ROOT.fullmatch(root):
        raise BadInput(f"Expected a plain path as --root for a service; got {root!r}. Leave it at /opt/edgeveil.")
    service, camera = service or Service(), camera or Camera()
    devices, groups = _devices(source, camera)
    if accelerator is not None and accelerator.startswith("usb:"):
        devices = tuple(dict.fromkeys((*devices, "char-usb_device")))
        groups = " ".join(dict.fromkeys([*groups.split(), camera.usb_group]))
    elif accelerator is not None and _PLACE.fullmatch(accelerator):
        devices = (*devices, accelerator)
    settings = {"bundle": f"{root}/current/bundle.veil", "trust": f"{root}/trust", "source": source}
    document = {**settings, "sink": list(sinks)}
    config.merged({}, {name: config.check(name, value, "as --" + name) for name, value in document.items()})
    words = {"@ROOT@": root, "@USER@": service.user, "@INSIDE@": service.inside_user, "@PYTHON@": service.python}
    made = {UNIT_FOLDER + name: _filled(name, {**words, "@GROUP@": groups}, devices) for name in UNITS}
    made[CONFIG] = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
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
        "your own run edgeveil-edge run, which starts the inside by itself (docs/capture-loop.md)."
    )


def _filled(name: str, words: dict[str, str], devices: Sequence[str]) -> bytes:
    text = (Path(__file__).parent / "units" / name).read_text()
    lines = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue  # they speak of what is filled in here
        if "@DEVICE@" in line:
            lines += [line.replace("@DEVICE@", device) for device in devices]
        elif "@GROUP@" not in line or words["@GROUP@"]:
            for word, value in words.items():
                line = line.replace(word, value)
            lines.append(line)
    return ("\n".join(lines) + "\n").encode()
