"""A camera that is not there at boot is waited for without end, not counted as a failure of the service.

systemd grants a unit its device files as it starts: one that comes later needs a new start of the unit. So a process of
a unit waits for the file and then ends, and is started again with the camera in its reach.
"""

import os
import time
from typing import Callable, Optional

POLL_S = 1.0
SAY_AFTER_S = 10.0  # a camera that another process is just letting go of is not absent


def device_file(source: str) -> Optional[str]:
    """The device file of ``camera:0`` or ``camera:/dev/...``; None for a source that is found in another way."""
    kind, _, place = source.partition(":")
    if kind != "camera":
        return None
    return "/dev/video" + place if place.isdigit() else place


def wait_for_file(
    path: str,
    say: Callable[[str], None],
    alive: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until ``path`` is there; returns at once, with False, where it is.

    ``say`` gets one sentence after ``SAY_AFTER_S``; ``alive`` is called every ``POLL_S``.
    """
    if os.path.exists(path):
        return False
    began, said = clock(), False
    while not os.path.exists(path):
        alive()
        if not said and clock() - began >= SAY_AFTER_S:
            said = True
            say("there is no {} here; the service waits for it and begins when it is plugged in".format(path))
        sleep(POLL_S)
    return True
