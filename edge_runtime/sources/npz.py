"""``npz:FILE``: the array x (N, ...) of an .npz file, row by row, in constant memory."""

import contextlib
import io
import zipfile
from typing import Any, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, SourceFailed
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sources.base import Sensor, Source, now_ns

READ = 1 << 16  # bytes at a time; more than any header has


class NpzSource(Source):
    """Rows of ``x`` in order; ``index`` is the row. Images may leave out a last axis of one channel."""

    schemes = ("npz",)
    forms = ("npz:FILE",)
    help = "array `x` (N, ...) of the bundle's shape and type, row by row. A last axis of one channel may be missing"
    file = True
    windows = True
    devices = ()
    calls = ""

    def __init__(self, path: str, spec: Sensor) -> None:
        shape = tuple(spec["shape"])
        self._archive, self._member, actual, dtype = _open_archive(path)
        if not (actual[1:] == shape or actual[1:] + (1,) == shape) or not actual or dtype != np.dtype(spec["dtype"]):
            self.close()
            raise BadInput(
                "expected x of {} ({}) in {}, as the bundle was made for; got {} {}".format(
                    spec["dtype"], ", ".join(map(str, ("N",) + shape)), path, dtype, actual
                )
            )
        self._path, self._dtype = path, dtype
        self._row_bytes = int(np.prod(shape)) * dtype.itemsize
        self._block = np.empty((0,) + shape, dtype)  # rows that were read together: a read for each takes longer
        self._first = self._next = 0  # the number of the block's first row, and of the next one
        self._end = self.size = actual[0]

    def next(self) -> Optional[RawFrame]:
        """The next row, numbered from 0."""
        row = self._next
        if row >= self._end:
            return None
        self._next += 1
        if row >= self._first + len(self._block):
            self._read_block(row)
        return RawFrame(self._block[row - self._first], row, now_ns())

    def skip(self, frames: int) -> None:
        """Pass over rows without making frames of them."""
        self._next += min(frames, self._end - self._next)

    def _read_block(self, row: int) -> None:
        """Read from ``row`` on, which the last block ends before."""
        at = self._first + len(self._block)
        passed = max(1, READ // self._row_bytes)
        while at < row:
            count = min(passed, row - at)
            self._read(count, at)
            at += count
        data = self._read(min(passed, self._end - row), row)
        self._block = np.frombuffer(data, self._dtype).reshape((-1,) + self._block.shape[1:])
        self._first = row

    def _read(self, rows: int, at: int) -> bytes:
        wanted, data = rows * self._row_bytes, b""
        with contextlib.suppress(zipfile.BadZipFile, OSError, EOFError):
            data = self._member.read(wanted)
        if len(data) != wanted:
            raise SourceFailed(
                "{} is damaged: its x ends at row {}".format(self._path, at + len(data) // self._row_bytes)
            )
        return bytes(data)

    def close(self) -> None:
        """Close the file."""
        self._end = 0
        self._member.close()
        self._archive.close()


def count_rows(path: str) -> int:
    """How many rows x has. Raises ``BadInput`` where there is no such file."""
    archive, member, shape, _ = _open_archive(path)
    member.close()
    archive.close()
    return shape[0] if shape else 0


def _open_archive(path: str) -> Tuple[zipfile.ZipFile, Any, Tuple[int, ...], np.dtype]:
    """The archive, x's values as a file that is read from front to back, and its shape and dtype."""
    archive = None
    try:
        archive = zipfile.ZipFile(path)
        with archive.open("x.npy") as member:
            head = io.BytesIO(member.read(READ))
            # Read it once: a damaged file is found before its first row is given, not after the last.
            while member.read(READ):
                pass
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, columns_first, dtype = read[np.lib.format.read_magic(head)](head)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if dtype.hasobject or archive.getinfo("x.npy").file_size - head.tell() != size:
            raise ValueError
        member = archive.open("x.npy")
        member.read(head.tell())
        if columns_first and len(shape) > 1:
            # The rows are scattered over the file, so it is read whole.
            array = np.frombuffer(member.read(), dtype).reshape(shape, order="F")
            member = io.BytesIO(array.tobytes())
        return archive, member, tuple(shape), dtype
    except FileNotFoundError:
        problem = "there is no such file"
    except KeyError:
        problem = "it has no array called x"
    except zipfile.BadZipFile:
        problem = "it is no .npz file, or a damaged one"
    except OSError as error:
        problem = error.strerror or "it cannot be read"
    except ValueError:
        # Numpy's message may quote the file.
        problem = "its x is no plain array of numbers, or is cut short"
    if archive is not None:
        archive.close()
    raise BadInput("expected an .npz file with an array x (N, ...) at {}: {}".format(path, problem))
