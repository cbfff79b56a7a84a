"""Wheels for boards with an old pip or no network: collected, unpacked and hashed on the workstation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeveil.devices.flashing.records import Wheels
from edgeveil.devices.profiles import Install, Profile
from edgeveil.devices.transports.base import digest
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.storage.atomic import write_atomic

SITE_FILE, ARCHIVE = "site.json", "site.zip"
_PLATFORMS = {
    "aarch64": ("manylinux_2_{}_aarch64", "manylinux2014_aarch64", "linux_aarch64"),
    "armv7l": ("manylinux_2_{}_armv7l", "manylinux2014_armv7l", "linux_armv7l"),
    "x86_64": ("manylinux_2_{}_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64"),
}
_WHEEL = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)-(?:\d[^-]*-)?[^-]+-[^-]+-(?P<platform>[^-]+)\.whl")


def collect(
    profile: Profile,
    out: Path,
    requirements: Sequence[str] = (),
    *,
    python: str | None = None,
    find_links: Path | None = None,
    pins: Sequence[str] = (),
) -> Wheels:
    """Get wheels for the profile's board into the folder ``out``: those of its recipe, or of ``requirements``.

    pip chooses them for the board's Python (``python``: another one of the profile's), processor and C library; what
    they depend on is not followed, so that nothing rides along: name all that is needed. ``find_links``: a folder of
    wheels that only a vendor offers, and ``pins``, the SHA-256 of each that may be taken from there. Writes
    ``site.zip``, all of them unpacked, and ``site.json`` with each wheel's hash. Raises ``BadInput`` where there is no
    such wheel, or one of a folder without its pin.
    """
    recipe = profile.recipe(python) if not requirements else Install(python=python or profile.python)
    requirements = requirements or recipe.packages
    if out.exists() and any(out.iterdir()):
        raise BadInput(f"{out} exists and is not empty. Name a new folder.")
    with tempfile.TemporaryDirectory() as folder:
        _download(profile, recipe, Path(folder), requirements, find_links)
        wheels = sorted(Path(folder).glob("*.whl"))
        if find_links is not None:
            _check_pins(wheels, pins)
        archive = _pack(wheels, Path(folder) / ARCHIVE)
        out.mkdir(parents=True, exist_ok=True)
        document = {
            "schema": 1,
            "name": f"site-{digest(archive)[:16]}",
            "architecture": profile.architecture,
            "python": recipe.python,
            "glibc": _glibc(wheels),
            "interpreters": dict(_name_and_version(wheel) for wheel in wheels),
            "sha256": digest(archive),
            "wheels": {wheel.name: digest(wheel.read_bytes()) for wheel in wheels},
        }
        write_atomic(str(out / ARCHIVE), archive)
        write_atomic(str(out / SITE_FILE), (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
    return open_wheels(out)


def open_wheels(folder: Path) -> Wheels:
    """What ``collect`` made, its archive included. Raises ``BadInput`` where the two files do not go together."""
    try:
        document = json.loads((folder / SITE_FILE).read_text())
        archive = (folder / ARCHIVE).read_bytes()
        names = ("name", "architecture", "python", "interpreters", "glibc")
        wheels = Wheels(size=len(archive), archive=archive, **{name: document[name] for name in names})
        whole = document["sha256"] == digest(archive)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"Expected wheels of `edgeveil wheels` in {folder}: {error}. Collect them first.") from None
    if not whole:
        raise BadInput(f"{folder / ARCHIVE} is not what {SITE_FILE} says. Collect the wheels again.")
    return wheels


def _check_pins(wheels: list[Path], pins: Sequence[str]) -> None:
    """A wheel that comes from no index is taken by its SHA-256 alone, which the user compares with its vendor's."""
    for wheel in wheels:
        found = digest(wheel.read_bytes())
        if found not in {pin.lower() for pin in pins}:
            raise BadInput(
                f"{wheel.name} has the SHA-256 {found}: compare that with its vendor's, then give --pin {found}."
            )


def _download(
    profile: Profile, recipe: Install, folder: Path, requirements: Sequence[str], find_links: Path | None
) -> None:
    newest = int(recipe.glibc.split(".")[1]) if recipe.glibc else _newest_glibc(profile.system)
    platforms = []
    for pattern in _PLATFORMS[profile.architecture]:
        minors = range(newest, 4, -1) if "{}" in pattern else [0]
        platforms += [pattern.format(minor) for minor in minors]
    tag = "cp" + recipe.python.replace(".", "")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    command += ["--only-binary=:all:", "--no-deps", "--implementation", "cp", "--python-version", recipe.python]
    for abi in (tag, tag + "m", "abi3", "none"):
        command += ["--abi", abi]
    for platform in platforms:
        command += ["--platform", platform]
    if find_links is not None:
        command += ["--no-index", "--find-links", str(find_links)]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)  # noqa: S603 - pip, and words of ours
    if done.returncode:
        problem = [line for line in done.stderr.splitlines() if "ERROR" in line][-1:] or ["pip failed"]
        raise BadInput(
            f"There is no wheel for {profile.name} (Python {recipe.python}, {profile.architecture}): {problem[0]}. "
            "What only a vendor offers goes into a folder that --find-links names."
        )


def _newest_glibc(system: str) -> int:
    found = re.search(r"glibc 2\.(\d+)", system)
    if not found:
        raise DeviceFailed(f"The profile does not say its C library's version ({system}); it must, as 'glibc 2.31'.")
    return int(found.group(1))


def _pack(wheels: list[Path], place: Path) -> bytes:
    """All wheels' files in one archive, sorted, stored and undated: the same wheels give the same bytes."""
    contents: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            for name in opened.namelist():
                if not name.endswith("/"):
                    contents[_unpacked_path(name)] = opened.read(name)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, contents[name])
    return place.read_bytes()


def _unpacked_path(name: str) -> str:
    """Where a wheel's file goes: what is below ``*.data/purelib`` or ``platlib`` belongs beside the packages."""
    parts = name.split("/")
    if parts[0].endswith(".data") and len(parts) > 2:
        return "/".join(parts[2:])
    if name.startswith("/") or ".." in parts:
        raise BadInput(f"A wheel holds the path {name}, which leads out of it. Do not use that wheel.")
    return name


def _name_and_version(wheel: Path) -> tuple[str, str]:
    match = _WHEEL.fullmatch(wheel.name)
    if match is None:
        raise BadInput(f"{wheel.name} is not named as a wheel is.")
    return match["name"].replace("_", "-").lower(), match["version"]


def _glibc(wheels: list[Path]) -> str | None:
    """The least C library that all of them run on, as their names say."""
    needed: list[Any] = []
    for wheel in wheels:
        match = _WHEEL.fullmatch(wheel.name)
        minors = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", match["platform"])] if match else []
        minors += [17] if match and "manylinux2014" in match["platform"] else []
        if minors:
            needed.append(min(minors))
    return f"2.{max(needed)}" if needed else None
