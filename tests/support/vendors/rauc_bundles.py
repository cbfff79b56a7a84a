"""What a fleet that RAUC updates has: a signing key, and RAUC's bundles with a .veil file in them, made by rauc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support import programs

HOOK = '#!/bin/sh\nexec python3 /opt/edgeveil/runtime/current/edgeveil-edge.pyz rauc "$@"\n'
MANIFEST = """
[update]
compatible=board
version=1
[bundle]
format=plain
[hooks]
filename=hook
[image.edgeveil]
filename={}
hooks=install
"""
SYSTEM = """
[system]
compatible=board
bootloader=noop
mountprefix={mounts}
statusfile={folder}/rauc.status
[keyring]
path={folder}/fleet.pem
[slot.system.0]
device={system}
bootname=system0
[slot.edgeveil.0]
device={root}
"""


def fleet_key(folder: Path) -> Path:
    """A new key in ``folder``, ``fleet.key``; returns its certificate, ``fleet.pem``."""
    out = folder / "fleet.pem"
    made = [
        programs.need("openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "9",
        "-subj",
        "/CN=fleet",
    ]
    made += ["-keyout", str(folder / "fleet.key"), "-out", str(out)]
    subprocess.run(made, check=True, capture_output=True)
    return out


def rauc_bundle(folder: Path, veil: Path, hook: str = HOOK) -> Path:
    """RAUC's bundle of ``veil``, signed by the key of ``fleet_key(folder)``; ``hook`` is its script."""
    inside, out = folder / f"rauc-{veil.stem}", folder / f"{veil.stem}.raucb"
    inside.mkdir()
    shutil.copy(veil, inside)
    (inside / "manifest.raucm").write_text(MANIFEST.format(veil.name))
    (inside / "hook").write_text(hook)
    (inside / "hook").chmod(0o755)
    words = [
        programs.need("rauc", "mksquashfs"),
        f"--cert={folder / 'fleet.pem'}",
        f"--key={folder / 'fleet.key'}",
        "bundle",
    ]
    subprocess.run([*words, str(inside), str(out)], check=True, capture_output=True)
    return out
