"""The file of a training: its plan, every report that counted, and which rounds are closed, one line of JSON each.

All that a training knows follows from it, so an interrupted one goes on from there, and anybody can compute theta anew
from the reports. Lines are only ever added; one that was cut off by a crash is dropped.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.rounds import MOST_RUN
from edgeveil.edge_runtime.storage.atomic import file_place, write_atomic, writing

KIND = "edgeveil-federation-journal"


class Plan(NamedTuple):
    """What a training is to do. Each round asks ``lot`` of ``devices`` devices."""

    rounds: int
    devices: int
    lot: int
    step: float


class Journal:
    """The journal at ``path``: ``run`` names the training, ``closed`` has the reports of each closed round in turn, by
    device, and ``answers`` those of the open one.

    It is made where there is none. Raises ``BadInput`` for a journal of another bundle or plan, or for another file.
    """

    def __init__(self, path: Path, manifest_sha256: str, plan: Plan) -> None:
        file_place(path)
        self._path = path
        self.closed: list[dict[str, list[float]]] = []
        self.answers: dict[str, list[float]] = {}
        head = {"schema": 1, "kind": KIND, "manifest_sha256": manifest_sha256, "plan": plan._asdict()}
        if not path.exists():
            write_atomic(path, _line({**head, "run": 1 + secrets.randbelow(MOST_RUN)}))
        self.run = self._read(head)
        with writing(path):
            self._file = path.open("ab")

    def _read(self, head: dict[str, Any]) -> int:
        try:
            data = self._path.read_bytes()
            *lines, rest = data.split(b"\n")
            first, *others = (json.loads(line) for line in lines)
            run = first.pop("run")
            for line in others:
                self._take(line)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise BadInput(
                f"The journal of a training was expected at {self._path}; this is none: name another --state FILE."
            ) from None
        if first != head:
            differs = " and ".join(key for key in head if first.get(key) != head[key])
            raise BadInput(
                f"The journal {self._path} is of another training (its {differs}): repeat the command that began it, "
                "or name another --state FILE."
            )
        if rest:
            os.truncate(self._path, len(data) - len(rest))
        return int(run)

    def _take(self, line: dict[str, Any]) -> None:
        if "closed" in line:
            if line["closed"] != len(self.closed) + 1:
                raise ValueError
            self.closed.append(self.answers)
            self.answers = {}
        else:
            if line["round"] != len(self.closed) + 1 or line["device"] in self.answers:
                raise ValueError
            self.answers[line["device"]] = [float(value) for value in line["report"]]

    def count(self, device: str, report: np.ndarray) -> None:
        """A report of the open round, (d,) or more places."""
        self._add({"round": len(self.closed) + 1, "device": device, "report": report.tolist()})

    def close_round(self) -> dict[str, list[float]]:
        """Close the open round; its reports by device."""
        self._add({"closed": len(self.closed) + 1})
        return self.closed[-1]

    def _add(self, line: dict[str, Any]) -> None:
        with writing(self._path):
            self._file.write(_line(line))
            self._file.flush()
        self._take(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
