"""Whether an audit covers what runs here: this artefact, run by this device.

An audit runs the artefact on a workstation's processor. An accelerator rounds differently (float16, its own engine,
other int8), so only ``edgeveil audit --on BOARD --device`` measures its output. That audit is in the same document,
under ``others``, and names the device in its section ``on_board``. What a simulator computed is no such audit.
"""

import platform
import sys
from typing import Any, Dict, List, Mapping, Optional, Tuple

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.manifest.manifest import Manifest

Place = Tuple[Optional[str], str]  # a board by its model (None: it has none) and its processor's architecture


def current_place() -> Place:
    """The kind of this machine, as an audit on a board names it."""
    return machine.board(), platform.machine()


def audits_of(
    document: Mapping[str, Any], artefact: str, device: Optional[str], place: Optional[Place] = None
) -> List[Mapping[str, Any]]:
    """The audits in a bundle's audit document that cover ``artefact`` on ``device``, or on any device for None.

    Accelerators of the same name differ between boards: audits of an accelerator on another kind of board than
    ``place`` are left out; None takes them all. Raises ``LookupError``, ``TypeError`` or ``AttributeError`` for
    anything that is no audit document.
    """
    parts = [document] + document.get("others", [])
    mine = [part for part in parts if artefact in part["speaks_of"]]
    if device is None:
        return mine
    there = [(part, part.get("on_board", {})) for part in mine]
    return [
        part
        for part, board in there
        if board.get("device", CPU) == device
        and not board.get("simulated", False)
        and (device == CPU or place in (None, (board["board"], board["architecture"])))
    ]


def is_audited(
    manifest: Manifest, members: Dict[str, bytes], artefact: str, device: str, place: Optional[Place] = None
) -> bool:
    """Whether the privacy card of a verified bundle covers ``artefact`` on ``device``; as ``audits_of``."""
    privacy = manifest.privacy
    if privacy.file is None or artefact not in privacy.speaks_of:
        return False
    data = members[privacy.file]
    if device == CPU and b'"on_board"' not in data:
        return True  # a long document need not be parsed
    try:
        return bool(audits_of(strict_json.loads(data), artefact, device, place))
    except (strict_json.BadJson, LookupError, TypeError, AttributeError):
        return False


NOT_AUDITED_ON = (
    "no audit has measured what leaks when {artefact} runs on {device}, only on a workstation's processor (edgeveil "
    "audit --on BOARD --device {device})"
)


IDENTITY_ALLOWED = (
    "its manifest says identity_allowed: outputs may equal the raw data, and nothing checks here that they do not"
)


def announce(bundle: Any, artefact: str = "", device: str = CPU, audited: bool = True) -> None:
    """Write the warnings about a bundle to stderr: its key, what is not checked, its audit on this ``device``."""
    name = bundle.manifest.name
    if bundle.development:
        sys.stderr.write(
            "*** DEVELOPMENT BUNDLE: {} is signed by a throw-away key. Anyone may have it. "
            "Not for real data. ***\n".format(name)
        )
    if bundle.manifest.perturber.identity_allowed:
        sys.stderr.write("note: {}: {}\n".format(name, IDENTITY_ALLOWED))
    if bundle.manifest.privacy.file is None:
        sys.stderr.write("note: {} was not audited: no one has measured what it leaks\n".format(name))
    elif device != CPU and not audited:
        sys.stderr.write("note: {}\n".format(NOT_AUDITED_ON.format(artefact=artefact, device=device)))
