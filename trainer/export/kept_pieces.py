"""What an export has made is kept until it is done, so that a broken-off one goes on and does not begin anew.

A piece is found by all that it depends on: networks, samples, versions and our own code. So a piece of another run,
of another format or of other code is never taken.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.util.atomic import atomic_path
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.readings import UNREADABLE
from edgeveil.trainer.progress import say
from edgeveil.trainer.results import code_of

Arrays = Mapping[str, np.ndarray]


class KeptPieces:
    """Pieces in ``folder``, each some arrays by name; ``made_by`` says which packages make them, and in which version.

    ``folder`` is made with the first of them.
    """

    def __init__(self, folder: Path, made_by: Mapping[str, str]) -> None:
        self.folder = folder
        code = b"".join(code_of(Path(__file__).parents[2] / part) for part in ("edge_runtime", "models", "trainer"))
        self._made_by = code + json.dumps(sorted(made_by.items())).encode()

    def __len__(self) -> int:
        return len(list(self.folder.glob("*.npz")))

    def piece(self, make: Callable[[], Arrays], *of: bytes | str | Arrays) -> Arrays:
        """What ``make`` returns, from here where it is kept; ``of`` is all that it depends on."""
        path = self.folder / f"{_digest(self._made_by, *of)}.npz"
        try:
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except UNREADABLE:
            pass
        arrays = make()
        self.folder.mkdir(exist_ok=True)
        with atomic_path(path) as temporary:
            np.savez(temporary, **cast(Any, arrays))
        return arrays


@contextmanager
def kept_pieces(out: Path, made_by: Mapping[str, str]) -> Iterator[KeptPieces]:
    """The pieces of an export into ``out``, which stay only where the block is interrupted, or killed.

    Those of an interrupted export to there are taken.
    """
    pieces = KeptPieces(out.with_name(f".{out.name}.kept"), made_by)
    if len(pieces):
        say(f"Continuing an export that was interrupted: {pieces.folder} has {counted(len(pieces), 'piece')} of it.")
    try:
        yield pieces
    except KeyboardInterrupt:
        say(
            f"{counted(len(pieces), 'piece of the export is', 'pieces of the export are')} kept in {pieces.folder}; "
            f"the same command continues."
        )
        raise
    except BaseException:
        shutil.rmtree(pieces.folder, ignore_errors=True)
        raise
    shutil.rmtree(pieces.folder, ignore_errors=True)


def _digest(*of: bytes | str | Arrays) -> str:
    digest = hashlib.sha256()
    for part in of:
        for name, value in part.items() if isinstance(part, Mapping) else (("", part),):
            data = value.encode() if isinstance(value, str) else value
            facts = f"{name} {data.dtype} {data.shape}" if isinstance(data, np.ndarray) else f"{len(data)}"
            digest.update(facts.encode() + b"\0")
            digest.update(np.ascontiguousarray(data).data if isinstance(data, np.ndarray) else data)
    return digest.hexdigest()[:32]
