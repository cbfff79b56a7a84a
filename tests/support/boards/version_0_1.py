"""Version 0.1 of this toolkit, out of the history of this checkout: it flashes boards as it did."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs
from tests.support.checkout import ROOT

COMMIT = "f61a4db6"  # the last one of 0.1
# Run by 0.1: the owner's trust folder, in which a key was revoked, and a bundle of its tests.
MAKE = """
import sys
from pathlib import Path

import bundles, watching
from edge_runtime.trust import public_key_line
from trainer.export.trust_file import TrustFolder
from trainer.export.zipapp import zipapp_bytes

folder, kind = Path(sys.argv[1]), sys.argv[2]
if kind == "watching":
    watching.watching_bundle(folder, "first", capture=watching.OVERHEAD)
else:
    for name, key in (("test", bundles.KEY), ("gone", bundles.STRANGER)):
        (folder / (name + ".pub")).write_text(public_key_line(bundles.trusted(key)).replace(" test", " " + name))
    TrustFolder.init(folder / "root", [folder / "test.pub", folder / "gone.pub"], passphrase="correct horse")
    TrustFolder.open(folder / "root").revoke("gone", passphrase="correct horse")

    def change(manifest, members):
        manifest["name"] = "first"
        everywhere = {"artefacts": [], "backends": []}
        manifest["profiles"] = {"raspberry-pi-cpu": everywhere, "workstation": everywhere}
        members[bundles.RUNTIME_MEMBER] = zipapp_bytes()

    bundles.make_bundle(folder, change=change, name="first.veil")
"""


def login(board: Any, root: str | None = None) -> list[str]:
    """The options of its command line for a board."""
    words = ["--identity", str(board.identity), "--known-hosts", str(board.known_hosts)]
    return words if root is None else [*words, "--root", root]


@dataclass(frozen=True)
class Older:
    """Its packages, in a folder of their own."""

    folder: Path

    def python(self, *words: str) -> str:
        """What a process says that has these packages and no others of ours."""
        path = f"{self.folder}{os.pathsep}{self.folder / 'tests'}"
        environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"}
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def edgeveil(self, *arguments: Any) -> Any:
        """Its command, with --json: the document that it prints."""
        start = "from trainer.cli import main; main()"
        return json.loads(self.python("-c", start, *map(str, arguments), "--json"))

    def owner(self, folder: Path, kind: str = "numpy") -> Path:
        """``folder`` with ``root``, a trust folder, and ``first.veil``; ``watching`` is one for ``simulate:depth``."""
        self.python("-c", MAKE, str(folder), kind)
        return folder


def unpacked(folder: Path) -> Older:
    """It, unpacked to ``folder``; skips where the history of this checkout does not reach so far back."""
    packages = ["trainer", "devices", "models", "edge_runtime", "tests", "docs"]
    command = [programs.need("git"), "-c", f"safe.directory={ROOT}", "archive", COMMIT, *packages]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(
            f"VERSION 0.1 IS NOT IN THIS CHECKOUT: git fetch --unshallow ({done.stderr.decode().strip()[-100:]})"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Older(folder)
