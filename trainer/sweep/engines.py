"""Engines that measure points: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.recipe.schema import Recipe

POLL_S = 0.2

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
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads}
    waiting, running = list(tasks), list[_Child]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_started(waiting.pop(0), out, environment))
            for child in [child for child in running if child.process.poll() is not None]:
                running.remove(child)
                yield child.task, child.document(out)
            time.sleep(POLL_S)
    finally:
        for child in running:
            child.process.terminate()
        for child in running:
            child.process.wait()


class _Child(NamedTuple):
    task: Task
    process: subprocess.Popen[bytes]
    answer: Any  # an open file

    def document(self, out: Path) -> dict[str, Any]:
        with self.answer:
            if self.process.returncode == 0:
                self.answer.seek(0)
                return json.load(self.answer)
        log = out / "logs" / f"{self.task.name}.log"
        return {"crashed": f"its process ended with code {self.process.returncode}; see {log}"}


def _started(task: Task, out: Path, environment: dict[str, str]) -> _Child:
    answer = tempfile.TemporaryFile()  # noqa: SIM115 - its reader closes it
    with (out / "logs" / f"{task.name}.log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "edgeveil.trainer.sweep.engines", str(out), json.dumps(vars(task))],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=log,
            env=environment,
            # In a session of its own: Ctrl-C reaches only the sweep, which ends its processes itself.
            start_new_session=True,
        )
    return _Child(task, process, answer)


def ray(tasks: Sequence[Task], out: Path, *, jobs: int) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Each task with its document, on the Ray cluster at RAY_ADDRESS, by default one of ``jobs`` processors here.

    Nodes need EdgeVeil with its extra ``trainer``, and the data in EDGEVEIL_DATA. Nodes that do not share the folder
    ``out`` train in a temporary one. Raises ``DeviceFailed`` if Ray is not installed.
    """
    try:
        import ray as cluster
    except ImportError:
        raise DeviceFailed(
            "--engine ray needs Ray, which is not installed: pip install 'edgeveil[ray]', or use --engine processes."
        ) from None
    address = os.environ.get("RAY_ADDRESS")
    here: dict[str, Any] = {} if address else {"num_cpus": jobs, "include_dashboard": False}
    cluster.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **here)
    try:
        # A worker process ends after its task: TensorFlow gives no memory back.
        remote = cluster.remote(num_cpus=1, max_calls=1, max_retries=0)(_on_node)
        running = {remote.remote(vars(task), str(out)): task for task in tasks}
        while running:
            (done,), _ = cluster.wait(list(running), num_returns=1)
            task = running.pop(done)
            try:
                document = cluster.get(done)
            except cluster.exceptions.RayError as error:
                document = {"crashed": f"its Ray task ended: {type(error).__name__}"}
            yield task, document
    finally:
        cluster.shutdown()


def _on_node(task: dict[str, Any], out: str) -> dict[str, Any]:
    if Path(out).is_dir():
        return Task(**task).run(Path(out))
    with tempfile.TemporaryDirectory() as folder:
        return Task(**task).run(Path(folder))


def main() -> None:
    """Compute one point: folder and task (JSON) are the arguments, its document is printed as JSON."""
    answer = sys.stdout
    sys.stdout = sys.stderr  # output of libraries is not part of the document
    json.dump(Task(**json.loads(sys.argv[2])).run(Path(sys.argv[1])), answer, allow_nan=False)


if __name__ == "__main__":
    main()
