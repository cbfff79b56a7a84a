"""When each board of a fleet last answered ``fleet status``: who is silent, and since when."""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Callable
from pathlib import Path

from edgeveil.devices.fleet.inventory import FleetBoard
from edgeveil.devices.fleet.rollout import WELL, Outcome, Work
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, reason
from edgeveil.edge_runtime.storage.atomic import write_atomic

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class LastSeen:
    """The file ``hall.seen.json`` beside ``hall.toml``: a time (UTC) by the name of a board. ``now`` gives seconds."""

    def __init__(self, fleet: Path, now: Callable[[], float] = time.time) -> None:
        self.path, self._now = fleet.with_suffix(".seen.json"), now
        try:
            self.times: dict[str, str] = json.loads(self.path.read_bytes())
            for text in self.times.values():
                time.strptime(text, _TIME)
        except FileNotFoundError:
            self.times = {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{self.path} does not say when boards answered ({reason(error)}). Remove it: it is made anew."
            ) from None

    def keep(self, outcome: Outcome) -> None:
        """A board that answered was seen now; on the disk."""
        if outcome.state in WELL:
            self.times[outcome.board] = time.strftime(_TIME, time.gmtime(self._now()))
            write_atomic(str(self.path), (json.dumps(self.times, indent=1, sort_keys=True) + "\n").encode())

    def asking(self, work: Work) -> Work:
        """The same work; where a board does not answer, it says since when."""

        def asked(board: FleetBoard, say: Callable[[str], None]) -> tuple[str, str]:
            try:
                return work(board, say)
            except DeviceFailed as error:
                raise DeviceFailed(f"{error} {self._silence(board.name)}") from None

        return asked

    def _silence(self, name: str) -> str:
        if name not in self.times:
            return "It never answered."
        since = self._now() - calendar.timegm(time.strptime(self.times[name], _TIME))
        days = int(since // 86400)
        how_long = f"{days} days" if days else f"{int(since // 3600)} hours"
        return f"Silent for {how_long}: it last answered at {self.times[name]}."
