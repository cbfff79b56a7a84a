"""What no code of MNIST can reach, or none that is balanced by counting: pixels, F, linked AUC.

**Pixels.** A code c that tells nothing of the digit d beyond y shows a receiver E[x | y, c], the mean over digits of
E[x | d, c]. By Jensen its variance within y is at most the mean of var E[x | d, c]: what a code for each digit, that
may tell the digit, keeps of the pixels *within* the digit. k-means makes the best such code that is known: centres from
the rows that are fitted, kept on others (``held``) and on the same rows (``fitted``: too much). *Any code* is the bound
for codes of any size, numbers too: c couples the pictures of all digits in some way, and by Gelbrich (1990) the
variance of their weighted sum is at most sum_ij P(i) P(j) tr (S_i^1/2 S_j S_i^1/2)^1/2, S_d the covariance of digit d.

**F.** Codes drawn blindly, all equally often, with y and z as often as in the data: they tell nothing, and the F that
is left is the width of its intervals.

**Linked AUC.** A code that every digit uses equally often *on the rows that it is learned from* tells of the digit on
others, because those rows are a sample. Here that is all it tells: codes are the quantiles of a number that has nothing
to do with the digit, which is known without error. A code that is learned otherwise may tell less or more.

The test slice is not read. Records docs/results/privacy/limits.json, a part of docs/results/codebooks.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.measures.per_code import per_code
from edgeveil.trainer.perturbers.codebook.group_means import group_means
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce import record
from scripts.reproduce.codebooks.codebook_summary import POOLED, pooled
from scripts.reproduce.codebooks.seeds import FEWEST

RECORD = Path("docs/results/privacy/limits.json")
CODES = (32, 128, 1024)  # of a class
COMPONENTS = 64  # in which distances are measured
HELD = 10_000
BLIND = 64
DRAWS = 20
ROWS = (1, 2, 4)  # times the rows that no training saw


def pixels(dataset: Dataset, rng: np.random.Generator) -> dict[str, Any]:
    """Shares of the pixels' variance within y: at most, for so many codes of a class that tell nothing of the digit."""
    rows = np.concatenate([dataset.part(name).index for name in ("classifiers", "perturber", "attack")])
    part = dataset.as_priced().rows(rng.permutation(rows))
    u = dataset.unit(part.x).reshape(len(part), -1).astype(np.float64)
    return {
        "rows": len(part),
        "held": HELD,
        "within_digit": _within(u, part.y, part.z),
        "any_code": _gelbrich(u, part.y, part.z),
        "codes": [{"codes": k, **_best_codes(u, part.y, part.z, k, rng)} for k in CODES],
    }


