"""A simulated doorway seen from the ceiling by a depth camera: people of different build walk in and out under it.

No sensor is involved, and pages that show it say so. The camera looks straight down on a level floor with the field of
view of a Kinect v2. A person is seven ellipsoids; each pixel's ray meets them exactly. Noise and the share of missing
values depend on the distance from the middle of the picture, as for the floor in 120 frames of a real overhead Kinect
v2 (GOTPD1, University of Alcala): 2 mm in the middle, tens of mm in the corners, where most values are missing; and
values along the edge of a body are missing.
"""

import math
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.png import encode

FOCAL = 365.0 / 512.0  # of the width: a Kinect v2's focal length is 365 of its 512 columns
# Distance from the middle in pixels of 424 x 512, standard deviation of the floor's depth in mm, share missing.
NOISE_AT = (0.0, 45.0, 135.0, 165.0, 195.0, 225.0, 255.0, 285.0, 315.0)
NOISE_MM = (2.0, 2.8, 3.2, 4.0, 6.9, 12.4, 22.0, 31.9, 44.6)
MISSING = (0.0, 0.002, 0.004, 0.004, 0.007, 0.054, 0.23, 0.60, 0.95)
FLOOR_MM = 3340.0
EDGE_MM = 150.0  # a step in depth at which a Kinect v2 gives no values
BANK = 8  # fields of noise; with mirror images and signs 64 different ones
CAST = 8  # people there are, told apart by their build
SCENE_FPS = 30.0  # pictures a second of the scene's clock, where a source sets none
DEFAULTS = {"seed": 0, "people": 2, "fps": SCENE_FPS}

Point = Tuple[float, float, float]  # x, y, z in mm
Build = NamedTuple("Build", [("height", float), ("shoulders", float), ("girth", float), ("head", float)])
Walker = NamedTuple(
    "Walker", [("who", int), ("inward", bool), ("x", float), ("y", float), ("step", float)]
)  # x, y of the head in mm from the camera's foot; step in radians


def builds(seed: int, count: int = CAST) -> List[Build]:
    """``count`` builds in mm: 1500 to 1950 tall, shoulders 380 to 520 wide, trunk 200 to 340 deep, head 140 to 175."""
    random = np.random.RandomState([seed, 1])
    low, high = (1500, 380, 200, 140), (1950, 520, 340, 175)
    return [Build(*row) for row in random.uniform(low, high, (count, 4)).tolist()]


class Lane(object):
    """People cross the picture one after the other, in or out, each at their own pace, with pauses between."""

    def __init__(self, seed: int, number: int, middle_mm: float, reach_mm: float, cast: int) -> None:
        self._random = np.random.RandomState([seed, 2, number])
        self._middle, self._reach, self._cast = middle_mm, reach_mm, cast
        self._start, self._end = 0.0, 0.0
        self._draw(0.0)

    def _draw(self, after: float) -> None:
        random = self._random
        self._start = after + random.uniform(0.3, 3.0)
        self._speed = random.uniform(900.0, 1400.0)  # mm a second
        self._end = self._start + 2 * self._reach / self._speed
        self._who, self._inward = int(random.randint(self._cast)), bool(random.randint(2))
        self._aside, self._slant = random.uniform(-120.0, 120.0), random.uniform(-0.08, 0.08)

    def at(self, seconds: float) -> Optional[Walker]:
        """The ``Walker`` of that time, or None; time goes forward only."""
        while seconds >= self._end:
            self._draw(self._end)
        if seconds < self._start:
            return None
        gone = (seconds - self._start) * self._speed
        x = (gone - self._reach) * (1 if self._inward else -1)
        y = self._middle + self._aside + self._slant * x + 12.0 * math.sin(gone / 350.0)
        return Walker(self._who, self._inward, x, y, gone / 700.0 * 2 * math.pi)


