"""``edgeveil-edge mender`` and ``edgeveil-edge rauc``: bundles that a fleet's own updater brings to its boards.

Mender's client calls ``mender STATE FOLDER`` as its update module (protocol 3), RAUC ``rauc slot-install`` as the slot
hook of its own bundle. Both bring the file; it is verified, tried and committed by ``install``, as from anywhere else:
no one who holds their servers or keys can make a board run what its own trust does not take.
"""

import argparse
import ctypes
import os
import sys
from typing import Any, Iterable, List, Optional

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.cli import options
from edgeveil.edge_runtime.cli.releases import install_bundle, restart_service, roll_back
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SINKS, fact_of
from edgeveil.edge_runtime.util.atomic import write_atomic

_ANSWERS = {"SupportsRollback": "Yes", "NeedsArtifactReboot": "No"}
_BEFORE = "committed-before"
_RAUC_STEP, _RAUC_IMAGE = "slot-install", "RAUC_IMAGE_NAME"


def add_commands(commands: Any) -> None:
    """Add them to the parser of ``edgeveil-edge``."""
    mender = options.add_command(
        commands,
        "mender",
        _mender,
        "a step of Mender's update module; called by /usr/share/mender/modules/v3/edgeveil",
        "edgeveil-edge mender ArtifactInstall /var/lib/mender/modules/v3/payloads/0000/tree",
    )
    mender.add_argument("state", metavar="STATE", help="ArtifactInstall, ArtifactRollback, ...")
    mender.add_argument("folder", metavar="FOLDER", help="Mender's file tree of the update")
    rauc = options.add_command(
        commands,
        "rauc",
        _rauc,
        "a slot hook of RAUC: installs the image, which is a .veil file; called by the hook of RAUC's bundle",
        "edgeveil-edge rauc slot-install",
    )
    rauc.add_argument("hook", metavar="HOOK", help=_RAUC_STEP)
    for command in (mender, rauc):
        command.add_argument(
            "--root", default=paths.ROOT, metavar="DIR", help="folder of the releases ({})".format(paths.ROOT)
        )


def _mender(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.releases.runtimes import open_releases

    if arguments.state in _ANSWERS:
        sys.stdout.write(_ANSWERS[arguments.state] + "\n")
        return
    before = os.path.join(arguments.folder, "tmp", _BEFORE)
    if arguments.state == "ArtifactInstall":
        files = os.path.join(arguments.folder, "files")
        bundle = _bundle(files, sorted(os.listdir(files)) if os.path.isdir(files) else [])
        committed = open_releases(arguments.root).state().committed
        write_atomic(before, (committed or "").encode("ascii"))
        install_bundle(arguments.root, bundle)
        restart_service(arguments.root)
    elif arguments.state == "ArtifactRollback" and os.path.isfile(before):
        with open(before, encoding="ascii") as file:
            committed = file.read()
        # What was refused, or failed its trial, changed nothing.
        if committed and open_releases(arguments.root).state().committed != committed:
            roll_back(arguments.root)
            restart_service(arguments.root)


def _rauc(arguments: argparse.Namespace) -> None:
    image = os.environ.get(_RAUC_IMAGE, "")
    if arguments.hook != _RAUC_STEP or not image:
        raise BadInput(
            "expected RAUC's hook {} with {} in its environment; this is {}{}. Give the image hooks=install in the "
            "manifest of RAUC's bundle.".format(
                _RAUC_STEP, _RAUC_IMAGE, arguments.hook, "" if image else " without " + _RAUC_IMAGE
            )
        )
    install_bundle(arguments.root, _bundle(os.path.dirname(image), [os.path.basename(image)]))
    restart_service(arguments.root)


def _bundle(folder: str, found: Any) -> str:
    """The path of the one bundle among the files that came. Raises ``BadInput``."""
    if len(found) != 1 or not found[0].endswith(".veil"):
        raise BadInput(
            "expected one .veil file in what the updater brought; it has {}. Make its artifact or image of "
            "BUNDLE.veil alone.".format(", ".join(found) or "none")
        )
    return os.path.join(folder, found[0])


# Secrets in a command's arguments: overwritten where process lists read them, and said once.


# Of /proc/PID/stat, counted from the field behind the name, which may hold anything.
_ARGUMENTS_BEGIN, _ARGUMENTS_END = 45, 46


def hide_secrets(source: Optional[str], sinks: Iterable[str]) -> None:
    """Overwrite in this process's own arguments what may be a secret of its source and sinks, and say what cures it."""
    texts = [text for text in [source] + list(sinks) if text and ("://" in text or fact_of(SINKS, text, "hides"))]
    if not texts:
        return
    from edgeveil.edge_runtime.sinks.uri import without_secrets

    shown = [without_secrets(text) for text in texts]
    overwrite([text for text, rest in zip(texts, shown) if text != rest])
    if source and source in texts and "?" in source:
        _say("--source has a query", '"source" in the file of --config')
    for text in sinks:
        option = fact_of(SINKS, text, "hides")
        if option and option + "=" in text:
            _say("--sink {}: has {}=".format(text.partition(":")[0], option), option + "_file=FILE")


def overwrite(secrets: List[str]) -> None:
    """Put asterisks in the place of each of these texts in this process's arguments, where the system allows it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        begin, end = int(fields[_ARGUMENTS_BEGIN]), int(fields[_ARGUMENTS_END])
    except (OSError, ValueError, IndexError):
        return  # no such system: the note says what cures it
    if not 0 < begin < end:
        return
    arguments = ctypes.string_at(begin, end - begin)
    for secret in secrets:
        data = os.fsencode(secret)
        at = arguments.find(data)
        while at >= 0:
            ctypes.memset(begin + at, ord("*"), len(data))
            at = arguments.find(data, at + len(data))


def _say(what: str, cure: str) -> None:
    sys.stderr.write(
        "note: {}, which may be a secret: the shell's history has it, and process lists showed it until now. Give it "
        "as {}.\n".format(what, cure)
    )
