"""``npz:FILE``: the array x (N, ...) of an .npz file, row by row."""

import zipfile

import numpy as np

from edge_runtime.errors import BadInput
from edge_runtime.frames import RawFrame
from edge_runtime.sources.base import Source, now_ns


class NpzSource(Source):
    """Rows of ``x`` in order; ``index`` is the row. Images may leave out a last axis of one channel."""

    def __init__(self, path, spec):
        shape = tuple(spec["shape"])
        x = _read(path)
        if x.shape[1:] + (1,) == shape:
            x = x[..., None]
        if x.shape[1:] != shape or x.ndim != len(shape) + 1 or x.dtype != np.dtype(spec["dtype"]):
            raise BadInput(
                "expected x of {} {} in {}, as the bundle was made for; got {} {}".format(
                    spec["dtype"], ("N",) + shape, path, x.dtype, x.shape
                )
            )
        self._x = x
        self._next = 0
        self._end = self.size = len(x)

    def next(self):
        """The next row as a ``RawFrame``, or None at the end."""
        row = self._next
        if row >= self._end:
            return None
        self._next += 1
        return RawFrame(self._x[row], row, now_ns())

    def close(self):
        """Let the array go."""
        self._x = self._x[:0]


def _read(path):
    try:
        with zipfile.ZipFile(path) as archive, archive.open("x.npy") as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    except FileNotFoundError:
        problem = "there is no such file"
    except KeyError:
        problem = "it has no array called x"
    except zipfile.BadZipFile:
        problem = "it is no .npz file, or a damaged one"
    except OSError as error:
        problem = error.strerror or "it cannot be read"
    except ValueError:
        # Numpy's own words may quote what stands in the file.
        problem = "its x is no plain array of numbers, or is cut short"
    raise BadInput("expected an .npz file with an array x (N, ...) at {}: {}".format(path, problem))
