"""Jobs as tasks of Ray Core. A task is given its job and nothing else, for an object store may spill to disks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.engines.job import Answers, Job, Run


@contextmanager
def ray_tasks(at_once: int, *, fresh: bool = False, instead: str) -> Iterator[Run]:
    """Yield what runs jobs on the cluster at RAY_ADDRESS, by default one of ``at_once`` processors here.

    ``fresh`` is as for ``processes``; ``instead`` is the option to use without Ray. No task is repeated by Ray itself.
    Raises ``DeviceFailed`` where Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise DeviceFailed(
            f"--engine ray needs Ray, which is not installed: pip install 'edgeveil[ray]', or use {instead}."
        ) from None
    address = os.environ.get("RAY_ADDRESS")
    here: dict[str, Any] = {} if address else {"num_cpus": at_once, "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **here)
    except Exception as error:  # a start that times out has no type of its own
        raise DeviceFailed(
            f"Ray did not start ({type(error).__name__}): see whether RAY_ADDRESS is right and the machine is not too "
            f"busy, or use {instead}."
        ) from None
    try:
        remote = ray.remote(num_cpus=1, max_calls=1 if fresh else 0, max_retries=0)(_run)

        most = 2 * max(at_once, int(ray.cluster_resources().get("CPU", 1)))  # the rest waits here

        def run(jobs: Sequence[Job]) -> Answers:
            waiting, running = list(reversed(jobs)), dict[Any, Job]()
            while waiting or running:
                while waiting and len(running) < most:
                    job = waiting.pop()
                    running[remote.remote(*job)] = job
                (done,), _ = ray.wait(list(running), num_returns=1)
                job = running.pop(done)
                try:
                    answer = ray.get(done)
                except ray.exceptions.RayError as error:
                    answer = {"crashed": f"its Ray task ended: {type(error).__name__}"}
                yield job, answer

        yield run
    finally:
        ray.shutdown()


def _run(*job: Any) -> dict[str, Any]:
    return Job(*job).run()
