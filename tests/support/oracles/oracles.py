"""Ours beside what other people wrote: private regression, reports of categories, and k in a published table.

scripts/environments/oracles makes the environment that is asked; docs/results/dp/oracles.json has what was found on
the census. diffprivlib's regression is the same mechanism as objective perturbation at norm 1; at other norms its
correction of epsilon is too small, which the exact audit of one dimension finds. multi-freq-ldpy and the collector
estimate shares from the same reports, theirs and those of the board's pipeline. pycanon counts a table that was
published here.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages.channel import channel_of
from edgeveil.trainer.ext.local import collect, reporting
from edgeveil.trainer.ext.private.estimators.perturbed_risk import Logistic, minimum, perturbation
from edgeveil.trainer.ext.private.noise import Seeded
from edgeveil.trainer.ext.publish import publication
from edgeveil.trainer.ext.publish.master_key import MasterKey
from edgeveil.trainer.ext.publish.plan import Plan
from tests.support import shipped
from tests.support.checkout import ROOT
from tests.support.objective_law import log_ratio
from tests.support.oracles import questions

LOCK = ROOT / "requirements/oracles.txt"
ASKING = (  # alone, without the packages around it
    "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import questions; "
    "questions.answer(pathlib.Path(sys.argv[2]))"
)
NEAR = 0.012  # of two mean errors
NORM, SPENT = 12.0, 1.37  # where diffprivlib claims 1
PLAN = """
[anonymity]
k = 5
people = "person"
link = "none"
suppress = 10

[columns.person]
action = "drop"

[columns.age]
action = "quasi"
hierarchy = { kind = "ranges", low = 18, high = 90, widths = [6, 12, 24] }

[columns.door]
action = "quasi"
hierarchy = { kind = "tree", tree = { front = ["north", "south"], back = ["east", "west"] } }

