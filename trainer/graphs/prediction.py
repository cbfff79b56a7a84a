"""Run Keras models in batches."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from edgeveil.edge_runtime.util.atomic import atomic_path

KEY_BYTES = 16
BATCH_BYTES = 8 * 2**20  # of a batch of samples at most: its features in one layer are easily a hundred times as large
_asked: dict[int, dict[bytes, np.ndarray]] = {}  # by the id of a model, what it said of each sample


def predict(model: Any, values: np.ndarray | Sequence[np.ndarray], *, batch: int = 1024) -> Any:
    """The model's output for ``values`` (n, ...), or for a list of arrays if it has several inputs.

    Returns an array (n, ...), or a list of arrays if the model has several outputs. Called directly: Keras' own
    ``predict`` would trace a graph for every model.
    """
    arrays: list[Any] = list(values) if isinstance(values, (list, tuple)) else [values]
    known = _asked.get(id(model)) if len(arrays) == 1 and len(arrays[0]) else None
    return _computed(model, arrays, batch) if known is None else _once(model, arrays[0], batch, known)


@contextmanager
def asked_once(*models: Any) -> Iterator[None]:
    """Within the block ``predict`` computes each sample once for each of these models of one input and one output.

    An audit asks the same classifiers about the same samples in several sections, and what is sent may be few different
    frames many times. Their weights must not change within.
    """
    mine: dict[int, dict[bytes, np.ndarray]] = {id(model): {} for model in models if id(model) not in _asked}
    _asked.update(mine)
    try:
        yield
    finally:
        for key in mine:
            del _asked[key]


def keep_answers(folder: Path, *models: Any) -> None:
    """Write what ``asked_once`` knows of these models into ``folder``, for ``recall_answers``."""
    for model in models:
        known = _asked[id(model)]
        with atomic_path(_kept(folder, model)) as path:
            keys = np.frombuffer(b"".join(known), np.uint8).reshape(len(known), KEY_BYTES)
            np.savez(path, keys=keys, answers=np.stack(list(known.values())))


def recall_answers(folder: Path, *models: Any) -> None:
    """Add what was kept in ``folder`` of models with the same weights to what ``asked_once`` knows."""
    for model in models:
        with contextlib.suppress(OSError, ValueError, KeyError, BadZipFile), np.load(_kept(folder, model)) as stored:
            _asked[id(model)].update(zip((key.tobytes() for key in stored["keys"]), stored["answers"], strict=True))


def _kept(folder: Path, model: Any) -> Path:
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for weights in model.get_weights():
        digest.update(f"{weights.dtype}{weights.shape}".encode())
        digest.update(np.ascontiguousarray(weights).data)
    return folder / f"answers-{digest.hexdigest()}.npz"


def _once(model: Any, values: np.ndarray, batch: int, known: dict[bytes, np.ndarray]) -> np.ndarray:
    rows = np.ascontiguousarray(values)
    keys = [hashlib.blake2b(row.data, digest_size=KEY_BYTES).digest() for row in rows]
    new: dict[bytes, int] = {}
    for place, key in enumerate(keys):
        if key not in known:
            new.setdefault(key, place)
    if new:
        known.update(zip(new, _computed(model, [rows[list(new.values())]], batch), strict=True))
    return np.stack([known[key] for key in keys])


def _computed(model: Any, arrays: list[np.ndarray], batch: int) -> Any:
    pieces: list[list[np.ndarray]] = []
    several = False
    batch = max(1, min(batch, BATCH_BYTES // max(1, 4 * sum(int(np.prod(array.shape[1:])) for array in arrays))))
    for start in range(0, len(arrays[0]), batch):
        chunk = [np.asarray(array[start : start + batch]) for array in arrays]  # of samples on disk too
        output = model(chunk if len(chunk) > 1 else chunk[0], training=False)
        several = isinstance(output, (list, tuple))
        pieces.append([np.asarray(one) for one in (output if several else [output])])
    outputs = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return outputs if several else outputs[0]
