"""PR-GAN on MNIST in ten seeds: y and z as D_y and D_z read them from the int8 file, the best attack, and the time.

The rows, batches and epochs are those of ``frameworks.py``, whose pieces for Keras count where ``--runs`` has them.
Records docs/results/prgan-seeds.json.

    EDGEVEIL_DATA=... python -m scripts.measure.prgan_seeds
"""

from pathlib import Path

import numpy as np

from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts import record
from scripts.measure.frameworks import QUICK, compared

RESULT = Path("docs/results/prgan-seeds.json")


def main() -> None:
    """Make the seeds that are missing, and the record of all."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--runs", type=Path, default=Path("runs/frameworks"), help="runs, exports and pieces")
    script.add_argument("--seeds", nargs="+", type=int, default=list(range(10)))
    options = script.parse_args()
    load_tensorflow()
    runs = options.runs
    runs.mkdir(parents=True, exist_ok=True)
    rows = [
        record.kept(runs / f"mnist-keras-{seed}.json", lambda seed=seed: compared("mnist", "keras", seed, runs))
        for seed in options.seeds
    ]
    fixed = [next(one for one in row["audit"]["adversaries"] if one["kind"] == "fixed")["accuracy"] for row in rows]
    y = [row["audit"]["target"]["accuracy"] for row in rows]
    summary = {"fixed": {"mean": float(np.mean(fixed)), "worst": max(fixed)}, "y": {"least": min(y)}}
    document = {"budget": QUICK["mnist"], "rows": rows, "summary": summary, **record.here()}
    record.write(options.out, script.path, document)


if __name__ == "__main__":
    record.run(main)
