"""Depth frames of 8 people in front of a Kinect: the kind of action is kept, the person hidden.

Source: C. Chen, R. Jafari and N. Kehtarnavaz, "UTD-MHAD: A Multimodal Dataset for Human Action Recognition Utilizing a
Depth Camera and a Wearable Inertial Sensor", IEEE ICIP 2015, which calls it freely available; no licence file comes
with it. Needed is one file, ``utd_mhad/utd_mhad_depth_80x64_10fps.npz``, as ``where`` says how to make.

y is one of four groups of actions, or of three in which the whole body moves; z is the person. A person's place would
identify them, so a frame is centred on the person: the column of the centre of mass is moved to the middle, and depth
is relative to the person's mean.
Recordings, not frames, are the independent units, and no recording is cut apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known
from edgeveil.trainer.datasets.readings import DataSet, Readings, check_attributes
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

# Action numbers of UTD-MHAD: 1, 3, 4, 6 swipe, wave, clap, cross arms; 22, 23 jog, walk; 24, 25 sit to stand and back;
# 12, 26 bowl, lunge.
GROUPS = {"arms": (1, 3, 4, 6), "walk": (22, 23), "sit": (24, 25), "step": (12, 26)}
# Movements of the whole body are similar in all people: for unseen people "movement" is read more accurately than
# "action" (docs/results/streams.md), whose swipes one person makes standing and another walking.
TARGETS = {"action": GROUPS, "movement": {name: GROUPS[name] for name in ("walk", "sit", "step")}}
PEOPLE = tuple(range(1, 9))
CALIBRATED = (1, 2, 3, 4, 5)  # the others stay unseen until the experiment of section 6.6
MIDDLE = 0.7  # of each recording: at both ends all people stand still
STEP_MM = 8  # depth per grey level; a Kinect of that time resolves no better


class Depth(DataSet):
    """The depth recordings of UTD-MHAD."""

    names = ("depth",)
    licence = "called freely available by its paper; no licence file"
    sensor = "depth"
    stream = True
    files = {
        "utd_mhad/utd_mhad_depth_80x64_10fps.npz": "d599f2522d90fecbf10326c892c5bec6dba8fc529bc12dcb9987b08d8f04ad35"
    }
    where = (
        "UTD-MHAD: every third frame of its 861 depth recordings, columns 66 to 257, every third pixel from the "
        "second, as `depth_mm` uint16 (19718, 80, 64) with `subject`, `action`, `trial`, `frame`, `sequence_key` and "
        "`sequence_frames`"
    )

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        return load(target=data.target, sensitive=data.sensitive)


def load(*, target: str, sensitive: str, people: Sequence[int] = CALIBRATED, middle: float = MIDDLE) -> Readings:
    """Frames uint8 (40, 32, 1) of ``people`` (numbers of 1 to 8) and a session per recording.

    ``target`` is one of ``TARGETS``, ``sensitive`` is "person". ``middle`` is the share of each recording, about its
    middle, that is taken.

    0 is background; a pixel of the person is 128 plus its depth behind the person's mean in steps of 8 mm, 1 to 255.
    The rows of a recording follow each other in time, 10 a second. The attributes are ``action`` (the number of 27) and
    ``frame`` (of the recording, at 30 a second). Raises ``BadInput``.
    """
    check_attributes(target, sensitive, targets=TARGETS, others=["person"])
    groups = TARGETS[target]
    if not people or len(set(people)) != len(people) or not set(people) <= set(PEOPLE):
        raise BadInput(f"`data.people`: expected different numbers of 1 to 8; got {list(people)}.")
    with np.load(Depth.path(), allow_pickle=False) as file:
        depth, frame = file["depth_mm"], file["frame"].astype(np.int64)
        key = np.stack([file["action"], file["subject"], file["trial"]], axis=1).astype(np.int64)
        length = {tuple(k): int(n) for k, n in zip(file["sequence_key"].tolist(), file["sequence_frames"], strict=True)}
    group = np.full(28, -1)
    for number, actions in enumerate(groups.values()):
        group[list(actions)] = number
    share = (frame + 0.5) / np.array([length[tuple(k)] for k in key.tolist()])
    keep = (group[key[:, 0]] >= 0) & np.isin(key[:, 1], people) & (abs(share - 0.5) <= middle / 2)
    key, frame = key[keep], frame[keep]
    session = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
    all_actions, action = np.unique(key[:, 0], return_inverse=True)
    known = {
        target: Known(group[key[:, 0]], tuple(groups)),
        "person": Known(
            np.searchsorted(sorted(people), key[:, 1]), tuple(f"person-{number}" for number in sorted(people))
        ),
        "action-of-27": Known(action.reshape(-1), tuple(f"action-{number}" for number in all_actions)),
    }
    attributes = {"action": key[:, 0].astype(np.float64), "frame": frame.astype(np.float64)}
    x, of = centred(depth[keep])[..., None], (target, sensitive)
    return Readings.from_arrays(x, known, of, "image", 0.0, 255.0, session=session, attributes=attributes)


def centred(depth_mm: np.ndarray) -> np.ndarray:
    """Depth in mm uint16 (n, 80, 64), 0 for background, to person-centred uint8 (n, 40, 32).

    Every second row and column is kept: measured values, no averages across an outline. An empty frame is all 0.
    """
    person = depth_mm > 0
    columns = np.arange(depth_mm.shape[2])
    mass = np.maximum(person.sum(axis=(1, 2)), 1)
    centre = (person.sum(axis=1) * columns).sum(axis=1) / mass
    source = columns[None] + np.rint(centre - (len(columns) - 1) / 2).astype(int)[:, None]
    inside = (source >= 0) & (source < len(columns))
    moved = np.take_along_axis(depth_mm, np.clip(source, 0, len(columns) - 1)[:, None, :], axis=2) * inside[:, None, :]
    moved = moved[:, ::2, ::2].astype(np.float64)
    foreground = moved > 0
    mean = moved.sum(axis=(1, 2)) / np.maximum(foreground.sum(axis=(1, 2)), 1)
    level = np.rint(128 + (moved - mean[:, None, None]) / STEP_MM)
    return np.where(foreground, np.clip(level, 1, 255), 0).astype(np.uint8)
