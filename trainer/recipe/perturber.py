"""What every kind of perturber is: its section of a recipe, its facts, how it is fitted; and where kinds are found.

A kind is a class in a file of ``edgeveil.trainer.perturbers``, or in an installed package that names it as an entry
point of ``edgeveil.perturbers``. Recipes load these files, so what trains (TensorFlow, ``trainer.networks.training``,
``trainer.runs.run``) is imported in methods and not at the top.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, cast

from pydantic import Field

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.registry import Registry
from edgeveil.trainer.recipe.training_sections import Section

KINDS = Registry("edgeveil.trainer.perturbers", key="kinds", group="edgeveil.perturbers", word="perturber kind")


class Perturber(Section):
    """``[perturber]`` of one kind: its keys are fields, with ``kind`` among them, and its facts class attributes."""

    if TYPE_CHECKING:
        kind: str  # a literal of ``kinds`` in each class

    kinds: ClassVar[tuple[str, ...]]  # its names
    titles: ClassVar[tuple[str, ...]] = ()  # of each name, for people
    baseline: ClassVar[bool] = False  # there to compare with
    certified: ClassVar[bool] = False  # sends one of finitely many codes, so that these can be counted
    hides_more: ClassVar[bool] = False  # than z: further labels and families of them
    streams: ClassVar[bool] = False  # learns from samples on disk; others need them in memory
    distributes: ClassVar[bool] = False  # trains on several devices
    unbounded: ClassVar[bool] = False  # linear: takes vectors as they are, without a range
    trained: ClassVar[bool] = False  # in the epochs of the budget
    promised: ClassVar[bool] = False  # one release always has an epsilon
    reports: ClassVar[bool] = False  # a report leaves, and no sample
    tries_unseen: ClassVar[bool] = False  # can be tried on people outside its training data
    private_slices: ClassVar[tuple[Literal["classifiers", "perturber"], ...]] = ()  # what it learns from by [private]
    not_private: ClassVar[str] = "what it takes from training data carries no noise"  # why it has no [private]
    whole_pictures: ClassVar[bool] = False  # of whole numbers, what it sends are pictures of a table
    only_float32: ClassVar[str | None] = None  # why its artefacts have no fewer digits
    batched: ClassVar[bool] = False  # so small that calling an interpreter costs more than its work
    without_interpreter: ClassVar[bool] = False  # numpy runs it too

    @property
    def spends(self) -> float | None:
        """The epsilon of one release that the recipe asks for, by which ``[spending]`` counts."""
        epsilon: float | None = getattr(self, "epsilon", None)
        return epsilon

    @property
    def promises(self) -> bool:
        """Whether one release has an epsilon, which asks for public bounds."""
        return self.promised or self.spends is not None

    @property
    def holds(self) -> bool:
        """Whether it is one to use; the others are there to compare with."""
        return not self.baseline

    @property
    def held(self) -> bool:
        """Whether one answer is kept for a track or a period."""
        return False

    @property
    def own_network(self) -> bool:
        """Whether a longer training of its own changes it."""
        return self.trained

    def check_stream(self) -> None:
        """Raise ``ValueError`` where it does not fit samples that follow each other in time."""

    def check_private(self) -> None:
        """Raise ``ValueError`` where it would ship what no budget of ``[private]`` pays for."""
        raise ValueError(
            f'no [private] for perturber.kind = "{self.kind}", since {self.not_private}. Take '
            f"{either(lambda one: bool(one.private_slices))}, or leave it out"
        )

    def resolved(self, folder: Path) -> Perturber:
        """The same section with its paths, which are relative to the recipe's ``folder``."""
        return self

    def files(self) -> list[Path]:
        """The files of a user's own that training needs, and that a run records."""
        return []

    @classmethod
    def of_older_run(cls, section: dict[str, Any]) -> None:
        """Take from the ``section`` of an older run the deleted keys that may be left out; others are refused later."""

    def check(self, dataset: Any) -> None:
        """Raise ``BadInput`` where the data cannot have it, as far as that is known before any training."""

    def fit(self, dataset: Any, *, goal: Any, rng: Any, budget: Any, log: Any) -> Any:
        """Fit it to ``dataset`` (``for_training()``): a ``runs.fitted.FittedPerturber``.

        ``goal`` is a ``perturbers.base.Goal``. Everything random comes from ``rng``. ``budget`` bounds the training,
        which resumes from the checkpoints of ``log``. Raises ``BadInput`` where section and data do not fit,
        ``LimitNotMet`` where training diverges.
        """
        raise NotImplementedError

    @classmethod
    def as_code(cls, fitted: Any, x: Any, pool: Any = None) -> Any:
        """``fitted``, sending only its code, for a receiver that makes x' of it. Raises ``BadInput`` if it has none.

        ``x`` are training samples (n, *shape); ``pool`` (codes, m, *shape) are those that a receiver draws from.
        """
        raise BadInput(f"A perturber of the kind {fitted.kind!r} has no code to emit; leave out --emit code.")

    @classmethod
    def draft(cls, kind: str, dataset: Any, *, apart: float, stream: bool) -> str:
        """The ``[perturber]`` that `recipe new` writes, and the sections it needs, for such data.

        ``apart`` is the mean distance of two samples in the unit cube; ``stream``: a camera gives many frames of a
        person. Raises ``BadInput`` for data that cannot have it.
        """
        return f'[perturber]\nkind = "{kind}"\n'


def of_kind(kind: str) -> type[Perturber]:
    """The class of a kind. Raises ``BadInput``, with the nearest name, for one that there is not."""
    return cast("type[Perturber]", KINDS[kind].load())


def title(kind: str) -> str:
    """A kind for people."""
    section = of_kind(kind)
    return dict(zip(section.kinds, section.titles)).get(kind, kind)


def every() -> list[type[Perturber]]:
    """The class of each kind, a user's own last."""
    return list(dict.fromkeys(kind.load() for kind in (*KINDS.kinds().values(), *KINDS.plugins().values())))


def either(fact: Callable[[type[Perturber]], bool]) -> str:
    """The kinds with a fact, quoted: ``"cleaner" or "noise"``."""
    return " or ".join(f'"{kind}"' for one in every() if fact(one) for kind in one.kinds)


def union() -> Any:
    """The type of ``[perturber]``: the section of any kind, by its ``kind``."""
    return Annotated[Union[tuple(every())], Field(discriminator="kind")]
