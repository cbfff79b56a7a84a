"""PR-GAN and a codebook on scikit-learn's digits, trained, exported and audited: the figures of the demo.

Records docs/results/privacy/digits.json; three minutes. With --check all of it is trained anew, and the 95 % interval
of each accuracy must overlap that of the one on record: other processors and thread counts train other networks.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeveil.trainer.attacks.problem import Released
from edgeveil.trainer.audit.subject import Subject, perturb_rows
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.runs.run import Run
from scripts.reproduce import record
from scripts.reproduce.codebooks.slice_leaks import by_slice
from scripts.reproduce.papers.table_2 import of_what_ships, short, trained

RESULT = Path("docs/results/privacy/digits.json")
COUNTED = ("given", "rows", "bits", "null_bits", "null_bits_high", "plug_in", "null", "bound")
KINDS = ("prgan", "codebook")


def measured(out: Path) -> dict[str, Any]:
    """Both perturbers at seed 0: what a quick audit of int8 finds, and what codes tell on each slice."""
    rows: dict[str, Any] = {}
    floor = None
    for kind in KINDS:
        run = trained("digits", kind, 0, out)
        audit = of_what_ships(run, out, "quick", 0, floor)
        floor = audit["label_only"]
        certificate = {name: audit["certificate"].get(name) for name in COUNTED}
        rows[kind] = {"limit_met": run.facts["limit_met"], "audit": short(audit), "certificate": certificate}
        codes = sent(run, out).codes
        if codes is not None:
            rows[kind]["by_slice"] = by_slice(run.dataset(), codes.received)
    return {"what": "digits: parity is kept, less than five is hidden; int8", "seed": 0, "rows": rows, **record.here()}


def sent(run: Run, out: Path) -> Released:
    """What the int8 artefact of a run sends for the rows of all slices."""
    folder = ExportFolder.open(out / "exports" / run.folder.relative_to(out))
    dataset = run.dataset()
    return perturb_rows(
        Subject(folder.manifest, folder.members, "tflite-int8"), run, dataset, dataset.slices.rows()
    ).released


def rates(row: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The accuracies of one perturber by name, each with its interval."""
    audit = row["audit"]
    yield "y", audit["target"]
    yield "z, best attack", audit["worst_adaptive"]
    for kind in ("fixed", "transfer"):
        attacks = [one for one in audit["adversaries"] if one["kind"] == kind]
        yield f"z, {kind}", max(attacks, key=lambda one: one["accuracy"])


def unequal(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Accuracies whose interval lies beside the one on record."""
    for kind, row in old["rows"].items():
        now = dict(rates(new["rows"][kind]))
        for name, was in rates(row):
            if now[name]["high"] < was["low"] or was["high"] < now[name]["low"]:
                both = [f"{one['accuracy']:.3f} ({one['low']:.3f} to {one['high']:.3f})" for one in (was, now[name])]
                yield f"{kind}: {name} was {both[0]}, now {both[1]}"


def main() -> int:
    """Train, audit, and record or compare."""
    script = record.Script(__file__, __doc__, "--check", check=True)
    asked = script.parse_args()
    before = record.recorded(RESULT) if asked.check else {}
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder))
    for kind, row in found["rows"].items():
        print(f"{kind}:", ", ".join(f"{name} {rate['accuracy']:.3f}" for name, rate in rates(row)))
    if asked.check:
        return record.compare(RESULT, list(unequal(before, found)))
    record.write(RESULT, script.path, found)
    return 0


if __name__ == "__main__":
    record.run(main)
