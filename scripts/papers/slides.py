"""What the papers' slides name next to their own: count-mean sketches, a private lasso, PATE.

Records docs/results/dp/slides.json; the page is docs/results/slides.md. Noise is the operating system's, so two runs
differ. Some minutes on one core. EDGEVEIL_DATA holds the census.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import Lasso

from edgeveil.edge_runtime.stages import kind_of
from edgeveil.trainer.ext.local import collect, reporting
from edgeveil.trainer.ext.private.estimators import PATEClassifier, PrivateLasso, pate
from edgeveil.trainer.perturbers import local
from scripts import record
from scripts.papers import adult
from scripts.papers.shipped import sent

RESULT = Path("docs/results/dp/slides.json")
RUNS = 3
DEVICES, ALPHA, DOMAINS = 20_000, 1.0, (4096, 65_536)
SHARES = np.array([0.3, 0.2, *[0.05] * 10])  # of the first categories; no device has another
EPSILONS, L1 = (0.5, 1.0, 2.0, 8.0), 1e-3
BUDGETS, TEACHERS, QUERIES, DELTA = (1.0, 3.0, 10.0), (25, 50, 100), 100, 1e-4


def ends(values: list[float]) -> dict[str, Any]:
    """The mean of some runs, and the lowest and highest."""
    return {"mean": float(np.mean(values)), "low": min(values), "high": max(values)}


def sketches() -> Iterator[dict[str, Any]]:
    """Of each mechanism and domain: a report's bytes, the error of a share that is 0 next to the formula, and the share
    of all categories that lie in their intervals."""
    for domain in DOMAINS:
        for name in ("oue", "hrr", "cms", "hcms"):
            kind = local.named("share")[name]
            about = {"categories": domain, "mechanism": name, "taken": domain <= kind.most}
            if not about["taken"]:
                yield about
                continue
            made = local.of_category(name, "label", domain, ALPHA, seed=domain)
            stages = {stage["output"]: stage for stage in made.stages}
            decoder = reporting.decoder(kind_of(made.stages[-1]).worth(made.stages[-1], stages, None))
            found = collect.Estimate("histogram", decoder, categories=True, dependent=False)
            categories = np.random.default_rng(0).choice(len(SHARES), DEVICES, p=SHARES)
            for part in np.array_split(categories, 40):
                found.add(sent(made.stages, part), np.zeros(len(part), "S8"))
            result = found.document(1)
            shares, (low, high) = np.array(result["shares"]), np.array(result["interval_95"]).T
            real = np.bincount(categories, minlength=domain) / DEVICES
            theory = math.sqrt(kind.variance(domain, ALPHA) / DEVICES)
            measured = float(np.sqrt(np.mean(shares[len(SHARES) : domain] ** 2)))
            covered = float(np.mean((low[:domain] <= real) & (real <= high[:domain])))
            report_bytes = np.dtype(made.dtype).itemsize * math.prod(made.shape)
            yield {**about, "bytes": report_bytes, "theory": theory, "measured": measured, "covered": covered}


def census() -> tuple[np.ndarray, np.ndarray]:
    """Rows one-hot of eight public lists, of norm sqrt(8), and ages."""
    people = adult.load()
    rows = np.hstack([np.eye(len(values))[people.number(name)] for name, values in people.values.items()])
    return rows, people.numbers[:, list(people.highest).index("age")]


def ages() -> dict[str, Any]:
    """R^2 of ages on the published test rows, by epsilon and without noise."""
    x, y = census()
    train, test = slice(0, 30_162), slice(30_162, None)
    rows = []
    for epsilon in EPSILONS:
        settings = {"data_norm": math.sqrt(8), "target_bounds": (17, 90), "l1": L1}
        fits = [PrivateLasso(epsilon, **settings).fit(x[train], y[train]) for _ in range(RUNS)]
        used = float(np.mean([np.count_nonzero(one.coef_) for one in fits]))
        rows.append({"epsilon": epsilon, "r2": ends([one.score(x[test], y[test]) for one in fits]), "used": used})
    plain = Lasso(alpha=0.02).fit(x[train], y[train])
    found = {"r2": plain.score(x[test], y[test]), "used": int(np.count_nonzero(plain.coef_))}
    return {"rows": rows, "plain": found, "columns": x.shape[1], "people": [30_162, len(x) - 30_162]}


def digits_of_people(people: int) -> tuple[np.ndarray, ...]:
    """Digits in the unit cube: 1,300 rows, labels and made-up people, so many; and other rows with their labels."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y, cut = x[order] / 16, y[order], 1300
    return x[:cut], y[:cut], np.arange(cut) % people, x[cut:], y[cut:]


def students() -> dict[str, Any]:
    """How often a student of noisy votes is right on rows that no vote was on."""
    x, y, people, rest, truth = digits_of_people(325)
    rows = []
    for teachers in TEACHERS:
        for epsilon in BUDGETS:
            settings = {"delta": DELTA, "teachers": teachers, "queries": QUERIES, "classes": range(10)}
            fits = [PATEClassifier(epsilon, **settings).fit(x, y, people=people, public=rest) for _ in range(RUNS)]
            labels = ends([float((one.labels_ == truth[:QUERIES]).mean()) for one in fits])
            right = ends([one.score(rest[QUERIES:], truth[QUERIES:]) for one in fits])
            about = {"teachers": teachers, "epsilon": epsilon, "sigma": fits[0].votes_.sigma}
            rows.append({**about, "labels": labels, "right": right})
    weights = pate.softmax_regression(rest[:QUERIES], truth[:QUERIES], 10, 1e-2)
    plain = float(((rest[QUERIES:] @ weights.T).argmax(axis=1) == truth[QUERIES:]).mean())
    return {"rows": rows, "plain": plain, "people": 325, "queries": QUERIES, "delta": DELTA}


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__)
    script.parse_args()
    began = time.monotonic()
    document = {
        **record.here(),
        "runs": RUNS,
        "sketches": {"devices": DEVICES, "alpha": ALPHA, "rows": list(sketches())},
        "ages": ages(),
        "students": students(),
        "wall_s": round(time.monotonic() - began),
    }
    record.write(RESULT, script.path, document)


if __name__ == "__main__":
    record.run(main)
