"""A watch on 10 people who do 7 exercises of the shoulder: the exercise is kept, the person hidden.

Source: D. Burns, N. Leung, M. Hardisty, C. Whyne, P. Henry and S. McLachlin, "Shoulder physiotherapy exercise
recognition: machine learning the inertial signals from a smartwatch", Physiological Measurement 39, 2018. Some of its
recordings come with the package seglearn, under its BSD licence; needed is one file of it, as ``where`` says, at
``seglearn/watch_dataset.npy``.

The watch gives acceleration and rate of turn 50 times a second. Each of the 140 recordings is one set of an exercise by
one person with one arm. There are two of a person and an exercise, too few for four slices, so a quarter of a set, some
five repetitions, is a session. An attack on the person may have learned on other quarters of the same set.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known, Sampling
from edgeveil.trainer.datasets.loaders import recordings
from edgeveil.trainer.datasets.readings import DataSet, Readings, check_attributes
from edgeveil.trainer.recipe.data_section import Data, Series
from edgeveil.trainer.recipe.training_sections import Capture

SAMPLING = Sampling(50.0, ("acc-x", "acc-y", "acc-z", "turn-x", "turn-y", "turn-z"), ("g",) * 3 + ("rad/s",) * 3)
EXERCISES = (
    "pendulum", "abduction", "forward-elevation", "internal-rotation", "external-rotation", "trapezius", "row",
)  # fmt: skip
ARMS = ("left", "right")
QUARTERS = 4


class Wrist(DataSet):
    """The watch of seglearn."""

    names = ("wrist",)
    licence = "BSD, that of the package seglearn"
    sensor = "motion"
    stream = True
    series = True
    files = {"seglearn/watch_dataset.npy": "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"}
    where = "the package seglearn 1.2.5, `data/watch_dataset.npy` of it"

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        return load(target=data.target, sensitive=data.sensitive, series=cast(Series, data.series))


def load(*, target: str, sensitive: str, series: Series) -> Readings:
    """Windows float32 (length, 6) and a session for each quarter of a recording.

    ``target`` is "exercise", ``sensitive`` is "person" or "arm". The attributes are ``energy`` and ``tempo`` of a
    window's acceleration. Raises ``BadInput``.
    """
    check_attributes(target, sensitive, targets=["exercise"], others=["person", "arm"])
    for key in ("rate_hz", "channels", "units", "people"):
        if getattr(series, key) is not None:
            raise BadInput(f"`data.series.{key}`: these data say it themselves. Leave it out.")
    # A pickle runs code; this one is known by its checksum.
    stored = np.load(Wrist.path(), allow_pickle=True).item()
    windows = recordings.cut_windows([part for one in stored["X"] for part in np.array_split(one, QUARTERS)], series)
    of = windows.recording // QUARTERS
    exercise, person, arm = (stored[name][of].astype(np.int64) for name in ("y", "subject", "side"))
    known = {
        "exercise": Known(exercise, EXERCISES),
        "person": Known(person - 1, tuple(f"person-{one}" for one in range(1, 11))),
        "arm": Known(arm, ARMS),
    }
    acceleration = windows.x[..., :3]
    return Readings.from_arrays(
        windows.x,
        known,
        (target, sensitive),
        "series",
        session=windows.recording,
        attributes={
            "energy": recordings.energy(acceleration),
            "tempo": recordings.tempo(acceleration, SAMPLING.rate_hz),
        },
        series=SAMPLING,
    )
