"""Jobs in processes of this machine, or on a Ray cluster. A process has one job at a time, as a line of JSON."""

from __future__ import annotations

import importlib
import json
import logging
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from time import sleep
from typing import Any, Literal, NamedTuple

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.sandbox import hardening


def free_memory() -> float:
    """Bytes of memory that are free or can be freed; infinite where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * next(float(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return float("inf")


# A job: a function of a module and its arguments as JSON, so that it reaches any process as text.


class Job(NamedTuple):
    """``function`` is "package.module:name"; it takes ``arguments`` by name and returns a JSON document."""

    name: str
    function: str
    arguments: Mapping[str, Any]

    def run(self) -> dict[str, Any]:
        """The document, computed in this process."""
        module, _, name = self.function.partition(":")
        document: dict[str, Any] = getattr(importlib.import_module(module), name)(**self.arguments)
        return document


Answers = Iterator[tuple[Job, dict[str, Any]]]
Run = Callable[[Sequence[Job]], Answers]
"""Runs jobs and gives each with its document, in the order in which they end. For one whose process died it is
``{"crashed": why}``."""


@contextmanager
def processes(at_once: int, *, fresh: bool = False, logs: Path | None = None) -> Iterator[Run]:
    """Yield what runs jobs, ``at_once`` at a time.

    With ``fresh`` each job has a process of its own, for libraries that give no memory back. ``logs`` is the folder of
    a log for each such process; without it their stderr is thrown away. All processes are ended with the block, and
    where this one dies.
    """
    children = _Children(at_once, fresh, logs)
    try:
        yield children.run
    finally:
        children.close()


class _Child(NamedTuple):
    process: subprocess.Popen[bytes]
    job: Job


class _Children:
    def __init__(self, at_once: int, fresh: bool, logs: Path | None, threads: int | None = None) -> None:
        self._at_once, self._fresh, self._logs = at_once, fresh, logs
        self._idle: list[subprocess.Popen[bytes]] = []
        self._all: set[subprocess.Popen[bytes]] = set()
        each = str(threads or max(1, (os.cpu_count() or 1) // at_once))
        # Arrow's own pool keeps more with every file that a process reads; the system's gives it back.
        # And OpenMP's threads must not spin while they wait: on busy cores boosted trees take a tenth of the time.
        usual = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_WAIT_POLICY": "passive"}
        self._environment = {**usual, **os.environ, "OMP_NUM_THREADS": each, "TF_NUM_INTRAOP_THREADS": each}

    def run(self, jobs: Sequence[Job]) -> Answers:
        waiting, running = list(reversed(jobs)), 0
        with selectors.DefaultSelector() as selector:
            while waiting or running:
                while waiting and running < self._at_once:
                    child = self._given(waiting.pop())
                    selector.register(child.process.stdout, selectors.EVENT_READ, child)  # type: ignore[arg-type]
                    running += 1
                for key, _ in selector.select():
                    selector.unregister(key.fileobj)
                    running -= 1
                    yield key.data.job, self._answer(key.data)

    def kill(self) -> None:
        for process in [*self._all]:
            process.kill()  # whatever it writes is whole or not there

    def close(self) -> None:
        self.kill()
        for process in [*self._all]:
            self._ended(process)

    def _given(self, job: Job) -> _Child:
        process = self._idle.pop() if self._idle else self._started(job)
        assert process.stdin is not None  # noqa: S101 - a pipe
        with suppress(BrokenPipeError):  # it died: its answer is empty
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
        return _Child(process, job)

    def _answer(self, child: _Child) -> dict[str, Any]:
        assert child.process.stdout is not None  # noqa: S101 - a pipe
        line = child.process.stdout.readline()
        if line.endswith(b"\n"):
            if self._fresh:
                self._ended(child.process)
            else:
                self._idle.append(child.process)
            return json.loads(line)
        code = self._ended(child.process)
        return {"crashed": f"its process ended with code {code}{self._see(child.job)}"}

    def _see(self, job: Job) -> str:
        return f"; see {self._logs / job.name}.log" if self._logs else ""

    def _started(self, job: Job) -> subprocess.Popen[bytes]:
        log: Any = (self._logs / f"{job.name}.log").open("w") if self._logs else None
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "edgeveil.trainer.child_processes"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log or subprocess.DEVNULL,
                env=self._environment,
                # In a session of its own: Ctrl-C reaches only its parent, which ends it.
                start_new_session=True,
            )
        finally:
            if log:
                log.close()
        self._all.add(process)
        return process

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        self._all.discard(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        return process.wait()


# A process that takes jobs from its stdin, a line each, and prints a line for each answer.


def main() -> None:
    """Run jobs until stdin ends."""
    hardening.end_with_parent()
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of libraries is no answer
    for line in sys.stdin:
        answer = Job(*json.loads(line)).run()
        answers.write(json.dumps(answer, allow_nan=False) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()


# Jobs as tasks of Ray Core. A task is given its job and nothing else, for an object store may spill to disks.


@contextmanager
def ray_tasks(at_once: int, *, fresh: bool = False, instead: str, broken_off: Event | None = None) -> Iterator[Run]:
    """Yield what runs jobs on the cluster at RAY_ADDRESS, by default one of ``at_once`` processors here.

    ``fresh`` is as for ``processes``; ``instead`` is the option to use without Ray. No task is repeated by Ray itself.
    Once ``broken_off`` is set, another thread's jobs are ended too. Raises ``DeviceFailed`` where Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise DeviceFailed(
            f"EDGEVEIL_JOBS=ray needs Ray, which is not installed: pip install 'edgeveil[ray]', or use {instead}."
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
                ended, _ = ray.wait(list(running), num_returns=1, timeout=None if broken_off is None else 0.2)
                if not ended:
                    for task in running if broken_off and broken_off.is_set() else ():
                        ray.cancel(task, force=True)
                    continue
                job = running.pop(ended[0])
                try:
                    answer = ray.get(ended[0])
                except ray.exceptions.RayError as error:
                    answer = {"crashed": f"its Ray task ended: {type(error).__name__}"}
                yield job, answer

        yield run
    finally:
        ray.shutdown()


