"""A board that runs a release, and what an updater may bring to it."""

import shutil
import sys
from types import SimpleNamespace

import pytest

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.releases.runtimes import open_releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles
from tests.support.checkout import ROOT


@pytest.fixture(scope="session")
def veils(tmp_path_factory):
    """The owner's ``trust``, the good bundles ``first`` and ``second``, and ``spoilt``, which fails its trial."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase="correct horse")  # noqa: S106
    runtime = zipapp_bytes()

    def bundle(name, spoil=False):
        def change(manifest, members):
            manifest["name"] = name
            members["runtime/edgeveil-edge.pyz"] = runtime
            if spoil:
                golden = next(iter(manifest["golden"]["outputs"]["numpy"].values()))
                members[golden] = members[golden][:-1] + bytes([members[golden][-1] ^ 0x7F])

        return bundles.make_bundle(folder, change=change, name=f"{name}.veil").path

    return SimpleNamespace(
        trust=folder / "root", first=bundle("first"), second=bundle("second"), spoilt=bundle("spoilt", spoil=True)
    )


class Board:
    """A folder of releases as a board's; it runs ``first``."""

    def __init__(self, root):
        self.root = root

    @property
    def runs(self):
        """The name of the committed release."""
        releases = open_releases(str(self.root))
        return releases.read(releases.state().committed).manifest.name

    def script(self, path, command):
        """An executable that calls ``edgeveil-edge COMMAND`` of this checkout for this board, as an updater does."""
        runtime = f"PYTHONPATH={ROOT / '.venv/src'} {sys.executable} -m edgeveil.edge_runtime"
        path.write_text(f'#!/bin/sh\nexec env {runtime} {command} "$@" --root {self.root}\n')
        path.chmod(0o755)
        return path


@pytest.fixture(scope="session")
def new(veils, tmp_path_factory):
    """A ``Board`` to copy."""
    root = tmp_path_factory.mktemp("new") / "edgeveil-hall"
    (root / "trust").mkdir(parents=True)
    for name in ("root.pub", "trust.json"):
        shutil.copy(veils.trust / name, root / "trust")
    assert main(["install", str(veils.first), "--root", str(root), "--frames", "3"]) == 0
    return Board(root)


@pytest.fixture
def board(tmp_path, new):
    """A ``Board`` of the test's own."""
    return Board(shutil.copytree(new.root, tmp_path / "edgeveil-hall", symlinks=True))
