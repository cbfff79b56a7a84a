"""Engines that measure points: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgeveil.trainer.engines.child_processes import processes as in_processes
from edgeveil.trainer.engines.job import Job, Run
from edgeveil.trainer.engines.ray_tasks import ray_tasks
from edgeveil.trainer.recipe.schema import Recipe

Attacks = Literal["auto", "codes", "quick", "all"]


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
        from edgeveil.trainer.sweep.point import measure_point
        from edgeveil.trainer.tensorflow_quiet import load_tensorflow

        load_tensorflow()
        recipe = Recipe.parse(self.recipe, origin=self.name)
        return measure_point(recipe, floor=self.floor, out=out, budget=self.budget, attacks=self.attacks)


def processes(tasks: Sequence[Task], out: Path, *, jobs: int) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Each task with its document, in a process of its own, ``jobs`` at a time; their stderr goes to ``out/logs``.

    For a process that dies (no memory, a crash in a library) the document is ``{"crashed": why}``. All processes are
    ended when the iteration ends early, as by Ctrl-C.
    """
    (out / "logs").mkdir(parents=True, exist_ok=True)
    # TensorFlow gives no memory back: each has a process of its own.
    with in_processes(jobs, fresh=True, logs=out / "logs") as run:
        yield from _each(tasks, out, run)


def ray(tasks: Sequence[Task], out: Path, *, jobs: int) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Each task with its document, on the Ray cluster at RAY_ADDRESS, by default one of ``jobs`` processors here.

    Nodes need EdgeVeil with its extra ``trainer``, and the data in EDGEVEIL_DATA. Nodes that do not share the folder
    ``out`` train in a temporary one. Raises ``DeviceFailed`` if Ray is not installed.
    """
    with ray_tasks(jobs, fresh=True, instead="--engine processes") as run:
        yield from _each(tasks, out, run)


def _each(tasks: Sequence[Task], out: Path, run: Run) -> Iterator[tuple[Task, dict[str, Any]]]:
    asked = {task.name: task for task in tasks}
    function = f"{__name__}:compute"
    for job, document in run(
        [Job(name, function, {"task": vars(task), "out": str(out)}) for name, task in asked.items()]
    ):
        yield asked[job.name], document


def compute(task: dict[str, Any], out: str) -> dict[str, Any]:
    """The document of one point, by the fields of its task and the folder of the sweep."""
    if Path(out).is_dir():
        return Task(**task).run(Path(out))
    with tempfile.TemporaryDirectory() as folder:
        return Task(**task).run(Path(folder))
