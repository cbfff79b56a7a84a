"""Paths on a board, and the path of this code.

Those of the first service are written out here. One more on the same board has its own folder, ``/opt/edgeveil-NAME``;
its units, users and paths are called by that name wherever the first one's are called ``edgeveil`` (``named``).
"""

import os
import re
from typing import Optional

ROOT = "/opt/edgeveil"
SYSTEMD = "/run/systemd/system"
UNITS = "/etc/systemd/system"
DEFAULT_PATH = "/etc/edgeveil/edge.json"
CAMERA_PATH = "/etc/edgeveil/camera.json"  # its address with credentials, for the process that fetches alone
ENGINES = "/var/cache/edgeveil-engines"  # CacheDirectory= of the inside's unit
LEDGER = "/var/lib/edgeveil/ledger"
FIRST = "edgeveil"
_ANOTHER = re.compile(r"edgeveil-(?!(?:camera|edge|engines|inside|recover|update|watchdog)$)[a-z][a-z0-9]{0,11}")


def service_of(root: str) -> str:
    """The name of the service with this folder: ``edgeveil-hall`` of ``/opt/edgeveil-hall``, else ``edgeveil``."""
    name = root.rstrip("/").rpartition("/")[2]
    return name if _ANOTHER.fullmatch(name) else FIRST


def is_service(name: str) -> bool:
    """Whether a service of a board can have this name."""
    return name == FIRST or _ANOTHER.fullmatch(name) is not None


def named(text: str, service: str) -> str:
    """A path, a user or a unit's text of the first service, as ``service`` has it."""
    return re.sub("edgeveil(?!-edge)", service, text)


def zipapp() -> Optional[str]:
    """The zipapp that this code was loaded from; None where it was loaded from a folder."""
    path = os.path.abspath(__file__)
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        if os.path.isfile(path):
            return path
    return None
