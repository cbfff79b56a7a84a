"""What a board last saw of its update index: ``ROOT/index-seen.json``, and ``ROOT/index-seen-copy.json`` after it.

The higher of the two holds, and one that is whole is enough; a board that had them and has neither refuses its index.
A version counts as long as all the keys under which it came may still sign an index: where one was taken away, its
thief may have signed a version that none can follow.

A freeze is seen by the age of the version: since it came, or since the first flash where none ever did. The age is the
larger of two. By the board's clock, which counts from a time when it was synchronised; while it is not, what it says
ends nothing on a board that is up for less than a day, for it may be wrong until a time server is reached. And by the
time that the board was up since, which no clock can take back: ``recover`` at each start and each ``update`` add it up.
What is not counted is the time between the last of these and a loss of power.
"""

import contextlib
import os
import re
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.bundle.board_state import MEND, read_state
from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.machine import CLOCKS_FROM_S, clock_synchronised, uptime
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.filesystem import read_strict

SEEN_FILE, COPY_FILE = "index-seen.json", "index-seen-copy.json"
OFFERED_FILE = "index-offered.json"
WRONG_FOR_S = 86400  # as long may a clock after a start be wrong
_SINCE_4 = {"trust_version", "keys"}
_FIELDS = {2: _SINCE_4 | {"up_s", "boot", "counted_s"}, 3: _SINCE_4, 4: set()}  # what each schema lacks


class Seen(NamedTuple):
    """The last index that was accepted; without a ``name``, none ever was.

    ``changed_at``: when this version came; ``asked_at``: when a server last had a valid index; both in seconds since
    1970 by the board's own clock, 0 where that was not synchronised. ``others`` are further products that a board of
    version 0.1 followed, with their versions. ``up_s``: seconds that the board was up since this version came, counted
    until ``counted_s`` of ``boot``.
    ``trust_version`` and ``keys``: the trust file and the keys that might sign an index when this one was accepted.
    """

    name: str = ""
    audience: str = ""
    version: int = 0
    sha256: str = ""
    changed_at: int = 0
    asked_at: int = 0
    others: Dict[str, int] = {}  # noqa: RUF012 - never changed in place
    up_s: int = 0
    boot: str = ""
    counted_s: int = 0
    trust_version: int = 0
    keys: Tuple[str, ...] = ()

    def counted(self) -> "Seen":
        """With the time that the board was up until now."""
        boot, now_s = uptime()
        up_s, changed_at = self.up_s + self._more_s(boot, now_s), self.changed_at
        if changed_at < CLOCKS_FROM_S:  # it came before the clock was set
            changed_at = max(clock_now() - up_s, 0)
        return self._replace(up_s=up_s, boot=boot, counted_s=now_s, changed_at=changed_at)

    def age_s(self) -> float:
        """How long this version is the newest, in seconds."""
        boot, now_s = uptime()
        trusted = self.changed_at >= CLOCKS_FROM_S and (now_s >= WRONG_FOR_S or clock_synchronised())
        by_clock = time.time() - self.changed_at if trusted else 0.0
        return max(by_clock, float(self.up_s + self._more_s(boot, now_s)))

    def _more_s(self, boot: str, now_s: int) -> int:
        if not self.boot or not boot:
            return 0  # nothing was counted before, so from now on
        return max(now_s - self.counted_s, 0) if boot == self.boot else now_s


def clock_now() -> int:
    """Seconds since 1970 by a synchronised clock; 0 by any other."""
    return int(time.time()) if clock_synchronised() else 0


class SeenDamaged(DeviceFailed):
    """Neither of the two files is whole, and one is there."""


