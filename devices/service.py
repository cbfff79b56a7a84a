"""What makes a service of a board: systemd units, their configuration and their users, as bytes; a pure function."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from edge_runtime import config
from edge_runtime.errors import BadInput

MAIN, INSIDE, RECOVER = "edgeveil.service", "edgeveil-inside.service", "edgeveil-recover.service"
UNITS = [RECOVER, INSIDE, MAIN]
UNIT_FOLDER = "/etc/systemd/system/"
CONFIG = config.DEFAULT_PATH
GROUP = "edgeveil"
_ADD = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
# One after the other: the second is of the first one's group.
USERS = {"edgeveil": [*_ADD, "--user-group", "edgeveil"], "edgeveil-inside": [*_ADD, "-g", GROUP, "edgeveil-inside"]}

# kind of source: the devices it opens, and the groups that may. DeviceAllow= takes a path, or a class of /proc/devices.
_DEVICES = {
    "libcamera": (("char-video4linux", "char-media", "char-dma_heap"), "video"),
    "gst": (("char-video4linux",), "video"),
    "kinect": (("char-usb_device",), "plugdev"),
    "openni": (("char-usb_device",), "plugdev"),
    "realsense": (("char-usb_device", "char-video4linux"), "plugdev video"),
}
_NO_DEVICE = ("simulate", "csv", "arff", "npz", "images", "video")
_ROOT = re.compile(r"(/[A-Za-z0-9._-]+)+")
_PLACE = re.compile(r"/dev/[A-Za-z0-9._/-]+")


def files(root: str, source: str | None, sinks: Sequence[str], accelerator: str | None = None) -> dict[str, bytes]:
    """The service's files by their paths on the board.

    ``root``: where EdgeVeil lies there; ``source``, ``sinks``: as ``edgeveil-edge run`` has them; ``accelerator``: its
    device, as the profile names it. Raises ``BadInput`` where no service can be made of them.
    """
    if not source or not sinks:
        raise BadInput(
            "The service must know what to perturb and where it goes: give --source and --sink, or --no-service."
        )
    if not _ROOT.fullmatch(root):
        raise BadInput(f"Expected a plain path as --root for a service; got {root!r}. Leave it at /opt/edgeveil.")
    devices, group = _devices(source)
    if accelerator is not None and _PLACE.fullmatch(accelerator):
        devices = (*devices, accelerator)
    settings = {"bundle": f"{root}/current/bundle.veil", "trust": f"{root}/trust", "source": source}
    document = {**settings, "sink": list(sinks)}
    config.merged({}, {name: config.check(name, value, "as --" + name) for name, value in document.items()})
    made = {UNIT_FOLDER + name: _filled(name, root, devices, group) for name in UNITS}
    made[CONFIG] = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    return made


def _devices(source: str) -> tuple[tuple[str, ...], str]:
    """What the inside may open for a source, and its groups."""
    kind, _, place = source.partition(":")
    if kind == "camera":
        path = f"/dev/video{place}" if place.isdigit() else place
        if not _PLACE.fullmatch(path) or ".." in path:
            raise BadInput(f"Expected camera:0 or camera:/dev/video0; got {source!r}.")
        return (path,), "video"
    if kind in _DEVICES:
        return _DEVICES[kind]
    if kind in _NO_DEVICE:
        return (), ""
    raise BadInput(
        f"The units give the inside no network, and {kind}: needs one: flash with --no-service and have one unit of "
        "your own run edgeveil-edge run, which starts the inside by itself (docs/capture-loop.md)."
    )


def _filled(name: str, root: str, devices: Sequence[str], group: str) -> bytes:
    text = (Path(__file__).parent / "units" / name).read_text()
    lines = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue  # they speak of what is filled in here
        if "@DEVICE@" in line:
            lines += [line.replace("@DEVICE@", device) for device in devices]
        elif "@GROUP@" not in line or group:
            lines.append(line.replace("@GROUP@", group).replace("@ROOT@", root))
    return ("\n".join(lines) + "\n").encode()
