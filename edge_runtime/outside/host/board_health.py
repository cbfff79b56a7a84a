"""What a board says of itself beside the service, for /metrics: temperatures, throttling, free space, its release."""

import os
from typing import Dict, Iterator, List, NamedTuple, Optional

ZONES = "/sys/class/thermal"
THROTTLED = "/sys/devices/platform/soc/soc:firmware/get_throttled"  # a Raspberry Pi's kernel: vcgencmd needs a device
PLACES = ("/", os.environ.get("STATE_DIRECTORY", "/var/lib/edgeveil"))  # which systemd names to a service


class Gauge(NamedTuple):
    """One line of /metrics: a name, a value, and its labels."""

    name: str
    value: float
    labels: Dict[str, str]


def board_gauges(release: str) -> Iterator[Gauge]:
    """The gauges of this board, on which ``release`` (a manifest's hash) runs; what it does not say is left out."""
    yield Gauge("release-info", 1.0, {"release": release})
    for name in _names(ZONES):
        kind, value = (_text(os.path.join(ZONES, name, part)) for part in ("type", "temp"))
        if kind and value and value.lstrip("-").isdigit():
            yield Gauge("board-temperature-celsius", int(value) / 1e3, {"zone": kind})
    bits = _hexadecimal(_text(THROTTLED))
    if bits is not None:
        yield Gauge("board-throttled", float(bool(bits & 0xF)), {"since": "now"})
        yield Gauge("board-throttled", float(bool(bits & 0xF0000)), {"since": "boot"})
    seen: List[int] = []
    for place in PLACES:
        try:
            space, device = os.statvfs(place), os.stat(place).st_dev
        except OSError:
            continue
        if device not in seen:
            seen.append(device)
            yield Gauge("disk-free-bytes", float(space.f_bavail * space.f_frsize), {"path": place})


def _names(folder: str) -> List[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith("thermal_zone"))
    except OSError:
        return []


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(200).strip()
    except OSError:  # a sensor that is off says so by an error
        return None


def _hexadecimal(text: Optional[str]) -> Optional[int]:
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None
