"""A whole sweep: check all points, measure those that are missing, and write the frontier."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.progress import progress, say
from edgeveil.trainer.recipe.perturber import LabelOnly
from edgeveil.trainer.recipe.schema import Limits, Recipe
from edgeveil.trainer.sweep import engines
from edgeveil.trainer.sweep.axes import Axis, Point, points
from edgeveil.trainer.sweep.engines import Task

SCHEMA = 1
FLOOR = "label-only"


def sweep(
    recipes: Sequence[Recipe],
    axes: Sequence[Axis],
    out: Path,
    *,
    jobs: int = 1,
    engine: str = "processes",
    budget: str = "full",
    attacks: str = "auto",
) -> dict[str, Any]:
    """The document of the frontier, also in ``out/frontier.json``; each point lies in ``out/points`` when it is done.

    Points that lie there already are taken as they are, so a sweep that was interrupted, or is asked for more values,
    goes on from there. Label-only is a point of its own for each data set, slicing and seed. A point whose training
    fails says why and is a point. Raises ``BadInput`` before anything is trained where a key or value is wrong, and
    ``DeviceFailed`` at the end where processes died; their points are missing and will be tried again.
    """
    if jobs < 1:
        raise BadInput(f"--jobs: expected 1 or more; got {jobs}.")
    if engine not in ("processes", "ray"):
        raise BadInput(f"--engine: expected processes or ray; got {engine}.")
    if attacks not in ("auto", "codes", "quick", "all"):
        raise BadInput(f"--attacks: expected auto, codes, quick or all; got {attacks}.")
    asked = points(recipes, axes)
    for point in asked:
        point.recipe.with_budget(budget)
    wanted = [*_floors(asked, budget, attacks), *((point, _task(point, budget, attacks)) for point in asked)]
    try:
        (out / "points").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {out} cannot be made: {error.strerror}. Choose another place.") from None
    found = {task.name: document for _, task in wanted if (document := _read(out, task)) is not None}
    missing = [task for _, task in wanted if task.name not in found]
    say(f"{len(wanted)} points, {len(found)} of them done before; each lies in {out / 'points'}")
    crashed = []
    engine_ = engines.ray if engine == "ray" else engines.processes
    with progress("points", total=len(wanted), done=len(found)) as advance:
        for task, document in engine_(missing, out, jobs=jobs) if missing else ():
            if "crashed" in document:
                crashed.append(f"{task.name}: {document['crashed']}")
            else:
                found[task.name] = document
                write_atomic(str(_path(out, task)), (json.dumps(document, indent=1) + "\n").encode())
            advance()
    rows = [
        {"point": task.name, "recipe": point.recipe.name, "floor": task.floor, "settings": dict(point.settings)}
        | {"data": point.recipe.data.source, "seed": point.recipe.seed, **found[task.name]}
        for point, task in wanted
        if task.name in found
    ]
    frontier = {
        "schema": SCHEMA,
        "kind": "edgeveil-frontier",
        "budget": budget,
        "attacks": attacks,
        "compared": len(asked),
        "points": rows,
    }
    write_atomic(str(out / "frontier.json"), (json.dumps(frontier, indent=1) + "\n").encode())
    if crashed:
        raise DeviceFailed(
            f"{len(crashed)} of {len(wanted)} points did not come to an end ({crashed[0]}). The others are kept; the "
            "same command tries these again, with fewer --jobs if memory was short."
        )
    return frontier


def _floors(asked: Sequence[Point], budget: str, attacks: str) -> list[tuple[Point, Task]]:
    """Label-only once for each set of data, prior, classifiers, seed and budget."""
    found: dict[str, tuple[Point, Task]] = {}
    for point in asked:
        recipe = point.recipe
        if recipe.perturber.unbounded:
            continue  # a cleaner keeps numbers, not a class: its floor is in its own audit
        # Alike for all recipes that share D_y: what only their perturbers need is set to one value.
        short = recipe.budget.model_copy(
            update={"epochs": 1, "quick": recipe.budget.quick.model_copy(update={"epochs": 1})}
        )
        changes = {"name": FLOOR, "description": "", "perturber": LabelOnly(kind="label-only"), "budget": short}
        floor = Point(recipe.model_copy(update={**changes, "limits": Limits(target_accuracy=0.01)}), {})
        found.setdefault(floor.name, (floor, _task(floor, budget, attacks, floor=True)))
    return list(found.values())


def _task(point: Point, budget: str, attacks: str, *, floor: bool = False) -> Task:
    name = f"{point.name}-{budget}-{attacks}"
    return Task(name, point.recipe.toml(), floor, budget, attacks)


def _path(out: Path, task: Task) -> Path:
    return out / "points" / f"{task.name}.json"


def _read(out: Path, task: Task) -> dict[str, Any] | None:
    path = _path(out, task)
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise BadInput(f"{path} is not JSON: remove it, and the point is worked again.") from None
