"""Facts of boards, one TOML file each: the artefacts that a board runs, its interpreters, and their limits.

``load("jetson-nano")`` reads a profile that ships with EdgeVeil; ``load("my-board.toml")`` reads your own.
"""

from __future__ import annotations

from pathlib import Path

from edgeveil.devices.profiles.profile import (
    ARTEFACTS,
    PAGE,
    Backend,
    Calibration,
    Camera,
    Install,
    OnnxLimits,
    Profile,
    Service,
    TfliteLimits,
    parse,
)
from edgeveil.devices.toml_tables import read_toml
from edgeveil.edge_runtime.errors import BadInput

__all__ = [
    "ARTEFACTS",
    "Backend",
    "Calibration",
    "Camera",
    "Install",
    "OnnxLimits",
    "Profile",
    "Service",
    "TfliteLimits",
    "load",
    "names",
    "parse",
]

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The profiles that ship with EdgeVeil, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load(name_or_path: str | Path) -> Profile:
    """The profile of that name, or in that TOML file. Raises ``BadInput`` if it is missing or invalid."""
    path = Path(name_or_path)
    if str(name_or_path) in names():
        path = _FOLDER / f"{name_or_path}.toml"
    elif path.suffix != ".toml":
        raise BadInput(
            f"there is no profile {str(name_or_path)!r}: choose one of {', '.join(names())}, or name a .toml file."
        )
    return parse(read_toml(path, "profile", PAGE), source=str(path))
