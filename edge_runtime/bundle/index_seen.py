"""What a board last saw of its update index: ``ROOT/index-seen.json``, and ``ROOT/index-seen-copy.json`` after it.

The higher of the two holds. A freeze is seen by the age of the version: since it came, or since the first flash where
none ever did. The age is the larger of two. By the board's own clock, where that was set when the version came; it may
say 1970, or jump. And by the time that the board was up since, which no clock can take back: ``recover`` at each start
and each ``update`` add it up. What is not counted is the time between the last of these and a loss of power."""

import os
import time
from typing import Any, Dict, NamedTuple, Optional

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.machine import uptime
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.filesystem import read_strict

SEEN_FILE, COPY_FILE = "index-seen.json", "index-seen-copy.json"
CLOCKS_FROM_S = 1735689600  # 2025; a board whose clock is not set says less
_COUNTED = {"up_s", "boot", "counted_s"}  # since schema 3


class Seen(NamedTuple):
    """The last index that was accepted; without a ``name``, none ever was.

    ``changed_at``: when this version came; ``asked_at``: when a server last had a valid index; both in seconds since
    1970 by the board's own clock. ``others`` are further products that a board of version 0.1 followed, with their
    versions. ``up_s``: seconds that the board was up since this version came, counted until ``counted_s`` of ``boot``.
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

    def counted(self) -> "Seen":
        """With the time that the board was up until now."""
        boot, now_s = uptime()
        return self._replace(up_s=self.up_s + self._more_s(boot, now_s), boot=boot, counted_s=now_s)

    def age_s(self) -> float:
        """How long this version is the newest, in seconds."""
        by_clock = time.time() - self.changed_at if self.changed_at >= CLOCKS_FROM_S else 0.0
        return max(by_clock, float(self.up_s + self._more_s(*uptime())))

    def _more_s(self, boot: str, now_s: int) -> int:
        if not self.boot or not boot:
            return 0  # nothing was counted before, so from now on
        return max(now_s - self.counted_s, 0) if boot == self.boot else now_s


def read_seen(root: str) -> Optional[Seen]:
    """The last index that was accepted; None where nothing was ever written. Raises ``DeviceFailed`` for damage."""
    seen, copy = _read(root, SEEN_FILE), _read(root, COPY_FILE)
    if seen is None or copy is None:
        return seen or copy
    both = [{**one.others, one.name: one.version} for one in (seen, copy)]
    highest = {name: max(one.get(name, 0) for one in both) for one in both for name in one}
    same = not seen.name or seen.name == copy.name
    best = max(seen, copy, key=lambda one: (one.version, one.up_s)) if same else seen
    others = {name: version for name, version in highest.items() if name not in ("", best.name)}
    return best._replace(version=highest.get(best.name, best.version), others=others)


def write_seen(root: str, seen: Seen) -> None:
    """Write it in both places, one after the other."""
    data = strict_json.dumps(dict(seen._asdict(), schema=3))
    for name in (SEEN_FILE, COPY_FILE):
        write_atomic(os.path.join(root, name), data, mode=0o644)


def count_up(root: str) -> Seen:
    """Add the time that the board was up; from the first call on, a board that never saw an index has an age."""
    seen = (read_seen(root) or Seen(changed_at=int(time.time()))).counted()
    write_seen(root, seen)
    return seen


def index_seen(root: str) -> Optional[Dict[str, Any]]:
    """What ``status`` shows of the index: a freeze is seen by a version that has not changed for long."""
    seen = read_seen(root)
    if seen is None:
        return None
    shown = {name: getattr(seen, name) for name in ("name", "audience", "version", "changed_at", "asked_at")}
    return dict(shown, age_s=int(seen.age_s()))


def _read(root: str, name: str) -> Optional[Seen]:
    path = os.path.join(root, name)
    try:
        data = read_strict(path)
        if data is None:
            return None
        document = strict_json.loads(data)
        schema = document.pop("schema", 1)
        if schema in (2, 3):
            seen = Seen(**document)
            if set(document) != set(Seen._fields) - (_COUNTED if schema == 2 else set()) or {
                type(number) for number in (seen.version, seen.changed_at, seen.up_s, seen.counted_s)
            } != {int}:
                raise ValueError("other keys or types")
            return seen
        # Version 0.1: a version for each name.
        versions = {str(name): int(version) for name, version in document.items()}
        product = sorted(versions)[0]
        return Seen(product, version=versions.pop(product), others=versions)
    except (OSError, ValueError, AttributeError, TypeError, IndexError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise DeviceFailed(
            "{} cannot be read ({}): nothing was fetched. Check the disk and what this board runs, then remove that "
            "file and repeat edgeveil-edge update: what {} says holds.".format(
                path, what, COPY_FILE if name == SEEN_FILE else SEEN_FILE
            )
        ) from None
