"""What the bound for every code becomes as rare codes are merged: F and what codes keep, by `perturber.merge_below`.

The codes of a trained int8 artefact are merged as training would have merged them: from the rows that trained it, by
the distance of what they keep. So nothing is trained again, and F is counted on rows that no training saw. Kept is the
correlation within y between a property and its mean over the samples of a code. Records
docs/results/privacy/merging.json, of which pages/write_pages.py makes a part of docs/results/codebooks.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.sections.code_bound import FEWEST
from edgeveil.trainer.audit.subject import in_chunks
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.measures.per_code import per_code
from edgeveil.trainer.perturbers.codebook import channel
from edgeveil.trainer.perturbers.codebook.group_means import group_means
from edgeveil.trainer.perturbers.codebook.targets import fit_kept
from edgeveil.trainer.progress import say
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts.reproduce import record
from scripts.reproduce.codebooks.seeds import SHIPS, pipeline, told

RECORD = Path("docs/results/privacy/merging.json")
BELOW = (0, 10, 20, 30, 50, 75, 100)


def measured(run: Run, export: ExportFolder) -> dict[str, Any]:
    """F and what is kept at each `merge_below`, as far as a class has a code of so many units."""
    dataset, section = run.dataset(), run.recipe.perturber
    if section.channel != "none" or section.merge_below or section.hold != "none":
        raise BadInput("A codebook without channel, merging or hold was expected; this one has one of them already.")
    rows = dataset.slices.rows()
    code = np.full(len(dataset.y), -1)
    code[rows] = told(run, in_chunks(pipeline(run, export, SHIPS).run, dataset.x[rows]))
    learn, _ = fit_and_validation(dataset, "perturber")
    judge = dataset.rows(np.concatenate([dataset.part(name).index for name in ("attack", "test")]))
    kept = fit_kept(
        section.keep,
        dataset.unit(learn.x),
        learn.index,
        y=learn.y,
        attributes=dataset.attributes,
        weights=section.weights,
    )
    values = {part: kept(dataset.unit(rows.x), rows.index) for part, rows in (("learn", learn), ("judge", judge))}
    k, classes = section.codes_of_class, len(dataset.y_names)
    shape = (classes, classes * k, len(dataset.z_names))
    found = []
    for below in BELOW:
        try:
            to = _merged(code[learn.index], learn.cluster, values["learn"], k, classes, below)
        except BadInput:
            break
        sent, learned = to[code[judge.index]], to[code[learn.index]]
        asked: dict[str, Any] = {"shape": shape, "cluster": judge.cluster}
        every, of_class = (
            per_code(y, sent, judge.z, rng=np.random.default_rng(0), fewest=fewest, **asked)
            for y, fewest in ((judge.y, FEWEST), (sent // k, 1))
        )
        found.append(
            {
                "merge_below": below,
                "codes": len(np.unique(to)),
                "factor": every.factor,
                "share": every.share,
                "of_class": of_class.factor,
                "rarest": of_class.fewest,
                "certainty": of_class.certainty,
                "kept": _correlation(values["judge"], group_means(values["learn"], learned, shape[1])[sent], judge.y),
            }
        )
    unit = dataset.cluster_kind if judge.cluster is not None else "sample"
    return {"recipe": run.recipe.name, "seed": run.recipe.seed, "unit": unit, "rows": len(judge), "merged": found}


def _merged(
    code: np.ndarray, cluster: np.ndarray | None, values: np.ndarray, k: int, classes: int, below: int
) -> np.ndarray:
    """The code that is sent for each code (classes * k,): itself, or the nearest of its class that is frequent."""
    unit = np.arange(len(code)) if cluster is None else np.unique(cluster, return_inverse=True)[1].reshape(-1)
    units = np.bincount(np.unique(np.stack([code, unit]), axis=1)[0], minlength=classes * k)
    means = group_means(values, code, classes * k)
    to = np.arange(classes * k)
    for one in range(classes):
        mine = slice(one * k, (one + 1) * k)
        distance = ((means[mine, None] - means[None, mine]) ** 2).sum(axis=2)
        to[mine] = one * k + channel.merged(units[mine], distance, fewest=below).argmax(axis=1)
    return to


def _correlation(values: np.ndarray, shown: np.ndarray, y: np.ndarray) -> float:
    """Within y, over all dimensions of what is kept, both (n, d)."""

    def within(of: np.ndarray) -> np.ndarray:
        return of - group_means(of, y, int(y.max()) + 1)[y]

    a, b = within(values), within(shown)
    return float((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()))


def main() -> None:
    """Measure each run with its export."""
    script = record.Script(__file__, __doc__, "runs/digits exports/digits", out=RECORD)
    script.add_argument("folders", nargs="+", type=Path, help="folders of runs, each followed by that of its export")
    asked = script.parse_args()
    load_tensorflow()
    found = record.read(asked.out) or {"kind": "edgeveil-merging", "fewest": FEWEST, "runs": {}}
    for folder, exported in zip(asked.folders[::2], asked.folders[1::2], strict=True):
        run = Run.open(folder)
        found["runs"][f"{run.recipe.name}, {run.recipe.seed}"] = one = measured(run, ExportFolder.open(exported))
        say(str(one))
        record.write(asked.out, script.made_by(asked), found | record.here())


if __name__ == "__main__":
    record.run(main)
