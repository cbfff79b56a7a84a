"""Reports as boards make them."""

from __future__ import annotations

from typing import Any

from edgeveil.edge_runtime.outside.report import report_form as form
from edgeveil.edge_runtime.signing.device_key import DeviceKey

NOW = 1_800_000_000


def document(**changed: Any) -> dict[str, Any]:
    """What a healthy board says."""
    found: dict[str, Any] = {
        "schema": 1,
        "board": "hall-1",
        "number": 1,
        "time_s": NOW,
        "unsent": 0,
        "release": {"sha256": "ab" * 32, "name": "hall", "security_version": 3},
        "floor": 3,
        "runtime": "cd" * 32,
        "index_age_s": 3 * 86400,
        "update": {"outcome": "nothing-new", "reason": "", "at_s": NOW},
        "health": {
            "service": "active",
            "ready": True,
            "temperature_c": 48,
            "throttled": False,
            "disk_free_mb": 1200,
        },
    }
    return {**found, **changed}


def report(key: DeviceKey, **changed: Any) -> bytes:
    """A report that ``key`` signed."""
    return form.sealed(document(**changed), key)
