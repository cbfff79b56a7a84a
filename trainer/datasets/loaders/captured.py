"""Sensor frames to samples for training, by the code that a device runs (edge_runtime/pipeline/crops.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.crops import Capture as Runner
from edgeveil.trainer.datasets.base import taken
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.training_sections import Capture


def capture_frames(capture: Capture, frames: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """(number of the frame, sample) for every frame of one recording that shows one person or is not cropped, in order.

    A frame of several people is left out: its label is that of one person. Raises ``BadInput`` for frames of another
    shape.
    """
    runner = Runner(parse({"capture": capture.manifest(), "input": capture.input()}))
    for number, data in enumerate(frames):
        try:
            found = runner.frames(RawFrame(data, number))
        except FrameDropped as drop:
            raise BadInput(
                f"`capture.frame`: frames are {data.dtype} {data.shape}, not {capture.frame.dtype} "
                f"{tuple(capture.frame.shape)} ({drop.reason}). Correct the recipe."
            ) from None
        if len(found) == 1:
            yield number, found[0][1]._data


def captured(readings: Readings, capture: Capture) -> Readings:
    """Readings of sensor frames as readings of the samples cut out of them. Raises ``BadInput``.

    The frames of a session are one recording, in the order of their rows.
    """
    session = np.zeros(len(readings.x), int) if readings.session is None else readings.session
    found: list[tuple[int, np.ndarray]] = []
    for one in np.unique(session):
        here = np.flatnonzero(session == one)
        found += [(here[number], sample) for number, sample in capture_frames(capture, readings.x[here])]
    if not found:
        raise BadInput("`[capture]` finds no person in any frame: check `least_height_mm`, `focal_px` and `unit_mm`.")
    found.sort(key=lambda row: row[0])
    keep = np.array([row for row, _ in found])
    about = capture.input()
    return replace(
        readings,
        x=np.stack([sample for _, sample in found]),
        y=readings.y[keep],
        z=readings.z[keep],
        kind=about["kind"],
        low=readings.low if about["low"] is None else about["low"],
        high=readings.high if about["high"] is None else about["high"],
        subject=taken(readings.subject, keep),
        session=taken(readings.session, keep),
        attributes={name: values[keep] for name, values in readings.attributes.items()},
        known={name: one[keep] for name, one in readings.known.items()},
        labels=taken(readings.labels, keep),
        consent=taken(readings.consent, keep),
        test=taken(readings.test, keep),
    )
