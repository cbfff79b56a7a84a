"""What a stream does once its codes are not those of the audit any more: ``on_shift`` of the owner's ``policy.json``.

::

    "on_shift":{"do":"label-only","most_shift":0.25}

``label-only`` goes on with what D_y predicts and nothing else, ``stop`` ends the service with code 70. Both last until
it is started again. ``most_shift`` is a total variation distance, from 0 to 1 (``edgeveil.edge_runtime.shift``).
"""

from typing import Any, Dict, NamedTuple

from edgeveil.edge_runtime.bundle.audit_document import read_audit
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest

LABEL_ONLY, STOP = "label-only", "stop"
OnShift = NamedTuple("OnShift", [("do", str), ("most_shift", float)])


def read_shift(value: Any, path: str) -> OnShift:
    """The demand in a policy's ``on_shift``. Raises ``BadInput``."""
    if type(value) is not dict or sorted(value) != ["do", "most_shift"]:
        raise BadInput("Expected the keys do, most_shift as 'on_shift' of {}. Correct it.".format(path))
    if value["do"] not in (LABEL_ONLY, STOP):
        raise BadInput("Expected label-only or stop as 'do' of 'on_shift' in {}. Correct it.".format(path))
    most = value["most_shift"]
    if type(most) not in (int, float) or not 0 < most < 1:
        raise BadInput("Expected a number between 0 and 1 as 'most_shift' of 'on_shift' in {}.".format(path))
    return OnShift(value["do"], float(most))


def check_shift(demand: OnShift, manifest: Manifest, members: Dict[str, bytes]) -> str:
    """Why a verified bundle cannot be held to the demand; empty where it can."""
    found = (read_audit(manifest, members) or {}).get("histogram")
    if found is None or (manifest.crops and found["blank"] is None):
        return 'its audit must say how often each code left ("on_shift"): audit and seal it again, if it sends codes'
    if demand.do == LABEL_ONLY and not any(output.kind == "label" for output in manifest.outputs):
        return 'it must send y, to fall back to label-only ("on_shift")'
    return ""
