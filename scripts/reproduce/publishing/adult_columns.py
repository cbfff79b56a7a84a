"""Adult's quasi-identifiers and their hierarchies, in the order in which they are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgeveil.trainer.datasets.tables import adult
from edgeveil.trainer.datasets.tables.coded import Coded
from edgeveil.trainer.publish.anonymity.generalise import Column
from edgeveil.trainer.publish.anonymity.hierarchies import Hierarchy
from edgeveil.trainer.publish.anonymity.levels import encode
from edgeveil.trainer.publish.anonymity.name_groups import Tree
from edgeveil.trainer.publish.anonymity.number_ranges import Cuts, Ranges

MARRIED = {"Married-civ-spouse", "Married-AF-spouse"}
WORK = {"Self-emp-not-inc": "self", "Self-emp-inc": "self"} | dict.fromkeys(
    ("Federal-gov", "Local-gov", "State-gov"), "gov"
)
WHITE_COLLAR = {"Tech-support", "Exec-managerial", "Prof-specialty", "Adm-clerical", "Sales"}


def _grouped(column: str, group: Callable[[str], str]) -> Tree:
    tree: dict[str, list[str]] = {}
    for name in adult.VALUES[column].split(", "):
        tree.setdefault(group(name), []).append(name)
    return Tree(kind="tree", tree=tree)


def _flat(column: str) -> Tree:
    return Tree(kind="tree", tree=adult.VALUES[column].split(", "))


HIERARCHIES: dict[str, Hierarchy] = {
    "age": Ranges(kind="ranges", low=17, high=90, widths=[5, 10, 20]),
    "sex": _flat("sex"),
    "race": _flat("race"),
    "marital-status": _grouped("marital-status", lambda name: "married" if name in MARRIED else "not married"),
    "education-num": Cuts(kind="cuts", low=1, high=16, cuts=[[9, 10, 13, 14], [13]]),
    "native-country": _grouped("native-country", lambda name: "US" if name == "United-States" else "not US"),
    "workclass": _grouped("workclass", lambda name: WORK.get(name, name)),
    "occupation": _grouped("occupation", lambda name: "white collar" if name in WHITE_COLLAR else "other"),
}


def load() -> Coded:
    """The 30,162 complete rows of the training file."""
    return adult.load("adult.data.gz")


def texts(table: Coded, name: str) -> np.ndarray:
    """A column as a table file has it."""
    if name in table.categories:
        return table.categories[name]
    return table.numbers[:, list(table.highest).index(name)].astype(np.int64).astype(str)


def columns(table: Coded, names: Sequence[str]) -> list[Column]:
    """Quasi-identifiers, encoded."""
    return [Column(name, *encode(name, texts(table, name).tolist(), HIERARCHIES[name])) for name in names]
