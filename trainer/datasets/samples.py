"""Samples that stay on disk: rows of one file, in memory only a piece at a time.

What is small is read at once and is a plain array, so a batch, a part of a few rows and a whole small data set need no
care. Pages of a mapped file would count as the process's memory, so files are read, and not mapped.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import atomic_path, require
from edgeveil.trainer.child_processes import free_memory
from edgeveil.trainer.progress import say
from edgeveil.trainer.results import locked, own_folder

IN_MEMORY = 512 * 2**20  # bytes as float32: samples that take no more are arrays
PIECE = 16 * 2**20  # bytes that are read at a time
DENSE = 4  # rows of a file for each that is wanted, up to which all of them are read at once

Function = Callable[[np.ndarray], np.ndarray]


class Stored:
    """Samples (n, ...) of one ``dtype`` in a file, in some order: like an array, as far as training goes.

    ``samples[rows]`` of an array of row numbers, of bools or of a slice are those samples, an array where they are
    small (``IN_MEMORY``); of a number it is one. ``numpy.asarray`` reads all. Both raise ``BadInput`` where the file
    has changed, the second also where memory does not suffice.
    """

    def __init__(self, path: Path, offset: int, shape: tuple[int, ...], dtype: Any) -> None:
        """``path`` has ``shape`` values of ``dtype`` in C order from byte ``offset`` on."""
        self._path, self._offset, self._each, self._type = path, offset, shape[1:], np.dtype(dtype)
        self._file = path.open("rb", buffering=0)  # as long as the samples are there
        self._seen = self._state()
        self._rows: np.ndarray | None = None
        self._functions: tuple[Function, ...] = ()
        self.shape, self.dtype = shape, self._type

    def _state(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns

    def _like(self, rows: np.ndarray | None, shape: tuple[int, ...], dtype: Any, *more: Function) -> Stored:
        made = object.__new__(Stored)
        made.__dict__.update(self.__dict__)
        made._rows, made._functions, made.shape, made.dtype = rows, (*self._functions, *more), shape, np.dtype(dtype)
        return made

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """As of an array."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """As of an array."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes that they take in memory, as they are or as float32."""
        return self.size * max(4, self.dtype.itemsize)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, (int, np.integer)):
            return self._read(np.arange(len(self))[rows : rows + 1 or None])[0]
        chosen = (np.arange(len(self)) if self._rows is None else self._rows)[rows]
        some = self._like(chosen, (len(chosen), *self.shape[1:]), self.dtype)
        return some if some.nbytes > IN_MEMORY else some._read(np.arange(len(some)))

    def __iter__(self) -> Iterator[np.ndarray]:
        return (sample for _, piece in self.pieces() for sample in piece)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        require_memory(self.nbytes, f"{len(self):,} samples of shape {self.shape[1:]}")
        x = np.concatenate([piece for _, piece in self.pieces()])
        return x if dtype is None else x.astype(dtype)

    def through(self, function: Function) -> Stored:
        """The samples that ``function`` makes of them, (n, ...) of (n, ...), when they are read."""
        made = function(np.empty((0, *self.shape[1:]), self.dtype))
        return self._like(self._rows, (len(self), *made.shape[1:]), made.dtype, function)

    def sorted(self) -> Stored:
        """The same samples in the order of the file."""
        return self if self._rows is None else self._like(np.sort(self._rows), self.shape, self.dtype)

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """All of them a piece at a time, each with the place of its first."""
        step = max(1, PIECE * len(self) // max(1, self.nbytes))
        for start in range(0, len(self), step):
            yield start, self._read(np.arange(start, min(start + step, len(self))))

    def _read(self, places: np.ndarray) -> np.ndarray:
        rows = places if self._rows is None else self._rows[places]
        if self._state() != self._seen:
            raise BadInput(f"{self._path} has changed while it was read. Put it back as it was, or begin again.")
        first, last = (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
        if last - first <= DENSE * len(rows):
            x = self._block(first, last)
            x = x if len(rows) == len(x) and (np.diff(rows) == 1).all() else x[rows - first]
        else:
            x = np.empty((len(rows), *self._each), self._type)
            for row, place in zip(rows.tolist(), x.reshape(len(rows), -1), strict=True):
                self._fill(place, row)
        for function in self._functions:
            x = function(x)
        return x

    def _block(self, first: int, last: int) -> np.ndarray:
        x = np.empty((last - first, *self._each), self._type)
        self._fill(x, first)
        return x

    def _fill(self, x: np.ndarray, row: int) -> None:
        left = memoryview(cast(Any, x.reshape(-1).view(np.uint8)))
        at = self._offset + row * self._type.itemsize * int(np.prod(self._each, dtype=np.int64))
        while len(left):
            count = os.preadv(self._file.fileno(), [left], at)
            if not count:
                raise BadInput(f"{self._path} ends before its last sample: it is cut off. Copy it again.")
            left, at = left[count:], at + count


def is_large(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether samples of this shape (n, ...) stay on disk."""
    return int(np.prod(shape, dtype=np.int64)) * max(4, np.dtype(dtype).itemsize) > IN_MEMORY


def applied(function: Function, x: np.ndarray) -> np.ndarray:
    """``function`` of samples (n, ...): now, or of stored ones when they are read."""
    return cast(np.ndarray, x.through(function)) if isinstance(x, Stored) else function(x)


def pieces(x: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Samples (n, ...) a piece at a time, each with the place of its first; an array is one piece."""
    return x.pieces() if isinstance(x, Stored) else iter([(0, x)])


def extremes(x: np.ndarray, axis: int | None = None) -> tuple[Any, Any]:
    """The least and the largest value of samples (n, ...), or with ``axis`` 0 of each of their values."""
    ends = [
        (piece.min(axis=axis), piece.max(axis=axis)) for _, piece in pieces(x.sorted() if isinstance(x, Stored) else x)
    ]
    lows, highs = zip(*ends, strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def spread(x: np.ndarray, values: int) -> np.ndarray:
    """Evenly spread samples of about so many values where they are stored; all of an array."""
    if not isinstance(x, Stored):
        return x
    rows = max(1, values // max(1, x.size // len(x)))
    return np.asarray(x.sorted()[:: max(1, len(x) // rows)])


def gigabytes(size: float) -> str:
    """A size in bytes, for a sentence."""
    return f"{size / 1e9:,.1f} GB"


FEWER = "Take fewer rows with `budget.rows`, or smaller samples"


def require_memory(needed: float, what: str, cure: str = FEWER) -> None:
    """Raise ``BadInput`` where less memory is free than so many bytes, for ``what``; ``cure`` says what to do."""
    free = free_memory()
    if needed > free:
        raise BadInput(f"{what} need {gigabytes(needed)} of memory, and {gigabytes(free)} are free. {cure}.")


# Samples that a file does not hold as they are (pictures, a compressed .npz) are written once, as one array, into the
# user's cache. Its name is the fingerprint of what it was made of, so a changed source has another one.


def fingerprint(path: Path, *facts: Any) -> str:
    """That of a file, by its size, its time and further ``facts``; of a folder by the facts alone."""
    found = path.stat()
    own = () if path.is_dir() else (found.st_size, found.st_mtime_ns)
    return hashlib.sha256(repr((own, facts)).encode()).hexdigest()[:32]


def converted(
    source: Path, fingerprint: str, shape: tuple[int, ...], dtype: Any, made: Callable[[], Iterator[Any]]
) -> tuple[Stored, np.ndarray]:
    """Samples of ``source`` as one file, made unless it is there, and the place of each in the source.

    ``made`` gives (place, sample) for at most ``shape[0]`` samples of ``shape[1:]``, or several from a place on.
    The file of an earlier fingerprint goes. It is written whole or not at all. Raises ``BadInput``, and ``WriteFailed``
    where the disk is full.
    """
    folder = own_folder(source, "samples")
    path, at = folder / f"{fingerprint}.npy", folder / f"{fingerprint}.rows.npy"
    with locked(path, "data"):
        if not (path.is_file() and at.is_file()):
            for old in folder.iterdir():
                if old.suffix == ".npy":
                    old.unlink(missing_ok=True)
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            require(str(path), size)
            say(
                f"The samples of {source}, at most {gigabytes(size)}, are written once to {folder} and read from there."
            )
            with atomic_path(path) as temporary:
                places = _write(Path(temporary), shape, dtype, made)
                with atomic_path(at) as rows, Path(rows).open("wb") as file:
                    np.save(file, places)
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        return Stored(path, file.tell(), shape, dtype), np.load(at)


def _write(path: Path, shape: tuple[int, ...], dtype: Any, made: Callable[[], Iterator[Any]]) -> np.ndarray:
    """Write what ``made`` gives as one .npy file; the place of each sample."""
    found: list[np.ndarray] = []
    facts = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {**facts, "shape": shape})
        begins = file.tell()
        for place, x in made():
            samples = np.ascontiguousarray(x, dtype).reshape((-1, *shape[1:]))
            file.write(samples.data)
            found.append(np.arange(place, place + len(samples)))
        places = np.concatenate(found) if found else np.empty(0, np.int64)
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, {**facts, "shape": (len(places), *shape[1:])})
        if file.tell() != begins:
            raise ValueError("the header of an array has grown")
    return places


# Arrays of an .npz file.


def read_member(file: np.lib.npyio.NpzFile, name: str, path: Path, *, stored: bool = False) -> np.ndarray:
    """The array of that name in a file; if ``stored``, ``Stored`` where it is large. Raises ``BadInput`` for one of
    Python objects."""
    large = _stored(cast(zipfile.ZipFile, file.zip), f"{name}.npy", path) if stored else None
    if large is not None:
        return cast(np.ndarray, large)
    try:
        array: np.ndarray = file[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise BadInput(
            f"{path}: `{name}` is an array of Python objects, which is never loaded: it could run code. Make it an "
            "array of numbers or text, such as numpy.array(list_of_equal_lengths, dtype=numpy.float32)."
        ) from None
    return array


def _stored(archive: zipfile.ZipFile, name: str, path: Path) -> Stored | None:
    """A large array from its place in the file, or where it is compressed from a copy; None of another."""
    about = archive.getinfo(name)
    with archive.open(about) as member:
        shape, by_column, dtype = member_header(member)
        begins = member.tell()
    if not is_large(shape, dtype) or by_column or dtype.hasobject:
        return None
    if about.compress_type != zipfile.ZIP_STORED or about.flag_bits & 1:
        facts = (about.CRC, about.file_size)
        return converted(path, fingerprint(path, facts), shape, dtype, lambda: _blocks(path, name))[0]
    with path.open("rb") as file:
        file.seek(about.header_offset + 26)  # the lengths of the name and of what follows it
        length, extra = struct.unpack("<HH", file.read(4))
    return Stored(path, about.header_offset + 30 + length + extra + begins, shape, dtype)


def _blocks(path: Path, name: str) -> Iterator[tuple[int, np.ndarray]]:
    """An array of a file a block at a time, each with its first row."""
    with zipfile.ZipFile(path) as archive, archive.open(name) as member:
        (rows, *each), _, dtype = member_header(member)
        size = dtype.itemsize * int(np.prod(each, dtype=np.int64))
        step = max(1, PIECE // size)
        for first in range(0, rows, step):
            data = member.read(size * min(step, rows - first))
            yield first, np.frombuffer(data, dtype).reshape(-1, *each)


def member_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """The shape of an array in an .npz file, whether it is stored by column, and its type."""
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return cast("tuple[tuple[int, ...], bool, np.dtype]", read(member))
