"""What AP and Laplace noise are set to in Table 2: as much noise as D_y bears, as section 6.2 of paper 001 has it.

Neither has a term that keeps y, so the paper adds noise until Acc(D_y) would fall below a floor. That setting was
looked for on validation rows (df500fa2:scripts/papers/floor_sweep.py), with a record for each data set; ``table_2.py``
trains with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.trainer.recipe.schema import Recipe
from scripts import record

RECORDS = Path("docs/results/privacy/floors")
SETTINGS = {"ap": "distance", "laplace": "eps"}  # the key of [perturber] that says how much noise


def set_to(recipe: Recipe, value: float, least: float) -> Recipe:
    """``recipe`` with its setting at ``value``, whose checkpoint must keep Acc(D_y) at ``least``."""
    kind = recipe.perturber.kind
    return recipe.model_copy(
        update={
            "perturber": recipe.perturber.model_copy(update={SETTINGS[kind]: value}),
            "limits": recipe.limits.model_copy(update={"target_accuracy": least}),
        }
    )


def at_floor(data: str, kind: str, root: Path = Path()) -> Recipe:
    """The recipe of a row of Table 2, with the setting that the sweep chose where there was one."""
    recipe, sweep = Recipe.find(f"{data}-{kind}"), record.read(root / RECORDS / f"{data}-{kind}.json")
    best: Mapping[str, Any] | None = sweep.get("chosen")
    return recipe if best is None else set_to(recipe, best["setting"], sweep["floor"])


def facts(recipe: Recipe) -> dict[str, float]:
    """What a row's record says of its floor and setting; no setting where the recipe leaves it to the training."""
    kind = recipe.perturber.kind
    value = getattr(recipe.perturber, SETTINGS[kind]) if kind in SETTINGS else None
    return {"floor": recipe.limits.target_accuracy, **({} if value is None else {"setting": value})}
