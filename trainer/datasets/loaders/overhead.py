"""SIMULATED people under an overhead depth camera, walking in or out: the setting of OccuTherm, with nobody in it.

Source: edge_runtime/simulation.py, no files. OccuTherm itself (77 people under a Kinect v2 above a door, paper 001,
section 6.1) is not public; what is learnt here is about ellipsoids. Patches are cut by the recipe's own ``[capture]``,
so that a bundle can be shown from camera to consumer.

y is the direction, z which of 4 builds. Crossings are the independent units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sources.simulated_scene import Scene
from edgeveil.trainer.datasets.loaders.captured import capture_frames
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.capture import Capture

FPS = 10
EMPTY = 10  # frames of the floor alone, which the capture learns first
CROSSINGS = 80
BUILDS = 4
SEED = 1


def load(*, target: str, sensitive: str, capture: Capture | None, crossings: int = CROSSINGS) -> Readings:
    """Patches of one walker at a time; ``target`` is "direction", ``sensitive`` "build". Raises ``BadInput``."""
    for which, name, known in (("target", target, "direction"), ("sensitive", sensitive, "build")):
        if name != known:
            raise BadInput(f'`data.{which}`: expected "{known}"; got "{name}".')
    if capture is None or capture.crop is None:
        raise BadInput('`data.source` "overhead" gives frames of a camera: add [capture] with [capture.crop].')
    shape = capture.frame.shape[0], capture.frame.shape[1]
    scene = Scene(seed=SEED, people=1, shape=shape, cast=BUILDS)
    about: list[tuple[int, int, int]] = []
    x, rows = [], []
    for number, reading in capture_frames(capture, _frames(scene, about, crossings)):
        x.append(reading)
        rows.append(number)
    if not rows:
        raise BadInput("`[capture]` finds nobody in the simulated scene: see `least_height_mm` and `focal_px`.")
    who, inward, session = np.array(about)[rows].T
    ends = capture.input()
    return Readings(
        np.stack(x),
        inward.astype(np.int64),
        who.astype(np.int64),
        ("out", "in"),
        tuple(f"build-{number}" for number in range(len(scene.cast))),
        "image",
        ends["low"],
        ends["high"],
        session=session.astype(np.int64),
    )


def _frames(scene: Scene, about: list[tuple[int, int, int]], crossings: int) -> Iterator[np.ndarray]:
    """Frames with somebody in them; ``about`` gets who, which way, and which crossing of each."""
    for _ in range(EMPTY):
        about.append((-1, -1, -1))
        yield scene.frame(0.0)
    tick, crossing, before = 0, -1, False
    while crossing < crossings:
        tick += 1
        there = scene.anybody(tick / FPS)
        crossing += there and not before
        before = there
        if not there or crossing == crossings:
            continue
        frame = scene.frame(tick / FPS)
        (walker,) = scene.walkers
        about.append((walker.who, int(walker.inward), crossing))
        yield frame
