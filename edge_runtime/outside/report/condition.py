"""What a report says of this board beside its release: the service, the last update, temperature, free space."""

import contextlib
import http.client
import os
import subprocess
import time
from typing import Any, Dict, Iterator, List, Optional

from edgeveil.edge_runtime import config, paths
from edgeveil.edge_runtime.errors import BundleRefused, EdgeVeilError
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.outside import health
from edgeveil.edge_runtime.outside.host.board_health import board_gauges
from edgeveil.edge_runtime.outside.report import report_form as form
from edgeveil.edge_runtime.releases.store import RolledBack
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.edge_runtime.storage.filesystem import read

UPDATE_FILE = "last-update.json"
_PAGE_S, _PAGE_BYTES = 5.0, 2**18
_NO_UPDATE: Dict[str, Any] = {"outcome": None, "reason": None, "at_s": None}


class Noted(object):
    """What an update came to; ``outcome`` is set by its end."""

    outcome = form.NOTHING_NEW


@contextlib.contextmanager
def update_noted(root: str) -> Iterator[Noted]:
    """Keep how the update in the block ends, as a word, for the next report; one that is killed stays ``begun``."""
    noted = Noted()
    _note(root, form.BEGUN)
    try:
        yield noted
    except RolledBack:
        _note(root, form.TRIAL_FAILED)
        raise
    except BundleRefused as error:
        _note(root, form.REFUSED, error.reason)
        raise
    except EdgeVeilError:
        _note(root, form.FAILED)
        raise
    _note(root, noted.outcome)


def last_update(root: str) -> Dict[str, Any]:
    """The outcome of the last update, its reason as a word, and when; each None where there was none."""
    try:
        document = strict_json.loads(read(os.path.join(root, UPDATE_FILE)) or b"")
        return {name: document[name] for name in _NO_UPDATE}
    except (ValueError, LookupError, TypeError):
        return dict(_NO_UPDATE)


def condition(root: str) -> Dict[str, Any]:
    """The ``health`` of a report: the state of the service of ``root``, the hottest zone, the least free space."""
    gauges = list(board_gauges(""))
    heat = [gauge.value for gauge in gauges if gauge.name == "board-temperature-celsius"]
    free = [gauge.value for gauge in gauges if gauge.name == "disk-free-bytes"]
    now = [gauge.value for gauge in gauges if gauge.name == "board-throttled" and gauge.labels["since"] == "now"]
    ready = _page(root, "/readyz")
    return {
        "service": _service(root),
        "ready": None if ready is None else ready[0] == http.client.OK,
        "temperature_c": int(max(heat)) if heat else None,
        "throttled": bool(max(now)) if now else None,
        "disk_free_mb": int(min(free) // 10**6) if free else None,
    }


def event_lines(root: str) -> List[str]:
    """The lines of the running service's event log; none where it does not run."""
    page = _page(root, "/logs")
    return [] if page is None or page[0] != http.client.OK else page[1].decode("ascii", "replace").splitlines()


def _note(root: str, outcome: str, reason: str = "") -> None:
    document = {"outcome": outcome, "reason": reason, "at_s": int(time.time())}
    write_atomic(os.path.join(root, UPDATE_FILE), strict_json.dumps(document), mode=0o644)


def _service(root: str) -> Optional[str]:
    """The state of the service of ``root`` as systemd names it, ``none`` where none is installed; None: no systemd."""
    if not os.path.isdir(paths.SYSTEMD):
        return None
    command = ["systemctl", "show", "--property=LoadState,ActiveState", paths.service_of(root) + ".service"]
    try:
        said = subprocess.check_output(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20)  # noqa: S603 - words of ours
    except (OSError, subprocess.SubprocessError):
        return None
    found = dict(line.partition("=")[::2] for line in said.decode("ascii", "replace").splitlines())
    return "none" if found.get("LoadState") != "loaded" else str(found.get("ActiveState"))


def _page(root: str, path: str) -> Any:
    """Status and body of a health page of the service of ``root``; None where nobody answers."""
    service = paths.service_of(root)
    own = paths.named(paths.DEFAULT_PATH, service)
    try:
        settings = config.read(own) if os.path.lexists(own) else {}
        place = health.place_of(settings.get("health", config.SETTINGS["health"].default)) if settings else None
        if place is None:
            return None
        client = http.client.HTTPConnection(place.host, place.port, timeout=_PAGE_S)
        with contextlib.closing(client):
            client.request("GET", path, headers={"Authorization": "Bearer " + place.token} if place.token else {})
            answer = client.getresponse()
            return answer.status, answer.read(_PAGE_BYTES)
    except (OSError, http.client.HTTPException, EdgeVeilError):
        return None
