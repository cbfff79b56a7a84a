"""What each attack answered, kept as it ends, so that an interrupted audit loses one attack and not all of them.

An answer is found by what it depends on: the rows, the budget, the seed, the family and its code. So nothing has to be
named, an answer of other rows is never taken, and where two artefacts send the same (label-only does), one is enough.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np

from edgeveil.edge_runtime.storage.atomic import atomic_path
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.scores.scoring import Answers, answers
from edgeveil.trainer.source_code import code_of

_UNREADABLE = (OSError, ValueError, KeyError, EOFError, BadZipFile)


class Journal:
    """Keeps answers in ``folder`` (None: nowhere); ``made_by`` are versions of what computes them.

    ``begins`` is told which attack starts to learn; one whose answer is here does not.
    """

    def __init__(
        self, folder: Path | None, *, made_by: str = "", begins: Callable[[str], None] = lambda _: None
    ) -> None:
        self.folder, self.made_by, self.begins = folder, made_by, begins

    def __len__(self) -> int:
        return 0 if self.folder is None else len(list(self.folder.glob("*.npz")))

    def answers(self, problem: Problem, family: Adversary, seed: int) -> Answers:
        """As ``answered``, from here where it is kept."""
        if self.folder is None:
            return _trained(problem, family, seed, self.begins)
        path = self.folder / f"{self._key(problem, family, seed)}.npz"
        try:
            with np.load(path, allow_pickle=False) as kept:
                raw = {part: kept[part] for part in ("choose", "test")}
                return Answers(raw, int(kept["train_samples"]), float(kept["seconds"]))
        except _UNREADABLE:
            pass
        said = _trained(problem, family, seed, self.begins)
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            kept = {**said.raw, "train_samples": said.train_samples, "seconds": said.seconds}
            np.savez(temporary, **cast(Any, kept))
        return said

    def _key(self, problem: Problem, family: Adversary, seed: int) -> str:
        digest = hashlib.sha256(problem.digest)
        for part in (self.made_by, family.name, str(seed)):
            digest.update(part.encode() + b"\0")
        digest.update(code_of(Path(__file__).parent) + code_of_family(family))  # families share code
        return digest.hexdigest()[:32]


def answered(problem: Problem, family: Adversary, seed: int) -> Answers:
    """Train a family on a problem and ask it, or take what it answered before from the budget's journal.

    Raises as ``scoring.answers`` does.
    """
    journal: Journal | None = problem.budget.journal
    return _trained(problem, family, seed) if journal is None else journal.answers(problem, family, seed)


def _trained(problem: Problem, family: Adversary, seed: int, begins: Callable[[str], None] = lambda _: None) -> Answers:
    begins(family.name)
    begun = time.perf_counter()
    said = answers(problem, family.fit(problem, seed), family.name)
    return said._replace(seconds=time.perf_counter() - begun)


def code_of_family(family: Adversary) -> bytes:
    """The source of a family: another version of a plugin is another family."""
    file = getattr(sys.modules.get(type(family).__module__), "__file__", None)
    return Path(file).read_bytes() if file else b""
