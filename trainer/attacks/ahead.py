"""Attacks that learn in other processes before they are asked: their answers come through the audit's journal.

An audit asks its families one after the other, and what one finds decides whether the next is asked at all. So it is
left as it is, and asks a journal; where an answer is still being learned elsewhere, the journal waits for it. What is
found is then the same, in the same order, however many processes there are. An answer that does not come (a process
died, a node does not share the folder) is learned here, where its error is raised.

The problems go through one file of the journal's folder, which the processes map into their memory and share.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.findings import Journal
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.child_processes import Begin, Engine, Job, free_memory, in_background
from edgeveil.trainer.progress import say

MUCH_DATA = 1e7  # values of the training rows; with fewer, all but networks learn faster than a process reads them
LOADED = 800e6  # bytes of a process with TensorFlow
COPIES = 4  # of the values, as float32, that a family holds while it learns
PROBLEMS = "problems-"  # begins the names of the files
WORD = 8  # bytes of a number in the file


class Asked(NamedTuple):
    """A family that will be asked about a problem, with a seed."""

    problem: Problem
    family: Adversary
    seed: int

    @property
    def worth_a_process(self) -> bool:
        """The same whatever the number of processes: a process computes with one thread, this one may with more."""
        if self.family.kind == "fixed":
            return False  # it is D_z, which is asked once about each sample
        return self.family.seeded or self.family.kind == "transfer" or self.problem.fit.x.size > MUCH_DATA


class Ahead:
    """Begins what will be asked. ``check`` is called while it waits, and may raise."""

    def __init__(self, begin: Begin, folder: Path, check: Callable[[], object]) -> None:
        self._begin, self._folder, self._check = begin, folder, check
        self._begun: dict[str, Future[dict[str, Any]]] = {}
        self._files: list[Path] = []
        self.meanwhile: list[Callable[[], object]] = []  # what is done here while others are waited for, in this order

    def begin(self, job: Job) -> Callable[[], None]:
        """Begin another job, and return what waits for its end."""
        future = self._begin(job)
        return lambda: self._wait(future)

    def learn(self, journal: Journal, asked: Sequence[Asked]) -> None:
        """Begin those whose answer is not kept, in this order. What no other process can load is learned here."""
        wanted = {
            key: one
            for one in asked
            if one.worth_a_process and not journal.path(key := journal.key(*one)).exists() and key not in self._begun
        }
        problems = {id(one.problem): one.problem for one in wanted.values()}
        families = {id(one.family): one.family for one in wanted.values()}
        path = self._folder / f"{PROBLEMS}{os.getpid()}-{len(self._files)}"
        if not wanted or not _write(path, (list(problems.values()), list(families.values()))):
            return
        self._files.append(path)
        place = {"file": str(path), "folder": str(journal.folder), "made_by": journal.made_by}
        for key, one in wanted.items():
            numbers = {"problem": [*problems].index(id(one.problem)), "family": [*families].index(id(one.family))}
            self._begun[key] = self._begin(
                Job(one.family.name, f"{__name__}:learned", {**place, **numbers, "seed": one.seed})
            )

    def wait(self, key: str, begins: Callable[[], None]) -> None:
        """Wait for the answer with this key, where it is being learned; ``begins`` is called first."""
        future = self._begun.pop(key, None)
        if future is not None and not future.done():
            begins()
            self._wait(future)

    def forget(self) -> None:
        """Do not begin what has not begun: it will not be asked."""
        for future in self._begun.values():
            future.cancel()
        self._begun.clear()

    def close(self) -> None:
        """Remove the files."""
        for path in self._files:
            path.unlink(missing_ok=True)

    def _wait(self, future: Future[dict[str, Any]]) -> None:
        while not wait([future], timeout=0.0 if self.meanwhile else 0.2).done:
            if self.meanwhile:
                self.meanwhile.pop(0)()
            self._check()


@contextmanager
def ahead(
    jobs: int | None, journal: Journal, check: Callable[[], object], *, engine: Engine = "processes"
) -> Iterator[Ahead | None]:
    """Within the block ``jobs`` families learn at a time, each in a process of its own; None: all in this one."""
    if jobs is None or journal.folder is None:
        yield None
        return
    journal.folder.mkdir(parents=True, exist_ok=True)
    for left in journal.folder.glob(f"{PROBLEMS}*"):
        left.unlink()  # the audit before was killed
    with in_background(jobs, engine) as begin:
        journal.ahead = scheduler = Ahead(begin, journal.folder, check)
        try:
            yield scheduler
        finally:
            journal.ahead = None
            scheduler.close()


def at_most(jobs: int, values: int) -> int:
    """``jobs``, or fewer where memory is short, which is said: a job needs 0.8 GB and 16 bytes for each of ``values``,
    those of all rows. Raises ``BadInput`` for less than one."""
    if jobs < 1:
        raise BadInput(f"--jobs: expected 1 or more; got {jobs}.")
    needed = LOADED + COPIES * 4 * values
    fit = max(1, int(min(free_memory() // needed, jobs)))
    if fit < jobs:
        say(f"Memory is free for {fit} of {jobs} jobs: each needs about {needed / 1e9:.1f} GB.")
    return fit


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# The file: a pickle and the arrays that it leaves out, with their lengths before them.

ALIGNED = 64  # bytes, where an array begins


class _Pickler(pickle.Pickler):
    def persistent_id(self, one: Any) -> str | None:
        """A journal belongs to its process: the one that loads the problem has its own."""
        return "journal" if isinstance(one, Journal) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, _name: str) -> None:
        """None in a journal's place."""


def _write(path: Path, about: object) -> bool:
    """Whether it could be written: what is defined within a function cannot, nor more than the disk holds."""
    arrays: list[pickle.PickleBuffer] = []
    head = io.BytesIO()
    try:
        _Pickler(head, protocol=5, buffer_callback=arrays.append).dump(about)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    parts = [head.getbuffer(), *(array.raw() for array in arrays)]
    try:
        # It holds samples, and what is read of it runs: for its owner alone, and nothing that waits under its name.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(np.array([len(parts), *map(len, parts)], np.int64).tobytes())
            for part in parts:
                file.write(bytes(-file.tell() % ALIGNED))
                file.write(part)
    except OSError:
        path.unlink(missing_ok=True)
        return False
    return True


@lru_cache(maxsize=1)
def _read(path: str) -> Any:
    """What was written; arrays are pages of the file, shared until they are written to."""
    with Path(path).open("rb") as file:
        every = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    count = int(np.frombuffer(every[:WORD], np.int64)[0])
    end, parts = WORD * (1 + count), []
    for length in np.frombuffer(every[WORD:end], np.int64).tolist():
        begin = end + -end % ALIGNED
        end = begin + length
        parts.append(every[begin:end])
    return _Unpickler(io.BytesIO(parts[0]), buffers=parts[1:]).load()


def learned(file: str, problem: int, family: int, seed: int, folder: str, made_by: str) -> dict[str, Any]:
    """In another process: answer a problem of the file into the journal; nothing where that fails."""
    try:
        problems, families = _read(file)
        Journal(Path(folder), made_by=made_by).answers(problems[problem], families[family], seed)
    except Exception as error:  # it is raised again where the answer is asked for
        return {"failed": type(error).__name__}
    return {}
