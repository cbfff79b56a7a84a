"""``--axis recipe.key=v1,v2``: the points of a sweep, each checked against the recipe's schema."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomllib
from pydantic import BaseModel

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.child_processes import Job, processes, ray_tasks
from edgeveil.trainer.perturbers.label_only import LabelOnly
from edgeveil.trainer.progress import progress, say
from edgeveil.trainer.recipe.messages import nearest
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Limits
from edgeveil.trainer.results import locked


@dataclass(frozen=True)
class Axis:
    """A key of recipes as written in TOML (``perturber.price``), and its values."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """One recipe with one value of each axis: the recipe to train, and the settings made in it."""

    recipe: Recipe
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """A file name with the settings, unique to this recipe."""
        text = self.recipe.name + "".join(f"+{key.rsplit('.')[-1]}={value}" for key, value in self.settings.items())
        digest = hashlib.sha256(self.recipe.model_dump_json().encode()).hexdigest()[:10]
        return f"{re.sub(r'[^a-zA-Z0-9.=+_-]', '_', text)[:80]}-{digest}"


def parse(text: str) -> Axis:
    """``key=v1,v2``: values are TOML (numbers, true, "text", [lists]); bare words are text. Raises ``BadInput``."""
    key, values = _halves(text, "--axis: expected KEY=VALUE,VALUE such as perturber.price=0.5,1,2")
    try:
        parsed = tomllib.loads(f"values = [{values}]")["values"]
    except tomllib.TOMLDecodeError:
        parsed = [_value(part.strip()) for part in values.split(",")]
    if len({json.dumps(value) for value in parsed}) != len(parsed):
        raise BadInput(f'--axis {key}: each value may be given once; got "{values}".')
    return Axis(key, tuple(parsed))


def settings(
    texts: Sequence[str], expected: str = "--set: expected KEY=VALUE such as budget.epochs=3"
) -> dict[str, Any]:
    """Keys of a recipe and their values from ``key=value`` each: TOML, and bare words are text. Raises ``BadInput``."""
    halves = (_halves(text, expected) for text in texts)
    return {key: _value(value) for key, value in halves}


def _halves(text: str, expected: str) -> tuple[str, str]:
    key, equals, values = text.partition("=")
    key = key.strip().removeprefix("recipe.")
    if not equals or not re.fullmatch(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*", key) or not values.strip():
        raise BadInput(f'{expected}; got "{text}".')
    return key, values


def points(recipes: Sequence[Recipe], axes: Sequence[Axis]) -> list[Point]:
    """Every recipe at every combination of the axes whose key it has; a recipe without any is one point.

    Raises ``BadInput`` for a key that no recipe has, for a key given twice, and for a value that a recipe refuses.
    """
    axis_keys = [axis.key for axis in axes]
    for key in axis_keys:
        if axis_keys.count(key) > 1:
            raise BadInput(f"--axis {key}: give each key once, with all of its values.")
        if not any(has(recipe, key) for recipe in recipes):
            known = sorted({name for recipe in recipes for name in keys(recipe)})
            names = ", ".join(recipe.name for recipe in recipes)
            raise BadInput(
                f"--axis {key}: no such key in {names}{nearest(key, known)}. `edgeveil recipe show {recipes[0].name}` "
                "prints the keys."
            )
    grid = []
    for recipe in recipes:
        mine = [axis for axis in axes if has(recipe, axis.key)]
        for values in itertools.product(*(axis.values for axis in mine)):
            settings = {axis.key: value for axis, value in zip(mine, values, strict=True)}
            grid.append(Point(with_settings(recipe, settings), settings))
    return grid


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with some keys set. Raises ``BadInput`` that names the key, what was expected and what came."""
    table = recipe.model_dump(exclude_none=True)
    for key, value in settings.items():
        *path, last = key.split(".")
        section = table
        for part in path:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise BadInput(f"{key}: {part} of {recipe.name} is a value, not a section. Write the keys before it.")
        section[last] = value
    return Recipe.of_table(table, origin=recipe.name, taken=recipe.code())


def has(recipe: Recipe, key: str) -> bool:
    """Whether this recipe, with the kind of perturber that it has, knows the key."""
    section: Any = recipe
    *path, last = key.split(".")
    for part in path:
        section = getattr(section, part, None) if isinstance(section, BaseModel) else None
    return isinstance(section, BaseModel) and last in type(section).model_fields


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def keys(section: BaseModel, before: str = "") -> list[str]:
    """Every key of a recipe or section as ``--set`` and ``--axis`` take it."""
    names = []
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            names += keys(value, f"{before}{name}.")
        else:
            names.append(before + name)
    return names


# Engines that measure points: processes of this machine, or a Ray cluster.


Attacks = Literal["auto", "codes", "quick", "all"]
Engine = Literal["processes", "ray"]


