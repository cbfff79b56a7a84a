"""What is published to be searched: as it is, and with one guard taken away; and what each case may tell.

What a worker runs in place of a guard is named by this module, so that Ray's workers find it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from edgeveil.trainer.child_processes import Job
from edgeveil.trainer.ext.publish import frames, publication, publishing

SPILLS = {"object_spilling_threshold": 0.0, "min_spilling_size": 0}
SPILLS_JOBS = {**SPILLS, "max_direct_call_object_size": 0, "task_rpc_inlined_bytes_limit": 0}


def _jobs(function: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Chunks worked by ``function`` of this module."""

    def job(name: str, was: str, arguments: Mapping[str, Any]) -> Job:
        if not was.endswith(":work_chunk"):
            return Job(name, was, arguments)
        more = {"rows": _rows(arguments["uri"])} if function is given_rows else {}
        return Job(name, f"{__name__}:{function.__name__}", {**arguments, **more})

    return mock.patch.object(frames, "Job", job)


def _rows(uri: str) -> str:
    with np.load(uri.removeprefix("npz:")) as file:
        return str(file["x"].tobytes().hex())


def given_rows(*, rows: str, **arguments: Any) -> dict[str, Any]:
    """A job that carries the rows themselves."""
    assert rows
    return frames.work_chunk(**arguments)


def failing(**arguments: Any) -> dict[str, Any]:
    """A chunk whose frame ends in an error that holds it."""

    def wrong(machine: Any, _wanted: Any) -> Any:
        raise RuntimeError(f"cannot use {machine.source.next()._data.tobytes()[20:40]!r}")

    with mock.patch.object(frames._Machine, "perturbed", wrong):
        return frames.work_chunk(**arguments)


def failing_in_words(**arguments: Any) -> dict[str, Any]:
    """The same, its text told."""
    with mock.patch.object(frames, "describe", str):
        return failing(**arguments)


def _in_order() -> AbstractContextManager[Any]:
    return mock.patch.object(publishing, "row_order", lambda _key, _recipient, _what, rows: np.arange(rows))


class Case(NamedTuple):
    """What is done, and the kind of secret that it tells."""

    found: str | None = None
    without: Callable[[], AbstractContextManager[Any]] = nullcontext
    remarks: bool = False
    store: Mapping[str, Any] = SPILLS


AS_IT_IS, REFUSED, JOBS = "as it is", "a table with free text", "every job through the store"
ROWS = "without paths in place of rows"
CASES = {
    AS_IT_IS: Case(),
    REFUSED: Case(remarks=True),
    "a frame that ends in an error": Case(without=lambda: _jobs(failing)),
    JOBS: Case("path", store=SPILLS_JOBS),
    "without the plan's refusal of free text": Case(
        "name", lambda: mock.patch.object(publication, "_refuse_prose"), remarks=True
    ),
    ROWS: Case("frame", lambda: _jobs(given_rows)),
    "without the shuffle": Case("order", _in_order),
    "without the place in place of an error's text": Case("frame", lambda: _jobs(failing_in_words)),
}
