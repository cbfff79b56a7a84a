"""Latencies that others published of boards: those of the networks that are nearest by MACs.

``published.csv`` was written by ``scripts/reproduce/estimator/count.py`` at commit baecb1ef;
docs/reference/benchmarks.md explains its columns and their pitfalls.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.errors import BadInput, reason

TABLE = Path(__file__).parent / "published.csv"
NEAREST = 3


@dataclass(frozen=True)
class Row:
    """One measured latency. ``group`` is the board and what runs networks on it: ``raspberry-pi-4/tflite``."""

    group: str
    precision: str  # int8, fp16, fp32
    model: str
    input: str
    latency_ms: float
    macs: float
    threads: int  # 0: not stated, or it does not apply
    source: str
    cost_from: str

    def describe(self) -> str:
        """The row for people."""
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if self.threads else ""
        return f"{self.latency_ms:g} ms: {self.model} {self.input} as {self.precision}{threads} ({self.source})"


@dataclass(frozen=True)
class Nearest:
    """The rows of a board that are nearest to a network of ``macs``, its own precision first; maybe none."""

    group: str
    artefact: str
    precision: str
    macs: float
    rows: tuple[Row, ...]

    def document(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


def for_profile(macs: Mapping[str, float], profile: Profile, rows: Sequence[Row]) -> list[Nearest]:
    """The nearest rows for each artefact and each board of a profile.

    ``macs`` are those of a frame, by artefact name, above 0. Raises ``BadInput`` if the profile has no rows, or the
    bundle no artefact for it.
    """
    places = [(c.group, c.artefact, c.precision) for c in profile.calibration]
    if not places:
        raise BadInput(f"Nothing measured on {profile.title} is in the table. Measure there with edgeveil bench --on.")
    nearest = []
    for group, artefact, precision in places:
        if artefact in macs:
            measured = [row for row in rows if row.group == group]
            measured.sort(key=lambda row: (row.precision != precision, abs(math.log(row.macs / macs[artefact]))))
            nearest.append(Nearest(group, artefact, precision, macs[artefact], tuple(measured[:NEAREST])))
    if not nearest:
        raise BadInput(
            f"The profile {profile.name} runs {', '.join(profile.artefacts)}; here are {', '.join(macs)}. "
            f"Export the run with --for {profile.name}."
        )
    return nearest


def published(path: Path = TABLE) -> list[Row]:
    """The rows that have a latency and MACs, in the file's order. Raises ``BadInput`` for an invalid table."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = [line for line in csv.DictReader(file) if line["latency_ms"] and line["macs"] and line["device"]]
        rows = [_row(line) for line in lines if line["runtime"]]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise BadInput(
            f"{path} is not a table of latencies: {reason(error)}. docs/reference/benchmarks.md names its columns."
        ) from None
    for row in rows:
        if row.latency_ms <= 0 or row.macs <= 0:
            raise BadInput(f"{path}: a latency and MACs above 0 were expected; got {row.describe()}.")
    return rows


def _row(line: Mapping[str, str]) -> Row:
    return Row(
        group=f"{line['device']}/{line['runtime']}",
        precision=line["precision"],
        model=line["model"],
        input=line["input"],
        latency_ms=float(line["latency_ms"]),
        macs=float(line["macs"]),
        threads=int(line["threads"] or 0),
        source=line["source"],
        cost_from=line["cost_from"],
    )
