"""Mulan's "scene": 2,407 pictures as 294 colour moments in [0, 1], with 6 labels (a picture may have several).

Boutell, Luo, Shen, Brown: Learning multi-label scene classification, Pattern Recognition 37(9), 2004. Mulan states no
licence for the data (its own, GPL, is for the Java library), so they are not shipped here.
"""

from __future__ import annotations

from edgeveil.trainer.datasets.loaders.mulan import MultiTarget, read_mulan
from edgeveil.trainer.datasets.readings import DataSet, Readings
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

FEATURES = 294


class SceneLabels(DataSet):
    """Mulan's "scene"."""

    names = ("scene",)
    licence = "none stated for the data"
    files = {
        "mulan_scene/scene-train.arff": "b53ba93bdf412de922e3960389bcee24744fa3e872ce610511fc1d750888b64d",
        "mulan_scene/scene-test.arff": "ea38d20296b3ff7e220f477a3b802a9bcb2d768881fe6ee163efbc97ea527a42",
    }
    where = "from github.com/tsoumakas/mulan, data/multi-label/scene"

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        wanted = 1 if data.wanted is None else data.wanted
        return load().readings(wanted=wanted, target=data.target, sensitive=data.sensitive)


def load() -> MultiTarget:
    """All 2,407 rows, train before test. Labels are -1 and 1, as in paper 000's figures.

    Raises ``BadInput`` if EDGEVEIL_DATA does not hold the published files.
    """
    names, values = read_mulan(SceneLabels.files, SceneLabels.where)
    labels = 2 * values[:, FEATURES:] - 1
    return MultiTarget("scene", values[:, :FEATURES], labels, tuple(names[FEATURES:]))
