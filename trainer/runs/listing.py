"""The runs below a folder with their figures, and what differs between some of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tomllib

from edgeveil.edge_runtime.bundle.audit_figures import best_attack, chances
from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BadInput, reason


@dataclass(frozen=True)
class Attack:
    """The best attack found on an exported artefact of a run, and the larger of the two chances."""

    export: str
    artefact: str
    accuracy: float
    chance: float


@dataclass(frozen=True)
class Summary:
    """One run. ``keeps`` is how often y is read right on validation, None until it is finished; ``audits`` are those of
    its exports."""

    run: str
    recipe: str
    kind: str
    budget: str
    state: str
    created: str
    minutes: float
    keeps: float | None
    audits: Sequence[Attack]

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def find(root: Path) -> list[Summary]:
    """The runs below a folder, by their paths. Raises ``BadInput`` for a folder that is not there."""
    if not root.is_dir():
        raise BadInput(f"A folder of runs was expected at {root}; there is none. Make a run with `edgeveil train`.")
    audits = list(audits_below(root))
    return [summary(path.parent, audits) for path in sorted(_below(root, "run.json"))]


def summary(run: Path, audits: Sequence[tuple[Path, Attack]] = ()) -> Summary:
    """One run, with those of ``audits`` (run, attack) that are of it. Raises ``BadInput`` where there is none."""
    facts, recipe = _facts(run), _recipe(run)
    return Summary(
        run=str(run),
        recipe=str(facts.get("recipe", "")),
        kind=str(recipe.get("perturber", {}).get("kind", "")),
        budget=str(facts.get("budget", "")),
        state=str(facts.get("state", "")),
        created=str(facts.get("created", "")),
        minutes=round(sum(facts.get("wall_time_s", {}).values()) / 60, 1),
        keeps=_keeps(facts.get("validation", {})),
        audits=[attack for of, attack in audits if of == run.resolve()],
    )


def _keeps(validation: Mapping[str, Any]) -> float | None:
    """y by the best reader; of an older run by D_y."""
    known = [validation[name] for name in ("target_accuracy", "reader_accuracy") if name in validation]
    return max(known, default=None)


def audits_beside(run: Path) -> list[tuple[Path, Attack]]:
    """The audits of the exports in the folder that a run lies in, each with its run."""
    return list(audits_below(run.resolve().parent))


def settings(run: Path) -> dict[str, Any]:
    """The keys of a run's recipe, with dots, and their values. Raises ``BadInput``."""
    return dict(_flat(_recipe(run)))


def differences(runs: Sequence[Path]) -> dict[str, list[Any]]:
    """The keys of the recipes that differ between runs, each with its value in every run; None where it has none."""
    all_ = [settings(run) for run in runs]
    keys = sorted({key for one in all_ for key in one})
    by_key = {key: [one.get(key) for one in all_] for key in keys}
    return {key: values for key, values in by_key.items() if any(value != values[0] for value in values)}


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of words in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{word:{width}}" for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def cells(one: Summary) -> list[str]:
    """The cells of ``HEAD`` for one run; its worst audit alone."""
    worst = max(one.audits, key=lambda attack: attack.accuracy - attack.chance, default=None)
    read = "not audited" if worst is None else f"{worst.accuracy:.1%} (chance {worst.chance:.1%})"
    keeps = "-" if one.keeps is None else f"{one.keeps:.1%}"
    return [one.run, one.recipe, one.kind, one.budget, one.state, f"{one.minutes:.1f}", keeps, read]


HEAD = ["run", "recipe", "kind", "budget", "state", "minutes", "y right", "best attack found on z"]


def _below(root: Path, name: str) -> Iterator[Path]:
    for folder, inner, files in os.walk(root):
        inner[:] = [one for one in inner if not one.startswith(".")]
        if name in files:
            yield Path(folder) / name


def audits_below(root: Path) -> Iterator[tuple[Path, Attack]]:
    """The audits of exports below a folder, each with its run."""
    for path in sorted(_below(root, "audit.json")):
        folder = path.parent
        try:
            report = json.loads((folder / "export.json").read_text())
            document = as_schema_2(json.loads(path.read_text()))
            worst, chance = best_attack(document), max(chances(document).values())
            run = (folder / report["run"]).resolve()
            yield run, Attack(str(folder), str(document.get("artefact", "")), float(worst["value"]), float(chance))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
            continue  # no export of ours, or one of another version: it is no figure of a run


def _facts(run: Path) -> dict[str, Any]:
    try:
        facts = json.loads((run / "run.json").read_text())
    except (OSError, ValueError) as error:
        raise BadInput(
            f"A run was expected in {run}; there is none ({reason(error)}). See `edgeveil run list`."
        ) from None
    return facts if isinstance(facts, dict) else {}


def _recipe(run: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((run / "recipe.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"The recipe of the run in {run} cannot be read ({reason(error)}). See `edgeveil run list`."
        ) from None


def _flat(values: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
