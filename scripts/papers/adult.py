"""The Adult data: 48,842 people of the US census of 1994, and whether they earned more than 50,000 dollars.

B. Becker, R. Kohavi, "Adult", UCI Machine Learning Repository, 1996, doi 10.24432/C5XW20; UCI lists CC BY 4.0.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.readings import checked_path

SOURCE = "archive.ics.uci.edu/dataset/2/adult, each file compressed with `gzip -9n`"
FILES = {
    "adult.data.gz": "c7a2b4716a97f930123e0baf879188d701e798172631a654fc703d4b082907f3",
    "adult.test.gz": "8a2c1bffa6e7ce5abfa43881ae5e87c4311ebc2b3cd526c9c40a43f19f06f799",
}
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
# Public bounds: the census codes ages and hours up to these, money up to its top codes.
HIGHEST = {
    "age": 90.0, "fnlwgt": 1.5e6, "education-num": 16.0, "capital-gain": 99_999.0, "capital-loss": 4_356.0,
    "hours-per-week": 99.0,
}  # fmt: skip
# As adult.names lists them.
VALUES = {
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, "
    "Never-worked",
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, "
    "Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "marital-status": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, "
    "Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, "
    "Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, "
    "Protective-serv, Armed-Forces",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "native-country": "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), "
    "India, Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, "
    "Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, "
    "Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, Holand-Netherlands",
}


@dataclass(frozen=True)
class Coded:
    """A table coded by bounds and lists that are public: nothing is taken from its rows.

    ``numbers`` (n, k) under the names of ``highest``, which bounds each; ``categories``: name -> texts (n,), one of
    ``values`` each; ``label`` (n,) is true or false.
    """

    numbers: np.ndarray
    highest: Mapping[str, float]
    categories: Mapping[str, np.ndarray]
    values: Mapping[str, Sequence[str]]
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    def take(self, rows: np.ndarray) -> Coded:
        """Some of the rows."""
        categories = {name: texts[rows] for name, texts in self.categories.items()}
        return Coded(self.numbers[rows], self.highest, categories, self.values, self.label[rows])

    def number(self, name: str) -> np.ndarray:
        """One category as its place among its values, int64 (n,). Raises ``BadInput`` for a value that is no other."""
        values = np.array(sorted(self.values[name]))
        places = np.searchsorted(values, self.categories[name]).clip(max=len(values) - 1)
        strange = values[places] != self.categories[name]
        if strange.any():
            row = int(np.flatnonzero(strange)[0])
            raise BadInput(f"Expected one of {', '.join(values)} in {name}; row {row} has another value.")
        return places

    def unit_rows(self) -> np.ndarray:
        """Numbers over their bounds and categories one-hot, every row of Euclidean norm 1; float64 (n, d)."""
        scaled = np.minimum(self.numbers / np.array(list(self.highest.values())), 1)
        hot = [np.eye(len(values))[self.number(name)] for name, values in self.values.items()]
        rows = np.hstack([scaled, *hot])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def load(*files: str) -> Coded:
    """The complete rows of some of ``FILES``, or of both: 30,162 and 15,060; the label is income above 50,000.

    Raises ``BadInput`` where EDGEVEIL_DATA does not hold the published files.
    """
    lines = [line for file in files or FILES for line in _lines(file)]
    rows = [fields for fields in (line.rstrip(".").split(", ") for line in lines) if "?" not in fields]
    columns = dict(zip(COLUMNS, np.array(rows).T, strict=True))
    return Coded(
        numbers=np.stack([columns[name].astype(np.float64) for name in HIGHEST], axis=1),
        highest=HIGHEST,
        categories={name: columns[name] for name in VALUES},
        values={name: values.split(", ") for name, values in VALUES.items()},
        label=columns["income"] == ">50K",
    )


def _lines(file: str) -> list[str]:
    text = gzip.decompress(checked_path(f"adult/{file}", sha256=FILES[file], source=SOURCE).read_bytes()).decode()
    return [line for line in text.splitlines() if line and not line.startswith("|")]
