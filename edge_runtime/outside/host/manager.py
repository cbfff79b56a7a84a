"""What a service manager is told of a service, and when: systemd, by ``sd_notify``."""

from edgeveil.edge_runtime.outside.host.sd_notify import Notifier

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