@dataclass(frozen=True)
class Task:
    """One point to compute: its name, the recipe as TOML, and the arguments of ``measure_point``."""

    name: str
    recipe: str
    floor: bool
    budget: str
    attacks: Attacks

    def run(self, out: Path) -> dict[str, Any]:
        """The document of the point, computed in this process."""
        from edgeveil.trainer.ext.sweep.point import measure_point
        from edgeveil.trainer.tensorflow_quiet import load_tensorflow

        load_tensorflow()
        recipe = Recipe.parse(self.recipe, origin=self.name, taken=None)
        return measure_point(recipe, floor=self.floor, out=out, budget=self.budget, attacks=self.attacks)


def measured(
    tasks: Sequence[Task], out: Path, *, jobs: int, engine: Engine = "processes"
) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Each task with its document; ``{"crashed": why}`` where its process died (no memory, a crash in a library).

    In a process of its own, ``jobs`` at a time, whose stderr goes to ``out/logs``: TensorFlow gives no memory back. All
    are ended when the iteration ends early, as by Ctrl-C. Or on the Ray cluster at RAY_ADDRESS, by default one of
    ``jobs`` processors here: nodes need EdgeVeil with its extra ``trainer``, and the data in EDGEVEIL_DATA. Nodes that
    do not share the folder ``out`` train in a temporary one. Raises ``DeviceFailed`` if Ray is not installed.
    """
    by_name = {task.name: task for task in tasks}
    function = f"{__name__}:compute"
    (out / "logs").mkdir(parents=True, exist_ok=True)
    if engine == "ray":
        opened = ray_tasks(jobs, fresh=True, instead="EDGEVEIL_JOBS=N")
    else:
        opened = processes(jobs, fresh=True, logs=out / "logs")
    with opened as run:
        for job, document in run(
            [Job(name, function, {"task": vars(task), "out": str(out)}) for name, task in by_name.items()]
        ):
            yield by_name[job.name], document


def compute(task: dict[str, Any], out: str) -> dict[str, Any]:
    """The document of one point, by the fields of its task and the folder of the sweep."""
    if Path(out).is_dir():
        return Task(**task).run(Path(out))
    with tempfile.TemporaryDirectory() as folder:
        return Task(**task).run(Path(folder))


# A sweep: check all points, measure the missing ones, and write the frontier.


SCHEMA = 1
FLOOR = "label-only"


def sweep(
    recipes: Sequence[Recipe],
    axes: Sequence[Axis],
    out: Path,
    *,
    jobs: int = 1,
    engine: Engine = "processes",
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
    grid = points(recipes, axes)
    for point in grid:
        point.recipe.with_budget(budget)
    wanted = [*_floors(grid, budget, attacks), *((point, _task(point, budget, attacks)) for point in grid)]
    try:
        (out / "points").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {out} cannot be made: {error.strerror}. Choose another folder.") from None
    documents = {task.name: _read(path) for _, task in wanted if (path := _path(out, task)).is_file()}
    missing = [task for _, task in wanted if task.name not in documents]
    say(f"{counted(len(wanted), 'point')}, {len(documents)} of them done before; each is in {out / 'points'}")
    crashed = []
    with locked(out, "sweep"), progress("points", total=len(wanted), done=len(documents)) as advance:
        for task, document in measured(missing, out, jobs=jobs, engine=engine) if missing else ():
            if "crashed" in document:
                crashed.append(f"{task.name}: {document['crashed']}")
            else:
                documents[task.name] = document
                write_atomic(_path(out, task), (json.dumps(document, indent=1) + "\n").encode())
            advance()
    rows = [
        {"point": task.name, "recipe": point.recipe.name, "floor": task.floor, "settings": dict(point.settings)}
        | {"data": point.recipe.data.source, "seed": point.recipe.seed, **documents[task.name]}
        for point, task in wanted
        if task.name in documents
    ]
    frontier = {
        "schema": SCHEMA,
        "kind": "edgeveil-frontier",
        "budget": budget,
        "attacks": attacks,
        "compared": len(grid),
        "points": rows,
    }
    write_atomic(out / "frontier.json", (json.dumps(frontier, indent=1) + "\n").encode(), keep_old=True)
    if crashed:
        raise DeviceFailed(
            f"{len(crashed)} of {len(wanted)} points did not finish ({crashed[0]}). The others are kept. Run the same "
            "command to try these again, with a lower EDGEVEIL_JOBS if memory was short."
        )
    return frontier


def _floors(grid: Sequence[Point], budget: str, attacks: Attacks) -> list[tuple[Point, Task]]:
    """Label-only once for each set of data, prior, classifiers, seed and budget."""
    floors: dict[str, tuple[Point, Task]] = {}
    for point in grid:
        recipe = point.recipe
        if recipe.perturber.unbounded:
            continue  # a cleaner keeps numbers, not a class: its audit has its own floor
        # Equal for all recipes that share D_y: settings of the perturber alone get one value.
        short = recipe.budget.model_copy(
            update={"epochs": 1, "quick": recipe.budget.quick.model_copy(update={"epochs": 1})}
        )
        changes = {"name": FLOOR, "description": "", "perturber": LabelOnly(kind="label-only"), "budget": short}
        floor = Point(recipe.model_copy(update={**changes, "limits": Limits(target_accuracy=0.01)}), {})
        floors.setdefault(floor.name, (floor, _task(floor, budget, attacks, floor=True)))
    return list(floors.values())


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
