"""Frontiers of codebooks, as `edgeveil sweep` measures them.

``faces`` holds two ways to learn codes against each other, at three prices; ``wifi`` strengths of access points against
which of them are seen (docs/explanation/frontier.md speaks of both). ``motion`` asks what of a window more codes, a
lower price and more weight on its tempo would keep (docs/results/motion.md). Points lie in OUT when they are done: run
again, the script goes on. Records frontier-faces.json, frontier-wifi.json and frontier-motion.json of
docs/results/privacy.
"""

from pathlib import Path

from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sweep.axes import Axis
from edgeveil.trainer.sweep.sweep import sweep
from scripts.reproduce import record

RESULTS = Path("docs/results/privacy")
SWEEPS = {
    "faces": [Axis("perturber.method", ("residual", "funnel")), Axis("perturber.price", (0.25, 1, 2))],
    "wifi": [Axis("data.source", ("wifi", "wifi-strength"))],
    "motion": [
        Axis("perturber.codes", (4, 12)),
        Axis("perturber.weights", ([1.0, 2.0], [1.0, 6.0])),
        Axis("perturber.price", (0.5, 2.0)),
    ],
}


def main() -> None:
    """Work the points that are missing and write the records."""
    script = record.Script(__file__, __doc__, "wifi --out runs/frontiers")
    script.add_argument("data", nargs="*", help=f"of {', '.join(SWEEPS)}; left out: all")
    script.add_argument("--out", type=Path, default=Path("runs/frontiers"), help="points, runs and logs")
    script.add_argument("--jobs", type=int, default=1, help="processes")
    asked = script.parse_args()
    if set(asked.data) - set(SWEEPS):
        script.error(f"data sets of {', '.join(SWEEPS)} were expected; came {', '.join(asked.data)}")
    for data in asked.data or SWEEPS:
        found = sweep([Recipe.find(f"{data}-codebook")], SWEEPS[data], asked.out / data, jobs=asked.jobs)
        record.write(RESULTS / f"frontier-{data}.json", f"{script.path} {data}", found)


if __name__ == "__main__":
    record.run(main)