class Scene(object):
    """``frame(seconds)`` is the depth picture of that time, uint16 (height, width) in mm, 0 where there is none.

    ``people`` of ``cast`` may be in it at a time, each in their own lane; ``walkers`` are those of the last frame.
    The same ``seed`` and times give the same pictures. Time goes forward only.
    """

    def __init__(
        self,
        seed: int = 0,
        people: int = 2,
        shape: Tuple[int, int] = (424, 512),
        floor_mm: float = FLOOR_MM,
        cast: int = CAST,
    ) -> None:
        self.shape = height, width = shape
        self.floor_mm = floor_mm
        self.cast = builds(seed, cast)
        self.walkers: List[Walker] = []
        self._focal = FOCAL * width
        reach = floor_mm * width / 2 / self._focal + 500.0
        self._lanes = [
            Lane(seed, number, (number - (people - 1) / 2) * 800.0, reach, len(self.cast)) for number in range(people)
        ]
        self._random = np.random.RandomState([seed, 3])
        self._x = ((np.arange(width) - (width - 1) / 2) / self._focal).astype(np.float32)
        self._y = ((np.arange(height) - (height - 1) / 2) / self._focal).astype(np.float32)
        self._noise, self._there = self._fields(np.random.RandomState([seed, 4]))

    def frame(self, seconds: float) -> np.ndarray:
        """The picture at ``seconds`` from the start."""
        depth = np.full(self.shape, self.floor_mm, np.float32)
        on_lanes = [lane.at(seconds) for lane in self._lanes]
        self.walkers = [walker for walker in on_lanes if walker is not None]
        for walker in self.walkers:
            for centre, radii in _body(self.cast[walker.who], walker, self.floor_mm):
                self._draw(depth, centre, radii)
        pick = self._random.randint(BANK)
        sign, down, across = 1 - 2 * self._random.randint(0, 2, 3)
        measured = self._there[pick, ::down, ::across].copy()
        if self.walkers:
            _drop_edges(depth, measured)
        depth += self._noise[pick, ::down, ::across] * np.float32(sign)
        np.maximum(depth, np.float32(0), out=depth)
        return np.where(measured, np.rint(depth), np.float32(0)).astype(np.uint16)

    def anybody(self, seconds: float) -> bool:
        """Whether somebody is in a lane at that time; times must not go back."""
        return any(lane.at(seconds) is not None for lane in self._lanes)

    def pixel(self, walker: Walker) -> Tuple[float, float]:
        """Row and column of a walker's head, maybe outside the picture."""
        away = self.floor_mm - self.cast[walker.who].height
        middle = (self.shape[0] - 1) / 2, (self.shape[1] - 1) / 2
        return middle[0] + walker.y / away * self._focal, middle[1] + walker.x / away * self._focal

    def _fields(self, random: np.random.RandomState) -> Tuple[np.ndarray, np.ndarray]:
        far = np.hypot(self._y[:, None], self._x[None, :]) * FOCAL * 512.0
        sigma = np.interp(far, NOISE_AT, NOISE_MM).astype(np.float32)
        measured = random.random_sample((BANK,) + self.shape) >= np.interp(far, NOISE_AT, MISSING)
        return random.standard_normal((BANK,) + self.shape).astype(np.float32) * sigma, measured

    def _draw(self, depth: np.ndarray, centre: Point, radii: Point) -> None:
        """The nearer side of an ellipsoid with axes along x, y and z; lengths in mm, z from the camera down."""
        near = centre[2] - radii[2]
        if near < 200.0:
            return
        far = centre[2] + radii[2]
        columns = _pixel_range(self._x, centre[0] - radii[0], centre[0] + radii[0], near, far)
        rows = _pixel_range(self._y, centre[1] - radii[1], centre[1] + radii[1], near, far)
        x, y = self._x[columns][None, :] / radii[0], self._y[rows][:, None] / radii[1]
        if not x.size or not y.size:
            return
        # |t d - c|^2 = 1 in units of the radii, where d = (x, y, 1) and t is the depth.
        c = [centre[i] / radii[i] for i in range(3)]
        square = x * x + y * y + 1 / radii[2] ** 2
        half = x * c[0] + y * c[1] + c[2] / radii[2]
        inside = half * half - square * (c[0] ** 2 + c[1] ** 2 + c[2] ** 2 - 1)
        with np.errstate(invalid="ignore"):
            depth_of = (half - np.sqrt(inside)) / square
        part = depth[rows, columns]
        np.fmin(part, depth_of, out=part)


