"""The time that this machine is up: a clock that nobody can set."""

import time
from typing import Tuple

_BOOT_ID, _CLOCK_BOOTTIME = "/proc/sys/kernel/random/boot_id", 7  # which Python 3.6 has no name for


def up_s() -> float:
    """Seconds since this start of the machine; sleep counts too."""
    return time.clock_gettime(_CLOCK_BOOTTIME)


def uptime() -> Tuple[str, int]:
    """An identifier of this start of the machine, empty where there is none, and whole seconds since."""
    try:
        with open(_BOOT_ID) as file:
            boot = file.read(64).strip()
    except OSError:
        boot = ""
    return boot, int(up_s())
