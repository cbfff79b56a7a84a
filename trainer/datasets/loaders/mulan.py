"""Files of the Mulan collection: ARFF text below EDGEVEIL_DATA, checked by its SHA-256; vectors with several labels."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.sources.arff import read_header, read_rows
from edgeveil.trainer.datasets.base import Known, Labels
from edgeveil.trainer.datasets.readings import DataSet, Readings, check_attributes
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture


def arff_bytes(path: Path) -> bytes:
    """The text of an ARFF file, unpacked if its name ends with ``.gz``. Raises ``BadInput``."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read ({reason(error)}); give an .arff or .arff.gz file.") from None


def parse_arff(data: bytes, name: str) -> tuple[list[str], np.ndarray]:
    """Attribute names and values (rows, attributes) float64 of ARFF text. Raises ``BadInput`` with name and line."""
    try:
        lines = enumerate(io.StringIO(data.decode("utf-8")), start=1)
        attributes = read_header(lines)
        # Rows go into one flat buffer: a list of lists of floats would be ten times its size.
        flat = np.fromiter((value for row in read_rows(attributes, lines) for value in row), np.float64)
    except UnicodeDecodeError:
        raise BadInput(f"{name} is not UTF-8 text; convert it first.") from None
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None
    if not len(flat):
        raise BadInput(f"{name} has no rows after @data.")
    return [attribute.name for attribute in attributes], flat.reshape(-1, len(attributes))


def read_mulan(files: Mapping[str, str], origin: str) -> tuple[list[str], np.ndarray]:
    """Attribute names and values (rows, attributes) of ``files``, one below the other. Raises ``BadInput``.

    ``files`` maps FOLDER/NAME to the SHA-256 of the unpacked text; EDGEVEIL_DATA has it or FOLDER/NAME.gz. ``origin``
    says where to get them.
    """
    root = os.environ.get("EDGEVEIL_DATA")
    if not root:
        names = " and ".join(Path(place).name for place in files)
        folder = Path(next(iter(files))).parent
        raise BadInput(f"EDGEVEIL_DATA is not set: put {names} ({origin}) into FOLDER/{folder} and set it to FOLDER.")
    attributes: list[str] = []
    parts = []
    for place, digest in files.items():
        plain = Path(root) / place
        path = plain if plain.is_file() else plain.with_name(plain.name + ".gz")
        if not path.is_file():
            raise BadInput(f"{plain} (or .gz) was expected; there is no such file. Get it {origin}.")
        data = arff_bytes(path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise BadInput(f"{path} is not the published file (its SHA-256 differs). Get it again {origin}.")
        attributes, values = parse_arff(data, str(path))
        parts.append(values)
    return attributes, np.vstack(parts)


# Feature vectors with several numeric labels each: what a linear cleaner is fitted on.


@dataclass(frozen=True)
class MultiTarget:
    """Vectors x (N, features) and labels (N, labels), both float64."""

    name: str
    x: np.ndarray
    labels: np.ndarray
    label_names: tuple[str, ...]

    def readings(self, *, wanted: int, target: str, sensitive: str) -> Readings:
        """For a recipe: the first ``wanted`` labels are kept, the others are confidential; y and z are two as classes.

        ``target`` names a wanted label and ``sensitive`` a confidential one, in upper or lower case. The classes of a
        label are its smallest value (absent) and all others (present). Raises ``BadInput``.
        """
        names, count = [name.lower() for name in self.label_names], self.labels.shape[1]
        if not 1 <= wanted < count:
            raise BadInput(f"{self.name} has {count} labels: 1 to {count - 1} of them can be wanted, not {wanted}.")
        target, sensitive = target.lower(), sensitive.lower()
        check_attributes(target, sensitive, targets=names[:wanted], others=names[wanted:])
        present = (self.labels > self.labels.min(axis=0)).astype(np.int64)
        known = {name: Known(present[:, number], ("absent", "present")) for number, name in enumerate(names)}
        labels = Labels(self.labels, wanted)
        return Readings.from_arrays(self.x.astype(np.float32), known, (target, sensitive), "vector", labels=labels)


class Mulan(DataSet):
    """The first ``features`` attributes are x, the others labels. Mulan states no licence for the data (its own, GPL,
    is for the Java library), so they are not shipped here."""

    licence = "none stated for the data"
    features: ClassVar[int]

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        wanted = 1 if data.wanted is None else data.wanted
        return cls.load().readings(wanted=wanted, target=data.target, sensitive=data.sensitive)

    @classmethod
    def load(cls) -> MultiTarget:
        """All rows. Raises ``BadInput`` if EDGEVEIL_DATA does not hold the published files."""
        names, values = read_mulan(cls.files, cls.where)
        x, labels = np.split(values, [cls.features], axis=1)
        return MultiTarget(cls.names[0], x, labels, tuple(names[cls.features :]))


class SceneLabels(Mulan):
    """2,407 pictures as 294 colour moments in [0, 1], with 6 labels (a picture may have several), -1 or 1 as in paper
    000's figures: Boutell, Luo, Shen, Brown, Learning multi-label scene classification, Pattern Recognition 37(9), 2004
    """

    names = ("scene",)
    features = 294
    files = {
        "mulan_scene/scene-train.arff": "b53ba93bdf412de922e3960389bcee24744fa3e872ce610511fc1d750888b64d",
        "mulan_scene/scene-test.arff": "ea38d20296b3ff7e220f477a3b802a9bcb2d768881fe6ee163efbc97ea527a42",
    }
    where = "from github.com/tsoumakas/mulan, data/multi-label/scene"

    @classmethod
    def load(cls) -> MultiTarget:
        """See ``Mulan``."""
        found = super().load()
        return replace(found, labels=2 * found.labels - 1)


class Water(Mulan):
    """1,060 samples of Slovenian river water: 16 measurements (standardised), and how many of 14 taxa were in it, 0, 1,
    3 or 5: Dzeroski, Demsar, Grbovic, Predicting chemical parameters of river water quality from bioindicator data,
    Applied Intelligence 13(1), 2000."""

    names = ("wq",)
    features = 16
    files = {"mulan_wq/wq.arff": "4a0906b4a51bf52c986790ddaf261ba51faa3da9cffe823badabd88d38d252fe"}
    where = "from github.com/tsoumakas/mulan, data/multi-target/wq.arff"
