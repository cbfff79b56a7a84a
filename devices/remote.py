"""A temporary folder on a board, and rows of a data set that a bundle perturbs there, sent in pieces and fetched.

The folder is in the board's memory (``/dev/shm``) if there is room: a card may keep what was deleted from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.flashing.board import Board, runtime_output
from edgeveil.devices.transports.base import check, digest, holds, read_back
from edgeveil.edge_runtime.device import CPU, open_limit_s
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError, reason
from edgeveil.edge_runtime.util.atomic import atomic_path

PIECE = 64 * 1024  # bytes that are requested again after a lost connection


class RemoteWorkspace:
    """A folder on a board that only its user can read. ``in_memory``: it is not on the board's card."""

    def __init__(self, board: Board, folder: str, in_memory: bool) -> None:
        self.board, self.folder, self.in_memory = board, folder, in_memory

    def put(self, data: bytes) -> str:
        """Write bytes to a file there and return its path. Bytes that are there already are not sent again."""
        path = posixpath.join(self.folder, digest(data))
        self.board.transport.put(data, path)
        return path

    def put_bundle(self, data: bytes) -> str:
        """A bundle's path there: that of the installed bundle if it is the same, bit for bit."""
        installed = posixpath.join(self.board.root, "current", "bundle.veil")
        if holds(self.board.transport, installed, data):
            return installed
        return self.put(data)

    def fetch(self, path: str) -> bytes:
        """The bytes of a file there. Raises ``DeviceFailed`` if it is missing, or changed meanwhile."""
        transport, pieces = self.board.transport, []
        size, sha = read_back(transport, path)
        for number in range(-(-size // PIECE)):
            command = ["dd", f"if={path}", f"bs={PIECE}", f"skip={number}", "count=1"]
            done = transport.run(command)
            check(done, f"Reading {path}")
            pieces.append(done.raw)
        data = b"".join(pieces)
        if not sha or (len(data), digest(data)) != (size, sha):
            raise DeviceFailed(f"{path} is missing, or changed while it was fetched from {transport.name}. Try again.")
        return data

    def remove(self, *paths: str) -> None:
        """Remove files that are no longer needed."""
        check(self.board.transport.run(["rm", "-f", *paths]), "Removing files")


@contextlib.contextmanager
def remote_workspace(board: Board, key: str, *, size_bytes: int = 0) -> Iterator[RemoteWorkspace]:
    """A ``RemoteWorkspace`` that is removed when the block ends; a failure to remove it is reported.

    ``key`` (letters and digits) names it, so that it is found again after a lost connection. ``size_bytes`` is the most
    that it will hold at a time.
    """
    transport = board.transport
    command = [transport.python, "-c", _FOLDER, f"edgeveil-{key[:32]}", str(size_bytes)]
    where, folder = check(transport.run(command), "Making a place for what is sent").decode().split()
    try:
        yield RemoteWorkspace(board, folder, where == "memory")
    except BaseException:
        try:
            _remove(board, folder)
        except EdgeVeilError:
            board.say(
                f"What was sent to {transport.name} could not be removed: repeat the command, which removes it, "
                f"or remove {folder} there."
            )
        raise
    _remove(board, folder)


def _remove(board: Board, folder: str) -> None:
    check(board.transport.run(["rm", "-rf", folder]), f"Removing {folder}")


# A folder of that name that another user owns, or that is a link or open to others, is not used.
_FOLDER = """
import os, stat, sys
name, room = sys.argv[1], int(sys.argv[2])
def ours(place):
    try:
        os.makedirs(place, mode=0o700)
    except OSError:
        pass
    try:
        found = os.lstat(place)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
try:
    space = os.statvfs("/dev/shm")
    memory = space.f_bavail * space.f_frsize > 2 * room
except OSError:
    memory = False
place = "/dev/shm/%s-%d" % (name, os.getuid())
if memory and ours(place):
    print("memory", place)
else:
    place = os.path.join(os.path.expanduser("~"), ".cache", name)
    if not ours(place):
        sys.exit(place + " is not a folder for this user alone; remove it")
    print("card", place)
"""


PIECE_ROWS, PIECE_BYTES = 512, 2 * 2**20  # samples that are sent together
PIECE_S = 1800  # the longest time for a piece
OPEN_S = 420  # besides what opening may take there

Advance = Callable[..., None]


@dataclass(frozen=True)
class RemoteRows:
    """Rows that a board perturbed: every output (n, ...), what ran them there, and the facts of the board."""

    artefact: str
    outputs: Mapping[str, np.ndarray]
    ran: Mapping[str, Any]
    board: Mapping[str, Any]


def perturb_on_board(
    board: Board,
    bundle: bytes,
    x: np.ndarray,
    *,
    artefact: str,
    device: str = CPU,
    further: Sequence[Mapping[str, Any]],
    kept: Path,
    progress: Callable[[int], contextlib.AbstractContextManager[Advance]],
) -> RemoteRows:
    """Perturb raw samples x (n, ...) by ``bundle`` on ``board``, with the runtime that is installed there.

    ``artefact`` is a name, or ``auto`` for what the board would run on ``device``. ``further`` are entries of outputs
    that are returned as well. ``kept`` is a local folder for the pieces that came back, which are not run again after a
    lost connection; remove it at the end. ``progress(pieces)`` shows the progress. Raises ``BadInput`` where the
    board refuses the bundle, ``DeviceFailed`` if the board or the connection fails.
    """
    facts = board.facts_document()
    if not (facts["edgeveil"] or {}).get("committed"):
        raise BadInput(f"There is no EdgeVeil on {board.transport.name}: flash it first.")
    at_once = max(1, min(PIECE_ROWS, PIECE_BYTES // max(1, x[:1].nbytes)))
    pieces = [x[at : at + at_once] for at in range(0, len(x), at_once)]
    size_bytes = len(bundle) + 2 * pieces[0].nbytes
    with remote_workspace(board, f"audit-{digest(bundle)}", size_bytes=size_bytes) as workspace:
        place = workspace.put_bundle(bundle)
        ran = _ran(board, OPEN_S + open_limit_s(device), place, artefact, device)
        artefact = ran["artefact"]
        kept = kept / _key(board, bundle, ran, x, further)
        missing = [number for number in range(len(pieces)) if not _file(kept, number).is_file()]
        if missing:
            board.say(_notice(board, workspace, sum(len(pieces[number]) for number in missing), x))
        with progress(len(pieces)) as advance:
            for number, piece in enumerate(pieces):
                figures = {}
                if number in missing:
                    figures = {
                        "rows_a_second": _run(workspace, (place, artefact, device), piece, further, _file(kept, number))
                    }
                advance(**figures)
    outputs = [_read(_file(kept, number)) for number in range(len(pieces))]
    whole = {name: np.concatenate([one[name] for one in outputs]) for name in outputs[0]}
    return RemoteRows(artefact, whole, ran, {key: facts[key] for key in ("board", "architecture", "system", "python")})


def _run(
    remote: RemoteWorkspace, what: tuple[str, str, str], x: np.ndarray, further: Sequence[Mapping[str, Any]], out: Path
) -> float:
    packed = io.BytesIO()
    np.savez_compressed(packed, x=x)
    rows = remote.put(packed.getvalue())
    result = posixpath.join(remote.folder, "out.npz")
    ran = _ran(remote.board, PIECE_S, *what, rows, result, json.dumps(list(further)))
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(out) as temporary:
        Path(temporary).write_bytes(remote.fetch(result))
        for name, value in _read(Path(temporary)).items():
            if len(value) != len(x):
                raise DeviceFailed(f"The board answered {len(x)} samples with {len(value)} of {name}.")
    remote.remove(rows, result)
    return len(x) / max(float(ran["seconds"]), 1e-9)


def _ran(board: Board, limit_s: float, *arguments: str) -> dict[str, Any]:
    printed = runtime_output(board.run_agent("run_rows", board.root, *arguments, timeout_s=limit_s))
    try:
        return json.loads(printed)
    except ValueError:
        raise DeviceFailed("The board's answer is not what it ran. Try again.") from None


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError) as error:
        raise BadInput(
            f"{path} is not a result of a board ({reason(error)}): remove it, and repeat the command."
        ) from None


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npz"


def _key(
    board: Board, bundle: bytes, ran: Mapping[str, Any], x: np.ndarray, further: Sequence[Mapping[str, Any]]
) -> str:
    """Pieces are reused only for the same board, bundle, interpreter and samples."""
    described = {
        "board": [board.transport.name, board.root],
        "bundle": digest(bundle),
        "ran": ran,
        "x": [str(x.dtype), list(x.shape), hashlib.sha256(np.ascontiguousarray(x).data).hexdigest()],
        "further": list(further),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:32]


def _notice(board: Board, workspace: RemoteWorkspace, rows: int, x: np.ndarray) -> str:
    where = "into its memory" if workspace.in_memory else "onto its card, which may keep what is deleted from it,"
    size = rows * x[:1].nbytes / 2**20
    return (
        f"{rows:,} raw samples of the test slice ({size:.1f} MB) go to {board.transport.name}, {where} and are "
        "removed there at the end."
    )
