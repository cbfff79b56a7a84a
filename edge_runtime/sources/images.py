"""``images:DIR``: the pictures of a folder, 8 or 16 bits, read by OpenCV; in real time where it has ``depth.txt``.

The order is that of the names, or that of ``depth.txt`` (else ``rgb.txt``) in the folder, as in the TUM RGB-D
recordings: each line is a time in seconds and a file, ``#`` begins a comment.
"""

import math
import os
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.late_imports import MOST_FITTED, MOST_PIXELS, decoded, opencv
from edgeveil.edge_runtime.sources.base import Pace, Sensor, Source, has_size, now_ns
from edgeveil.edge_runtime.sources.convert import need_image
from edgeveil.edge_runtime.sources.picture_size import TIFF, orientation, read_size

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm", ".ppm")
OTHERS = (".gif", ".webp", ".heic", ".heif", ".avif", ".jp2", ".jxl")  # pictures that are not read: counted as dropped
LISTS = ("depth.txt", "rgb.txt")
FPS = 30.0  # of a folder without times
LEAST_FILE_BYTES = 16 * 2**20  # a file of this size is always read; above it, of 8 times its samples


class ImagesSource(Source):
    """One frame a picture: gray (height, width, 1), colour (height, width, 3) as RGB; ``index`` is its place.

    ``realtime`` gives each at its time, and makes the source ``live``; ``repeat`` begins again at the end, one mean
    interval later, and ``index`` continues.
    """

    schemes = ("images",)
    forms = ("images:DIR",)
    help = "pictures of 8 or 16 bits, gray or RGB, by name, or by the times in `depth.txt` or `rgb.txt` (TUM RGB-D)"
    needs = ("opencv",)
    file = True
    recording = True
    devices = ()
    calls = "sysinfo uname"

    def __init__(
        self, folder: str, spec: Sensor, *, realtime: bool = False, repeat: bool = False, pace: Optional[Pace] = None
    ) -> None:
        need_image(spec, "a folder of images")
        opencv()  # it fails now where there is none
        times, self.files = list_pictures(folder)
        self._paths = [os.path.join(folder, name) for name in self.files]
        self._times = [time - times[0] for time in times]
        self._length_s = self._times[-1] * len(times) / (len(times) - 1) if len(times) > 1 else 1 / FPS
        self._pace = (pace or Pace()) if realtime else None
        self._repeat = repeat
        self._spec = spec
        most = 3 * MOST_FITTED if spec.get("any_size") else 8 * int(np.prod(spec["shape"]))
        self._most_bytes = max(LEAST_FILE_BYTES, most * np.dtype(spec["dtype"]).itemsize)
        self._next = 0
        self.live = realtime
        self.size = None if repeat else len(times)
        self.name = "images:" + folder

    def next(self) -> Optional[RawFrame]:
        """The next picture as a ``RawFrame``, or None at the end."""
        turn, place = divmod(self._next, len(self._paths))
        if turn and not self._repeat:
            return None
        index, self._next = self._next, self._next + 1
        if self._pace:
            self._pace.wait(turn * self._length_s + self._times[place])
        picture = self._fitting(_read(self._paths[place], self._most_bytes))
        if picture.ndim == 2:
            picture = picture[:, :, None]
        elif picture.shape[2] == 3:
            # OpenCV's order is blue, green, red.
            picture = np.ascontiguousarray(picture[:, :, ::-1])
        return RawFrame(picture, index, now_ns())

    def skip(self, frames: int) -> None:
        """Pass over pictures without reading them."""
        self._next += frames

    def _fitting(self, data: bytes) -> np.ndarray:
        """The picture as OpenCV has it, if it has the sensor's size. Raises ``FrameDropped``."""
        size = read_size(data)
        if size is None:
            raise FrameDropped("unreadable")
        if not has_size(size, self._spec):
            raise FrameDropped("shape")
        picture = upright(data)
        if picture is None:
            raise FrameDropped("unreadable")
        return picture


def upright(data: bytes) -> Any:
    """The picture in a file's bytes in OpenCV's order, turned as its EXIF says; None where there is none to read."""
    size = read_size(data)
    picture = None if size is None or size[0] * size[1] > MOST_PIXELS else decoded(data)
    if picture is not None and data[:4] not in TIFF:  # OpenCV turns these
        turned = orientation(data)
        picture = picture.swapaxes(0, 1) if turned > 4 else picture
        picture = picture[:, ::-1] if turned in (2, 3, 6, 7) else picture
        picture = np.ascontiguousarray(picture[::-1] if turned in (3, 4, 7, 8) else picture)
    return None if picture is None or picture.shape[:2] != size else picture


def read_picture(path: Any) -> Any:
    """The picture of a file, as ``upright``; None where it cannot be read. It is never read by its name."""
    try:
        with open(path, "rb") as file:
            return upright(file.read())
    except OSError:
        return None


def list_pictures(folder: str) -> Tuple[List[float], List[str]]:
    """Times in seconds and names in the folder of its pictures, in the order of the frames. Raises ``BadInput``."""
    if not os.path.isdir(folder):
        raise BadInput("expected a folder of images at {}; there is none".format(folder))
    listed = _read_list(folder) or _list_by_name(folder)
    if not listed:
        raise BadInput("expected pictures ({}) in {}; there are none".format(", ".join(SUFFIXES), folder))
    return [time for time, _ in listed], [os.path.relpath(path, folder) for _, path in listed]


def files_below(folder: Any, above: Tuple[str, ...] = ()) -> Iterator[str]:
    """Paths below a folder without hidden ones; a link to a folder that it lies in is not followed."""
    here = os.path.realpath(os.fspath(folder))
    for entry in os.scandir(os.fspath(folder)) if here not in above else ():
        if not entry.name.startswith("."):
            for path in files_below(entry.path, above + (here,)) if entry.is_dir() else (entry.path,):
                yield path


def _read(path: str, most_bytes: int) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except OSError:
        data = b""
    return data if len(data) <= most_bytes else b""


def _list_by_name(folder: str) -> List[Tuple[float, str]]:
    paths = sorted(path for path in files_below(folder) if path.lower().endswith(SUFFIXES + OTHERS))
    if not any(path.lower().endswith(SUFFIXES) for path in paths):
        return []
    return [(place / FPS, path) for place, path in enumerate(paths)]


def _read_list(folder: str) -> Optional[List[Tuple[float, str]]]:
    """Times and files of the folder's list, or None where it has none. Raises ``BadInput`` for a bad line."""
    paths = [path for path in (os.path.join(folder, name) for name in LISTS) if os.path.isfile(path)]
    if not paths:
        return None
    listed: List[Tuple[float, str]] = []
    with open(paths[0], encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            time = _seconds(words[0])
            if len(words) != 2 or time is None or (listed and time < listed[-1][0]) or os.path.isabs(words[1]):
                problem = "line {} of {}: expected a time in seconds, not before the last one, and a file in the folder"
                raise BadInput(problem.format(number, paths[0]))
            listed.append((time, os.path.join(folder, words[1])))
    return listed


def _seconds(word: str) -> Optional[float]:
    try:
        seconds = float(word)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
