"""``edgeveil-edge rauc``: bundles that a fleet's own updater brings to its boards.

RAUC calls ``rauc slot-install`` as the slot hook of its own bundle. It brings the file, which is verified, tried and
committed by ``install``, as from anywhere else: no one who holds RAUC's server or key can make a board run what its own
trust does not take. Another updater calls ``install`` and ``rollback`` (docs/how-to/update-and-roll-back.md).
"""

import argparse
import ctypes
import os
import sys
from typing import Any, Iterable, List, Optional

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.cli import options
from edgeveil.edge_runtime.cli.releases import install_bundle, restart_service
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SINKS, fact_of

_RAUC_STEP, _RAUC_IMAGE = "slot-install", "RAUC_IMAGE_NAME"


def add_commands(commands: Any) -> None:
    """Add it to the parser of ``edgeveil-edge``."""
    rauc = options.add_command(
        commands,
        "rauc",
        _rauc,
        "a slot hook of RAUC: installs the image, which is a .veil file; called by the hook of RAUC's bundle",
        "edgeveil-edge rauc slot-install",
    )
    rauc.add_argument("hook", metavar="HOOK", help=_RAUC_STEP)
    rauc.add_argument(
        "--root", default=paths.ROOT, metavar="DIR", help="folder of the releases ({})".format(paths.ROOT)
    )


def _rauc(arguments: argparse.Namespace) -> None:
    image = os.environ.get(_RAUC_IMAGE, "")
    if arguments.hook != _RAUC_STEP or not image:
        raise BadInput(
            "expected RAUC's hook {} with {} in its environment; this is {}{}. Give the image hooks=install in the "
            "manifest of RAUC's bundle.".format(
                _RAUC_STEP, _RAUC_IMAGE, arguments.hook, "" if image else " without " + _RAUC_IMAGE
            )
        )
    if not image.endswith(".veil"):
        raise BadInput(
            "expected a .veil file as RAUC's image; it is {}. Make it of BUNDLE.veil alone.".format(
                os.path.basename(image)
            )
        )
    install_bundle(arguments.root, image)
    restart_service(arguments.root)


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
