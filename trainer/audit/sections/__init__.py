"""Sections of an audit document, one class a file, found by the registry.

A section asks another question of the outputs than who z is. What is particular to it is in its file: how it is
measured, its fields of audit.json, its lines on a terminal and what it guarantees. The document, the text and the card
walk the sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeveil.edge_runtime.registry import Registry

if TYPE_CHECKING:
    import numpy as np

    from edgeveil.trainer.attacks.findings import Scored
    from edgeveil.trainer.attacks.problem import Budget, Released
    from edgeveil.trainer.audit.sections.board_section import OnBoard
    from edgeveil.trainer.audit.subject import Perturbed, Subject
    from edgeveil.trainer.datasets.base import Dataset
    from edgeveil.trainer.recipe.training_sections import Certificate
    from edgeveil.trainer.runs.run import Run


@dataclass(frozen=True)
class About:
    """What is audited, what left, with which data and classifiers, how hard, and what was asked of the certificate.

    ``there`` are a board's outputs, None where it runs here. ``spending``: what a training spends is measured too.
    ``attack`` is the one on z with most bits, None before the attacks have run.
    """

    subject: Subject
    run: Run
    dataset: Dataset
    classifiers: Mapping[str, Any]
    budget: Budget
    seed: int
    asked: Certificate
    strata: np.ndarray | None
    there: OnBoard | None
    spending: bool
    perturbed: Perturbed
    attack: Scored | None = None

    @property
    def released(self) -> Released:
        """What left for the rows of all slices, in their order."""
        return self.perturbed.released


class Section:
    """A section, ``name`` in the document. By ``order`` sections are measured and stand on a terminal."""

    name: str
    order: int
    on_card = True

    def applies(self, _about: About) -> bool:
        """Whether an audit has this section; one that has may still find nothing to say (None)."""
        return True

    def measure(self, about: About, found: Mapping[str, Any]) -> Any:
        """The section's fields in audit.json. ``found`` are the sections before it."""
        raise NotImplementedError

    def lines(self, _found: Any, _document: Mapping[str, Any]) -> Iterator[str]:
        """Its lines on a terminal; ``found`` are its fields."""
        yield from ()

    def guarantees(self, _found: Any) -> Iterator[str]:
        """The sentences of what it promises or certifies, each with its assumptions."""
        yield from ()


SECTIONS = Registry(__name__, key="name", word="section of an audit")


def sections() -> list[Section]:
    """All of them, by their order."""
    return [kind.load()() for kind in sorted(SECTIONS.kinds().values(), key=lambda kind: kind.facts["order"])]
