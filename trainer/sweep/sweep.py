"""A sweep: check all points, measure the missing ones, and write the frontier."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.progress import progress, say
from edgeveil.trainer.recipe.perturber import LabelOnly
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Limits
from edgeveil.trainer.results import locked
from edgeveil.trainer.sweep import engines
from edgeveil.trainer.sweep.axes import Axis, Point, points
from edgeveil.trainer.sweep.engines import Attacks, Task

SCHEMA = 1
FLOOR = "label-only"


def sweep(
    recipes: Sequence[Recipe],
    axes: Sequence[Axis],
    out: Path,
    *,
    jobs: int = 1,
    engine: Literal["processes", "ray"] = "processes",
    budget: str = "full",
    attacks: Attacks = "auto",
) -> dict[str, Any]:
    """The document of the frontier, also in ``out/frontier.json``; finished points are in ``out/points``.

    Points that are there already are not computed again, so an interrupted sweep, or one with more values, continues
    from them. Label-only is a point for each data set, slicing and seed. A point whose training fails records why.
    Raises ``BadInput`` before any training if a key or value is wrong, and ``DeviceFailed`` at the end if processes
    died: their points are missing, and the same command tries them again.
    """
    if jobs < 1:
        raise BadInput(f"--jobs: expected 1 or more; got {jobs}.")
    asked = points(recipes, axes)
    for point in asked:
        point.recipe.with_budget(budget)
    wanted = [*_floors(asked, budget, attacks), *((point, _task(point, budget, attacks)) for point in asked)]
    try:
        (out / "points").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {out} cannot be made: {error.strerror}. Choose another folder.") from None
    found = {task.name: _read(path) for _, task in wanted if (path := _path(out, task)).is_file()}
    missing = [task for _, task in wanted if task.name not in found]
    say(f"{counted(len(wanted), 'point')}, {len(found)} of them done before; each is in {out / 'points'}")
    crashed = []
    measure = engines.ray if engine == "ray" else engines.processes
    with locked(out, "sweep"), progress("points", total=len(wanted), done=len(found)) as advance:
        for task, document in measure(missing, out, jobs=jobs) if missing else ():
            if "crashed" in document:
                crashed.append(f"{task.name}: {document['crashed']}")
            else:
                found[task.name] = document
                write_atomic(_path(out, task), (json.dumps(document, indent=1) + "\n").encode())
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
    write_atomic(out / "frontier.json", (json.dumps(frontier, indent=1) + "\n").encode())
    if crashed:
        raise DeviceFailed(
            f"{len(crashed)} of {len(wanted)} points did not finish ({crashed[0]}). The others are kept. Run the same "
            "command to try these again, with fewer --jobs if memory was short."
        )
    return frontier


def _floors(asked: Sequence[Point], budget: str, attacks: Attacks) -> list[tuple[Point, Task]]:
    """Label-only once for each set of data, prior, classifiers, seed and budget."""
    found: dict[str, tuple[Point, Task]] = {}
    for point in asked:
        recipe = point.recipe
        if recipe.perturber.unbounded:
            continue  # a cleaner keeps numbers, not a class: its audit has its own floor
        # Equal for all recipes that share D_y: settings of the perturber alone get one value.
        short = recipe.budget.model_copy(
            update={"epochs": 1, "quick": recipe.budget.quick.model_copy(update={"epochs": 1})}
        )
        changes = {"name": FLOOR, "description": "", "perturber": LabelOnly(kind="label-only"), "budget": short}
        floor = Point(recipe.model_copy(update={**changes, "limits": Limits(target_accuracy=0.01)}), {})
        found.setdefault(floor.name, (floor, _task(floor, budget, attacks, floor=True)))
    return list(found.values())


def _task(point: Point, budget: str, attacks: Attacks, *, floor: bool = False) -> Task:
    name = f"{point.name}-{budget}-{attacks}"
    return Task(name, point.recipe.toml(), floor, budget, attacks)


def _path(out: Path, task: Task) -> Path:
    return out / "points" / f"{task.name}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise BadInput(f"{path} is not JSON: remove it, and the point is computed again.") from None
