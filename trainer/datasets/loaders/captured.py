"""Sensor frames to samples for training, by the code that a device runs (edge_runtime/pipeline/crops.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.crops import Capture as Runner
from edgeveil.trainer.datasets.base import taken
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.datasets.samples import Stored, converted, fingerprint, is_large
from edgeveil.trainer.recipe.training_sections import Capture


def capture_frames(document: Mapping[str, Any], frames: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """(number of the frame, sample) for every frame of one recording that shows one person or is not cropped, in order.

    ``document`` is that of the recipe's ``[capture]``. A frame of several people is left out: its label is that of one
    person. Raises ``BadInput`` for frames of another shape.
    """
    runner = Runner(parse(document))
    for number, data in enumerate(frames):
        try:
            samples = runner.frames(RawFrame(data, number))
        except FrameDropped as drop:
            frame = document["capture"]["frame"]
            raise BadInput(
                f"`capture.frame`: frames are {data.dtype} {data.shape}, not {frame['dtype']} "
                f"{tuple(frame['shape'])} ({drop.reason}). Correct the recipe."
            ) from None
        if len(samples) == 1:
            yield number, samples[0][1]._data


def captured(readings: Readings, capture: Capture, source: Path | None = None, *facts: Any) -> Readings:
    """Readings of sensor frames as readings of the samples cut out of them. Raises ``BadInput``.

    The frames of a session are one recording, in the order of their rows. Samples that were captured before, as
    ``edgeveil-edge record`` does, stay as they are. Large ones of ``source`` are made once; ``facts`` are those that
    its fingerprint must have.
    """
    document, x = capture.document(), readings.x
    about = document["input"]
    ends = {end: getattr(readings, end) if about[end] is None else about[end] for end in ("low", "high")}
    if isinstance(x, (np.ndarray, Stored)):
        is_frame = (
            x.dtype == capture.frame.dtype and list(x.shape[1 : len(capture.frame.shape) + 1]) == capture.frame.shape
        )
        if not is_frame and (list(x.shape[1:]), str(x.dtype)) == (about["shape"], about["dtype"]):
            return replace(readings, kind=about["kind"], **ends)
    session = np.zeros(len(readings.x), int) if readings.session is None else readings.session

    def samples() -> Iterator[tuple[int, np.ndarray]]:
        for one in np.unique(session):
            here = np.flatnonzero(session == one)
            for number, sample in capture_frames(document, x[here]):
                yield int(here[number]), sample

    shape = (len(x), *about["shape"])
    if source is not None and is_large(shape, about["dtype"]):
        whose = hashlib.sha256(np.ascontiguousarray(session).data).hexdigest()
        seen = fingerprint(source, document["capture"], whose, *facts)
        made: Any
        made, keep = converted(source, seen, shape, about["dtype"], samples)
    else:
        found = list(samples())
        made, keep = [sample for _, sample in found], np.array([row for row, _ in found], np.int64)
    if not len(keep):
        raise BadInput("`[capture]` finds no person in any frame: check `least_height_mm`, `focal_px` and `unit_mm`.")
    order = np.argsort(keep, kind="stable")
    keep = keep[order]
    return replace(
        readings,
        x=made[order] if isinstance(made, Stored) else np.stack([made[place] for place in order]),
        y=readings.y[keep],
        z=readings.z[keep],
        kind=about["kind"],
        **ends,
        subject=taken(readings.subject, keep),
        session=taken(readings.session, keep),
        attributes={name: values[keep] for name, values in readings.attributes.items()},
        known={name: one[keep] for name, one in readings.known.items()},
        labels=taken(readings.labels, keep),
        consent=taken(readings.consent, keep),
        test=taken(readings.test, keep),
    )
