"""Sensor frames to samples for training, by the code that a device runs (edge_runtime/capture)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.capture.crops import Capture as Runner
from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.trainer.datasets.base import Labels
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.capture import Capture


def capture_frames(capture: Capture, frames: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """(number of the frame, sample) for every frame of one recording, in order, that shows one person, or is whole.

    A frame of several people is left out: a label is of one of them. Raises ``BadInput`` for frames of another shape.
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
    """Readings whose x are sensor frames, as samples of what is cut out of them.

    Frames of one session are taken as one recording, in the order of their rows. Raises ``BadInput``.
    """
    session = np.zeros(len(readings.x), int) if readings.session is None else readings.session
    rows, x = [], []
    for one in np.unique(session):
        here = np.flatnonzero(session == one)
        for number, reading in capture_frames(capture, readings.x[here]):
            rows.append(here[number])
            x.append(reading)
    if not rows:
        raise BadInput("`[capture]` finds nobody in any frame: see `least_height_mm`, `focal_px` and `unit_mm`.")
    order = np.argsort(rows, kind="stable")
    keep = np.array(rows)[order]
    about = capture.input()

    def kept(values: Any) -> Any:
        return None if values is None else values[keep]

    labels = readings.labels
    return replace(
        readings,
        x=np.stack(x)[order],
        y=readings.y[keep],
        z=readings.z[keep],
        kind=about["kind"],
        low=readings.low if about["low"] is None else about["low"],
        high=readings.high if about["high"] is None else about["high"],
        subject=kept(readings.subject),
        session=kept(readings.session),
        attributes={name: values[keep] for name, values in readings.attributes.items()},
        labels=None if labels is None else Labels(labels.values[keep], labels.wanted),
    )
