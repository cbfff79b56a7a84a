"""SIMULATED people under an overhead depth camera, walking in or out: the setting of OccuTherm, without its data.

Source: edge_runtime/util/simulated_scene.py, no files. OccuTherm (77 people under a Kinect v2 above a door, paper
001, section 6.1) is not public; the people here are ellipsoids. The recipe's ``[capture]`` cuts the patches, so a
bundle can be demonstrated from camera to receiver.

y is the direction, z which of 4 builds. Crossings are the independent units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.simulated_scene import Scene
from edgeveil.trainer.datasets.base import Known
from edgeveil.trainer.datasets.loaders.captured import capture_frames
from edgeveil.trainer.datasets.readings import DataSet, Readings, check_attributes
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

FPS = 10
EMPTY = 10  # frames of the floor alone, which the capture learns first
CROSSINGS = 80
BUILDS = 4
SEED = 1


class Overhead(DataSet):
    """The simulated scene."""

    names = ("overhead",)
    licence = "none needed: simulated"
    sensor = "depth"
    stream = True

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        return load(target=data.target, sensitive=data.sensitive, capture=capture)


def load(*, target: str, sensitive: str, capture: Capture | None, crossings: int = CROSSINGS) -> Readings:
    """Patches of one walker at a time; ``target`` is "direction", ``sensitive`` "build". Raises ``BadInput``."""
    check_attributes(target, sensitive, targets=["direction"], others=["build"])
    if capture is None or capture.crop is None:
        raise BadInput('`data.source` "overhead" gives frames of a camera: add [capture] with [capture.crop].')
    shape = capture.frame.shape[0], capture.frame.shape[1]
    scene = Scene(seed=SEED, people=1, shape=shape, cast=BUILDS)
    about: list[tuple[int, int, int]] = []
    document = capture.document()
    samples = list(capture_frames(document, _frames(scene, about, crossings)))
    if not samples:
        raise BadInput("`[capture]` finds no person in the simulated scene: check `least_height_mm` and `focal_px`.")
    rows, x = zip(*samples, strict=True)
    who, inward, session = np.array(about)[list(rows)].T
    ends = document["input"]
    builds = tuple(f"build-{number}" for number in range(len(scene.cast)))
    known = {"direction": Known(inward, ("out", "in")), "build": Known(who, builds)}
    of = target, sensitive
    return Readings.from_arrays(np.stack(x), known, of, "image", ends["low"], ends["high"], session=session)


def _frames(scene: Scene, about: list[tuple[int, int, int]], crossings: int) -> Iterator[np.ndarray]:
    """The empty floor, then frames of a walker; appends (walker, direction, crossing) of each to ``about``."""
    for _ in range(EMPTY):
        about.append((-1, -1, -1))
        yield scene.frame(0.0)
    tick, crossing, before = 0, -1, False
    while crossing < crossings:
        tick += 1
        is_present = scene.anybody(tick / FPS)
        crossing += is_present and not before
        before = is_present
        if not is_present or crossing == crossings:
            continue
        frame = scene.frame(tick / FPS)
        (walker,) = scene.walkers
        about.append((walker.who, int(walker.inward), crossing))
        yield frame
