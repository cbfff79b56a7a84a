"""What a vendor's compiler made of an artefact, and its place in a manifest."""

from __future__ import annotations

import copy
import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.device import forms
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.trainer.export.manifest import npy

COMPILE_LIMIT_S = 3600  # a Dataflow Compiler may take an hour
VERSION_LIMIT_S = 60

Key = tuple[str, str]  # a profile's compiler, and the device it compiles for


class NotCompiled(Exception):
    """The end of a sentence that begins with the compiler's name."""


@dataclass
class Compiled:
    """The result of one compiler: ``files`` and ``entries`` by model, and its version ``by``; or ``why`` it failed.

    ``golden`` are its own outputs for the golden input, None where they are those of the ``source``.
    ``left`` are operations that it leaves to the board's processor.
    """

    source: str
    device: str
    why: str = ""
    by: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    golden: dict[str, np.ndarray] | None = None
    left: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The artefact's name."""
        return f"{self.source}-{self.device}"

    def text(self) -> str:
        """For the board's row of the artefact that is compiled."""
        return f"compiled by {self.by} as {self.name}" if self.entries else f"exported uncompiled: {self.why}"


def key_of(profile: Profile) -> Key | None:
    """Which result of ``compile_for`` is for a board; None where nothing is compiled for it."""
    devices = [backend.device for backend in profile.backends if backend.device in forms()]
    return (profile.compiler, devices[0]) if profile.compiler and devices and devices[0] else None


def run_compiler(command: Sequence[str], limit_s: float, *, cwd: Path | None = None) -> str:
    """What a compiler printed. Raises ``NotCompiled`` where it did not end well."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command line, and a program from a profile the user chose
            list(command), capture_output=True, text=True, errors="replace", timeout=limit_s, check=False, cwd=cwd
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCompiled(f"failed ({type(error).__name__})") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise NotCompiled(f"failed ({lines[-1][:300] if lines else f'exit code {done.returncode}'})")
    return done.stdout + done.stderr


def entry_of(source: Mapping[str, Any], data: bytes, device: str, name: str, by: str) -> dict[str, Any]:
    """The manifest's entry of a compiled file: that of its source but for the file."""
    file_format, precision = forms()[device].made
    stem = source["file"].rpartition(".")[0]
    return {
        **copy.deepcopy(dict(source)),
        "file": f"{stem}-{device}.{file_format}",
        "format": file_format,
        "precision": precision,
        "sha256": hashlib.sha256(data).hexdigest(),
        "compiled": {"for": device, "from": name, "sha256": source["sha256"], "by": by},
    }


def add(
    manifest: dict[str, Any], members: dict[str, bytes], profiles: Sequence[Profile], compiled: Mapping[Key, Compiled]
) -> None:
    """Add compiled artefacts to a manifest and its members: last in preference, but first for their own boards."""
    for key, one in compiled.items():
        if not one.entries:
            continue
        for model, entry in one.entries.items():
            manifest["models"][model]["artefacts"][one.name] = entry
            members[entry["file"]] = one.files[model]
        recorded = dict(manifest["golden"]["outputs"][one.source])
        for output, value in (one.golden or {}).items():
            recorded[output] = f"golden/{one.name}.{output}.npy"
            members[recorded[output]] = npy(value)
        manifest["golden"]["outputs"][one.name] = recorded
        manifest["preference"] = [*manifest["preference"], one.name]
        for profile in profiles:
            if key_of(profile) == key:
                facts = manifest["profiles"][profile.name]
                facts["artefacts"] = [one.name, *facts["artefacts"]]
    check_manifest(manifest, sealed=False)
