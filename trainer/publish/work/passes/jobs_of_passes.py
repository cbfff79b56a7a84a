"""Passes 2 and 3 through an engine: jobs that are not done yet, tried again where a worker died."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.engines.child_processes import processes
from edgeveil.trainer.engines.job import Job, Run
from edgeveil.trainer.engines.ray_tasks import ray_tasks
from edgeveil.trainer.progress import progress
from edgeveil.trainer.publish.work.passes.outcome import checked
from edgeveil.trainer.publish.work.wanted import Engine

TRIES = 3  # of a job whose worker dies


def engine_of(engine: Engine, at_once: int) -> AbstractContextManager[Run]:
    """What runs the jobs: processes of this machine, or the cluster at RAY_ADDRESS, which must share the folders."""
    return processes(at_once) if engine == "local" else ray_tasks(at_once, instead="--engine local")


def all_done(run: Run, title: str, jobs: Sequence[Job], *, done: int = 0) -> Iterator[Any]:
    """The answer of each job. Raises what a job told, ``DeviceFailed`` where workers die again and again."""
    waiting = list(jobs)
    with progress(title, total=len(jobs) + done, done=done) as advance:
        for _ in range(TRIES):
            died = []
            for job, answer in run(waiting):
                if "crashed" in answer:
                    died.append(job)
                    continue
                advance()
                yield checked(answer)
            waiting = died
            if not waiting:
                return
    raise DeviceFailed(
        f"{len(waiting)} of {len(jobs)} {title} were not made: their workers died {TRIES} times. Run the same command "
        "with --resume, with fewer --jobs if memory was short."
    )
