"""``edgeveil-edge mender STATE FOLDER``: Mender's update module (protocol 3) for bundles.

Mender brings the file and asks for each step; the bundle is verified, tried and committed by ``install``, as from
anywhere else: Mender's server cannot make a board run what its own trust does not take.
"""

import argparse
import os
import subprocess
import sys
from typing import Any

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.cli import options
from edgeveil.edge_runtime.cli.releases import install_bundle, roll_back
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.storage.atomic import write_atomic

_ANSWERS = {"SupportsRollback": "Yes", "NeedsArtifactReboot": "No"}
_BEFORE = "committed-before"


def add_commands(commands: Any) -> None:
    """Add it to the parser of ``edgeveil-edge``."""
    mender = options.add_command(
        commands,
        "mender",
        _mender,
        "a step of Mender's update module; called by /usr/share/mender/modules/v3/edgeveil",
        "edgeveil-edge mender ArtifactInstall /var/lib/mender/modules/v3/payloads/0000/tree",
    )
    mender.add_argument("state", metavar="STATE", help="ArtifactInstall, ArtifactRollback, ...")
    mender.add_argument("folder", metavar="FOLDER", help="Mender's file tree of the update")
    mender.add_argument(
        "--root", default=paths.ROOT, metavar="DIR", help="folder of the releases ({})".format(paths.ROOT)
    )


def _mender(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.releases.trial import open_releases

    if arguments.state in _ANSWERS:
        sys.stdout.write(_ANSWERS[arguments.state] + "\n")
        return
    before = os.path.join(arguments.folder, "tmp", _BEFORE)
    if arguments.state == "ArtifactInstall":
        bundle = _bundle(arguments.folder)
        committed = open_releases(arguments.root).state().committed
        write_atomic(before, (committed or "").encode("ascii"))
        install_bundle(arguments.root, bundle)
        _restart(arguments.root)
    elif arguments.state == "ArtifactRollback" and os.path.isfile(before):
        with open(before, encoding="ascii") as file:
            committed = file.read()
        # What was refused, or failed its trial, changed nothing.
        if committed and open_releases(arguments.root).state().committed != committed:
            roll_back(arguments.root)
            _restart(arguments.root)


def _bundle(folder: str) -> str:
    """The path of the one bundle in Mender's tree. Raises ``BadInput``."""
    files = os.path.join(folder, "files")
    found = sorted(os.listdir(files)) if os.path.isdir(files) else []
    if len(found) != 1 or not found[0].endswith(".veil"):
        raise BadInput(
            "expected one .veil file in Mender's artifact; it has {}. Write it with --file BUNDLE.veil.".format(
                ", ".join(found) or "none"
            )
        )
    return os.path.join(files, found[0])


def _restart(root: str) -> None:
    from edgeveil.edge_runtime.releases.trial import units

    if os.path.isdir(paths.SYSTEMD) and subprocess.call(  # noqa: S603 - words of ours
        ["systemctl", "try-restart", units(root)[0]],  # noqa: S607 - found as every shell would
        stdin=subprocess.DEVNULL,
    ):
        raise DeviceFailed("the release was changed, but its service was not restarted")
