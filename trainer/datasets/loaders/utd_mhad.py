"""A worn motion sensor on 8 people who do 27 actions: the action is kept, the person hidden.

Source: C. Chen, R. Jafari and N. Kehtarnavaz, "UTD-MHAD: A Multimodal Dataset for Human Action Recognition Utilizing a
Depth Camera and a Wearable Inertial Sensor", IEEE ICIP 2015, which calls it freely available; no licence file comes
with it. Needed is one file, ``utd_mhad/utd_mhad_inertial.npz``, as ``where`` says how to make.

One sensor, on the right wrist for 21 actions of the arm and on the right thigh for 6 of the leg, gives acceleration and
rate of turn 50 times a second. Each of the 861 recordings is one action of one person, done up to 4 times; recordings,
not windows, are the independent units.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known, Sampling
from edgeveil.trainer.datasets.loaders import recordings as of_series
from edgeveil.trainer.datasets.readings import DataSet, Readings, check_attributes
from edgeveil.trainer.recipe.data_section import Data, Series
from edgeveil.trainer.recipe.training_sections import Capture

SAMPLING = Sampling(50.0, ("acc-x", "acc-y", "acc-z", "turn-x", "turn-y", "turn-z"), ("g",) * 3 + ("deg/s",) * 3)
FULL_SCALE = (8.0, 8.0, 8.0, 1000.0, 1000.0, 1000.0)  # of the sensor, on either side of 0
ACTIONS = (
    "swipe-left", "swipe-right", "wave", "clap", "throw", "cross-arms", "basketball-shoot", "draw-x",
    "draw-circle-clockwise", "draw-circle-counter-clockwise", "draw-triangle", "bowl", "box", "baseball-swing",
    "tennis-swing", "arm-curl", "tennis-serve", "push", "knock", "catch", "pick-up-and-throw", "jog", "walk",
    "sit-to-stand", "stand-to-sit", "lunge", "squat",
)  # fmt: skip
PEOPLE = tuple(range(1, 9))


class UtdMhad(DataSet):
    """The inertial recordings of UTD-MHAD."""

    names = ("utd-mhad",)
    licence = "called freely available by its paper; no licence file"
    sensor = "motion"
    stream = True
    series = True
    files = {"utd_mhad/utd_mhad_inertial.npz": "8895258e036c730b001417a156e69aee1595cef8ddf95ea00f970b52b2969784"}
    where = (
        "UTD-MHAD: its 861 inertial recordings one after the other as `signal` float32 (155638, 6), with `length` "
        "(861,) and `sequence_key` (861, 3) of action, subject and trial"
    )

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        return load(target=data.target, sensitive=data.sensitive, series=cast(Series, data.series))


def load(*, target: str, sensitive: str, series: Series) -> Readings:
    """Windows float32 (length, 6) of ``series.people`` (numbers of 1 to 8; all) and a session for each recording.

    ``target`` is "action", ``sensitive`` is "person". The attributes are ``energy`` and ``tempo`` of a window's
    acceleration, and ``duration`` of its recording in seconds. Raises ``BadInput``.
    """
    check_attributes(target, sensitive, targets=["action"], others=["person"])
    for key in ("rate_hz", "channels", "units", "full_scale"):
        if getattr(series, key) is not None:
            raise BadInput(f"`data.series.{key}`: these data say it themselves. Leave it out.")
    people = PEOPLE if series.people is None else tuple(series.people)
    if len(set(people)) != len(people) or not set(people) <= set(PEOPLE):
        raise BadInput(
            f"`data.series.people`: expected numbers of 1 to 8, each once; got {list(people)}. Change that list."
        )
    with np.load(UtdMhad.path(), allow_pickle=False) as file:
        signal, length, key = file["signal"], file["length"].astype(np.int64), file["sequence_key"].astype(np.int64)
    taken = np.flatnonzero(np.isin(key[:, 1], people))
    recordings = np.split(signal, np.cumsum(length)[:-1])
    windows = of_series.cut_windows([recordings[one] for one in taken], series)
    row = taken[windows.recording]
    known = {
        "action": Known(key[row, 0] - 1, ACTIONS),
        "person": Known(
            np.searchsorted(np.sort(people), key[row, 1]), tuple(f"person-{one}" for one in sorted(people))
        ),
    }
    acceleration = windows.x[..., :3]
    return Readings.from_arrays(
        windows.x,
        known,
        (target, sensitive),
        "series",
        tuple(-end for end in FULL_SCALE),
        FULL_SCALE,
        session=row,
        attributes={
            "energy": of_series.energy(acceleration),
            "tempo": of_series.tempo(acceleration, SAMPLING.rate_hz),
            "duration": length[row] / SAMPLING.rate_hz,
        },
        series=SAMPLING,
    )
