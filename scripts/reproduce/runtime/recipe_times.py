"""How long each recipe takes here, from the command to the trained perturber, and what it then costs a board.

Each recipe is `edgeveil train RECIPE` at its full budget, in a process of its own on all cores of this machine, and
then `edgeveil export` (not timed). Written recipe by recipe: run again, the script goes on with those that are missing;
a recipe that was changed since, or is named on the command line, is timed anew. It begins once the machine is quiet;
what was timed while something else ran is recorded as INVALID where nothing valid stands, and missing the next time.
Records docs/results/bench/recipes.json.

    EDGEVEIL_DATA=... python -m scripts.reproduce.runtime.recipe_times
    EDGEVEIL_DATA=... python -m scripts.reproduce.runtime.recipe_times wifi-codebook faces-codebook
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from edgeveil.devices.timing import idle
from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce import record

RESULT = Path("docs/results/bench/recipes.json")


def edgeveil(*words: object, ends: tuple[int, ...] = (0,)) -> int:
    """One command of the workstation's; its exit code. Raises ``SystemExit`` with another than ``ends``."""
    code = subprocess.run([sys.executable, "-m", "edgeveil.trainer.cli.main", *map(str, words)], check=False).returncode
    if code not in ends:
        raise SystemExit(code)
    return code


def settings(recipe: str) -> dict[str, Any]:
    """All that the recipe says."""
    return Recipe.find(recipe).model_dump(mode="json", exclude_none=True)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of the record by recipe, those of recipes that are as they were."""
    rows = record.read(path).get("rows", [])
    return {row["recipe"]: row for row in rows if row["settings"] == settings(row["recipe"])}


def valid(row: dict[str, Any] | None) -> bool:
    """Whether it was timed on a quiet machine."""
    return row is not None and row["verdict"] == "VALID"


def timed(recipe: str, folder: Path) -> dict[str, Any]:
    """Train and export one recipe in ``folder``."""
    watch = idle.Watch()
    edgeveil("train", recipe, "--out", folder / "run", ends=(0, LimitNotMet.exit_code))
    use = watch.use()
    edgeveil("export", folder / "run", "--for", "workstation", "--out", folder / "export")
    run = json.loads((folder / "run/run.json").read_text())
    models = json.loads((folder / "export/manifest.json").read_text())["models"].values()
    return {
        "recipe": recipe,
        "settings": settings(recipe),
        **record.verdict(use),
        "wall_s": round(use.seconds, 1),
        "stages_s": run["wall_time_s"],
        "limit_met": run["limit_met"],
        "macs": sum(model["macs"] for model in models),
        "parameters": sum(model["parameters"] for model in models),
        "seed": run["seed"],
        "load": machine.load(),
        **record.here(),
    }


def main() -> int:
    """Time what is missing, or what is named."""
    script = record.Script(__file__, __doc__, "wifi-codebook", timing=True)
    script.add_argument(
        "recipes", nargs="*", metavar="RECIPE", help="to time anew; left out: those without a valid row"
    )
    script.add_argument("--record", type=Path, default=RESULT)
    asked = script.parse_args()
    if unknown := set(asked.recipes) - set(Recipe.names()):
        script.error(f"recipes that come along were expected (edgeveil recipe list); came {', '.join(sorted(unknown))}")
    for name in asked.recipes or Recipe.names():
        if not asked.recipes and valid(read(asked.record).get(name)):
            continue
        idle.begin(anyway=asked.anyway)
        say(f"{name}: timed")
        with tempfile.TemporaryDirectory() as folder:
            new = timed(name, Path(folder))
        say(f"{name}: {new['wall_s']:.0f} s, {new['verdict']}")
        rows = read(asked.record)
        if valid(new) or not valid(rows.get(name)):
            rows[name] = new
            document = {"kind": "recipes", "what": __doc__.splitlines()[0], "rows": [rows[one] for one in sorted(rows)]}
            record.write(asked.record, script.path, document)
    return 0 if all(valid(row) for row in read(asked.record).values()) else 3


if __name__ == "__main__":
    record.run(main)
