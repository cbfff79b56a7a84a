"""What the reports of a fleet's boards say: who is well, who fails, who has gone silent, and whom nobody knows yet."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgeveil.devices.fleet.accepted import Accepted
from edgeveil.edge_runtime.bundle.index_seen import CLOCKS_FROM_S
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, reason
from edgeveil.edge_runtime.outside.report import report_form as form
from edgeveil.edge_runtime.storage.atomic import write_atomic

WELL, FAILING, SILENT, UNKNOWN, REFUSED = "well", "failing", "silent", "not accepted", "refused"
_FAILED = (form.REFUSED, form.TRIAL_FAILED, form.FAILED, form.BEGUN)


@dataclass(frozen=True)
class Row:
    """One board: its state as a word, a sentence, and what its report says, where that may be believed."""

    board: str
    state: str
    said: str
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class _Last:
    """The last report of a key: its number and hash, and when it was sent at the latest, by the owner's clock."""

    number: int
    sha256: str
    at: int


@dataclass
class Memory:
    """``hall.reports.json`` beside ``hall.toml``: the last report of each accepted key, and when the owner looked."""

    path: Path
    looked: int = 0
    last: dict[str, _Last] = field(default_factory=dict)

    @classmethod
    def of(cls, fleet: Path) -> Memory:
        """What was seen before. Raises ``BadInput`` for a damaged file."""
        path = fleet.with_suffix(".reports.json")
        try:
            document = json.loads(path.read_bytes())
            last = {key: _Last(**one) for key, one in document["last"].items()}
            if {type(value) for one in last.values() for value in (one.number, one.at)} - {int}:
                raise ValueError("other types")
            return cls(path, int(document["looked"]), last)
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{path} does not say which reports were seen ({reason(error)}). Remove it: an older report may then "
                "pass for the newest once."
            ) from None

    def keep(self) -> None:
        """Write it, whole."""
        last = {key: asdict(one) for key, one in self.last.items()}
        document = {"schema": 1, "looked": self.looked, "last": last}
        write_atomic(str(self.path), (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())


def read_folder(folder: Path) -> dict[str, bytes]:
    """The reports in a folder, one file a board, ``NAME`` or ``NAME.json``. Raises ``BadInput``."""
    found = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.name.startswith("."):
                with path.open("rb") as file:
                    found[path.name.removesuffix(".json")] = file.read(form.BYTES_WITH_LOGS + 1)
    except OSError as error:
        raise BadInput(f"A folder of reports was expected at {folder}: {reason(error)}.") from None
    return found


def judged(
    boards: Sequence[str],
    found: Mapping[str, bytes],
    accepted: Accepted,
    memory: Memory,
    *,
    silent_after_s: float,
    now: Callable[[], float] = time.time,
) -> list[Row]:
    """A row for each of ``boards``, then for each other name in ``found``, which are reports by the name of a board.

    ``memory`` is changed, not written.
    """
    now_s = int(now())
    names = [*boards, *sorted(set(found) - set(boards))]
    rows = [_row(name, found.get(name), accepted, memory, silent_after_s, now_s) for name in names]
    memory.looked = now_s
    return rows


def _row(name: str, data: bytes | None, accepted: Accepted, memory: Memory, silent_after_s: float, now_s: int) -> Row:
    if data is None:
        return Row(name, SILENT, _silence(memory.last.get(accepted.keys.get(name, "")), now_s))
    try:
        report = form.read(data)
        _check_board(name, report, accepted)
        if name not in accepted.keys:
            return Row(name, UNKNOWN, f"not yet accepted: its key is {report.key}")
        last = _remembered(report, data, memory, now_s)
    except BundleRefused as error:
        return Row(name, REFUSED, str(error))
    said = _told(report.document)
    if now_s - last.at > silent_after_s:
        return Row(name, SILENT, f"{_silence(last, now_s)} Then: {said}", report.document)
    seen = f"{said}; seen {_utc(last.at)}, {_ago(now_s - last.at)} ago"
    return Row(name, FAILING if _fails(report.document) else WELL, seen, report.document)


def _check_board(name: str, report: form.Report, accepted: Accepted) -> None:
    """Raise ``BundleRefused`` where a report is of another board, or signed by another key than the accepted one."""
    owner, known = accepted.owner(report.key), accepted.keys.get(name)
    if report.document["board"] != name:
        raise BundleRefused("other-board", f"The report in the place of {name} says that it is of another board.")
    if owner not in (None, name):
        raise BundleRefused("other-board", f"The report in the place of {name} is signed by the key of {owner}.")
    if known not in (None, report.key):
        raise BundleRefused(
            "other-key",
            f"The report of {name} is signed by the key {report.key}, and {known:.16}... was accepted for it. If the "
            f"board was replaced or its card written anew, accept that key: edgeveil fleet FILE accept {name} KEY.",
        )


def _remembered(report: form.Report, data: bytes, memory: Memory, now_s: int) -> _Last:
    """The place of a report among those of its key. Raises ``BundleRefused`` for one that is older than another."""
    number, sha256, last = report.document["number"], hashlib.sha256(data).hexdigest(), memory.last.get(report.key)
    if last is not None and (number < last.number or (number == last.number and sha256 != last.sha256)):
        raise BundleRefused(
            "replayed",
            f"Report {number} came after report {last.number}: somebody sends an old one again, or the board's card "
            "was put back or copied. Write the card anew, and accept its new key.",
        )
    if last is None or number > last.number:
        # It was sent after the last look and before this one; where the board's clock is in between, it says when.
        said = report.document["time_s"]
        at = min(max(said, memory.looked if last is not None else 0), now_s) if said >= CLOCKS_FROM_S else now_s
        last = memory.last[report.key] = _Last(number, sha256, at)
    return last


def _fails(document: Mapping[str, Any]) -> bool:
    update, health = document["update"], document["health"]
    # After an installation the service has just started.
    stands = health["ready"] is False and update["outcome"] != form.INSTALLED
    return update["outcome"] in _FAILED or health["service"] in ("failed", "inactive") or stands


def _told(document: Mapping[str, Any]) -> str:
    release, update, health = document["release"], document["update"], document["health"]
    parts = ["runs nothing that it knows of"]
    if release["sha256"] is not None:
        parts = [f"runs {release['name']} {release['sha256']:.12}, security version {release['security_version']}"]
    parts.append(f"floor {document['floor']}" if document["floor"] is not None else "floor unknown")
    if update["outcome"] is not None:
        parts.append(f"update: {update['outcome']}" + (f" ({update['reason']})" if update["reason"] else ""))
    ready = {True: ", ready", False: ", nothing new leaves", None: ""}[health["ready"]]
    parts.append(f"service: {health['service'] or 'unknown'}{ready}")
    if health["temperature_c"] is not None:
        parts.append(f"{health['temperature_c']} C{', throttled' if health['throttled'] else ''}")
    if health["disk_free_mb"] is not None:
        parts.append(f"{health['disk_free_mb']} MB free")
    if document["index_age_s"] is not None:
        parts.append(f"index since {document['index_age_s'] // 86400} days")
    if document["unsent"]:
        parts.append(f"{document['unsent']} reports before it did not arrive")
    return "; ".join(parts)


def _silence(last: _Last | None, now_s: int) -> str:
    if last is None:
        return "It never reported."
    return f"Silent for {_ago(now_s - last.at)}: last seen {_utc(last.at)}."


def _utc(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _ago(seconds: int) -> str:
    return f"{seconds // 86400} days" if seconds >= 2 * 86400 else f"{max(seconds, 0) // 3600} hours"
