"""Faces of 38 people, each under up to 64 single lights: the light is kept, the person hidden.

Source: A. Georghiades, P. Belhumeur and D. Kriegman, "From Few to Many: Illumination Cone Models for Face Recognition
under Variable Lighting and Pose", IEEE PAMI 23(6), 2001, and K.-C. Lee, J. Ho and D. Kriegman, "Acquiring Linear
Subspaces for Face Recognition under Variable Lighting", IEEE PAMI 27(5), 2005 (the cropped pictures). Free for
research with acknowledgement of both papers; not to be passed on in a product. Needed is one file,
``extended_yale_b/extended_yale_b_96x84.npz``, as ``where`` says how to make.

y is where the light comes from (left: azimuth -110 to -25 degrees, front: at most 15 off, right), z the person.
Pictures lit from above (elevation 60 and more), from an azimuth of 20 degrees or from behind (120 and more) are left
out: 1,844 remain. Every light occurs about once per person, so a permutation test should permute people within a light.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from edgeveil.trainer.datasets.base import Known
from edgeveil.trainer.datasets.readings import DataSet, Readings, check_attributes
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

LEVEL_BELOW = 15  # degrees of elevation, from 0


class Faces(DataSet):
    """The cropped Extended Yale Face Database B."""

    names = ("faces",)
    licence = "research alone, with acknowledgement of both papers"
    sensor = "camera"
    files = {
        "extended_yale_b/extended_yale_b_96x84.npz": "aba6473eeee5fa3a01987c2f4cfaf4feef1e7b02d6c92a13caabd56fc2b79d49"
    }
    where = (
        "the cropped Extended Yale Face Database B: all 2,414 single-light pictures averaged 2 x 2 to 96 x 84 as "
        "`images` uint8, with `subject`, `azimuth` and `elevation` from the file names"
    )

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        return load(target=data.target, sensitive=data.sensitive, also=data.also_sensitive or ())


def load(*, target: str, sensitive: str, also: Collection[str] = ()) -> Readings:
    """1,844 grey pictures uint8 (48, 42, 1); y "light" (left, front, right) or "height" (of the light: below, level,
    above), z "person" (38). ``also`` are further labels that the recipe names; "height" is one of them if it is there.

    Rows are cut one by one: z is the person, and every picture is another light. The attributes are ``azimuth`` and
    ``elevation`` of the light in degrees. Raises ``BadInput``.
    """
    check_attributes(target, sensitive, targets=["light", "height"], others=["person"])
    with np.load(Faces.path(), allow_pickle=False) as file:
        images, subject = file["images"], file["subject"]
        azimuth, elevation = file["azimuth"].astype(np.float64), file["elevation"].astype(np.float64)
    left, front, right = (azimuth > -120) & (azimuth <= -25), abs(azimuth) <= 15, (azimuth >= 25) & (azimuth < 120)
    keep = (left | front | right) & (elevation < 60)
    people, z = np.unique(subject[keep], return_inverse=True)
    y = np.select([left, front, right], [0, 1, 2])[keep]
    labels = {
        "light": Known(y.astype(np.int64), ("left", "front", "right"), ordered=True),
        "person": Known(z.reshape(-1), tuple(f"person-{number}" for number in people)),
        "azimuth": _angles(azimuth[keep]),
        "elevation": _angles(elevation[keep]),
    }
    if "height" in (target, *also):
        height = np.select([elevation < 0, elevation < LEVEL_BELOW], [0, 1], 2)[keep]
        labels["height"] = Known(height.astype(np.int64), ("below", "level", "above"), ordered=True)
    x = images[keep].reshape(-1, 48, 2, 42, 2).mean(axis=(2, 4))
    attributes = {"azimuth": azimuth[keep], "elevation": elevation[keep]}
    x = np.rint(x).astype(np.uint8)[..., None]
    return Readings.from_arrays(x, labels, (target, sensitive), "image", 0.0, 255.0, attributes=attributes)


def _angles(degrees: np.ndarray) -> Known:
    """An angle of the light as a label: the classes are the angles that occur."""
    angles, number = np.unique(degrees, return_inverse=True)
    return Known(number.reshape(-1), tuple(f"{angle:g} degrees" for angle in angles), ordered=True)
