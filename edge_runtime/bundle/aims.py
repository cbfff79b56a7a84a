"""Each time that a person was shown edges of the raw picture to aim a camera: ``ROOT/aims.json``, for all to read.

``times`` and ``seconds`` only rise. An aim is counted, with the longest that it may take, before its first picture, and
set right when it ends: what a power cut hides is counted in full. ``until_s`` is by the clock of the board since its
start (``time.monotonic``), and holds in the boot ``boot`` alone.
"""

import contextlib
import os
import time
from typing import Any, Callable, Dict, NamedTuple

from edgeveil.edge_runtime.bundle.policy import MOST_AIM_MINUTES
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.machine import uptime
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.filesystem import read_strict

FILE = "aims.json"
LOOK_S = 1.0
_TABLE = {
    "schema": field.whole(1, 1),
    "times": field.whole(),
    "seconds": field.whole(),
    "began_at": field.whole(),
    "boot": field.text(),
    "until_s": field.real(0),
}


class Aims(NamedTuple):
    """How many there were and how long they took in all; when the last one began (seconds since 1970, by the board's
    clock), and until when it may go on; without a ``boot``, it has ended."""

    times: int = 0
    seconds: int = 0
    began_at: int = 0
    boot: str = ""
    until_s: float = 0.0

    def left_s(self, now_s: float) -> float:
        """For how many seconds from now on one may still go on."""
        return max(self.until_s - now_s, 0.0) if self.boot and self.boot == uptime()[0] else 0.0


def read_aims(root: str) -> Aims:
    """What the board at ``root`` remembers of them. Raises ``DeviceFailed`` where that cannot be known."""
    path = os.path.join(root, FILE)
    try:
        data = read_strict(path)
        if data is None:
            return Aims()
        document: Any = strict_json.loads(data)
        field.check(document, FILE, field.record(_TABLE))
    except (OSError, ValueError, BadInput):
        raise DeviceFailed(
            "{} is damaged: the camera is not aimed by its picture. Note that down, and remove it.".format(path)
        ) from None
    del document["schema"]
    return Aims(**document)


def begin(root: str, seconds: int, now_s: float) -> None:
    """Count an aim of so many seconds, which begins now. Raises ``DeviceFailed``, also where one goes on."""
    before, boot = read_aims(root), uptime()[0]
    if not boot or before.left_s(now_s):
        raise DeviceFailed(
            "the camera is being aimed already: wait until that has ended"
            if boot
            else "this system has no name for its start (boot_id), so that its service could not say who looks"
        )
    write(root, Aims(before.times + 1, before.seconds + seconds, int(time.time()), boot, now_s + seconds))


def end(root: str, now_s: float) -> None:
    """Count what was left of the aim that ends now as not taken."""
    before = read_aims(root)
    left = int(before.left_s(now_s))
    write(root, before._replace(seconds=before.seconds - left, boot="", until_s=0.0))


def write(root: str, aims: Aims) -> None:
    """Replace the file."""
    write_atomic(os.path.join(root, FILE), strict_json.dumps(dict(aims._asdict(), schema=1)), mode=0o644)


def most_s(trust: str) -> int:
    """For how many seconds the owner lets a camera be aimed by its picture; ``trust`` is the board's trust folder.

    Raises ``BadInput`` where that is not allowed: a policy must allow it, or all keys be those of development.
    """
    policy = open_trust(trust).policy
    minutes = None if policy is None else policy.aim_minutes
    if minutes is None:
        refuse_production(
            trust, "aim", "A camera is aimed by its picture where the owner's policy has 'aim_minutes', or on a board"
        )
    return 60 * (minutes or MOST_AIM_MINUTES)


def refuse_production(folder: str, what: str, where: str) -> None:
    """Raise ``BadInput``, for the command ``what``, unless all that this trust folder accepts are throw-away keys of
    development."""
    try:
        reasons = [key.name for key in open_trust(folder).keys.values() if not key.development]
    except Exception as problem:
        reasons = [str(problem)]
    if reasons or any(os.path.lexists(os.path.join(folder, name)) for name in ("root.pub", "trust.json")):
        raise BadInput(
            "{} is refused here: {} is a trust folder for production ({}). {} that trusts development keys alone "
            "(edgeveil key new --development)".format(what, folder, reasons[0] if reasons else "root.pub", where)
        )


class Watch(object):
    """Whether somebody aims the camera of the board at ``root`` now, for its service. ``clock`` is monotonic."""

    def __init__(self, root: str, clock: Callable[[], float]) -> None:
        self._root, self._clock = root, clock
        self._aims, self._look_s = Aims(), 0.0

    def aims(self) -> Aims:
        """What the board remembers, read at most once a second."""
        now = self._clock()
        if now >= self._look_s:
            self._look_s = now + LOOK_S
            with contextlib.suppress(DeviceFailed):  # ``status`` says it; a running aim still ends in its time
                self._aims = read_aims(self._root)
        return self._aims

    def goes_on(self) -> bool:
        """Whether it is aimed now."""
        return self.aims().left_s(self._clock()) > 0

    def document(self) -> Dict[str, Any]:
        """For the pages."""
        return document(self.aims(), self._clock())

    def gauges(self) -> Dict[str, float]:
        """For /metrics."""
        return {"aims-total": float(self.aims().times), "aim-seconds-total": float(self.aims().seconds)}


def document(aims: Aims, now_s: float) -> Dict[str, Any]:
    """``count``, ``seconds`` in all, when the last one ``began_at``, and the seconds that are ``left_s`` of it."""
    facts = {"count": aims.times, "seconds": aims.seconds, "began_at": aims.began_at}
    return dict(facts, left_s=int(aims.left_s(now_s)))
