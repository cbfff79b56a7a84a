"""What a work folder is of: a resumed one goes on with the same plan, table, recordings, bundle, key and recipient."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import write_atomic, writing

WORK, STATE, DOCUMENT = "work", "state.json", "publication.json"
State = dict[str, Any]
_WHAT = {
    "plan": "the plan is another one",
    "table": "the table is another one",
    "archive": "the recordings are others",
    "bundle": "the bundle is another one",
    "artefact": "the artefact is another one",
    "recipient": "the recipient is another one",
    "key": "the key is another one",
    "chunk_rows": "the size of its chunks is another one",
    "version": "EdgeVeil is of another version",
}


def begin(out: Path, state: State) -> None:
    """Make the folder and its work folder, and note what it is of."""
    with writing(out):
        (out / WORK).mkdir(parents=True, exist_ok=True)
    write_atomic(out / WORK / STATE, json.dumps(state, sort_keys=True).encode())


def require_unused(out: Path) -> None:
    """Raise ``BadInput`` where something is in the folder."""
    if (out / WORK / STATE).is_file():
        raise BadInput(f"{out} holds a publication that is not done yet: add --resume, or give another folder.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} is not empty: a publication is never written over another. Give another folder.")


def require_same(out: Path, state: State) -> State:
    """What was noted at the start. Raises ``BadInput`` where there is nothing, or where it was of something else."""
    if (out / DOCUMENT).is_file() and not (out / WORK / STATE).is_file():
        raise BadInput(f"The publication in {out} is done. Check it with edgeveil publish verify, without --resume.")
    try:
        was: State = json.loads((out / WORK / STATE).read_bytes())
    except (OSError, ValueError):
        raise BadInput(f"{out} holds no publication that was begun: leave out --resume.") from None
    for name, what in _WHAT.items():
        if was.get(name) != state[name]:
            raise BadInput(
                f"{out} cannot be gone on with: {what} than at the start. Give the former, or another folder."
            )
    return was
