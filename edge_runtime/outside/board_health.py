"""What a board says of itself next to the service, for /metrics: temperatures, throttling, free space, its release."""

import contextlib
import os
import signal
import socket
import threading
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from edgeveil.edge_runtime.machine import clock_synchronised, pi_throttled

ZONES = "/sys/class/thermal"
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
    synchronised = clock_synchronised()
    if synchronised is not None:
        yield Gauge("clock-synchronised", float(synchronised), {})
    throttled = pi_throttled()  # vcgencmd needs a device
    if throttled is not None:
        yield Gauge("board-throttled", float(bool(throttled.bits & 0xF)), {"since": "now"})
        if throttled.boot:
            yield Gauge("board-throttled", float(bool(throttled.bits & 0xF0000)), {"since": "boot"})
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


# sd_notify in Python: reports the service's state to systemd, by a datagram to the socket in NOTIFY_SOCKET.


class Notifier(object):
    """Does nothing without a service manager. ``interval_s`` is how often systemd wants a heartbeat, or None."""

    def __init__(self, environment: Optional[Mapping[str, str]] = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        self._last = 0.0
        limit = environment.get("WATCHDOG_USEC", "")
        ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Half of what it allows, as systemd's own page advises.
        self.interval_s = int(limit) / 2e6 if limit.isdigit() and ours and int(limit) > 0 else None

    def say(self, *lines: str) -> None:
        """Send ``READY=1``, ``STOPPING=1``, ``STATUS=...``; a closed socket is ignored."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messenger, contextlib.suppress(OSError):
            messenger.sendto("\n".join(lines).encode("utf-8"), self._address)

    def alive(self, now_s: float) -> None:
        """Send a heartbeat if one is due; ``now_s`` is of a monotonic clock."""
        if self.interval_s is not None and now_s - self._last >= self.interval_s:
            self._last = now_s
            self.say("WATCHDOG=1")


# What a service manager learns of a service, and when: systemd, by ``sd_notify``.


ASK_S = 10.0  # how often a manager is asked for more time to open


class Manager(object):
    """Told of a service that may take ``open_limit_s`` from ``started_s`` on to open, on a monotonic clock."""

    def __init__(self, started_s: float, open_limit_s: float) -> None:
        self._notifier = Notifier()
        self._open_until_s, self._asked_s = started_s + open_limit_s, started_s
        self._ready = False

    def alive(self, now_s: float) -> None:
        """A heartbeat, and while the service is not ready, now and then a word that it needs longer."""
        self._notifier.alive(now_s)
        if not self._ready and now_s < self._open_until_s and now_s >= self._asked_s + ASK_S:
            # Opening may take longer than the unit's TimeoutStartSec: TensorRT builds an engine.
            self._asked_s = now_s
            self._notifier.say("EXTEND_TIMEOUT_USEC={:d}".format(int(4 * ASK_S * 1e6)), "STATUS=opening the bundle")

    def ready(self, status: str) -> None:
        """The service does its work, or what it can; said once."""
        if not self._ready:
            self._ready = True
            self._notifier.say("READY=1", "STATUS=" + status)

    def reloading(self, now_s: float) -> None:
        """A reload begins."""
        self._notifier.say("RELOADING=1", "MONOTONIC_USEC={}".format(int(now_s * 1e6)))

    def reloaded(self) -> None:
        """It has ended, with the new bundle or the old one."""
        self._notifier.say("READY=1")

    def stopping(self) -> None:
        """The service finishes its work."""
        self._notifier.say("STOPPING=1")


# SIGTERM, SIGINT and SIGHUP as events of a loop that waits on descriptors.


class Signals(object):
    """While entered, signals go to the list ``came``; ``handle`` becomes readable when one comes."""

    def __init__(self) -> None:
        self.came: List[int] = []
        self.handle, self._wake = os.pipe()
        self._old: Dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                self._old[number] = signal.signal(number, self._mark)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        os.close(self.handle)
        os.close(self._wake)

    def _mark(self, number: int, _frame: Any) -> None:
        self.came.append(number)
        os.write(self._wake, b"!")
