"""Converts sensor frames to pipeline inputs: crops of people, measure, size and type, as the manifest says.

The same code runs in training and on the device, with numpy only. docs/reference/sources.md describes it.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.count import MOST_SEEN
from edgeveil.edge_runtime.manifest.detector import DetectorRules
from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Crop, Input, Manifest
from edgeveil.edge_runtime.pipeline.person_finder import GRID, HEAD_MM, Finder, Floor, window
from edgeveil.edge_runtime.pipeline.resize import Fit, area, gray, nearest

# Finds people in a camera's frame with the network of the bundle: its boxes become places in the frame.


OVERLAP = 0.5  # boxes that share more of their union are one person
Place = Tuple[float, float]  # row, column


class BoxFinder(object):
    """Runs ``runner`` on frames of ``shape`` (rows, columns[, channels]), uint8; at most ``most`` people in each."""

    def __init__(self, rules: DetectorRules, runner: Any, shape: Sequence[int], *, most: int) -> None:
        self._rules, self._runner, self._most = rules, runner, most
        self._frame = shape[:2]
        rows, columns, self._channels = rules.size
        self._input = rules.entry["inputs"][0]["name"]
        self._resize = nearest(self._frame, (rows, columns))
        self._range = np.float32(rules.low), np.float32((rules.high - rules.low) / 255.0)
        # From units of a box to pixels of the frame.
        unit = (1.0, 1.0) if rules.unit == "share" else (1.0 / rows, 1.0 / columns)
        self._scale = np.array([self._frame[0] * unit[0], self._frame[1] * unit[1]] * 2)

    def __call__(self, frame: np.ndarray) -> List[Place]:
        """The places of people. Raises ``FrameDropped`` where the network fails or gives no numbers."""
        picture = self._resize(frame).reshape(self._rules.size)
        low, step = self._range
        outputs = self._runner.run({self._input: (picture.astype(np.float32) * step + low)[None]})
        scores, boxes = np.asarray(outputs["scores"])[0], np.asarray(outputs["boxes"])[0].astype(np.float64)
        if not (np.isfinite(scores).all() and np.isfinite(boxes).all()):
            raise FrameDropped("not-finite")
        seen = scores >= self._rules.least_score
        if self._rules.person is not None:
            seen &= np.rint(np.asarray(outputs["classes"])[0]) == self._rules.person
        boxes = boxes if self._rules.order == "yxyx" else boxes[:, [1, 0, 3, 2]]
        order = np.flatnonzero(seen)[np.argsort(-scores[seen], kind="stable")]
        return [self._place(box) for box in _apart((boxes * self._scale)[order], self._most)]

    def _place(self, box: np.ndarray) -> Place:
        top, left, bottom, right = (float(edge) for edge in box)
        row = bottom if self._rules.point == "feet" else (top + bottom) / 2
        return min(max(row, 0.0), float(self._frame[0])), min(max((left + right) / 2, 0.0), float(self._frame[1]))


def _apart(boxes: np.ndarray, most: int) -> List[np.ndarray]:
    """The first of those that overlap, in their order; boxes (n, 4) as top, left, bottom, right."""
    separate: List[np.ndarray] = []
    for box in boxes:
        if len(separate) == most:
            break
        if box[2] > box[0] and box[3] > box[1] and all(_overlap(box, other) <= OVERLAP for other in separate):
            separate.append(box)
    return separate


def _overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union."""
    down = min(one[2], other[2]) - max(one[0], other[0])
    across = min(one[3], other[3]) - max(one[1], other[1])
    if down <= 0 or across <= 0:
        return 0.0
    area = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1])
    return float(down * across / (area - down * across))


# Tracks people between frames: the nearest crop continues a track; a track ends when its person has gone.


class Tracker(object):
    """Tracks of people between frames, each with one of ``slots`` slots while it lasts.

    A person continues the nearest track, at most ``step_px`` away for each frame since. A track ends when no one was
    near it for more than ``gone_frames`` frames; ``ended`` lists those that ended since it was last emptied.
    Numbers start at 1 and are never reused. A person who comes when all slots are taken has no track.
    """

    def __init__(self, *, slots: int, step_px: float, gone_frames: int) -> None:
        self._slots, self._step, self._gone = slots, step_px, gone_frames
        self._tracks: Dict[int, List[Any]] = {}  # number: [row, column, frames without, slot]
        self._next = 1
        self.ended: List[int] = []

    def update(self, centres: List[Tuple[float, float]]) -> List[Optional[Tuple[int, int]]]:
        """For each centre of this frame, in order, its (track, slot), or None without a free slot."""
        result: List[Optional[Tuple[int, int]]] = [None] * len(centres)
        pairs = []
        for number, (row, column, missed, _) in self._tracks.items():
            for place, (r, c) in enumerate(centres):
                away = ((r - row) ** 2 + (c - column) ** 2) ** 0.5
                if away <= self._step * (missed + 1):
                    pairs.append((away, number, place))
        taken = set()
        for _, number, place in sorted(pairs):
            if number in taken or result[place] is not None:
                continue
            taken.add(number)
            slot = self._tracks[number][3]
            self._tracks[number] = [*centres[place], 0, slot]
            result[place] = (number, slot)
        for number in [number for number in self._tracks if number not in taken]:
            self._tracks[number][2] += 1
            if self._tracks[number][2] > self._gone:
                self._end(number)
        for place, centre in enumerate(centres):
            if result[place] is None:
                result[place] = self._begin(centre)
        return result

    def end_all(self) -> None:
        """End all tracks, after the stream was interrupted."""
        for number in list(self._tracks):
            self._end(number)

    def _begin(self, centre: Tuple[float, float]) -> Optional[Tuple[int, int]]:
        used = {track[3] for track in self._tracks.values()}
        free = [slot for slot in range(self._slots) if slot not in used]
        if not free:
            return None
        number, self._next = self._next, self._next + 1
        self._tracks[number] = [centre[0], centre[1], 0, free[0]]
        return number, free[0]

    def _end(self, number: int) -> None:
        del self._tracks[number]
        self.ended.append(number)


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
        self._fit = None if capture.fit is None else Fit(capture.fit, capture.resize, self._shape[:2])
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
        if self._fit is not None and data.ndim >= 2:
            data = self._fit(data)
            if self._shape[2:] == (3,) and data.shape[2:] in ((), (1,)):  # gray among colour
                data = data.reshape(data.shape[:2] + (1,)).repeat(3, axis=2)
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
        for centre, assigned in zip(centres, self.tracker.update(centres)):
            if assigned is None:
                left_out += 1
                continue
            inside, place = window(centre, self._size, self._shape)
            # 0 means no measurement, as for all pixels outside the picture.
            crop = np.zeros(self._size, np.uint16)
            crop[place] = self._floor.height(depth[inside], inside) if self._height else depth[inside]
            crops.append((assigned[0], assigned[1], crop))
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
    to_gray = len(frame) == 3 and frame[2] == 3 and shape[2] == 1
    means = capture.resize == "area" and size != shape[:2]
    fit = area(size, shape[:2], np.dtype(capture.frame.dtype)) if means else nearest(size, shape[:2])

    def run(picture: np.ndarray) -> np.ndarray:
        picture = picture[part]
        if to_gray:
            picture = gray(picture)
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
