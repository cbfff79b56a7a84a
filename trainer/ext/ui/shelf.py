"""What lies below a folder: runs, audits, sweeps and bundles. It is read anew for each page, and nothing is kept.

What is read may be a stranger's: a name is an address only where it was found here, nothing outside the folder is
followed, and what cannot be read is one sentence in its row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError, reason
from edgeveil.trainer.audit.verdict import words
from edgeveil.trainer.runs import listing

MOST_BYTES = 64 << 20  # of a document or of the lines of a training
MOST = 5_000  # of one kind
T = TypeVar("T")
ENDED = ("finished", "interrupted", "classifiers")  # states of a training that adds no epochs


class Found(NamedTuple):
    """One thing: its path below the folder, and why it cannot be shown, or nothing."""

    at: str
    problem: str = ""
    facts: Any = None


class Shelf:
    """The folder ``root``. Raises ``BadInput`` where there is none."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise BadInput(f"A folder of runs was expected at {root}; there is none. Name another.")
        self.root = root.resolve()

    def runs(self) -> list[Found]:
        """Each with a ``listing.Summary``."""
        audits = list(listing.audits_below(self.root))
        return [self._read(at, lambda path: listing.summary(path.parent, audits)) for at in self._named("run.json")]

    def audits(self) -> list[Found]:
        """Each with its words; those that are copies of an export's are left out."""
        return [self._read(at, lambda path: words(_document(path))) for at in self._named("audit.json")]

    def sweeps(self) -> list[Found]:
        """Each with its number of points."""
        return [self._read(at, lambda path: len(sweep(path)["points"])) for at in self._named("frontier.json")]

    def bundles(self) -> list[Found]:
        """Bundles that are sealed; they are verified where they are shown."""
        return [Found(at) for at in self._named(".veil")]

    def place(self, at: str, name: str) -> Path:
        """The file ``at`` of that name. Raises ``BadInput`` for what ``_walk`` would not find."""
        path, parts = self.root / at, Path(at).parts
        plain = bool(parts) and "\0" not in at and not any(one.startswith((".", "/", "\\")) for one in parts)
        if not (plain and _fits(path.name, name) and self._holds(path)):
            raise BadInput("There is nothing of that name below the folder that is shown.")
        return path

    def _holds(self, path: Path) -> bool:
        return path.is_file() and path.resolve().is_relative_to(self.root)

    def _named(self, name: str) -> list[str]:
        return sorted(self._walk(name))[:MOST]

    def _walk(self, name: str) -> Iterator[str]:
        for folder, inner, files in os.walk(self.root):
            inner[:] = sorted(one for one in inner if not one.startswith("."))
            for file in files:
                path = Path(folder, file)
                if _fits(file, name) and self._holds(path):
                    yield path.relative_to(self.root).as_posix()

    def _read(self, at: str, read: Callable[[Path], Any]) -> Found:
        facts, problem = attempt(lambda: read(self.root / at))
        return Found(at, problem, facts)


def _fits(file: str, name: str) -> bool:
    return file == name or (name.startswith(".") and file.endswith(name))


def attempt(read: Callable[[], T]) -> tuple[T | None, str]:
    """What a document is read as, or why it cannot be."""
    try:
        return read(), ""
    except EdgeVeilError as error:
        return None, str(error)
    except Exception as error:  # a stranger's document may break a page anywhere
        return None, f"It is not what this version writes ({type(error).__name__}: {reason(error)})."[:300]


def text(path: Path) -> str:
    """A file of the folder. Raises ``BadInput`` for one that no training writes."""
    if path.stat().st_size > MOST_BYTES:
        raise BadInput(f"{path.name}: at most {MOST_BYTES >> 20} MB were expected.")
    return path.read_text(encoding="utf-8")


def _document(path: Path) -> dict[str, Any]:
    return as_schema_2(json.loads(text(path)))


def audit(path: Path) -> dict[str, Any]:
    """An audit, of an export or of pairs, as schema 2."""
    return _document(path)


def sweep(path: Path) -> dict[str, Any]:
    """The document of a frontier. Raises ``BadInput`` for another."""
    document = json.loads(text(path))
    if not isinstance(document, dict) or document.get("kind") != "edgeveil-frontier":
        raise BadInput("A frontier of `edgeveil run sweep` was expected.")
    return document


def epochs(run: Path) -> list[dict[str, Any]]:
    """The lines of a training so far; the last one may be half written."""
    path = run / "metrics.jsonl"
    lines = text(path).rpartition("\n")[0].splitlines() if path.is_file() else []
    return [line for line in map(json.loads, lines) if isinstance(line, dict)]


def goes_on(summary: listing.Summary) -> bool:
    """Whether more epochs may come."""
    return summary.state not in ENDED


def together(runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> list[dict[str, Any]]:
    """The epochs of several runs, each figure under the name of its run; of one run as they are."""
    if len(runs) == 1:
        return [dict(line) for line in runs[0][1]]
    apart = ("stage", "step", "time_s")
    return [
        {key if key in apart else f"{name}: {key}": value for key, value in line.items()}
        for name, lines in runs
        for line in lines
    ]
