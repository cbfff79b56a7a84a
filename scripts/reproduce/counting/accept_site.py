"""A site accepted without footage, by made-up taps of one who slips 5 % of the time; and another sensor's data.

y and the shift of codes: the bundle of `digits-codebook`, made by the commands of the docs. For half an hour of its
clock a test sample stands before it for two seconds at a time, and every third is tapped; then the same with samples of
another sensor: inverted, and two pixels off. Counts: the replay of GOTPD1 (gotpd_overhead_depth below EDGEVEIL_DATA),
tapped by its marked heads in periods of ten seconds. Recorded is docs/results/counting/accept.json; the page of
counting shows it.

    python -m scripts.reproduce.counting.accept_site
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.acceptance.shift import reference_of
from edgeveil.edge_runtime.bundle.audit_document import read_audit
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sinks.preview.tallies import Tallies
from edgeveil.trainer import datasets
from edgeveil.trainer.accept.judge import Demands, judge, of_counts
from edgeveil.trainer.accept.tallies_file import SiteTallies, TappedLine
from edgeveil.trainer.datasets.base import Part
from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce import record
from scripts.reproduce.counting.count_people import GRID, NEAR_PX, RECORDING, replay
from scripts.reproduce.counting.truth import crossings
from scripts.reproduce.counting.watch import FPS, MARGIN
from scripts.reproduce.strangers.strangers import command

RESULT = Path("docs/results/counting/accept.json")
RECIPE = "digits-codebook"
MINUTES, STAYS_S, TAPPED = 30, 2, 3  # a sample stays for two ticks of a second; every third is tapped
SLIPS = 0.05
PERIOD_S = 10
SENSORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as audited": lambda x: x,
    "inverted": lambda x: (16 - x).astype(x.dtype),
    "two pixels off": lambda x: np.roll(x, 2, axis=2),
}


def bundle_in(folder: Path) -> tuple[Path, Path]:
    """A sealed bundle of the recipe, and the folder of its key."""
    run, export, keys, sealed = folder / "run", folder / "export", folder / "keys", folder / "digits.veil"
    log: list[dict[str, Any]] = []
    command("train", "train", RECIPE, "--out", run, log=log)
    command("export", "export", run, "--for", "workstation", "--out", export, log=log)
    command("audit", "audit", export, log=log)
    command("seal", "keygen", keys, "--development", log=log)
    command("seal", "seal", export, "--key", keys / "signing.key", "--out", sealed, log=log)
    return sealed, keys


def half_an_hour(bundle: Bundle, perturber: Perturber, part: Part, x: np.ndarray, *, seed: int) -> SiteTallies:
    """Tallies of ``part`` before a sensor that gives ``x`` of it."""
    rng, now = np.random.default_rng(seed), [0.0]
    reference = reference_of(read_audit(bundle.manifest, bundle.members), bundle.manifest.crops)
    tallies = Tallies(
        bundle.manifest,
        reference,
        length_s=60 * MINUTES,
        clock=lambda: now[0],
        manifest_sha256=bundle.manifest_sha256,
    )
    classes = len(bundle.manifest.perturber.target_classes)
    for number, row in enumerate(rng.integers(0, len(part.y), 60 * MINUTES // STAYS_S)):
        for _ in range(STAYS_S):
            tallies.write(perturber.perturb(RawFrame(x[row].copy(), number)))
            now[0] += 1.0
        if number % TAPPED == 0:
            slip = int(rng.integers(1, classes)) if rng.random() < SLIPS else 0
            tallies.tap_class((int(part.y[row]) + slip) % classes)
    return SiteTallies.model_validate(tallies.document())


def counted(file: Path, *, seed: int) -> dict[str, Any]:
    """The replay: what was counted over each line, against the crossings of marked heads with slips."""
    rng = np.random.default_rng(seed)
    watch, heads = replay(file)
    periods = -(-len(heads) // (PERIOD_S * FPS))
    rows = []
    for line in GRID:
        tapped, seen = np.zeros((2, periods, 2), int)
        sure = crossings(line, heads, MARGIN + NEAR_PX)
        for one in sure:
            # A slip forgets a crossing, or taps it twice.
            times = 1 if rng.random() >= SLIPS else int(rng.choice([0, 2]))
            tapped[one.frame // (PERIOD_S * FPS), int(one.way < 0)] += times
        for one in watch.counted[line.name]:
            # A head that turned round near the line was not tapped: nobody can say.
            if any(other.way == one.way and abs(other.frame - one.frame) <= 1.5 * FPS for other in sure):
                seen[one.frame // (PERIOD_S * FPS), int(one.way < 0)] += 1
        rows += [
            TappedLine(period=at, line=line.name, tapped=tapped[at].tolist(), counted=seen[at].tolist())
            for at in range(periods)
        ]
    found = of_counts(rows, CountRules(GRID, [], PERIOD_S, [], MARGIN, None), Demands())
    del found["by_line"]
    return {**found, "taps": sum(sum(row.tapped) for row in rows)}


def main() -> None:
    """Make the bundle, tap, judge, record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--seed", type=int, default=0)
    asked = script.parse_args()
    part = datasets.load(Recipe.find(RECIPE)).part("test")
    with tempfile.TemporaryDirectory() as place:
        sealed, keys = bundle_in(Path(place))
        bundle = read_bundle(sealed, open_trust(keys))
        sensors = []
        with Perturber.open(str(sealed), trust=str(keys)) as perturber:
            for name, sensor in SENSORS.items():
                tallies = half_an_hour(bundle, perturber, part, sensor(part.x), seed=asked.seed)
                found = judge(tallies, bundle, Demands())
                sensors.append({"sensor": name, **{key: found[key] for key in ("taps", "y", "shift", "verdict")}})
    document = {
        "schema": 1,
        "kind": "site-acceptance",
        "recipe": RECIPE,
        "minutes": MINUTES,
        "slips": SLIPS,
        "sensors": sensors,
        "counts": counted(Path(os.environ.get("EDGEVEIL_DATA", "")) / RECORDING, seed=asked.seed),
        **record.here(),
    }
    record.write(asked.out, script.made_by(asked), document)


if __name__ == "__main__":
    record.run(main)
