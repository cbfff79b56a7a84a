"""Which packages of the workstation's lock have no wheel for a platform, by what the package index says today.

uv resolves for platforms that it does not run on, and downloads no wheel. It compares no hashes then; pip does, when it
installs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from edgeveil.edge_runtime.errors import DeviceFailed
from scripts.record import ROOT

LOCK = ROOT / "requirements/workstation.txt"
PYTHONS = ("3.11", "3.12", "3.13")
# uv's name of each platform, and the oldest system that is meant by it.
PLATFORMS = {
    "x86_64-manylinux_2_28": "Linux on x86-64, glibc 2.28",
    "aarch64-manylinux_2_28": "Linux on aarch64, glibc 2.28",
    "aarch64-apple-darwin": "macOS 14 on Apple silicon",
    "x86_64-apple-darwin": "macOS 14 on Intel",
}
MUST = tuple(name for name in PLATFORMS if "linux" in name)
UV = Path(sys.executable).with_name("uv")
NO_WHEEL = re.compile(r"([\w.-]+)(?:\{[^}]*\})?==(\S+) has no (?:usable )?wheels")  # its markers may follow the name


def locked(text: str) -> dict[str, str]:
    """The lines of each package of a lock, by its name and version: ``numpy==2.4.6``."""
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)
    return {re.split(r"[\s;]", block, maxsplit=1)[0]: block for block in blocks if block.strip()}


def asked(lock: str, python: str, platform: str) -> tuple[int, str]:
    """How many packages uv would install from that text of a lock, and what it says. Nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(UV), "pip", "install", "--dry-run", "--target", folder, "--no-config", "--no-deps"]
        command += ["--only-binary", ":all:", "--requirement", "-"]
        command += ["--python-version", python, "--python-platform", platform, "--color", "never"]
        environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0"}
        done = subprocess.run(command, input=lock, env=environment, capture_output=True, text=True, check=False)
    message = " ".join(done.stderr.split())
    return (len(re.findall(r" \+ \S+==", done.stderr)) if done.returncode == 0 else 0), message


def wheels(lock: str, python: str, platform: str) -> dict[str, object]:
    """``packages`` that have a wheel there, and those ``without`` one. Raises ``DeviceFailed`` if uv says else."""
    blocks, without = locked(lock), []
    while True:
        count, message = asked("".join(blocks.values()), python, platform)
        if count:
            return {"python": python, "platform": platform, "packages": count, "without": without}
        match = NO_WHEEL.search(message)
        if match is None or f"{match[1]}=={match[2]}" not in blocks:
            raise DeviceFailed(f"uv was expected to say which package has no wheel for {platform}; it said: {message}")
        without.append(f"{match[1]}=={match[2]}")
        del blocks[without[-1]]
