"""Data that nobody here made, by the commands of the docs alone: recipe new, train, export, audit, seal, run.

Every data set of public_data.py goes the whole way at the default budget, and ends sealed and run, or with a sentence.
Written data set by data set: run again, the script goes on with those that are missing. The packages that the data come
from have an environment of their own, made once:

    .venv/bin/uv venv .venvs/strangers
    .venv/bin/uv pip install --python .venvs/strangers -r requirements/strangers.txt
    python -m scripts.reproduce.strangers.strangers
    python -m scripts.reproduce.strangers.strangers wine crabs

Records docs/results/strangers.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.timing import idle
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer import datasets
from edgeveil.trainer.audit.verdict import guess, verdict
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.results import locked
from scripts.reproduce import record
from scripts.reproduce.strangers.public_data import SETS

RESULT = Path("docs/results/strangers.json")
HERE = Path(__file__).parent
FRAMES = 200  # of the test slice, through the sealed bundle
WORKSTATION = (sys.executable, "-m", "edgeveil.trainer.cli.main")
EDGE = (sys.executable, "-m", "edgeveil.edge_runtime")
SAID = (BadInput.exit_code, LimitNotMet.exit_code)  # exit codes that come with a reason


class Ended(Exception):
    """A command ended with another code than 0."""


def command(step: str, *words: object, log: list[dict[str, Any]], program: tuple[str, ...] = WORKSTATION) -> None:
    """One command; its step, seconds and exit code go to ``log``. Raises ``Ended`` where it fails."""
    began = time.monotonic()
    done = subprocess.run([*program, *map(str, words)], capture_output=True, text=True, check=False)
    log.append({"step": step, "seconds": round(time.monotonic() - began, 1), "code": done.returncode})
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        log[-1]["said"] = lines[-1].removeprefix("error: ") if lines else ""
        log[-1]["traceback"] = any(line.startswith("Traceback") for line in lines)
        raise Ended(step)


def whole_way(name: str, folder: Path, log: list[dict[str, Any]]) -> None:
    """From a file to samples that left a sealed bundle, in ``folder``. Raises ``Ended``."""
    one = SETS[name]
    data = folder / f"{name}.{one.form}"
    recipe, export, sealed = folder / f"{name}.toml", folder / "export", folder / f"{name}.veil"
    command("recipe new", "recipe", "new", "--data", f"{one.form}:{data}", *one.options, "--out", recipe, log=log)
    command("train", "train", recipe, "--out", folder / "run", log=log)
    command("export", "export", folder / "run", "--for", "workstation", "--out", export, log=log)
    command("audit", "audit", export, log=log)
    command("seal", "keygen", folder / "keys", "--development", log=log)
    command("seal", "seal", export, "--key", folder / "keys/signing.key", "--out", sealed, log=log)
    dataset = datasets.load(Recipe.find(recipe))
    np.savez(folder / "frames.npz", x=dataset.part("test").x[:FRAMES])
    ways = ("--source", f"npz:{folder / 'frames.npz'}", "--sink", f"npz:{folder / 'sent.npz'}")
    command("run", "run", sealed, "--trust", folder / "keys", *ways, log=log, program=EDGE)


def figures(folder: Path, name: str) -> dict[str, Any]:
    """What recipe, run and audit say, as far as they are there."""
    found: dict[str, Any] = {}
    if (folder / f"{name}.toml").is_file():
        recipe = Recipe.find(folder / f"{name}.toml")
        dataset = datasets.load(recipe)
        found |= {"kind": recipe.perturber.kind, "rows": len(dataset.y), "sample": list(dataset.input.shape)}
        found |= {"architecture": recipe.classifiers.architecture, "look": recipe.classifiers.look}
        found |= {"forest": _forest(Recipe.text(folder / f"{name}.toml")), "classes": len(dataset.y_names)}
    if (folder / "run/run.json").is_file():
        facts = json.loads((folder / "run/run.json").read_text())
        target = facts.get("classifiers", {}).get("target")
        found |= {} if target is None else {"d_y": target["validation_accuracy"]}
    if (folder / "export/audit.json").is_file():
        audit = json.loads((folder / "export/audit.json").read_text())
        worst = audit["worst_adaptive"]
        found |= {
            "attack": {key: worst[key] for key in ("name", "accuracy", "low", "high")},
            "guess": guess(audit),
            "kept": {key: audit["target"][key] for key in ("accuracy", "low", "high")},
            "raw": audit["raw"]["target"]["accuracy"],
            "leaks": verdict(audit)["word"],
        }
    if (folder / "sent.npz").is_file():
        with np.load(folder / "sent.npz") as sent:
            found["sent"] = len(sent["x"])
    return found


def _forest(text: str) -> float:
    """The forest's accuracy of y, from the comment that `recipe new` wrote."""
    (line,) = (line for line in text.splitlines() if line.startswith("#   y:") and "guessing" in line)
    return round(float(line.split()[2].rstrip("%")) / 100, 3)


def row(name: str, python: Path) -> dict[str, Any]:
    """One data set's way and its end."""
    one, log = SETS[name], list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        subprocess.run([str(python), str(HERE / "public_data.py"), place, name], check=True)
        watch = idle.Watch()
        try:
            whole_way(name, folder, log)
            outcome = "sealed"
        except Ended:
            outcome = "said why" if log[-1]["code"] in SAID and not log[-1]["traceback"] else "FAILED"
            log[-1]["said"] = log[-1]["said"].replace(f"{folder}/", "")
        use = watch.use()
        found = figures(folder, name)
    return {
        "name": name,
        "package": one.package,
        "keeps": one.keeps,
        "hides": one.hides,
        "outcome": outcome,
        **found,
        "minutes": round(sum(step["seconds"] for step in log) / 60, 2),
        "processor_minutes": round(use.own * use.seconds / 60, 2),
        **record.verdict(use),
        "steps": log,
    }


def write(path: Path, made_by: str, new: Mapping[str, Any]) -> None:
    """Put one row into the record; others of this script may write theirs meanwhile."""
    with locked(path, "strangers"):
        rows = {one["name"]: one for one in record.read(path).get("rows", [])}
        rows[new["name"]] = dict(new)
        document = {"kind": "strangers", "what": (__doc__ or "").splitlines()[0], **record.here()}
        record.write(path, made_by, {**document, "rows": [rows[name] for name in SETS if name in rows]})


def main() -> int:
    """Run what is missing, or what is named."""
    script = record.Script(__file__, __doc__, "wine", out=RESULT, timing=True)
    script.add_argument("names", nargs="*", metavar="NAME", help="data sets; left out: those without a row")
    script.add_argument(
        "--python", type=Path, default=Path(".venvs/strangers/bin/python"), help="that has the packages"
    )
    asked = script.parse_args()
    if unknown := set(asked.names) - set(SETS):
        script.error(f"expected {', '.join(SETS)}; got {', '.join(sorted(unknown))}")
    done = {one["name"] for one in record.read(asked.out).get("rows", [])}
    for name in asked.names or [one for one in SETS if one not in done]:
        idle.begin(anyway=asked.anyway)
        new = row(name, asked.python)
        say(f"{name}: {new['outcome']} after {new['minutes']:.1f} minutes")
        write(asked.out, script.path, new)
    return 3 if any(one["outcome"] == "FAILED" for one in record.read(asked.out)["rows"]) else 0


if __name__ == "__main__":
    record.run(main)
