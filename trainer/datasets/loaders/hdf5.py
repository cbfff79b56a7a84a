"""``hdf5:FILE``: the datasets of an HDF5 file whose first axis are the rows, by their paths in it.

Source: The HDF Group, "HDF5 File Format Specification"; h5py reads it. Nothing outside the file is opened: a link or
storage in another file is refused, and a soft link is not followed.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.columns import Column, Table, column_of, nfc
from edgeveil.trainer.datasets.loaders.formats import Format, Samples, need_memory

DEEPEST = 16  # groups within groups


class Hdf5(Format):
    """HDF5, read by h5py."""

    names = ("hdf5",)
    forms = ("hdf5:FILE",)
    what = "HDF5 files"
    endings = ("h5", "hdf5", "hdf", "he5")
    module = "h5py"
    extra = "hdf5"

    @classmethod
    def read(cls, path: Path, gone: Collection[str], x: str | None) -> Table:
        """See ``Format``. Of datasets of several lengths, those as long as ``x``, else as most are, are the rows."""
        h5py = importlib.import_module(cls.module)
        file = h5py.File(path, "r", locking=False)
        found = {name: one for name, one in _datasets(h5py, file, path, set()) if one.ndim and one.shape[0]}
        if not found:
            raise BadInput(f"{path} has no dataset with rows. Write x, y and z into it.")
        rows = Counter(one.shape[0] for one in found.values()).most_common(1)[0][0]
        rows = found[nfc(x)].shape[0] if x and nfc(x) in found else rows
        columns, arrays = dict[str, Column](), dict[str, Samples]()
        for name, one in found.items():
            where = f"{path}: {name}"
            if one.shape[0] != rows:
                continue
            if one.dtype.names is not None and one.ndim == 1:  # a table of PyTables or pandas
                need_memory(one.size * one.dtype.itemsize, where)
                table = one[()]
                columns |= {
                    f"{name}.{field}": column_of(table[field], gone, f"{where}.{field}")
                    for field in one.dtype.names
                    if table[field].ndim == 1 and table[field].dtype.kind in "biufS"
                }
                continue
            text = h5py.check_string_dtype(one.dtype) is not None
            if one.ndim == 1 and (text or one.dtype.kind in "biufS" or h5py.check_enum_dtype(one.dtype)):
                need_memory(one.size * one.dtype.itemsize, where)
                columns[name] = column_of(one[()], gone, where)
            elif one.ndim > 1 and one.dtype.kind in "biuf":
                arrays[name] = Samples(where, rows, _rows_of(one), _whole(one, where))
            elif one.ndim == 1 and h5py.check_vlen_dtype(one.dtype) == np.uint8:  # files of pictures
                arrays[name] = Samples(where, rows, _files_of(one))
        return Table(path, columns, arrays)


def _datasets(
    h5py: Any, group: Any, path: Path, seen: set[int], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """The datasets below a group, by name, each once: a group may hold itself. Raises ``BadInput`` for what lies in
    another file."""
    for key in group if depth < DEEPEST else ():
        link, name = group.get(key, getlink=True), nfc(f"{prefix}{key}")
        if isinstance(link, h5py.ExternalLink):
            raise BadInput(f"{path}: {name} is a link to another file, which is not opened. Copy it into one file.")
        if not isinstance(link, h5py.HardLink):
            continue
        one = group[key]
        address = h5py.h5o.get_info(one.id).addr
        if address in seen:
            continue
        seen.add(address)
        if isinstance(one, h5py.Group):
            yield from _datasets(h5py, one, path, seen, f"{name}/", depth + 1)
        elif isinstance(one, h5py.Dataset) and one.shape is not None:
            if one.external or one.is_virtual:
                raise BadInput(
                    f"{path}: the data of {name} lie in another file, which is not opened. Copy them into it."
                )
            if one.chunks:
                need_memory(np.prod(one.chunks, dtype=float) * one.dtype.itemsize, f"{path}: a chunk of {name}")
            yield name, one


def _rows_of(dataset: Any) -> Any:
    return lambda rows: (dataset[row] for row in rows)


def _files_of(dataset: Any) -> Any:
    def each(rows: Iterable[int]) -> Iterator[bytes]:
        return (dataset[row].tobytes() for row in rows)

    return each


def _whole(dataset: Any, where: str) -> Any:
    def read() -> np.ndarray:
        need_memory(dataset.size * dataset.dtype.itemsize, where)
        x: np.ndarray = dataset[()]
        return x.astype(np.uint8) if x.dtype == bool else x.astype(x.dtype.newbyteorder("="), copy=False)

    return read
