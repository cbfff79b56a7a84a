"""Sections of an audit document, one class a file, found by the registry.

A section asks another question of the outputs than who z is, and answers with findings. The document, the text, the
card and the page walk these, so that a section needs no file but its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeveil.edge_runtime.registry import Registry

if TYPE_CHECKING:
    import numpy as np

    from edgeveil.trainer.attacks.findings import Scored
    from edgeveil.trainer.attacks.problem import Budget, Released
    from edgeveil.trainer.audit.findings import Finding
    from edgeveil.trainer.audit.sections.board_section import OnBoard
    from edgeveil.trainer.audit.subject import Perturbed, Subject
    from edgeveil.trainer.datasets.base import Dataset
    from edgeveil.trainer.recipe.training_sections import Certificate
    from edgeveil.trainer.runs.run import Run


@dataclass(frozen=True)
class About:
    """What is audited, what left, with which data and classifiers, how hard, and what was asked of the certificate.

    ``there`` are a board's outputs, None where it runs here. ``spending``: what a training spends is measured too.
    ``attack`` is the one on z with most bits, None before the attacks have run. ``looks`` other configurations were
    audited on these rows before.
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
    looks: int = 0

    @property
    def released(self) -> Released:
        """What left for the rows of all slices, in their order."""
        return self.perturbed.released

    @property
    def target(self) -> str:
        """The name of y."""
        return str(self.subject.manifest["perturber"]["target"])

    @property
    def sensitive(self) -> str:
        """The name of z."""
        return str(self.subject.manifest["perturber"]["sensitive"])


class Section:
    """A section by its ``name``; by ``order`` sections are measured. The name is the ``kind`` of its findings.

    One that is ``last`` needs the best attack on z, or the findings of sections before it.
    """

    name: str
    order: int
    last = False

    def applies(self, _about: About) -> bool:
        """Whether an audit has this section; one that has may still find nothing to say."""
        return True

    def measure(self, _about: About, _found: Sequence[Finding]) -> list[Finding]:
        """What it found. ``_found`` are the findings of the sections before it."""
        return []

    def keys(self, _about: About) -> dict[str, Any]:
        """Further keys of the document, by name: what a board reads, and no figure holds."""
        return {}


SECTIONS = Registry(__name__, key="name", word="section of an audit")


def sections() -> list[Section]:
    """All of them, by their order."""
    return [kind.load()() for kind in sorted(SECTIONS.kinds().values(), key=lambda kind: kind.facts["order"])]
