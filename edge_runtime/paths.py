"""Paths on a board, and the path of this code."""

import os
from typing import Optional

ROOT = "/opt/edgeveil"
SYSTEMD = "/run/systemd/system"
DEFAULT_PATH = "/etc/edgeveil/edge.json"
CAMERA_PATH = "/etc/edgeveil/camera.json"  # its address with credentials, for the process that fetches alone
ENGINES = "/var/cache/edgeveil-engines"  # CacheDirectory= of the inside's unit
LEDGER = "/var/lib/edgeveil/ledger"


def zipapp() -> Optional[str]:
    """The zipapp that this code was loaded from; None where it was loaded from a folder."""
    path = os.path.abspath(__file__)
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        if os.path.isfile(path):
            return path
    return None
