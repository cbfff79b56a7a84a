"""A job: a function of a module and its arguments as JSON, so that it reaches any process as text."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Job(NamedTuple):
    """``function`` is "package.module:name"; it takes ``arguments`` by name and returns a JSON document."""

    name: str
    function: str
    arguments: Mapping[str, Any]

    def run(self) -> dict[str, Any]:
        """The document, computed in this process."""
        module, _, name = self.function.partition(":")
        found: dict[str, Any] = getattr(importlib.import_module(module), name)(**self.arguments)
        return found


Answers = Iterator[tuple[Job, dict[str, Any]]]
Run = Callable[[Sequence[Job]], Answers]
"""Runs jobs and gives each with its document, in the order in which they end. For one whose process died it is
``{"crashed": why}``."""