def _pixel_range(directions: np.ndarray, low: float, high: float, near: float, far: float) -> slice:
    """The pixels, along one axis, that may see what lies from ``low`` to ``high`` and from ``near`` to ``far``."""
    ends = low / (far if low > 0 else near), high / (near if high > 0 else far)
    return slice(*np.searchsorted(directions, ends).tolist())


def _drop_edges(depth: np.ndarray, there: np.ndarray) -> None:
    rows = np.abs(depth[1:] - depth[:-1]) > EDGE_MM
    columns = np.abs(depth[:, 1:] - depth[:, :-1]) > EDGE_MM
    there[1:][rows] = False
    there[:, 1:][columns] = False


def _body(build: Build, walker: Walker, floor_mm: float) -> Iterator[Tuple[Point, Point]]:
    """Centres and radii of a person's parts, who walks along x: trunk, shoulders, head, arms, feet."""
    ahead = 1.0 if walker.inward else -1.0
    swing = math.sin(walker.step)
    tall, wide, deep, head = build

    def part(along: float, aside: float, height: float, radii: Point) -> Tuple[Point, Point]:
        return (walker.x + ahead * along, walker.y + aside, floor_mm - height), radii

    yield part(0.0, 0.0, tall * 0.58, (deep / 2, wide * 0.42, tall * 0.26))
    yield part(-10.0, 0.0, tall * 0.815, (deep * 0.42, wide / 2, tall * 0.055))
    yield part(35.0, 0.0, tall - head * 0.75, (head * 0.62, head / 2, head * 0.75))
    for side in (-1, 1):
        yield part(side * swing * 150.0 + 40.0, side * (wide / 2 + 10.0), tall * 0.56, (70.0, 48.0, tall * 0.2))
        yield part(-side * swing * 260.0 + 60.0, side * wide * 0.22, 55.0, (135.0, 52.0, 55.0))


def scene_options(where: str) -> Dict[str, Any]:
    """``seed``, ``people`` and ``fps`` of ``depth?seed=0&people=2&fps=30``. Raises ``BadInput``."""
    scene, _, text = where.partition("?")
    values = dict(DEFAULTS)
    wrong = scene != "depth"
    for pair in text.split("&") if text else []:
        key, _, value = pair.partition("=")
        try:
            values[key] = type(DEFAULTS[key])(value)
        except (KeyError, ValueError):
            wrong = True
    if wrong or not (0 <= values["seed"] < 2**31 and 0 <= values["people"] <= 8 and 0 <= values["fps"] <= 1000):
        raise BadInput(
            "expected simulate:depth?seed=0&people=2&fps=30 with a whole seed, 0 to 8 people and at most 1000 frames "
            "a second (0: as fast as the loop takes them); got {!r}".format("simulate:" + where)
        )
    if not math.isfinite(values["fps"]):
        raise BadInput("expected a finite fps in {!r}".format("simulate:" + where))
    return values


def redrawn(source: str, shape: Sequence[int]) -> "Optional[Redrawn]":
    """The scene of ``simulate:WHERE``, for a page; None of any other source, of one whose clock is the loop's, and for
    samples that are no pictures."""
    scheme, _, where = source.partition(":")
    options = scene_options(where) if scheme == "simulate" else {"fps": 0}
    if not options["fps"] or len(shape) < 2:
        return None
    return Redrawn(Scene(seed=options["seed"], people=options["people"], shape=(shape[0], shape[1])))


class Redrawn(object):
    """The scene of a simulated source that was opened now, drawn a second time: frames of the source have no way to the
    page that shows it. ``clock`` is in seconds."""

    def __init__(self, scene: Scene, clock: Callable[[], float] = time.monotonic) -> None:
        self._scene, self._clock, self._began_s, self._lock = scene, clock, clock(), threading.Lock()

    def png(self) -> bytes:
        """The present picture at half its size, as a PNG: what is near is bright, what was not measured black."""
        with self._lock:
            depth = self._scene.frame(self._clock() - self._began_s)[::2, ::2]
        near = np.clip(255.0 - 200.0 * depth / FLOOR_MM, 0, 255)
        return encode(np.where(depth > 0, near, 0).astype(np.uint8))
