"""Recipes: a TOML file with everything needed to train a perturber, and to train it again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tomli_w
import tomllib
from pydantic import Field, ValidationError, model_validator

from edgeveil.edge_runtime.errors import BadInput, BundleRefused, written_text
from edgeveil.edge_runtime.manifest.count import check_count
from edgeveil.trainer.recipe import messages
from edgeveil.trainer.recipe.data_section import Data, Name, form_of
from edgeveil.trainer.recipe.messages import nearest, sentence
from edgeveil.trainer.recipe.networks import File, Section, check_code, code_in
from edgeveil.trainer.recipe.perturber import KINDS, Perturber, either, every, of_kind, union
from edgeveil.trainer.recipe.private import Head, Private, check_head, check_private
from edgeveil.trainer.recipe.training_sections import (
    Budget,
    Capture,
    Certificate,
    Classifiers,
    Count,
    Limits,
    Spending,
    TablePrior,
    TrainingPrior,
)

FOLDER = Path(__file__).parent / "library"
ALIASES = {name: f"{name}-codebook" for name in ("digits", "mnist", "wifi", "depth", "faces")}

if TYPE_CHECKING:
    AnyPerturber = Perturber
else:
    AnyPerturber = union()


class Recipe(Section):
    """A whole recipe."""

    name: Name = Field(description="Names the run and, later, the bundle: a-z, 0-9, dot, dash and underscore.")
    description: str = Field(default="", max_length=200, description="One line for people.")
    seed: int = Field(default=0, ge=0, le=2**32 - 1, description="Seed of slices, initial weights and batch order.")
    data: Data = Field(description="The samples and their attributes.")
    capture: Capture | None = Field(
        default=None, description="How a sensor's frames become samples. Left out: they are samples already."
    )
    count: Count | None = Field(default=None, description="Counts of people that leave too. Left out: none.")
    prior: Annotated[TablePrior | TrainingPrior, Field(discriminator="kind")] = Field(
        description="What the public knows of z given y."
    )
    classifiers: Classifiers = Field(description="D_y and D_z.")
    perturber: AnyPerturber = Field(description="What is trained to perturb.")
    spending: Spending | None = Field(
        default=None, description="What the releases of a unit may add up to: of a perturber that promises an epsilon."
    )
    private: Private | None = Field(
        default=None, description="What the bundle may tell of the people it was trained on. Left out: no promise."
    )
    head: Head | None = Field(
        default=None, description="A private linear classifier of y that ships too. Left out: none."
    )
    budget: Budget = Field(description="How long to train.")
    limits: Limits = Field(description="What the result must meet.")
    certificate: Certificate | None = Field(default=None, description="Asks for a certificate.")
    files: list[File] | None = Field(default=None, description="Files of your own; written by `train`.")

    @property
    def sensor(self) -> str | None:
        """The kind of sensor that gives the samples; None where nothing says it."""
        if self.data.sensor is None and self.capture is not None:
            if self.capture.access_points is not None:
                return "wifi"
            if self.capture.frame.unit_mm is not None:
                return "depth"
            if self.capture.frame.shape[-1] == 3:  # colours
                return "camera"
        sensor: str | None = self.data.sensor or self.data.fact("sensor")
        return sensor

    @model_validator(mode="after")
    def _belongs_together(self) -> Recipe:
        linear, perturber = self.classifiers.architecture == "linear", self.perturber
        kind = f'perturber.kind = "{perturber.kind}"'
        if self.data.homogeneous and not perturber.unbounded:
            raise ValueError(f"`data.homogeneous` is for perturber.kind = {either(lambda one: one.unbounded)}")
        if linear and not perturber.unbounded:
            known = either(lambda one: one.unbounded)
            raise ValueError(f'classifiers.architecture = "linear" is for perturber.kind = {known}')
        if self.certificate is not None and not perturber.certified:
            raise ValueError(
                f"no `[certificate]` for {kind}: what it sends cannot be counted. Leave the section out, or take "
                f"{either(lambda one: one.certified)}"
            )
        if (self.data.also_sensitive or self.data.family) and not perturber.hides_more:
            *others, last = (one.kinds[0] for one in every() if one.hides_more)
            raise ValueError(
                f"one `data.sensitive` and no `data.family`: {', '.join(others)} and {last} hide more than one "
                f"attribute, and this is {kind}"
            )
        if self.data.fact("stream"):
            perturber.check_stream()
        if perturber.unbounded and (self.data.low is not None or self.data.high is not None):
            raise ValueError(f"no `data.low` and `data.high` for {kind}: it has no range")
        self._spends()
        if self.private is not None:
            extremes, unseen = self.data.bounds is not None, self.limits.unseen_accuracy is not None
            check_private(perturber, self.prior.kind, from_training=extremes, unseen=unseen)
        if self.head is not None:
            check_head(self.head, perturber)
        self._counts()
        if not perturber.tries_unseen and self.limits.unseen_accuracy is not None:
            raise ValueError(f"perturber.kind = {either(lambda one: one.tries_unseen)} with `limits.unseen_accuracy`")
        return self

    def _spends(self) -> None:
        """Raise ``ValueError`` where ``[spending]`` and what the perturber promises do not fit."""
        release_epsilon = self.perturber.spends
        if self.spending is None:
            if release_epsilon is not None:
                raise ValueError("a section [spending] with `perturber.epsilon`: what a unit's releases may add up to")
            return
        if not self.perturber.promises:
            raise ValueError(
                f'no [spending] for perturber.kind = "{self.perturber.kind}" without `epsilon`: it promises none'
            )
        if release_epsilon is not None and self.spending.most < release_epsilon:
            raise ValueError(f"`spending.most` of at least one release's `perturber.epsilon`, {release_epsilon:g}")

    def _counts(self) -> None:
        """Raise ``ValueError`` where ``[count]`` is not one that a device can follow."""
        if self.count is None:
            return
        try:
            capture = None if self.capture is None else self.capture.manifest()
            check_count(self.count.manifest(), capture, detector=self.count.detector is not None)
        except BundleRefused as refusal:
            problem = str(refusal).partition(": ")[2].rpartition(". ")[0]
            raise ValueError(f"a section [count] that a device can follow ({problem})") from None

    @classmethod
    def names(cls) -> list[str]:
        """The recipes that come with EdgeVeil, sorted."""
        return sorted(path.stem for path in FOLDER.glob("*.toml"))

    def __repr__(self) -> str:
        data = self.data
        return f"<Recipe {self.name}: {self.perturber.kind} keeps {data.target}, hides {data.sensitive}>"

    __str__ = __repr__

    @classmethod
    def find(cls, recipe: str | Path) -> Recipe:
        """The recipe of that name, alias or TOML path. Raises ``BadInput`` in one sentence."""
        path = cls._path(recipe)
        return cls.parse(cls.text(recipe), origin=str(path), folder=path.parent)

    @classmethod
    def of_run(cls, path: Path) -> Recipe:
        """The recipe in a run's folder, of an older version too. Raises ``BadInput`` and ``OSError``."""
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        perturber = table.get("perturber", {})
        for section in (perturber, perturber.get("codebook", {})):
            if KINDS.find(section.get("kind", "")) is not None:
                of_kind(section["kind"]).of_older_run(section)
        return cls.parse(tomli_w.dumps(table), origin=str(path), folder=path.parent, taken=None)

    @classmethod
    def text(cls, recipe: str | Path) -> str:
        """The TOML text of a recipe, unchanged. Raises ``BadInput``."""
        path = cls._path(recipe)
        return written_text(path, "A recipe")

    @classmethod
    def parse(
        cls, text: str, *, origin: str = "the recipe", folder: Path = Path(), taken: Collection[str] | None = ()
    ) -> Recipe:
        """A recipe from TOML text; its paths are relative to ``folder``. Raises ``BadInput`` that names the key.

        ``taken`` is the code, as ``code()`` has it, that a caller has named already; None: all of it, in a text that
        ``toml()`` wrote. Other code must lie in ``folder``.
        """
        try:
            table = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise BadInput(f"{origin} is not valid TOML: {error}.") from None
        return cls.of_table(table, origin=origin, folder=folder, taken=taken)

    @classmethod
    def of_table(
        cls,
        table: dict[str, Any],
        *,
        origin: str = "the recipe",
        folder: Path = Path(),
        taken: Collection[str] | None = (),
    ) -> Recipe:
        """As ``parse``, from the content of the TOML."""
        recipe = cls.check(table, origin=origin)
        for code in () if taken is None else set(recipe.code()).difference(taken):
            check_code(code, folder, origin)
        paths: dict[str, Any] = {}
        if recipe.data.own is not None:
            own, path = recipe.data.own
            paths["source"] = f"{own}:{(folder / path.expanduser()).resolve()}"
        if recipe.data.labels is not None:
            paths["labels"] = str((folder / Path(recipe.data.labels).expanduser()).resolve())
        data = recipe.data.model_copy(update=paths)
        parts = {"classifiers": recipe.classifiers.resolved(folder), "perturber": recipe.perturber.resolved(folder)}
        return recipe.model_copy(update={"data": data, **parts})

    def code(self) -> list[str]:
        """The code that it names, ``FILE.py:FUNCTION`` each."""
        return list(code_in(self.model_dump(include={"classifiers", "perturber"})))

    def with_files(self) -> Recipe:
        """This recipe with a record of each file of a user's own, as it is now. Raises ``BadInput`` without one."""
        paths = dict.fromkeys([*self.classifiers.files(), *self.perturber.files()])
        return self.model_copy(update={"files": [File.of(path) for path in paths] or None})

    @classmethod
    def check(cls, table: dict[str, Any], *, origin: str = "the recipe") -> Recipe:
        """A recipe from parsed TOML. Raises ``BadInput``: the key, what was expected, what came."""
        perturber = table.get("perturber")
        if isinstance(perturber, dict):
            messages.refuse_old(perturber.get("kind"), messages.KINDS, f"{origin}: the perturber kind")
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise BadInput(sentence(error, cls, origin)) from None

    def with_budget(self, budget: str) -> Recipe:
        """This recipe under ``"full"`` (unchanged) or ``"quick"`` (``[budget.quick]`` caps rows and epochs)."""
        if budget == "full":
            return self
        if budget != "quick":
            raise BadInput(f'budget: expected "quick" or "full"; got "{budget}".')
        quick, full = self.budget.quick, self.budget
        cut = full.model_copy(
            update={
                "rows": quick.rows if full.rows is None else min(quick.rows, full.rows),
                "classifier_epochs": min(quick.classifier_epochs, full.classifier_epochs),
                "epochs": min(quick.epochs, full.epochs),
                "batch": quick.batch or full.batch,
            }
        )
        return self.model_copy(update={"budget": cut})

    def changed_from(self, other: Recipe) -> str | None:
        """The first key by which a run of ``other`` cannot continue with this one: of [budget] only the epochs and the
        batch may differ. None where it can."""
        if other.model_copy(update={"budget": self.budget}) == self and other.budget.rows == self.budget.rows:
            return None
        keys = (key for key in type(self).model_fields if key != "budget" and getattr(self, key) != getattr(other, key))
        return next(keys, "budget.rows")

    def toml(self) -> str:
        """The recipe with every default written out; ``parse`` gives it back."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))

    @classmethod
    def _path(cls, recipe: str | Path) -> Path:
        text = str(recipe)
        if own := form_of(Path(text).expanduser()):
            raise BadInput(
                f"A recipe was expected, and {text} are data. Write one for them: edgeveil recipe new {own} "
                "--out mine.toml"
            )
        if text.endswith(".toml") or "/" in text or isinstance(recipe, Path):
            path = Path(text).expanduser()
            if not path.is_file():
                raise BadInput(f"Expected a recipe in {path}; there is no such file. See `edgeveil recipe list`.")
            return path
        messages.refuse_old(text, messages.RECIPES, "The recipe")
        name = ALIASES.get(text, text)
        if name not in cls.names():
            raise BadInput(
                f'There is no recipe "{text}"{nearest(text, [*ALIASES, *cls.names()])}. `edgeveil recipe list --all` '
                "names those that come with EdgeVeil; your own is a .toml file."
            )
        return FOLDER / f"{name}.toml"