def _of_y(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    return u - group_means(u, y, int(y.max()) + 1)[y]


def _within(u: np.ndarray, y: np.ndarray, digit: np.ndarray) -> float:
    return float((_of_y(u, digit) ** 2).sum() / (_of_y(u, y) ** 2).sum())


def _gelbrich(u: np.ndarray, y: np.ndarray, digit: np.ndarray) -> float:
    """The bound for any code: each digit is of one y here."""
    most = 0.0
    for one in np.unique(y):
        mine = u[y == one], digit[y == one]
        digits, count = np.unique(mine[1], return_counts=True)
        share = count / count.sum()
        covariances = [np.cov(mine[0][mine[1] == k], rowvar=False) for k in digits]
        roots = []
        for matrix in covariances:
            values, vectors = np.linalg.eigh(matrix)
            roots.append((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
        for i, root in enumerate(roots):
            for j, matrix in enumerate(covariances):
                values = np.linalg.eigvalsh(root @ matrix @ root)
                most += len(mine[1]) * share[i] * share[j] * np.sqrt(np.maximum(values, 0)).sum()
    return float(most / (_of_y(u, y) ** 2).sum())


def _best_codes(
    u: np.ndarray, y: np.ndarray, digit: np.ndarray, codes: int, rng: np.random.Generator
) -> dict[str, float]:
    """What k-means of each digit keeps of the variance within y, on the rows it was fitted on and on others."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import PCA

    fit = np.arange(len(u)) >= HELD
    near = PCA(COMPONENTS, random_state=0).fit(u[fit]).transform(u)
    kept = {"fitted": 0.0, "held": 0.0}
    for one in np.unique(digit):
        mine = digit == one
        seed = int(rng.integers(2**31))
        means = MiniBatchKMeans(codes, batch_size=4096, max_iter=50, n_init=1, random_state=seed).fit(near[mine & fit])
        centres = group_means(u[mine & fit], means.labels_, codes)
        middle = u[mine & fit].mean(axis=0)
        for name, of in (("fitted", mine & fit), ("held", mine & ~fit)):
            shown = centres[means.predict(near[of])]
            kept[name] += ((u[of] - middle) ** 2).sum() - ((u[of] - shown) ** 2).sum()
    return {
        name: float(value / (_of_y(u, y)[of] ** 2).sum())
        for (name, value), of in zip(kept.items(), (fit, ~fit), strict=True)
    }


def blind(dataset: Dataset, tried: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """F of ``BLIND`` codes that tell nothing, by how many rows are counted."""
    unseen = dataset.rows(np.concatenate([dataset.part(name).index for name in ("classifiers", "perturber")]))
    each = BLIND // len(dataset.y_names)
    shape = len(dataset.y_names), BLIND, len(dataset.z_names)
    found = []
    for times in ROWS:
        factors = []
        for _ in range(DRAWS):
            rows = rng.choice(len(unseen), times * len(unseen))  # as many again, drawn like these
            code = unseen.y[rows] * each + rng.integers(each, size=len(rows))
            asked: dict[str, Any] = {"shape": shape, "tried": tried, "fewest": FEWEST[0]}
            factors.append(per_code(unseen.y[rows], code, unseen.z[rows], rng=rng, **asked).factor)
        ends = np.quantile(factors, [0, 0.5, 1])
        found.append({"rows": len(rows), **dict(zip(("least", "median", "most"), map(float, ends), strict=True))})
        say(str(found[-1]))
    return found


def balanced(dataset: Dataset, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Linked AUC of codes that each digit uses equally often on so many rows, attacked as codebooks are."""
    unseen = dataset.rows(np.concatenate([dataset.part(name).index for name in ("classifiers", "perturber")]))
    digit, slice_rows = dataset.as_priced().z[unseen.index], len(dataset.part("perturber"))
    each, shape = BLIND // len(dataset.y_names), (len(dataset.y_names), len(dataset.z_names))
    quantiles = np.arange(1, each) / each

    def coded(rows: np.ndarray, borders: np.ndarray) -> tuple[Part, dict[str, np.ndarray]]:
        code = (rng.random(len(rows))[:, None] > borders[digit[rows]]).sum(axis=1)
        y = unseen.y[rows]
        part = Part(np.zeros((len(rows), 0)), y, unseen.z[rows], None, rows)
        return part, {"code": y * each + code, "label": y}

    found = []
    for rows in (slice_rows, 2 * slice_rows, 4 * slice_rows):
        areas = []
        for _ in range(DRAWS):
            learned = digit[rng.integers(len(unseen), size=rows)]
            of_each = np.bincount(learned, minlength=digit.max() + 1)
            borders = np.stack([np.quantile(rng.random(max(n, 1)), quantiles) for n in of_each])
            fit, test = (coded(rng.integers(len(unseen), size=slice_rows), borders) for _ in range(2))
            areas.append(pooled(max(POOLED), fit, test, shape, BLIND, rng)["code"]["auc"])
        ends = {"least": float(np.min(areas)), "mean": float(np.mean(areas)), "most": float(np.max(areas))}
        found.append({"rows": rows, **ends})
        say(str(found[-1]))
    return found


def main() -> None:
    """Measure all, and record them."""
    script = record.Script(__file__, __doc__, "", out=RECORD)
    asked = script.parse_args()
    recipe = Recipe.find("mnist-codebook")
    dataset, rng = datasets.load(recipe), np.random.default_rng(0)
    tried = recipe.certificate.tried if recipe.certificate else 1
    text = {
        "kind": "edgeveil-limits",
        "recipe": recipe.name,
        "seed": 0,
        "blind": {"codes": BLIND, "draws": DRAWS, "tried": tried, "rows": blind(dataset, tried, rng)},
        "pixels": pixels(dataset, rng),
        "balanced": {"codes": BLIND, "draws": DRAWS, "releases": max(POOLED), "rows": balanced(dataset, rng)},
    }
    record.write(asked.out, script.made_by(asked), text | record.here())


if __name__ == "__main__":
    record.run(main)
