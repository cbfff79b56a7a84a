"""The local mechanisms that ship: exact laws, unbiased estimates, the mean of eleven values, and figure 3's noise.

Records docs/results/dp/local.json; the page is docs/results/local-privacy.md. Noise is the operating system's, so two
runs differ within their intervals. About half an hour on one core; --means takes some minutes and keeps the rest of
the record. Ends with 3 where a promise or an estimate fails.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.loaders import scene
from edgeveil.trainer.linear import scale_for
from scripts import record
from scripts.papers import local_laws, local_means
from scripts.papers.predictors import PAPER_FIGURE_3, splits

RESULT = Path("docs/results/dp/local.json")

WANTED, COUNT = 1, 10  # labels and splits of paper 000's figure 3


def figure_3() -> list[dict[str, Any]]:
    """What the noise of paper 000's figure 3 is worth if exact: scale, epsilon of a value, and of a vector (the sum).

    A value's range is that of the data set: figure 3 states none.
    """
    data = scene.load()
    span = np.ptp(data.x, axis=0)
    entries = []
    for eps in PAPER_FIGURE_3:
        scales = np.array([scale_for(split.a_d, eps=eps * WANTED) for split in splits(data, WANTED, COUNT)])
        scale = float(scales.mean())
        each = span / scale
        entries.append(
            {
                "eps": eps,
                "scale": scale,
                "epsilon_value": {"median": float(np.median(each)), "largest": float(each.max())},
                "epsilon_vector": float(each.sum()),
                "features": data.x.shape[1],
            }
        )
    return entries


def main() -> int:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--means", action="store_true", help="measure the mean of eleven values alone")
    options = script.parse_args()
    began = time.monotonic()
    if options.means:
        record.write(options.out, script.path, {**record.recorded(options.out), "means": local_means.document()})
        return 0
    laws = list(local_laws.laws())
    unbiased = list(local_laws.unbiased())
    variances = list(local_laws.variances(unbiased))
    categories = list(local_laws.categories())
    document = {
        **record.here(),
        "laws": laws,
        "published_even": {str(alpha): local_laws.published_even(alpha) for alpha in local_laws.ALPHAS},
        "unbiased": {"draws": local_laws.DRAWS, "most_z": local_laws.MOST_Z, "rows": unbiased},
        "variances": variances,
        "categories": {"devices": local_laws.DEVICES, "repeats": local_laws.REPEATS, "rows": categories},
        "means": local_means.document(),
        "figure_3": figure_3(),
        "wall_s": round(time.monotonic() - began),
    }
    record.write(options.out, script.made_by(options), document)
    failed = [row for rows in (laws, unbiased, variances, categories) for row in rows if not row["held"]]
    for row in failed:
        print(f"not held: {row}")
    return 3 if failed else 0


if __name__ == "__main__":
    record.run(main)
