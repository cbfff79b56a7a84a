"""The local mechanisms that ship: exact laws, unbiased estimates, the mean of eleven values, and figure 3's noise.

Records docs/results/dp/local.json; the page is docs/results/local-privacy.md. Noise is the operating system's, so two
runs differ within their intervals. About half an hour on one core; --means takes some minutes and keeps the rest of
the record. Ends with 3 where a promise or an estimate fails.
"""

from __future__ import annotations

import time
from pathlib import Path

from scripts.reproduce import record
from scripts.reproduce.dp import figure_3_epsilon, local_laws, local_means

RESULT = Path("docs/results/dp/local.json")


def main() -> int:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--means", action="store_true", help="measure the mean of eleven values alone")
    asked = script.parse_args()
    began = time.monotonic()
    if asked.means:
        record.write(asked.out, script.path, {**record.recorded(asked.out), "means": local_means.document()})
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
        "figure_3": figure_3_epsilon.rows(),
        "wall_s": round(time.monotonic() - began),
    }
    record.write(asked.out, script.made_by(asked), document)
    failed = [row for rows in (laws, unbiased, variances, categories) for row in rows if not row["held"]]
    for row in failed:
        print(f"not held: {row}")
    return 3 if failed else 0


if __name__ == "__main__":
    record.run(main)
