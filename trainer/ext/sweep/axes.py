"""``--axis recipe.key=v1,v2`` or ``low..high``: the points of a sweep, each checked against the recipe's schema."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """A key of recipes as written in TOML (``perturber.price``), and its values, or the ``span`` that has them all."""

    key: str
    values: tuple[Any, ...] = ()
    span: tuple[Any, Any] | None = None  # both whole numbers, or neither; on a log scale from a factor of ten on


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
    """``key=v1,v2``: values are TOML (numbers, true, "text", [lists]); bare words are text. Or ``key=low..high``.

    Raises ``BadInput``.
    """
    key, values = _halves(text, "--axis: expected KEY=VALUE,VALUE such as perturber.price=0.5,1,2, or KEY=LOW..HIGH")
    if ".." in values and "[" not in values and '"' not in values:
        low, high = (_value(end.strip()) for end in values.split("..", 1))
        if not all(type(end) in (int, float) for end in (low, high)) or not low < high:
            raise BadInput(f'--axis {key}: expected LOW..HIGH, two numbers, the lower first; got "{values}".')
        whole = type(low) is type(high) is int
        return Axis(key, span=(low, high) if whole else (float(low), float(high)))
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

    Raises ``BadInput`` for a span, and what ``check_keys`` does, and for a value that a recipe refuses.
    """
    if spans := [axis for axis in axes if axis.span]:
        ends = "..".join(map(str, spans[0].span or ()))
        raise BadInput(
            f"--axis {spans[0].key}={ends}: a range is searched. Give --trials, how many settings to train, or "
            "name the values."
        )
    check_keys(recipes, axes)
    grid = []
    for recipe in recipes:
        mine = [axis for axis in axes if has(recipe, axis.key)]
        for values in itertools.product(*(axis.values for axis in mine)):
            settings = {axis.key: value for axis, value in zip(mine, values, strict=True)}
            grid.append(Point(with_settings(recipe, settings), settings))
    return grid


def check_keys(recipes: Sequence[Recipe], axes: Sequence[Axis]) -> None:
    """Raise ``BadInput`` for a key that no recipe has, and for a key given twice."""
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
    searched: bool = False

    def run(self, out: Path) -> dict[str, Any]:
        """The document of the point, computed in this process."""
        from edgeveil.trainer.ext.sweep.point import measure_point
        from edgeveil.trainer.tensorflow_quiet import load_tensorflow

        load_tensorflow()
        recipe = Recipe.parse(self.recipe, origin=self.name, taken=None)
        about = recipe, self.floor, out, self.budget, self.attacks
        return measure_point(*about, searched=self.searched)


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
    trials: int | None = None,
) -> dict[str, Any]:
    """The document of the frontier, also in ``out/frontier.json``; finished points are in ``out/points``.

    Points that are there already are not computed again, so an interrupted sweep, or one with more values, continues
    from them. Label-only is a point for each data set, slicing and seed. A point whose training fails records why.
    ``trials``: not every combination, but so many of each recipe that ``search`` proposes, judged on rows that are not
    of the test; the front of these alone is measured on the test slice. Raises ``BadInput`` before any training if a
    key or value is wrong, and ``DeviceFailed`` at the end if processes died: their points are missing, and the same
    command tries them again.
    """
    if jobs < 1:
        raise BadInput(f"--jobs: expected 1 or more; got {jobs}.")
    if trials is None:
        grid = points(recipes, axes)
    else:
        from edgeveil.trainer.ext.sweep.search import check, search

        check(recipes, axes, trials)
        grid = [Point(recipe, {}) for recipe in recipes]
    for point in grid:
        point.recipe.with_budget(budget)
    try:
        (out / "points").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"The folder {out} cannot be made: {error.strerror}. Choose another folder.") from None
    crashed: list[str] = []

    def documents(tasks: Sequence[Task], advance: Callable[[], None]) -> dict[str, dict[str, Any]]:
        """Those of an earlier call, and those that are computed now and kept."""
        done = {task.name: _read(path) for task in tasks if (path := _path(out, task)).is_file()}
        missing = [task for task in tasks if task.name not in done]
        for task, document in measured(missing, out, jobs=jobs, engine=engine) if missing else ():
            if "crashed" in document:
                crashed.append(f"{task.name}: {document['crashed']}")
            else:
                done[task.name] = document
                write_atomic(_path(out, task), (json.dumps(document, indent=1) + "\n").encode())
            advance()
        return done

    tried: list[dict[str, Any]] = []
    with locked(out, "sweep"):
        if trials is not None:

            def judged(proposed: Sequence[Point]) -> list[dict[str, Any]]:
                tasks = [_task(point, budget, attacks, searched=True) for point in proposed]
                by_name = documents(tasks, lambda: None)
                return [by_name.get(task.name, {"failed": "Its process died."}) for task in tasks]

            grid, tried = search(recipes, axes, trials, judged, at_once=jobs)
        wanted = [*_floors(grid, budget, attacks), *((point, _task(point, budget, attacks)) for point in grid)]
        there = sum(_path(out, task).is_file() for _, task in wanted)
        say(f"{counted(len(wanted), 'point')}, {there} of them done before; each is in {out / 'points'}")
        with progress("points", total=len(wanted), done=there) as advance:
            done = documents([task for _, task in wanted], advance)
    rows = [
        {"point": task.name, "recipe": point.recipe.name, "floor": task.floor, "settings": dict(point.settings)}
        | {"data": point.recipe.data.source, "seed": point.recipe.seed, **done[task.name]}
        for point, task in wanted
        if task.name in done
    ]
    frontier = {
        "schema": SCHEMA,
        "kind": "edgeveil-frontier",
        "budget": budget,
        "attacks": attacks,
        "compared": len(grid),
        "points": rows,
        **({"trials": tried} if trials is not None else {}),
    }
    write_atomic(out / "frontier.json", (json.dumps(frontier, indent=1) + "\n").encode(), keep_old=True)
    if crashed:
        raise DeviceFailed(
            f"{len(crashed)} of {counted(len(wanted) + len(tried), 'point')} did not finish ({crashed[0]}). The others "
            "are kept. Run the same command to try these again, with a lower EDGEVEIL_JOBS if memory was short."
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


def _task(point: Point, budget: str, attacks: Attacks, *, floor: bool = False, searched: bool = False) -> Task:
    name = f"{point.name}-{budget}-{attacks}{'-searched' if searched else ''}"
    return Task(name, point.recipe.toml(), floor, budget, attacks, searched)


def _path(out: Path, task: Task) -> Path:
    return out / "points" / f"{task.name}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise BadInput(f"{path} is not JSON: remove it, and the point is computed again.") from None
