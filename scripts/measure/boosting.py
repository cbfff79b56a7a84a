"""LightGBM and XGBoost next to the boosting that attacks: strength and processor time on digits, WiFi and a table.

All have the same rows, features, trees, leaves, rate, share of features and rule to stop, and one thread. What is read
is z from x' and y, of samples as they are and with Laplace noise of a quarter of the range. Records
docs/results/boosting.json. Neither package is in a lock: install both into a folder, and name it in PYTHONPATH:

    pip install --target DIR --no-deps lightgbm xgboost-cpu
    EDGEVEIL_DATA=... PYTHONPATH=DIR .venv/bin/python -m scripts.measure.boosting
"""

import importlib.metadata
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer import datasets
from edgeveil.trainer.attacks.families.estimator import boosted, log_loss, predicted
from edgeveil.trainer.recipe.schema import Recipe
from scripts import record
from scripts.papers import adult

RESULT = Path("docs/results/boosting.json")
ROWS, TREES, SEEDS = 4000, 120, (0, 1, 2)
NOISE = 0.25  # of the range
Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int], Any]
PACKAGES = ("lightgbm", "xgboost-cpu")


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Name, samples in the unit cube (n, d), y and z of each."""
    for name, keep, hide in (("digits", None, None), ("wifi", "building", "floor")):
        data = datasets.load(Recipe.find(f"{name}-prgan"))
        u = data.unit(data.x).reshape(len(data.x), -1)
        if keep is None:
            yield name, u, data.y, data.z
        else:
            story = np.array([int(data.y_names[one].rpartition("-")[2]) for one in data.known[hide].values])
            yield name, u, data.known[keep].values, story
    table = adult.load("adult.data.gz")
    numbers = table.numbers / np.array(list(table.highest.values()))
    coded = [np.searchsorted(np.unique(of), of)[:, None] for name, of in table.categories.items() if name != "sex"]
    u = np.concatenate([numbers, *coded], axis=1)
    yield "adult", u / u.max(axis=0), table.label.astype(int), (table.categories["sex"] == "Male").astype(int)


def of_lightgbm(x: np.ndarray, z: np.ndarray, x_stop: np.ndarray, z_stop: np.ndarray, seed: int) -> Any:
    """LightGBM with the settings of ``boosted``."""
    import lightgbm

    model = lightgbm.LGBMClassifier(
        n_estimators=TREES, learning_rate=0.15, num_leaves=15, colsample_bytree=0.3, random_state=seed, n_jobs=1,
        verbose=-1,
    )  # fmt: skip
    stop = lightgbm.early_stopping(8, verbose=False)
    return model.fit(x, z, eval_set=[(x_stop, z_stop)], callbacks=[stop])


def of_xgboost(x: np.ndarray, z: np.ndarray, x_stop: np.ndarray, z_stop: np.ndarray, seed: int) -> Any:
    """XGBoost with the settings of ``boosted``."""
    import xgboost

    model = xgboost.XGBClassifier(
        n_estimators=TREES, learning_rate=0.15, max_leaves=15, max_depth=0, grow_policy="lossguide", tree_method="hist",
        colsample_bynode=0.3, early_stopping_rounds=8, random_state=seed, n_jobs=1,
    )  # fmt: skip
    return model.fit(x, z, eval_set=[(x_stop, z_stop)], verbose=False)


def of_ours(x: np.ndarray, z: np.ndarray, x_stop: np.ndarray, z_stop: np.ndarray, seed: int) -> Any:
    """scikit-learn's, as the attack has it."""
    return boosted(x, z, x_stop, z_stop, TREES, seed)


FITS: dict[str, Fit] = {"scikit-learn": of_ours, "LightGBM": of_lightgbm, "XGBoost": of_xgboost}


def measured(name: str, u: np.ndarray, y: np.ndarray, z: np.ndarray, noise: float) -> Iterator[dict[str, Any]]:
    """A row for each package and seed."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(u))[:ROWS]
        x = (u[order] + rng.laplace(0, noise, (len(order), u.shape[1])) if noise else u[order]).astype(np.float32)
        x, labels = np.concatenate([x, np.eye(y.max() + 1, dtype=np.float32)[y[order]]], axis=1), z[order]
        fit, stop, test = np.split(np.arange(len(order)), [int(0.6 * len(order)), int(0.7 * len(order))])
        for package, make in FITS.items():
            wall, processor = time.perf_counter(), time.process_time()
            model = make(x[fit], labels[fit], x[stop], labels[stop], seed)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            p = predicted(model, x[test], int(z.max()) + 1)
            right = float((p.argmax(axis=1) == labels[test]).mean())
            facts = {"right": right, "loss": log_loss(p, labels[test]), "wall_s": wall, "processor_s": processor}
            yield {"data": name, "noise": noise, "package": package, "seed": seed, "rows": len(fit), **facts}


def main() -> None:
    """Measure all, and record rows and means."""
    script = record.Script(__file__, __doc__, out=RESULT)
    options = script.parse_args()
    rows = [row for name, u, y, z in problems() for noise in (0.0, NOISE) for row in measured(name, u, y, z, noise)]
    means = []
    for data, noise, package in dict.fromkeys((row["data"], row["noise"], row["package"]) for row in rows):
        mine = [row for row in rows if (row["data"], row["noise"], row["package"]) == (data, noise, package)]
        of = {name: float(np.mean([row[name] for row in mine])) for name in ("right", "loss", "wall_s", "processor_s")}
        means.append({"data": data, "noise": noise, "package": package, **of})
    found = record.here()
    found["versions"] |= {name: importlib.metadata.version(name) for name in PACKAGES}
    record.write(options.out, script.made_by(options), {**found, "trees": TREES, "means": means, "rows": rows})


if __name__ == "__main__":
    record.run(main)