def read_seen(root: str) -> Optional[Seen]:
    """The last index that was accepted; None where nothing was ever written.

    Raises ``SeenDamaged``, and ``DeviceFailed`` for a board that had them and lost both.
    """
    whole: List[Seen] = []
    damaged: List[str] = []
    for name in (SEEN_FILE, COPY_FILE):
        try:
            seen = _read(root, name)
            whole += [] if seen is None else [seen]
        except (OSError, ValueError, AttributeError, TypeError, IndexError) as error:
            what = error.strerror if isinstance(error, OSError) else "it is damaged"
            damaged.append("{} cannot be read ({})".format(os.path.join(root, name), what))
    if not whole and damaged:
        raise SeenDamaged("{}: no index is taken. {}".format(damaged[0], MEND))
    if not whole and read_state(root).has_index:
        message = "{} and {} are missing, and this board had them: no index is taken. {}"
        raise DeviceFailed(message.format(os.path.join(root, SEEN_FILE), COPY_FILE, MEND))
    if not whole:
        return None
    seen, copy = whole[0], whole[-1]
    if seen.trust_version != copy.trust_version:
        return max(whole, key=lambda one: one.trust_version)  # versions begin anew where a key was taken away
    both = [{**one.others, one.name: one.version} for one in whole]
    highest = {name: max(one.get(name, 0) for one in both) for one in both for name in one}
    same = not seen.name or seen.name == copy.name
    best = max(seen, copy, key=lambda one: (one.version, one.up_s)) if same else seen
    others = {name: version for name, version in highest.items() if name not in ("", best.name)}
    return best._replace(version=highest.get(best.name, best.version), others=others)


def has_seen(root: str) -> bool:
    """Whether one of the two files is there, whole or not."""
    return any(os.path.lexists(os.path.join(root, name)) for name in (SEEN_FILE, COPY_FILE))


def forget_damaged(root: str) -> None:
    """Remove what cannot be read of the two files, where neither is whole: the age then counts from now on."""
    try:
        read_seen(root)
    except DeviceFailed:
        for name in (SEEN_FILE, COPY_FILE):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(root, name))


def write_seen(root: str, seen: Seen) -> None:
    """Write it in both places, one after the other."""
    data = strict_json.dumps(dict(seen._asdict(), schema=4))
    for name in (SEEN_FILE, COPY_FILE):
        write_atomic(os.path.join(root, name), data, mode=0o644)


def count_up(root: str) -> Seen:
    """Add the time that the board was up; from the first call on, a board that never saw an index has an age."""
    seen = (read_seen(root) or Seen()).counted()
    write_seen(root, seen)
    return seen


def index_seen(root: str) -> Optional[Dict[str, Any]]:
    """What ``status`` shows of the index: a freeze is seen by a version that has not changed for long."""
    seen = read_seen(root)
    if seen is None:
        return None
    shown = {name: getattr(seen, name) for name in ("name", "audience", "version", "changed_at", "asked_at")}
    return dict(shown, age_s=int(seen.age_s()))


def write_offered(root: str, manifest_sha256: str) -> None:
    """Remember which release the last index that was accepted offers, whether it could be installed or not."""
    data = strict_json.dumps({"schema": 1, "manifest_sha256": manifest_sha256})
    write_atomic(os.path.join(root, OFFERED_FILE), data, mode=0o644)


def read_offered(root: str) -> Optional[str]:
    """The manifest's hash of that release; None where it is not known. It is shown, and decides nothing."""
    try:
        sha = strict_json.loads(read_strict(os.path.join(root, OFFERED_FILE)) or b"")["manifest_sha256"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return sha if isinstance(sha, str) and re.fullmatch("[0-9a-f]{64}", sha) else None


def _read(root: str, name: str) -> Optional[Seen]:
    """One of the two files; None where there is none. Raises what reading and parsing it do."""
    data = read_strict(os.path.join(root, name))
    if data is None:
        return None
    document = strict_json.loads(data)
    schema = document.pop("schema", 1)
    if schema in _FIELDS:
        seen = Seen(**dict(document, keys=tuple(document.get("keys", ()))))
        numbers = (seen.version, seen.changed_at, seen.up_s, seen.counted_s, seen.trust_version)
        types = {type(number) for number in (*numbers, *seen.others.values())}, {type(key) for key in seen.keys} - {str}
        if types != ({int}, set()) or set(document) != set(Seen._fields) - _FIELDS[schema]:
            raise ValueError("other keys or types")
        return seen
    # Version 0.1: a version for each name.
    versions = {str(name): int(version) for name, version in document.items()}
    product = sorted(versions)[0]
    return Seen(product, version=versions.pop(product), others=versions)