[columns.illness]
action = "sensitive"
distinct_l = 2
"""


def python() -> Path | None:
    """The interpreter of the environment, or None where there is none that the lock describes."""
    folder = Path(os.environ.get("EDGEVEIL_VENVS", ROOT / ".venvs")) / "oracles"
    stamp = folder / "lock.sha256"
    current = stamp.is_file() and stamp.read_text().strip() == hashlib.sha256(LOCK.read_bytes()).hexdigest()
    return folder / "bin/python" if current else None


def ask(what: str, settings: dict[str, Any], **arrays: np.ndarray) -> dict[str, Any]:
    """The answer of one of ``questions.ASKED``. Raises ``BadInput`` where the environment is missing."""
    interpreter = python()
    if interpreter is None:
        raise BadInput("The environment .venvs/oracles was expected, as requirements/oracles.txt locks it; run "
                       "scripts/environments/oracles.")  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "question.json").write_text(json.dumps({"ask": what, **settings}))
        np.savez(folder / "arrays.npz", **arrays)
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [str(interpreter), "-c", ASKING, str(Path(questions.__file__).parent), name]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=clean)
    return dict(json.loads(done.stdout))


def regression(x: np.ndarray, sign: np.ndarray, settings: list[list[float]], *, draws: int) -> Iterator[dict[str, Any]]:
    """The mean error over draws on the first tenth of rows x (n, d), theirs and ours at norm 1; labels are 1 and -1."""
    order = np.random.default_rng(0).permutation(len(sign))
    test, train = np.split(order, [len(order) // 10])
    asked = {"settings": settings, "draws": draws, "seed": 1}
    answer = ask("logistic", asked, rows=x[train], sign=sign[train])
    rows, loss = x[train] * sign[train, None], Logistic()
    n, d = rows.shape

    def error(weights: list[np.ndarray]) -> float:
        return float(np.mean([(x[test] @ w > 0) != (sign[test] > 0) for w in weights]))

    for (epsilon, regularization), theirs in zip(settings, answer["weights"], strict=True):
        noise, start = Seeded(0), np.zeros(d)
        scale, more = perturbation(epsilon, n, regularization, loss.curvature)
        ours = []
        for _ in range(draws):
            start, _ = minimum(rows, loss, regularization + more, noise.radial(d, scale) / n, start=start)
            ours.append(start)
        found = {"ours": error(ours), "diffprivlib": error([np.array(one) for one in theirs])}
        about = {"epsilon": epsilon, "regularization": regularization, "draws": draws, **found}
        yield {**about, "held": abs(found["ours"] - found["diffprivlib"]) <= NEAR}


def beyond_norm_1(*, draws: int) -> dict[str, Any]:
    """What diffprivlib spends of epsilon 1 on rows of up to ``NORM``, exactly, by what its mechanism adds."""
    added = ask("vector", {"epsilon": 1.0, "norm": NORM, "draws": draws, "seed": 0})
    scale = added["mean_length"]  # |b| is exponential in one dimension
    spent = log_ratio(1.0, scale, added["more"], Logistic(), reach=NORM)
    ours, more = perturbation(1.0, 1, 1.0 / NORM**2, Logistic().curvature)  # rows are brought to norm 1
    shipped = log_ratio(1.0 / NORM**2, ours, more, Logistic())
    held = spent > 1 + 0.1 and abs(spent / SPENT - 1) <= 0.05 and shipped <= 1
    return {"norm": NORM, "claimed": 1.0, **added, "spent": spent, "ours_spends": shipped, "held": held}


def shares(mechanism: str, *, k: int, epsilon: float, units: int) -> dict[str, Any]:
    """Shares from their reports and from ours, each by both estimators. Theirs are brought to sum to 1."""
    rng = np.random.default_rng(0)
    values = np.minimum(rng.geometric(0.35, units) - 1, k - 1)
    ours = shipped.reports(mechanism, k, epsilon, values)
    answer = ask("categories", {"mechanism": mechanism, "k": k, "epsilon": epsilon}, values=values, reports=ours)
    if mechanism == "k-rr":
        decoder: reporting.Decoder = reporting.channel(channel_of(k, epsilon))
    else:
        decoder = reporting.unary(k, 0.5, 1 / (np.exp(epsilon) + 1))
    off = {}
    for whose, reports, theirs in (
        ("their reports", np.array(answer["reports"]), answer["shares"]),
        ("our reports", ours, answer["of_ours"]),
    ):
        found = np.maximum(decoder.values(reports).mean(axis=0), 0)
        off[whose] = float(np.abs(found / found.sum() - theirs).max())
    both = [collect.project(decoder.values(one).mean(axis=0)) for one in (np.array(answer["reports"]), ours)]
    true = np.bincount(values, minlength=k) / units
    about = {"mechanism": mechanism, "k": k, "epsilon": epsilon, "units": units, "estimators_differ_by": off}
    wrong = [float(np.abs(one - true).max()) for one in both]
    return {**about, "largest_error": dict(zip(off, wrong, strict=True)), "held": max(off.values()) <= 1e-4}


def published(folder: Path, *, people: int) -> dict[str, Any]:
    """k and l of a made-up table as it is published, by us and by pycanon."""
    rng = np.random.default_rng(0)
    doors, illnesses = ["north", "south", "east", "west"], ["flu", "cold", "rash"]
    with (folder / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "age", "door", "illness"])
        for number in range(people):
            writer.writerow([f"p{number}", rng.integers(18, 91), rng.choice(doors), rng.choice(illnesses)])
    (folder / "plan.toml").write_text(PLAN)
    plan = Plan.read(folder / "plan.toml")
    found = publication.publish(
        folder / "people.csv", plan, MasterKey(bytes(64)), folder / "out", recipient="anybody", vault=None
    )["found"]
    path = str(folder / "out/table.csv")
    theirs = ask("table", {"path": path, "quasi": ["age", "door"], "sensitive": "illness"})
    ours = {"k": int(found["k"]), "l": int(found["illness.distinct_l"])}
    held = {name: theirs[name] for name in ours} == ours and ours["k"] >= 5 and ours["l"] >= 2
    return {"asked": {"k": 5, "l": 2}, "ours": ours, "pycanon": theirs, "held": held}
