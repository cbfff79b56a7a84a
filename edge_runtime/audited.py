"""Whether an audit speaks of what runs here: of this artefact, and as this device runs it.

An audit runs the artefact on a workstation's processor. An accelerator rounds otherwise (float16, an engine of its own
making, other int8), so what it lets out was measured only where ``edgeveil audit --on BOARD --device`` ran it there:
that audit lies in the same document, under ``others``, and names the device in its section ``on_board``.
"""

from typing import Any, Dict, List, Mapping, Optional

from edge_runtime import strict_json
from edge_runtime.backends.device import CPU


def parts_on(document: Mapping[str, Any], artefact: str, device: Optional[str]) -> List[Mapping[str, Any]]:
    """The audits in a bundle's audit document that speak of ``artefact`` on ``device``, or on any for None.

    Raises ``LookupError``, ``TypeError`` or ``AttributeError`` for a document that is none.
    """
    parts = [document] + document.get("others", [])
    mine = [part for part in parts if artefact in part["speaks_of"]]
    return [part for part in mine if device in (None, part.get("on_board", {}).get("device", CPU))]


def is_audited(manifest: Mapping[str, Any], members: Dict[str, bytes], artefact: str, device: str) -> bool:
    """Whether the privacy card of a verified bundle speaks of ``artefact`` on ``device``."""
    privacy = manifest["privacy"]
    if privacy["file"] is None or artefact not in privacy["speaks_of"]:
        return False
    data = members[privacy["file"]]
    if device == CPU and b'"on_board"' not in data:
        return True  # of a long document nothing needs to be read
    try:
        return bool(parts_on(strict_json.loads(data), artefact, device))
    except (strict_json.BadJson, LookupError, TypeError, AttributeError):
        return False
