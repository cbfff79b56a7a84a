"""What an export has made is kept until it is done, so that a broken-off one goes on and does not begin anew.

A piece is found by all that it depends on: networks, samples, versions and our own code. So a piece of another run, of
another format or of other code is never taken.
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

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.edge_runtime.storage.atomic import atomic_path
from edgeveil.trainer.datasets.npz_errors import UNREADABLE
from edgeveil.trainer.progress import say
from edgeveil.trainer.source_code import code_of

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
            with np.load(path, allow_pickle=False) as kept:
                return {name: kept[name] for name in kept.files}
        except UNREADABLE:
            pass
        made = make()
        self.folder.mkdir(exist_ok=True)
        with atomic_path(path) as temporary:
            np.savez(temporary, **cast(Any, made))
        return made


@contextmanager
def kept_pieces(out: Path, made_by: Mapping[str, str], *, resume: bool) -> Iterator[KeptPieces]:
    """The pieces of an export into ``out``, which stay only where the block is interrupted, or killed.

    Raises ``BadInput`` where an export to there was broken off, unless ``resume``.
    """
    kept = KeptPieces(out.with_name(f".{out.name}.kept"), made_by)
    if len(kept) and not resume:
        raise BadInput(
            f"An export into {out} was broken off; {counted(len(kept), 'piece of it is', 'pieces of it are')} "
            f"kept. Add --resume to continue it, or "
            f"remove {kept.folder} to begin anew."
        )
    try:
        yield kept
    except KeyboardInterrupt:
        say(
            f"{counted(len(kept), 'piece of the export is', 'pieces of the export are')} kept in {kept.folder}; "
            f"the same command with --resume continues."
        )
        raise
    except BaseException:
        shutil.rmtree(kept.folder, ignore_errors=True)
        raise
    shutil.rmtree(kept.folder, ignore_errors=True)


def _digest(*of: bytes | str | Arrays) -> str:
    digest = hashlib.sha256()
    for part in of:
        for name, value in part.items() if isinstance(part, Mapping) else (("", part),):
            data = value.encode() if isinstance(value, str) else value
            facts = f"{name} {data.dtype} {data.shape}" if isinstance(data, np.ndarray) else f"{len(data)}"
            digest.update(facts.encode() + b"\0")
            digest.update(np.ascontiguousarray(data).data if isinstance(data, np.ndarray) else data)
    return digest.hexdigest()[:32]
