"""How a job's error comes back from its process: by its exit code, in words that hold nothing of a row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError, LimitNotMet, PrivacyStop, describe

_BY_CODE = {one.exit_code: one for one in (BadInput, LimitNotMet, DeviceFailed, PrivacyStop)}


def told(work: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A function that never raises: an error is in its answer. An unexpected one is told by its place in the code."""

    @functools.wraps(work)
    def answer(**arguments: Any) -> dict[str, Any]:
        try:
            return work(**arguments)
        except EdgeVeilError as error:
            return {"failed": [error.exit_code, str(error)]}
        except Exception as error:  # its text could hold a value of a row
            return {"failed": [DeviceFailed.exit_code, f"A worker failed: {describe(error)}. Report it."]}

    return answer


def checked(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer. Raises what the job told."""
    if "failed" in answer:
        code, text = answer["failed"]
        raise _BY_CODE.get(code, DeviceFailed)(text)
    return answer
