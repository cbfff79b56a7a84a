"""Mulan's "wq": 1,060 samples of Slovenian river water, 16 measurements (standardised) and 14 taxa found in it.

Dzeroski, Demsar, Grbovic: Predicting chemical parameters of river water quality from bioindicator data, Applied
Intelligence 13(1), 2000. Mulan states no licence for the data, so they are not shipped here.
"""

from __future__ import annotations

from edgeveil.trainer.datasets.loaders.mulan import MultiTarget, read_mulan
from edgeveil.trainer.datasets.readings import DataSet, Readings
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

FEATURES = 16


class Water(DataSet):
    """Mulan's "wq"."""

    names = ("wq",)
    licence = "none stated for the data"
    files = {"mulan_wq/wq.arff": "4a0906b4a51bf52c986790ddaf261ba51faa3da9cffe823badabd88d38d252fe"}
    where = "from github.com/tsoumakas/mulan, data/multi-target/wq.arff"

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        wanted = 1 if data.wanted is None else data.wanted
        return load().readings(wanted=wanted, target=data.target, sensitive=data.sensitive)


def load() -> MultiTarget:
    """All 1,060 rows. Labels are abundance codes, 0 (absent), 1, 3 or 5.

    Raises ``BadInput`` if EDGEVEIL_DATA does not hold the published file.
    """
    names, values = read_mulan(Water.files, Water.where)
    return MultiTarget("wq", values[:, :FEATURES], values[:, FEATURES:], tuple(names[FEATURES:]))
