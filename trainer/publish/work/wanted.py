"""What is to be published, and by what: as a command says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgeveil.trainer.publish.plan import Plan

Engine = Literal["local", "ray"]


@dataclass(frozen=True)
class Wanted:
    """``recordings`` is a folder of pictures, npz:FILE or FILE.parquet; ``key`` the file of the master key;
    ``chunk_rows`` the frames that are worked at a time, None for about 16 MiB of what leaves."""

    bundle: Path
    trust: Path
    recordings: str
    table: Path
    plan: Plan
    key: Path
    recipient: str
    out: Path
    engine: Engine = "local"
    jobs: int = 1
    artefact: str = "auto"
    ledger: Path | None = None
    chunk_rows: int | None = None
    resume: bool = False
    again: bool = False
    unaudited: bool = False
