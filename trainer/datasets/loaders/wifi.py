"""WiFi fingerprints of three university buildings: which of 520 access points a phone saw, on which floor and where.

Source: J. Torres-Sospedra et al., "UJIIndoorLoc: A New Multi-building and Multi-floor Database for WLAN
Fingerprint-based Indoor Localization Problems", IPIN 2014, doi 10.1109/IPIN.2014.7275492; UCI Machine Learning
Repository, data set 310, licence CC BY 4.0 there. Wanted are its two files ``trainingData.csv`` and
``validationData.csv``, each packed with ``gzip -9n``, below ``ujiindoorloc/``.

y is the floor (13 over three buildings), z one of 8 regions of that floor: 104 in all, k-means on longitude and
latitude within the floor (paper 001, section 6.1). A region says its floor, so chance is the best guess among 8; as
regions are not equally full, that is about 20 %, not 12.5 %.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known
from edgeveil.trainer.datasets.readings import DataSet, Readings, check_attributes
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

ACCESS_POINTS = 520
REGIONS = 8  # of each floor
STARTS = 12  # of k-means: the best is taken whose regions all have
FEWEST_ROWS = 30
NOT_SEEN = 100  # value in the files for an access point out of range; the others are -104 to 0 dBm
UNHEARD_DBM = -105.0  # used if no access point was heard


class Wifi(DataSet):
    """UJIIndoorLoc."""

    names = ("wifi", "wifi-strength")
    licence = "CC BY 4.0"
    sensor = "wifi"
    files = {
        "ujiindoorloc/trainingData.csv.gz": "b1935492d3a790369e52263eb5893d1fc75a6b09303d2939ac322c39c0bd6599",
        "ujiindoorloc/validationData.csv.gz": "ed5ef3018f5efc16672ee80201bfeda6f3d82efa9cc1e4d4f27e82e14a3d39a0",
    }
    where = "the UCI Machine Learning Repository, data set 310 (UJIIndoorLoc), each CSV packed with `gzip -9n`"

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        names, also = {"target": data.target, "sensitive": data.sensitive}, data.also_sensitive or ()
        return load(**names, strength=data.source == "wifi-strength", also=also)


def load(*, target: str, sensitive: str, strength: bool = False, also: Collection[str] = ()) -> Readings:
    """Fingerprints uint8 (520,), 1 where an access point was seen; records that occur twice are taken once.

    ``strength``: dBm above -105 instead (the weakest 1, the strongest 105), 0 where it was not seen. The paper keeps of
    each value only whether it is above 0.

    ``target`` is "floor" (of a building), "building" or "storey" (0 to 4, of any building), ``sensitive`` "region" or
    "building". ``also`` are further labels that the recipe names; "storey" is one of them if it is there. The
    attributes are ``access-points`` (how many were seen), ``strongest`` and ``mean`` (dBm), ``building``, and ``user``:
    1 to 18, or 0 in the rows of the validation file, which does not name users. Users are not subjects here: a region
    has 1 to 6 of them, so three slices cannot have different users each, and rows are cut one by one as in the paper.
    Raises ``BadInput``.
    """
    check_attributes(target, sensitive, targets=["floor", "building", "storey"], others=["region", "building"])
    if target == sensitive:
        raise BadInput('`data.sensitive`: expected another attribute than `data.target`; both are "building".')
    rows = np.unique(np.concatenate([_rows(name) for name in Wifi.files]), axis=0)
    signal, (longitude, latitude, floor, building) = rows[:, :ACCESS_POINTS], rows[:, ACCESS_POINTS:][:, :4].T
    seen = signal != NOT_SEEN
    storey, storeys = np.unique(np.stack([building, floor], axis=1).astype(int), axis=0, return_inverse=True)
    storeys = storeys.reshape(-1)
    labels = {
        "floor": Known(storeys, tuple(f"building-{b}-floor-{f}" for b, f in storey)),
        "building": Known(building.astype(np.int64), tuple(f"building-{b}" for b in range(3))),
        "region": Known(
            _regions(np.stack([longitude, latitude], axis=1), storeys),
            tuple(f"building-{b}-floor-{f}-region-{r}" for b, f in storey for r in range(REGIONS)),
        ),
    }
    if "storey" in (target, *also):
        labels["storey"] = Known(floor.astype(np.int64), tuple(f"storey-{f}" for f in range(5)), ordered=True)
    heard = np.where(seen, signal, UNHEARD_DBM)
    count = seen.sum(axis=1)
    attributes = {
        "access-points": count.astype(np.float64),
        "strongest": heard.max(axis=1),
        "mean": np.where(count > 0, np.where(seen, signal, 0).sum(axis=1) / np.maximum(count, 1), UNHEARD_DBM),
        "building": building,
        "user": rows[:, ACCESS_POINTS + 6],
    }
    most = -UNHEARD_DBM if strength else 1.0
    x = (heard - UNHEARD_DBM if strength else seen).astype(np.uint8)
    return Readings.from_arrays(x, labels, (target, sensitive), "vector", 0.0, most, attributes=attributes)


def _rows(name: str) -> np.ndarray:
    """One file as float64 (rows, 529), its columns in the file's order."""
    path = Wifi.path(name)
    with gzip.open(path, "rt") as text:
        return np.loadtxt(text, delimiter=",", skiprows=1)


def _regions(place: np.ndarray, storeys: np.ndarray) -> np.ndarray:
    """Region numbers (N,): floor number times 8 plus k-means cluster of ``place`` (N, 2), clusters west to east."""
    from sklearn.cluster import KMeans

    region = np.empty(len(storeys), np.int64)
    for storey in np.unique(storeys):
        rows = np.flatnonzero(storeys == storey)
        starts = [KMeans(REGIONS, n_init=1, random_state=seed).fit(place[rows]) for seed in range(STARTS)]
        # One far corner would be a region of 5 rows: too few to learn, to choose by and to test.
        large = [fitted for fitted in starts if np.bincount(fitted.labels_).min() >= FEWEST_ROWS]
        tightest = min(large, key=lambda fitted: fitted.inertia_)
        west_to_east = np.argsort(np.argsort(tightest.cluster_centers_[:, 0], kind="stable"))
        region[rows] = storey * REGIONS + west_to_east[tightest.labels_]
    return region
