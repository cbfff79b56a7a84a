"""``edgeveil data open``: a recording that a board sealed, as an .npz or MCAP file of samples and what the operator
said of them.

The file is read twice, once for the times and labels and once for the samples, which are written one by one: no more
than one of them is in memory.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.ipc.recording import END, FRAME, HEAD, LABEL, Label, records
from edgeveil.edge_runtime.signing.sealed import opened
from edgeveil.edge_runtime.util.atomic import atomic_path
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.loaders import ros
from edgeveil.trainer.datasets.readings import NEEDED, OPTIONAL

ARRAYS = (*NEEDED, *OPTIONAL)  # names of labels that are arrays of their own; another one is label_NAME
TIME = "captured_s"


@dataclass
class Contents:
    """What a recording holds besides its samples."""

    head: dict[str, Any] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    tracks: list[int] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)


def open_recording(path: Path, secret: bytes, out: Path) -> Iterator[str]:
    """Write ``out``, which must not exist, and say in sentences what is in it. Raises ``BadInput``."""
    if out.exists():
        raise BadInput(f"{out} exists; it is not overwritten. Choose another --out, or remove it.")
    if out.suffix not in (".npz", ".mcap"):
        raise BadInput(f"--out: expected a name that ends in .npz or .mcap; got {out}.")
    contents = Contents()
    for kind, content in _records(path, secret):
        if kind == FRAME:
            contents.seconds.append(content.seconds)
            contents.tracks.append(content.track)
        elif kind == LABEL:
            contents.labels.append(content)
        elif kind == HEAD:
            contents.head = content
        elif kind == END:
            contents.end = content
    tags, keep = _said(contents)
    if not keep.any():
        raise BadInput(
            f"{path}: none of {counted(len(keep), 'frame')} has all of {', '.join(tags) or 'any label'}. Record again, "
            "with --labels."
        )
    arrays = {name if name in ARRAYS else f"label_{name}": values[keep] for name, values in tags.items()}
    if not {"subject", "groups", "session"} & set(arrays):
        arrays["session"] = _parts(tags, np.array(contents.tracks))[keep]
    seconds = np.array(contents.seconds)[keep]
    samples = _kept(_records(path, secret), keep)
    with atomic_path(str(out), mode=0o600) as temporary:
        if out.suffix == ".mcap":
            ros.write(temporary, samples, seconds, arrays)
        else:
            _write_npz(temporary, samples, {**arrays, TIME: seconds}, contents.head, int(keep.sum()))
    shape = " x ".join(map(str, contents.head["shape"]))
    yield f"{counted(int(keep.sum()), 'sample')} of {shape} in {out}: RAW, readable by you alone."
    if not keep.all():
        yield f"  left out: {counted(int((~keep).sum()), 'frame')} without a label"
    for name, values in arrays.items():
        if values.dtype.kind == "U":
            classes, counts = np.unique(values, return_counts=True)
            yield f"  {name}: {', '.join(f'{one} {count}' for one, count in zip(classes, counts, strict=True))}"
    if not {"y", "z"} <= set(arrays):
        yield "  It has no y and z, which training needs: record with labels y and z."
        return
    if out.suffix == ".mcap":
        groups = "".join(f" --{name} /{name}" for name in ("subject", "session") if name in arrays)
        yield f"Next: edgeveil recipe new {out} --target /y --sensitive /z{groups}"
        return
    yield f"Next: edgeveil recipe new {out}, or name it as data.source in the recipe of the bundle that recorded it."


def _records(path: Path, secret: bytes) -> Iterator[tuple[bytes, Any]]:
    try:
        with path.open("rb") as file:
            yield from records(opened(file, secret, str(path)), str(path))
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {reason(error)}.") from None


def _said(found: Contents) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The text of each label for each frame, and which frames have all of them."""
    seconds = np.array(found.seconds)
    keep, tags = np.ones(len(seconds), bool), {}
    for name in found.head.get("names", []):
        own = sorted((one for one in found.labels if one.name == name), key=lambda one: one.seconds)
        place = np.searchsorted([one.seconds for one in own], seconds, side="right") - 1
        values = np.array([*(one.value or "" for one in own), ""])
        tags[name] = values[place]  # before the first: the last of the list, which is empty
        keep &= tags[name] != ""
    return tags, keep


def _parts(said: dict[str, np.ndarray], tracks: np.ndarray) -> np.ndarray:
    """A number for each stretch of frames (N,) of one track with the same labels."""
    rows = np.stack([np.unique(one, return_inverse=True)[1] for one in [tracks, *said.values()]])
    return np.cumsum(np.concatenate([[False], (rows[:, 1:] != rows[:, :-1]).any(axis=0)]))


def _kept(found: Iterator[tuple[bytes, Any]], keep: np.ndarray) -> Iterator[np.ndarray]:
    frames = (content.data for kind, content in found if kind == FRAME)
    return (data for kept, data in zip(keep, frames, strict=True) if kept)


def _write_npz(
    path: str, samples: Iterator[np.ndarray], arrays: dict[str, np.ndarray], head: dict[str, Any], rows: int
) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values, allow_pickle=False)
        with archive.open("x.npy", "w", force_zip64=True) as member:
            shape, descr = (rows, *head["shape"]), np.lib.format.dtype_to_descr(np.dtype(head["dtype"]))
            np.lib.format.write_array_header_1_0(member, {"descr": descr, "fortran_order": False, "shape": shape})
            for data in samples:
                member.write(data.tobytes())
