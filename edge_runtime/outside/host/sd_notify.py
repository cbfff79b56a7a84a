"""sd_notify in Python: reports the service's state to systemd, by a datagram to the socket in NOTIFY_SOCKET."""

import os
import socket
from typing import Mapping, Optional


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
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messenger:
            try:
                messenger.sendto("\n".join(lines).encode("utf-8"), self._address)
            except OSError:
                pass

    def alive(self, now_s: float) -> None:
        """Send a heartbeat if one is due; ``now_s`` is of a monotonic clock."""
        if self.interval_s is not None and now_s - self._last >= self.interval_s:
            self._last = now_s
            self.say("WATCHDOG=1")
