"""Converts sensor frames to pipeline inputs: crops of people, measure, size and type, as the manifest says.

The same code runs in training and on the device, with numpy only. docs/reference/sources.md describes it.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.capture import resize
from edgeveil.edge_runtime.capture.box_finder import BoxFinder
from edgeveil.edge_runtime.capture.person_finder import GRID, HEAD_MM, Finder, Floor, window
from edgeveil.edge_runtime.capture.tracker import Tracker
from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Crop, Input, Manifest

RED, GREEN, BLUE = 77, 150, 29  # 256 times the weights of BT.601's luma
MOST_SEEN = 16  # people in one frame that are counted


class Capture(object):
    """Applies the manifest's ``capture``. ``slots`` is the number of records a tick; ``left_out`` counts people without
    a slot.

    With ``capture`` null, or without ``crop``, every frame is slot 0 of track 0; so is every window of a series.
    ``watcher.people`` gets the places (row, column) of all people in each frame, with a slot or without, at most
    ``MOST_SEEN``, and its ``restart`` is called with that of this. ``detector`` is the open network of a bundle that
    finds people with one.
    """

    def __init__(self, manifest: Manifest, watcher: Any = None, detector: Any = None) -> None:
        capture, spec = manifest.capture, manifest.input
        self.slots = 1 if capture is None else capture.slots
        self.left_out = 0
        self._watcher = watcher
        self._convert = self._people = None
        self._boxes: Optional[BoxFinder] = None
        noisy = manifest.counts is not None and manifest.counts.noise is not None
        self._promises = manifest.spending is not None or noisy
        if capture is None or spec.kind == "series":
            return  # of a series the source gives whole windows (sources.series.windows)
        self._shape, self._dtype = tuple(capture.frame.shape), np.dtype(capture.frame.dtype)
        self._convert = _converter(capture, spec)
        if watcher is not None and manifest.detector is not None and detector is not None:
            self._boxes = BoxFinder(manifest.detector, detector, self._shape, most=MOST_SEEN)
        if capture.crop is not None:
            self._people = _People(capture, capture.crop, watcher)

    def frames(self, frame: RawFrame) -> List[Tuple[int, RawFrame]]:
        """(slot, ``RawFrame`` for the pipeline) of all people in one sensor frame, or of the frame itself.

        Raises ``FrameDropped`` (``shape``, ``dtype``) for a frame of another shape or type than the sensor's.
        """
        if self._convert is None:
            return [(0, frame)]
        data = frame._data
        if data.ndim == len(self._shape) + 1 and data.shape[-1] == 1:
            data = data[..., 0]
        if data.shape != self._shape:
            raise FrameDropped("shape")
        if data.dtype != self._dtype:
            raise FrameDropped("dtype")
        if self._boxes is not None:
            self._watcher.people(self._places(self._boxes, data))
        if self._people is None:
            return [(0, RawFrame(self._convert(data), frame.index, frame.captured_ns))]
        crops, left_out = self._people.crops(data)
        self.left_out += left_out
        return [
            (slot, RawFrame(self._convert(crop), frame.index, frame.captured_ns, track)) for track, slot, crop in crops
        ]

    def _places(self, boxes: BoxFinder, data: np.ndarray) -> List[Tuple[float, float]]:
        """The people that the detector finds. Where an epsilon is promised, a failure drops nothing: it finds none."""
        try:
            return boxes(data)
        except Exception:
            if not self._promises:
                raise
            return []

    @property
    def ended(self) -> List[int]:
        """The tracks that ended since the last call: the perturber must forget them."""
        if self._people is None:
            return []
        tracks = self._people.tracker.ended
        ended, tracks[:] = tracks[:], []
        return ended

    def restart(self) -> None:
        """End all tracks, after the source was reopened."""
        if self._people is not None:
            self._people.tracker.end_all()
        if self._watcher is not None:
            self._watcher.restart()


class _People(object):
    """Crops of people, as depths or heights above the floor, with their tracks and slots."""

    def __init__(self, capture: CaptureRules, crop: Crop, watcher: Any) -> None:
        frame = capture.frame
        self._watcher = watcher
        self._size, self._shape = tuple(crop.size), tuple(frame.shape[:2])
        self._most = max(capture.slots + 1, 0 if watcher is None else MOST_SEEN)
        self._height = capture.measure == "height"
        self._floor = Floor(self._shape, crop.floor_frames)
        unit = frame.unit_mm or 1.0
        self._head = HEAD_MM / unit
        self._find = Finder(
            self._shape,
            focal_px=crop.focal_px,
            apart=crop.apart_mm / unit,
            least_height=crop.least_height_mm / unit,
            least_pixels=crop.least_pixels,
        )
        self.tracker = Tracker(slots=capture.slots, step_px=crop.step_px, gone_frames=crop.gone_frames)

    def crops(self, depth: np.ndarray) -> Tuple[List[Tuple[int, int, np.ndarray]], int]:
        """[(track, slot, crop)] and the number of people without a slot."""
        self._floor.update(depth)
        grid = tuple(slice(GRID // 2, n // GRID * GRID, GRID) for n in self._shape)
        sparse = depth[grid]
        people = self._find(sparse, self._floor.height(sparse, grid), self._head, self._most)
        if self._watcher is not None:
            self._watcher.people([person.place for person in people])
        centres = [person.centre for person in people]
        crops, left_out = [], 0
        for centre, found in zip(centres, self.tracker.update(centres)):
            if found is None:
                left_out += 1
                continue
            inside, place = window(centre, self._size, self._shape)
            # 0 means no measurement, as for all pixels outside the picture.
            crop = np.zeros(self._size, np.uint16)
            crop[place] = self._floor.height(depth[inside], inside) if self._height else depth[inside]
            crops.append((found[0], found[1], crop))
        return crops, left_out


def _converter(capture: CaptureRules, spec: Input) -> Callable[[np.ndarray], np.ndarray]:
    """The function from a frame or crop of the sensor's type to the pipeline's input."""
    scale = _scaler(capture, spec)
    shape = tuple(spec.shape)
    if spec.kind == "vector":
        return scale
    frame = capture.frame.shape
    part = _window(capture.window)
    size = tuple(capture.crop.size) if capture.crop else tuple(capture.window[2:] if capture.window else frame[:2])
    gray = len(frame) == 3 and frame[2] == 3 and shape[2] == 1
    means = capture.resize == "area" and size != shape[:2]
    fit = (resize.area if means else resize.nearest)(size, shape[:2])

    def run(picture: np.ndarray) -> np.ndarray:
        picture = picture[part]
        if gray:
            picture = picture.dot(np.array([RED, GREEN, BLUE], np.uint16)) >> 8
            picture = picture.astype(np.uint8)
        if picture.ndim == 2:
            picture = picture[:, :, None]
        return np.ascontiguousarray(scale(fit(picture)))

    return run


def _window(window: Optional[Sequence[int]]) -> Tuple[slice, ...]:
    """The part of a frame that is used; without a ``window``, all of it."""
    if window is None:
        return (slice(None),)
    top, left, height, width = window
    return slice(top, top + height), slice(left, left + width)


def _scaler(capture: CaptureRules, spec: Input) -> Callable[[np.ndarray], np.ndarray]:
    """The function from samples to the input's type: low and high become the ends of the input's range.

    ``depth``: 0 (no measurement) is the largest depth. ``seen``: 1 where the sample is within low to high, else 0.
    """
    measure, low, high = capture.measure, capture.low, capture.high
    span = 0.0 if low is None or high is None else high - low
    dtype = np.dtype(spec.dtype)
    whole = dtype.kind in "iu"
    unit = np.float32((capture.frame.unit_mm or 1.0) if measure in ("depth", "height") else 1.0)

    def ends(v: np.ndarray) -> np.ndarray:
        v = v * np.float32(spec.high - spec.low) + np.float32(spec.low)
        return (np.rint(v) if whole else v).astype(dtype)

    def arithmetic(x: np.ndarray) -> np.ndarray:
        if low is None:
            return np.rint(x).astype(dtype) if whole and x.dtype.kind == "f" else x.astype(dtype)
        if measure == "seen":
            return ((x >= low) & (x <= high)).astype(dtype)
        v = (x.astype(np.float32) * unit - np.float32(low)) / np.float32(span)
        v = np.minimum(np.maximum(v, np.float32(0)), np.float32(1))
        if measure == "depth":
            v = np.where(x == 0, np.float32(1), v)
        return ends(v)

    source = np.dtype(capture.frame.dtype)
    if source.kind != "u" or capture.resize == "area":
        return arithmetic
    # Every possible sample, computed once.
    return arithmetic(np.arange(np.iinfo(source).max + 1, dtype=source)).take
