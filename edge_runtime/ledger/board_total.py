"""What the services of one board have told of one person: each counts in a ledger of its own, and epsilons add up.

No limit holds for the sum: the bundle's and the policy's are those of one service.
"""

import os
from typing import Any, Dict, List, Optional

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ledger.book import DEVICE, Account
from edgeveil.edge_runtime.ledger.ledger_file import Ledger
from edgeveil.edge_runtime.paths import DEFAULT_PATH, LEDGER, is_service, named

_MICRO = 1e6


def board_total(top: str = "/") -> Dict[str, Any]:
    """``services``: each with its ``epsilon``, and the sum as ``epsilon``; both None where a ledger cannot be read.

    It is the most that was told of one person since the ledgers were made. ``uncounted`` names the services that have
    no ledger: what they tell is in no sum. ``top`` is the folder that paths of the board lie in.
    """
    counted: List[Dict[str, Any]] = []
    uncounted: List[str] = []
    seen: List[str] = []
    for service in _services(top):
        path = _ledger_of(service, top)
        if path is None:
            counted.append({"service": service, "epsilon": None})
        elif not os.path.lexists(path):
            uncounted.append(service)
        elif os.path.realpath(path) not in seen:
            seen.append(os.path.realpath(path))
            counted.append({"service": service, "epsilon": _told(path)})
    known = [one["epsilon"] for one in counted if one["epsilon"] is not None]
    return {
        "services": counted,
        "epsilon": sum(known) if len(known) == len(counted) else None,
        "uncounted": uncounted,
    }


def board_total_text(document: Dict[str, Any]) -> str:
    """The document of ``board_total`` in a line."""
    parts = ["{} {}".format(one["service"], _epsilon(one["epsilon"])) for one in document["services"]]
    most = "epsilon {} of one person at most".format(_epsilon(document["epsilon"])) if parts else "no service counts it"
    together = " before all cameras ({})".format(", ".join(parts)) if len(parts) > 1 else ""
    without = "; not counted: {}".format(", ".join(document["uncounted"])) if parts and document["uncounted"] else ""
    return most + together + without


def _services(top: str) -> List[str]:
    """The services that have settings or a ledger on this board."""
    found = set()
    for path in (DEFAULT_PATH, LEDGER):
        folder = _at(top, os.path.dirname(os.path.dirname(path)))
        names = os.listdir(folder) if os.path.isdir(folder) else []
        found |= {name for name in names if is_service(name) and os.path.lexists(_at(top, named(path, name)))}
    return sorted(found)


def _ledger_of(service: str, top: str) -> Optional[str]:
    """Where the service's ledger is by its settings; None where they cannot be read."""
    settings = _at(top, named(DEFAULT_PATH, service))
    own = named(LEDGER, service)
    try:
        return _at(top, config.read(settings).get("ledger", own) if os.path.lexists(settings) else own)
    except BadInput:
        return None


def _told(path: str) -> Optional[float]:
    """The most of one unit: releases of the device as one unit tell of everybody, those of a subject of that one."""
    try:
        accounts = Ledger(path).book().accounts
    except BadInput:
        return None
    subjects = [account.total for name, account in accounts.items() if name != DEVICE]
    return (accounts.get(DEVICE, Account()).total + max(subjects, default=0)) / _MICRO


def _at(top: str, path: str) -> str:
    return os.path.join(top, path.lstrip("/"))


def _epsilon(value: Optional[float]) -> str:
    return "unknown" if value is None else "{:g}".format(value)
