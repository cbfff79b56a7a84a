"""Figure 6 of paper 001, and beyond it: samples as they are, as they leave, and as an attacker makes them out again.

    EDGEVEIL_DATA=... python -m scripts.papers.figure_6 --data depth --kinds prgan laplace label-only

The paper shows ten depth frames of OccuTherm, raw, by PR-GAN and by Laplace noise. Here an attacker follows, who
learned the way from x' to x on pairs of the slices that are not for testing (the quick audit's inversion). Shown are
test samples, drawn by the seed, as the exported int8 artefact sends them. Faces are not shown: the terms of Extended
Yale B, as far as they are known, allow research and say nothing of passing pictures of its people on.
Writes docs/results/privacy/figure-6/DATA.json and docs/results/figure-6-DATA.png.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.inversion import invert
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.attacks.rows import places, question_of
from edgeveil.trainer.audit import subject
from edgeveil.trainer.audit.frozen import open_target
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.progress import say
from edgeveil.trainer.report.pictures import saved, style
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts import record
from scripts.papers.table_2 import exported, trained

RECORD, PICTURE = "docs/results/privacy/figure-6/{}.json", "docs/results/figure-6-{}.png"
NAMES = {"prgan": "PR-GAN", "laplace": "Laplace noise", "codebook": "codebook", "label-only": "label-only"}
SAMPLES = 10


def main() -> None:
    """Train what is missing, invert it, and draw."""
    script = record.Script(__file__, __doc__, "--data mnist")
    script.add_argument("--out", type=Path, default=Path("runs/table-2"), help="runs and exports, as of table_2")
    script.add_argument("--data", choices=("digits", "mnist", "depth"), default="depth")
    script.add_argument("--kinds", nargs="+", choices=list(NAMES), default=list(NAMES))
    script.add_argument("--seed", type=int, default=0)
    options = script.parse_args()
    load_tensorflow()
    rows, shown, facts = [], np.empty(0, int), {}
    for kind in options.kinds:
        say(f"{options.data}, {kind}, seed {options.seed}")
        run = trained(options.data, kind, options.seed, options.out)
        dataset = run.dataset()
        test = dataset.part("test")
        if not rows:
            shown = chosen(test.y, np.random.default_rng(options.seed))
            rows.append(("raw", dataset.unit(test.x[shown])))
        sent, back, facts[kind] = attacked(run, exported(run, options.out), dataset, options.seed)
        rows += [(NAMES[kind], sent[shown]), ("made out", back[shown])]
    picture = drawn(rows)
    write_atomic(PICTURE.format(options.data), picture)
    document = {
        "data": options.data,
        "seed": options.seed,
        "y": [dataset.y_names[label] for label in test.y[shown]],
        "rows_sha256": hashlib.sha256(np.ascontiguousarray(test.index[shown])).hexdigest(),
        "picture_sha256": hashlib.sha256(picture).hexdigest(),
        "kinds": facts,
        **record.here(),
    }
    record.write(Path(RECORD.format(options.data)), script.made_by(options), document)


def chosen(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Places of ``SAMPLES`` rows: five of each of the two most frequent classes, as in the paper."""
    most = np.argsort(-np.bincount(y), kind="stable")[:2]
    return np.concatenate([rng.choice(np.flatnonzero(y == label), SAMPLES // 2, replace=False) for label in most])


def attacked(run: Run, folder: Path, dataset: Dataset, seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """The test rows as sent and as made out again, in the unit cube, and the facts of it."""
    artefact = "numpy" if run.recipe.perturber.kind == "laplace" else "tflite-int8"
    opened = open_target(folder, run=None, trust=None, artefact=artefact)
    index = dataset.slices.rows()
    released = subject.perturb_rows(opened.subject, opened.run, dataset, index).released
    problem = question_of(dataset, released, BUDGETS["quick"], run.classifiers(), seed=seed).whole
    test = released.take(places(dataset).test)
    back = features.unit(problem, replace(test, x=invert(problem, seed)(test)))
    goal = dataset.unit(dataset.part("test").x)
    facts = {
        "explained": explained(goal, back, test.y, dataset),
        "pairs": len(problem.fit) + len(problem.stop),
        "artefact": artefact,
        "pipeline_sha256": opened.subject.pipeline_sha256(),
        "data_sha256": run.facts["data_sha256"],
    }
    return dataset.unit(test.x), back, facts


def explained(goal: np.ndarray, back: np.ndarray, y: np.ndarray, dataset: Dataset) -> float:
    """The share of the squared error of the mean sample of y that ``back`` (n, ...) does away with; 1 is x itself."""
    part = dataset.part("perturber")
    u = dataset.unit(part.x)
    means = np.stack([u[part.y == label].mean(axis=0) for label in range(len(dataset.y_names))])
    return 1.0 - float(np.square(back - goal).sum() / np.square(means[y] - goal).sum())


def drawn(rows: Sequence[tuple[str, np.ndarray]]) -> bytes:
    """A PNG: one line of pictures (n, height, width, 1) in the unit cube under the other, each with its name."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(7.5, 0.84 * len(rows)), layout="constrained")
        for axes, (name, pictures) in zip(np.atleast_1d(figure.subplots(len(rows), 1)), rows, strict=True):
            gap = np.ones((*pictures.shape[1:2], 1))
            strip = [part for picture in pictures for part in (np.clip(picture[..., 0], 0, 1), gap)]
            axes.imshow(np.concatenate(strip[:-1], axis=1), cmap="gray", vmin=0, vmax=1)
            axes.set_ylabel(name, rotation=0, ha="right", va="center")
            axes.set(xticks=[], yticks=[], frame_on=False)
        return saved(figure, "png", dpi=110)


if __name__ == "__main__":
    record.run(main)
