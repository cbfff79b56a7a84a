"""Statements of publications as publication.json has them, with invented numbers."""

import json
from pathlib import Path
from typing import Any


def _read(name: str) -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_suffix(".json").read_bytes())[name])


def table() -> dict[str, Any]:
    """Of ``edgeveil publish table``."""
    return _read("table")


def archive() -> dict[str, Any]:
    """Of recordings."""
    return _read("archive")