def _run(*job: Any) -> dict[str, Any]:
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")  # a task has one processor
    return Job(*job).run()


# Jobs that run while this process does something else, on either engine.

Engine = Literal["processes", "ray"]
Begin = Callable[[Job], "Future[dict[str, Any]]"]  # the answer comes later; ``{"crashed": why}`` as for ``Run``


@contextmanager
def in_background(at_once: int, engine: Engine = "processes") -> Iterator[Begin]:
    """Yield what begins a job: ``at_once`` run at a time, in the order in which they were begun.

    Each has one thread for its arithmetic, so that its numbers are the same however many run. Processes start with
    their first job and are kept for the next ones. All are ended with the block, and where this one dies. Raises
    ``DeviceFailed`` where Ray is asked for and is not installed.
    """
    free: SimpleQueue[Run] = SimpleQueue()
    children = [_Children(1, False, None, threads=1) for _ in range(at_once)] if engine == "processes" else []
    broken_off = Event()

    def work(job: Job) -> dict[str, Any]:
        run = free.get()
        try:
            return next(answer for _, answer in run([job]))
        finally:
            free.put(run)

    with ExitStack() as stack:
        cluster = [
            stack.enter_context(ray_tasks(at_once, instead="EDGEVEIL_JOBS=N", broken_off=broken_off))
            for _ in range(engine == "ray")
        ]
        for run in [*(child.run for child in children), *cluster * at_once]:
            free.put(run)
        pool = ThreadPoolExecutor(at_once)
        try:
            yield lambda job: pool.submit(work, job)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            broken_off.set()
            while free.qsize() < at_once:  # a thread reads the end of its pipe
                for child in children:
                    child.kill()
                sleep(0.02)
            for child in children:
                child.close()
