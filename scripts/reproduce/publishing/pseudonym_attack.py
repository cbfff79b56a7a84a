"""What a pseudonym links: MNIST's digits as what visitors did, published, and attacked by the publication itself.

Each of 400 visitors writes digits below five, or none below five, and that is what nobody shall read. The bundle shows
of a digit the class of its brightest pixel, as one of 784 random pictures. The attack that a plan asks for reads it
from the columns alone, from all frames of a pseudonym, and from both. The columns say nothing of it, by the way they
were made. Records docs/results/publishing/attack.json; the page is docs/results/publishing.md. About five minutes. Ends
with 3 where the linked frames do not tell more than the columns, or where the columns are found to tell something.
"""

from __future__ import annotations

import csv
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from edgeveil.trainer.datasets.loaders import mnist
from scripts.reproduce import record
from scripts.reproduce.publishing import visitors
from tests.support import bundles
from tests.support.publishing import archives

RESULT = Path("docs/results/publishing/attack.json")
PEOPLE, K, FEATURES, MNIST_HIGH = 400, 3, 784, 255
QUASI = ("age", "sex", "group")
HIDDEN = "digits"


def main() -> int:
    """Publish, and write what the attack found."""
    script = record.Script(__file__, __doc__, "--people 150 --out trial.json", out=RESULT)
    script.add_argument("--people", type=int, default=PEOPLE, help=f"visitors (default: {PEOPLE})")
    asked = script.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = _published(Path(folder), asked.people)
    columns, frames = found["views"]["columns"], found["views"]["frames"]
    document: dict[str, Any] = {
        **record.here(),
        "people": asked.people,
        **found,
        "checks": {
            "linked frames tell more than columns": frames["low"] > columns["high"],
            "columns tell nothing": columns["low"] <= columns["chance"],
        },
        "seconds": round(time.perf_counter() - begun),
    }
    record.write(asked.out, script.made_by(asked), document)
    return 0 if all(document["checks"].values()) else 3


def _published(folder: Path, people: int) -> dict[str, Any]:
    """What the attack on the publication found, and how many rows and units that was."""
    _write(folder, people)
    made = bundles.make_bundle(folder, example=archives.example(FEATURES, MNIST_HIGH))
    document = archives.with_keys(folder, made, _plan()).published()
    attack = document["attack"]
    views = {
        name: {"units": part["units"], "chance": round(part["chance"], 4), **_best(part["best"])}
        for name, part in attack["views"].items()
    }
    return {"rows": document["rows"], "unit": attack["unit"], "views": views}


def _best(row: dict[str, Any]) -> dict[str, Any]:
    return {"attack": row["name"], **{key: round(row[key], 4) for key in ("accuracy", "low", "high")}}


def _write(folder: Path, people: int) -> None:
    """The visits of the first visitors, and a digit for each that is of its visitor's kind."""
    table, rng = visitors.made(), np.random.default_rng(5)
    rows = np.flatnonzero(table.person < people)
    person = table.person[rows]
    secret = rng.integers(0, 2, people)[person]
    digits = mnist.load(target="parity", sensitive="less-than-five")
    frames = np.empty(len(rows), np.int64)
    for value in (0, 1):
        there = np.flatnonzero(secret == value)
        frames[there] = rng.choice(np.flatnonzero(digits.z == value), len(there), replace=False)
    cells = {
        one.name: np.array(one.levels.labels[0], object)[one.codes[rows]].tolist()
        for one in table.columns
        if one.name in QUASI
    }
    cells |= {
        "visitor": [f"visitor {one}" for one in person],
        HIDDEN: [f"kind {one}" for one in secret],
        "recording": [str(one) for one in range(len(rows))],
    }
    with (folder / "visits.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(cells)
        lines.writerows(zip(*cells.values(), strict=True))
    np.savez(folder / "x.npz", x=digits.x[frames].reshape(-1, FEATURES))


def _plan() -> str:
    quasi = {
        name: {"action": "quasi", "hierarchy": visitors.HIERARCHIES[name].model_dump(exclude_none=True)}
        for name in QUASI
    }
    names = {"action": "pseudonym", "mode": "vault", "normalise": ["spaces"], "epoch": 1}
    return tomli_w.dumps(
        {
            "anonymity": {"k": K, "people": "visitor", "link": "person", "suppress": 40},
            "frames": {"key": "recording", "most_dropped": 0.0},
            "attack": {"sensitive": HIDDEN, "points": 100.0, "bits": 9.0},
            "columns": {**quasi, "visitor": names, HIDDEN: {"action": "drop"}, "recording": {"action": "drop"}},
        }
    )


if __name__ == "__main__":
    record.run(main)
