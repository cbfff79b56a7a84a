"""What people use today to hide a person, read by adversaries who retrain: faces and depth, before and after.

Records docs/results/privacy/peers.json; about ten minutes of two cores. Every n-th depth frame is taken, ``DEPTH_ROWS``
at most, and one fold of three is tested, so that it does not take longer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.families.cnn import BATCH_NORM_CNN
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.forest import Forest
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.networks import NetworkAttack
from edgeveil.trainer.attacks.families.transfer import Transfer
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.audit.before_after.compare import audit_pairs, read_before
from edgeveil.trainer.audit.before_after.pairs import paired, some
from edgeveil.trainer.datasets.loaders import depth, faces
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.progress import say
from scripts.reproduce import record
from scripts.reproduce.peers.mechanisms import peers

RESULT = Path("docs/results/privacy/peers.json")
DEPTH_ROWS = 1800
SEED = 0
DATA = ("faces", "depth")


class TrainedOnce(Transfer):
    """The transfer classifier: it learns on rows before alone, so it is the same for every mechanism."""

    def __init__(self) -> None:
        self._attack: NetworkAttack | None = None

    def fit(self, problem: Problem, seed: int) -> NetworkAttack:
        """Train at the first call; the rows before must be the same at all of them."""
        self._attack = self._attack or super().fit(problem, seed)
        return self._attack


def sets() -> dict[str, tuple[Readings, str]]:
    """The samples by data set, and the word for y."""
    people = depth.load(target="action", sensitive="person")
    kept = np.arange(0, len(people.y), -(-len(people.y) // DEPTH_ROWS))
    return {
        "faces": (faces.load(target="light", sensitive="person"), "light"),
        "depth": (some(people, kept), "action"),
    }


def measured(asked: Sequence[str], before: Mapping[str, Any]) -> dict[str, Any]:
    """Every mechanism on the data sets ``asked`` for; the others are those of the record ``before``."""
    found: dict[str, Any] = dict(before.get("sets", {}))
    for data, (readings, target) in sets().items():
        if data not in asked:
            continue
        begun = time.monotonic()
        readers = (ShrinkageLDA(), CodeCounts(), BATCH_NORM_CNN)
        read = read_before(readings, readers=readers, seed=SEED, judged=1)
        readers = (ShrinkageLDA(), CodeCounts(), TrainedOnce())
        attackers = (TrainedOnce(), ShrinkageLDA(), Forest(), CodeCounts(), BATCH_NORM_CNN)
        say(f"{data}: {target} {read.target.estimate:.3f}, person {read.sensitive.estimate:.3f}")
        names = {"z": [one.name for one in attackers], "y": [one.name for one in readers]}
        rows = []
        for number, peer in enumerate(peers(faces=data == "faces")):
            made = peer.run(readings, np.random.default_rng([SEED, number]))
            document = audit_pairs(
                replace(paired(readings, made), order="matched"),
                name=f"{data}, {peer.name}",
                target=target,
                sensitive="person",
                seed=SEED,
                families=attackers,
                readers=readers,
                read=read,
                judged=1,
                curve=False,
            )
            rows.append({"peer": peer.name, "strength": peer.strength, "source": peer.source, **_short(document)})
            worst, useful = document["worst_adaptive"], document["utility"]["after"]
            say(
                f"{data}, {peer.name} {peer.strength}: {target} {useful['accuracy']:.3f}, "
                f"person {worst['accuracy']:.3f} ({document['verdict']['word']}), {document['wall_time_s']:.0f} s"
            )
        found[data] = {"rows": rows, "families": names, "wall_s": round(time.monotonic() - begun, 1)}
    about = "Obfuscation in use today, attacked before and after"
    return {"what": about, "seed": SEED, "sets": found, **record.here()}


def _short(document: dict[str, Any]) -> dict[str, Any]:
    """The part of a document that the page shows, and what is needed to repeat it."""
    kept = (
        "data",
        "order",
        "utility",
        "raw",
        "chance",
        "worst_adaptive",
        "most_bits",
        "verdict",
        "permutation",
        "test",
        "warnings",
    )
    rows = [
        {key: row[key] for key in ("name", "kind", "accuracy", "low", "high", "auc", "bits_counted")}
        for row in document["adversaries"]
    ]
    return {**{key: document[key] for key in kept}, "adversaries": rows, "wall_time_s": document["wall_time_s"]}


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__)
    script.add_argument("--only", choices=DATA, help="measure this data set anew, and keep the other as recorded")
    only = script.parse_args().only
    before = record.recorded(RESULT) if only else {}
    record.write(RESULT, script.path, measured((only,) if only else DATA, before))
    return 0


if __name__ == "__main__":
    record.run(main)
