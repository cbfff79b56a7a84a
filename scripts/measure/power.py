"""Which planted leaks `edgeveil audit pairs` finds in 500, 2,000 and 20,000 rows, and what it says where nothing leaks.

Each leak of tests/support/planted.py tells z as surely as it can, in pictures of 8 x 8; a null is the same change by a
random bit. The audit runs with one reader and without networks. Then networks that learned to hide z from surrogates of
the families (tests/support/red_team.py) are audited, also with a BatchNorm MLP, before and with the family that they
led to; planted leaks but its own are audited without it. Each audit is kept in ``--runs``, so that the script goes on.
Records docs/results/privacy/power-pairs.json.
"""

import itertools
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from edgeveil.edge_runtime.bundle.audit_figures import LEAKS
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.audit import compare
from edgeveil.trainer.audit.findings import attacks
from edgeveil.trainer.audit.pairs import Pairs, paired
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.progress import say
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts import record
from tests.support import planted, red_team

RESULT = Path("docs/results/privacy/power-pairs.json")
ROWS = (500, 2000, 20_000)
SEEDS, RED_ROWS = 3, 2000
PARTS = ("plants", "red", "nulls")
NULL = 1e-9  # strength: the bit that is written is a random one
LEFT_OUT = ("transfer", "CNN", "BatchNorm CNN", "BatchNorm MLP", "mixed", "inversion")
RED_LEFT_OUT = tuple(name for name in LEFT_OUT if name != "BatchNorm MLP")
LED_TO, OWN = "periods of sums", "period of a sum"


def pairs_of(leak: planted.Leak, strength: float, rows: int, seed: int) -> Pairs:
    """Digits of class y whose first line is z, and releases with that leak in the same order."""
    rng = np.random.default_rng([seed, rows])
    made = planted.of_kind(leak, rows, strength, rng)
    x = made.pool[planted.donors(made.pool_y, made.y, rng)]
    x[:, 0] = 200 * made.z[:, None, None]
    several = len(np.unique(made.person)) < rows
    subject = made.person if several else None
    before = Readings(x, made.y, made.z, ("even", "odd"), ("0", "1"), "image", subject=subject)
    return paired(before, made.x, order="matched")


def audited(pairs: Pairs, left_out: Sequence[str]) -> dict[str, Any]:
    """The verdict, and the attack with most bits on validation, its bits beyond y and the p-value of their test."""
    families = tuple(family for family in adversaries() if family.name not in left_out)
    begun = time.process_time()
    with mock.patch.multiple(compare, adversaries=lambda: families, READERS=(ShrinkageLDA(),)):
        document = compare.audit_pairs(pairs)
    best = next(one for one in attacks(document) if one.figures["bits-counted"].more.get("chosen"))
    p = next(one["p"] for one in document["findings"] if one["more"]["kind"] == "test")
    word, bits = document["verdict"]["word"], best.figures["bits-counted"]
    facts = {"word": word, "found": word == LEAKS, "line": document["verdict"]["line"], "by": best.name, "p": p}
    return {**facts, "bits": bits.value, "low": bits.interval[0], "cpu_s": round(time.process_time() - begun, 1)}


def plant(kind: str, rows: int, seed: int, strength: float) -> dict[str, Any]:
    """The audit of that leak, or of the same change without it."""
    left_out = LEFT_OUT if kind == OWN or strength == NULL else (*LEFT_OUT, LED_TO)
    return audited(pairs_of(planted.LEAKS[kind], strength, rows, seed), left_out)


def red(partner: str, seed: int) -> dict[str, Any]:
    """What a team's partner reads of its pictures, and both audits of them."""
    team = red_team.trained(partner, seed)
    pairs = pairs_of(red_team.leak(team), 1.0, RED_ROWS, seed)
    audits = {"before": audited(pairs, (*RED_LEFT_OUT, LED_TO)), "now": audited(pairs, RED_LEFT_OUT)}
    return {"partner_right": team.partner_right, "surrogates_right": team.surrogate_right, **audits}


def main() -> None:
    """Audit what --runs does not have yet, and record all."""
    script = record.Script(__file__, __doc__, "--seeds 3", out=RESULT)
    script.add_argument("--runs", type=Path, default=Path("runs/power"), help="audits that are done")
    script.add_argument("--seeds", type=int, default=SEEDS, help=f"of each kind and number of rows (default: {SEEDS})")
    script.add_argument("--nulls", type=int, default=1, help="seeds that are audited without a leak too (default: 1)")
    script.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="of the record (default: all)")
    options = script.parse_args()
    os.nice(12)
    load_tensorflow()
    for part in options.parts:
        seeds, cases = range(options.nulls if part == "nulls" else options.seeds), []
        if part == "red":
            todo = [{"partner": partner, "seed": seed} for seed in seeds for partner in red_team.PARTNERS]
        else:
            every = itertools.product(seeds, ROWS, planted.LEAKS)
            todo = [{"kind": kind, "rows": rows, "seed": seed} for seed, rows, kind in every]
        for case in todo:
            place = options.runs / f"{part}-{'-'.join(map(str, case.values()))}.json".replace(" ", "-")
            more = {} if part == "red" else {"strength": NULL if part == "nulls" else 1.0}
            make = partial(red if part == "red" else plant, **case, **more)
            cases.append({**case, **record.kept(place, make)})
            say(f"{part} {case}: {cases[-1].get('word') or cases[-1]['now']['word']}")
            if len(cases) % 6 == 0 or case == todo[-1]:
                facts = {"left_out": LEFT_OUT, "red_rows": RED_ROWS, **record.here(), part: cases}
                record.write(options.out, script.path, {**record.read(options.out), **facts})


if __name__ == "__main__":
    record.run(main)
