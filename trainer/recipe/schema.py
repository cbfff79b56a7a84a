"""Recipes: a TOML file with everything needed to train a perturber, and to train it again."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
import tomllib
from pydantic import Field, ValidationError, field_validator, model_validator

from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.count import check_count
from edgeveil.trainer.recipe import renamed
from edgeveil.trainer.recipe.capture import Capture
from edgeveil.trainer.recipe.count import Count
from edgeveil.trainer.recipe.head import Head, check_head
from edgeveil.trainer.recipe.messages import nearest, sentence
from edgeveil.trainer.recipe.perturber import Cleaner, Codebook, Noise, Perturber, Section
from edgeveil.trainer.recipe.private import Private, check_private, epsilon_and_delta
from edgeveil.trainer.recipe.series import Series

FOLDER = Path(__file__).parent / "library"
ALIASES = {name: f"{name}-codebook" for name in ("digits", "mnist", "wifi", "depth", "faces")}
BASELINES = ("prgan", "ngp", "ap", "minimax", "laplace")  # kinds to compare with
BUILT_IN = (
    "digits", "mnist", "wifi", "wifi-strength", "faces", "depth", "overhead", "scene", "wq", "utd-mhad",
)  # edgeveil.trainer.datasets has each  # fmt: skip
OWN = ("npz", "images", "csv", "parquet")  # the user's own data, as KIND:PATH
SENSORS = {
    "digits": "camera", "mnist": "camera", "faces": "camera", "wifi": "wifi", "wifi-strength": "wifi",
    "depth": "depth", "overhead": "depth", "utd-mhad": "motion",
}  # that the built-in data came from; the others are no sensor's  # fmt: skip
SERIES = ("utd-mhad",)  # built-in data that are series
STREAMS = ("depth", "overhead", "utd-mhad")  # whose samples follow each other in time, many of each person
PRICED = ("codebook", "minimax", "prgan", "ngp", "ap")  # kinds that hide more than z
OWN_FORMS = '"npz:FILE", "images:DIR", "csv:FILE" or "parquet:FILE"'
CERTIFIED = ("codebook", "label-only")  # kinds that send one of finitely many codes
MOST_SECONDS = 10 * 366 * 86_400
NAME = r"^[a-z0-9][a-z0-9._-]{0,79}$"  # an identifier of the manifest

Name = Annotated[str, Field(pattern=NAME)]


class Columns(Section):
    """Own data: which columns say what. ``csv``, ``parquet``: all others are features; ``images``: of ``labels``."""

    target: str | None = Field(
        default=None, min_length=1, description="The column of y. Left out: for images, the folder that each lies in."
    )
    sensitive: str = Field(min_length=1, description="The column of z.")
    subject: str | None = Field(default=None, min_length=1, description="The column that says whose sample it is.")
    session: str | None = Field(default=None, min_length=1, description="The column of the recording it is from.")
    leave_out: list[str] | None = Field(default=None, description="csv, parquet: columns that are no features.")
    time: str | None = Field(default=None, min_length=1, description="Recordings: the column of a sample's seconds.")


def form_of(path: Path) -> str | None:
    """How a file of data is named, as KIND:PATH; None for what is none."""
    kind = path.suffix[1:]
    return f"{kind}:{path}" if path.is_file() and kind in OWN else None


class Data(Section):
    """Which samples, and which two of their attributes."""

    source: str = Field(
        description='"digits" (in scikit-learn), "mnist", "wifi", "wifi-strength", "faces", "depth", "scene", "wq", '
        '"utd-mhad" (files that you download once), "overhead" (simulated), or your own, relative to the recipe: '
        '"npz:FILE" with arrays x, y, z (and labels), "images:DIR" with a folder for each class, "csv:FILE", '
        '"parquet:FILE"; of series, "csv:FOLDER" with a file for each recording.'
    )
    kind: Literal["series"] | None = Field(
        default=None,
        description='"series": samples are windows of a sensor\'s steps, (T, C): an x (N, T, C) of npz, which is '
        "pictures otherwise, a folder of csv, or utd-mhad. Goes with `[data.series]`.",
    )
    target: Name = Field(
        description='The attribute y to keep. digits and mnist have "parity", "less-than-five", "digit"; wifi "floor", '
        '"building"; faces "light"; depth "action", "movement"; utd-mhad "action"; overhead "direction"; for your own '
        "data: its name."
    )
    sensitive: Name = Field(
        description='The attribute z to hide: as for `target`; wifi "region", faces "person", overhead "build". Of a '
        "list of names, the first is z; the others go to `also_sensitive`."
    )
    also_sensitive: list[Name] | None = Field(
        default=None,
        description="Further labels of the data set that codebook, prgan and minimax hide: jointly with z.",
    )
    family: Literal["groupings", "thresholds", "finest"] | None = Field(
        default=None,
        description="What else of a sensitive attribute is hidden: every grouping or threshold of the finest label "
        "that the data set knows and that tells it (digits: the digit). What a code tells about any of them is at most "
        'what it tells about that label, so that label is priced. "thresholds" asks for an order.',
    )
    wanted: int | None = Field(
        default=None,
        ge=1,
        description="scene, wq, and npz with an array `labels`: number of labels to keep, from the first; the others "
        "are confidential. Left out: 1 for scene and wq; for npz the classes of y are kept, those of z confidential.",
    )
    homogeneous: bool = Field(
        default=False, description="Cleaners: append a feature 1 to every vector, as paper 000 does."
    )
    public: bool = Field(
        default=False,
        description="The data are public and may be passed on perturbed, as their licence or their people allow. "
        "`edgeveil freeze` requires it for data that it does not know.",
    )
    sensor: Literal["camera", "depth", "wifi", "motion"] | None = Field(
        default=None,
        description="What gives such samples: the bundle refuses sources of another sensor. Left out: known of the "
        "data that come with EdgeVeil and by `[capture]`, else any.",
    )
    low: float | list[float] | None = Field(
        default=None,
        description="The value that becomes 0. Own pictures; left out: 0, or the smallest in training. Vectors: one "
        "for all features, or a list of one for each; left out: the smallest in training.",
    )
    high: float | list[float] | None = Field(
        default=None,
        description="The value that becomes 1. Own pictures; left out: 255 for 8 bits, else the largest in training. "
        "Vectors: as for `low`; left out: the largest in training.",
    )
    bounds: Literal["from-training"] | None = Field(
        default=None,
        description="What is promised of a release (`[spending]`, laplace, local) needs bounds that are public: `low` "
        'and `high`, or those that come with the data. "from-training" takes the extremes of training rows in spite '
        "of that; they ship, and card and messages say so.",
    )
    labels: str | None = Field(
        default=None,
        min_length=1,
        description="images, and series of csv whose files do not say it: a CSV, relative to the recipe, with a column "
        '"file" (a path below the folder) and those of `columns`.',
    )
    columns: Columns | None = Field(default=None, description="images, csv, parquet: which columns say what.")
    series: Series | None = Field(default=None, description="What the steps of a series are, and its windows.")

    @model_validator(mode="before")
    @classmethod
    def _first_is_z(cls, table: Any) -> Any:
        if isinstance(table, dict) and isinstance(table.get("sensitive"), list) and table["sensitive"]:
            first, *others = table["sensitive"]
            table = {**table, "sensitive": first, "also_sensitive": [*others, *(table.get("also_sensitive") or [])]}
        return table

    @field_validator("source")
    @classmethod
    def _known_source(cls, source: str) -> str:
        kind, _, place = source.partition(":")
        if source not in BUILT_IN and not (kind in OWN and place):
            raise ValueError(", ".join(f'"{name}"' for name in BUILT_IN) + f", or {OWN_FORMS}")
        return source

    @field_validator("low", "high", mode="before")
    @classmethod
    def _numbers(cls, end: Any) -> Any:
        values = end if isinstance(end, list) and end else [end]
        if end is not None and not all(type(one) in (int, float) and math.isfinite(one) for one in values):
            raise ValueError("a finite number, or a list of one for each feature")
        return end

    @model_validator(mode="after")
    def _bounds_from_one_place(self) -> Data:
        if self.bounds is not None and (self.low is not None or self.high is not None):
            raise ValueError('no `low` and `high` with `bounds = "from-training"`, which takes them from the rows')
        return self

    @model_validator(mode="after")
    def _series_of_what_has_them(self) -> Data:
        if (self.kind == "series") != (self.series is not None):
            wanted = "a section [data.series]" if self.kind else "no section [data.series]"
            raise ValueError(wanted + (' with `kind = "series"`' if self.kind else ' without `kind = "series"`'))
        if self.source in SERIES and self.kind is None:
            raise ValueError(f'`kind = "series"` with `source = "{self.source}"`')
        kind = self.own[0] if self.own else ""
        if self.series is None:
            return self
        if self.source not in SERIES and kind not in ("npz", "csv"):
            raise ValueError(f'no `kind = "series"` with `source = "{self.source}"`: npz, csv and utd-mhad have series')
        if kind and (self.series.rate_hz is None or self.series.channels is None or self.series.units is None):
            raise ValueError("`rate_hz`, `channels` and `units` in [data.series] for your own data")
        if kind == "npz" and self.series.length is not None:
            raise ValueError("no `series.length` with npz, whose x are windows already")
        if kind != "npz" and (self.series.length is None or self.series.hop is None):
            raise ValueError("`length` and `hop` in [data.series], by which recordings are cut into windows")
        return self

    @model_validator(mode="after")
    def _columns_of_what_has_them(self) -> Data:
        kind = self.own[0] if self.own else ""
        if self.series is not None and kind == "csv":
            return self._columns_of_recordings()
        named = kind in ("images", "csv", "parquet")
        if named != (self.columns is not None):
            wanted = "a section [data.columns]" if named else "no section [data.columns]"
            raise ValueError(f'{wanted} with `source = "{self.source}"`')
        if (kind == "images") != (self.labels is not None):
            wanted = "`labels`, the CSV with z of each picture," if kind == "images" else "no `labels`"
            raise ValueError(f'{wanted} with `source = "{self.source}"`')
        if kind in ("csv", "parquet") and self.columns is not None and self.columns.target is None:
            raise ValueError("`columns.target`, the column of y")
        return self

    def _columns_of_recordings(self) -> Data:
        if self.columns is None or self.columns.time is None or self.columns.target is None:
            raise ValueError("a section [data.columns] with `time`, `target` and `sensitive` for recordings")
        return self

    @property
    def own(self) -> tuple[str, Path] | None:
        """(kind, path) of the user's own data; None for a data set that EdgeVeil knows."""
        kind, colon, place = self.source.partition(":")
        return (kind, Path(place)) if colon else None


class TablePrior(Section):
    """What the public knows, written down. What is left out is spread evenly (eq. 3)."""

    kind: Literal["table"] = Field(description="The prior is written in `table`.")
    table: dict[str, dict[str, float]] = Field(
        description="One table per class of y: class of z = P(z|y). May be partial; a class of y left out says nothing."
    )


class TrainingPrior(Section):
    """P(z|y) from the two training slices."""

    kind: Literal["counted", "uniform"] = Field(
        description='"counted": as counted there. "uniform": even over the z that occur with each y there.'
    )


Architecture = Literal["small", "normed-cnn", "table1-mnist", "normed-mlp", "table1-wifi", "series", "linear"]


class Classifiers(Section):
    """D_y and D_z, trained on the first slice and fixed from then on (section 5.3)."""

    architecture: Architecture = Field(
        description="`table1-*` are Table 1 of the paper; `small` and `normed-cnn` suit any image; `normed-mlp` and "
        "`table1-wifi` are for vectors; `normed-*` have batch norm, for data of any scale. `series` (strided "
        "convolutions over time) is for series; `linear` (least squares) is for cleaners; there D_y sees the output "
        "of the kept operator."
    )
    look: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Accuracy of y in the look of `recipe new`, on the second slice. Training stops after D_y where it "
        "lies ten points below. Left out: D_y must only beat the commonest class.",
    )
    learning_rate: float = Field(
        default=1e-3, gt=0, le=1, description="Adam's first rate; it falls to 0 along a cosine."
    )
    shift: int = Field(
        default=0, ge=0, le=8, description="Images: training samples are moved by up to this many pixels each way."
    )
    patience: int = Field(default=10, ge=1, description="Epochs without a better validation loss before it stops.")


class Quick(Section):
    """Replaces ``[budget]`` under ``--budget quick``: a trial in seconds."""

    rows: int = Field(default=3000, ge=100, description="At most this many rows of data.")
    classifier_epochs: int = Field(default=3, ge=1, description="Epochs of D_y and of D_z.")
    epochs: int = Field(default=3, ge=1, description="Epochs of the perturber.")


class Spending(Section):
    """What a unit may spend in all: every release or kept answer costs its epsilon, and the ledger stops at `most`."""

    unit: Literal["release", "track", "subject"] = Field(
        description='Whose releases add up: "release" (all of the device), "track" (those of one track), "subject" '
        "(those of one person, whom the source names)."
    )
    most: float = Field(gt=0, le=1e6, description="Epsilon that one unit may spend in a period.")
    period_s: int | None = Field(
        default=None,
        ge=1,
        le=MOST_SECONDS,
        description="Seconds that the device was on after which a unit may spend `most` again. Left out: never again.",
    )


class Budget(Section):
    """How long to train."""

    rows: int | None = Field(default=None, ge=100, description="At most this many rows of data; left out: all of them.")
    classifier_epochs: int = Field(ge=1, le=10000, description="Epochs of D_y and of D_z, at most.")
    epochs: int = Field(ge=1, le=100000, description="Epochs of the perturber; unused where D_y itself ships.")
    batch: int = Field(default=128, ge=2, le=65536, description="Rows per training step.")
    quick: Quick = Field(default=Quick(), description="The budget under `--budget quick`.")


class Certificate(Section):
    """Asks for a certificate. Only a perturber that sends one of finitely many codes has one."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="Confidence with which the bound holds.")
    tried: int = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Configurations ever compared on the test slice of this seed; they share the confidence.",
    )
    strata: list[str] = Field(
        default=[],
        description="Attributes within which z is balanced by design (each light once per person). The "
        "certificate's null shuffles z within them.",
    )


class Limits(Section):
    """What the result must meet. Otherwise the command ends with exit code 3; the run is kept."""

    target_accuracy: float = Field(
        gt=0, le=1, description="Acc(D_y) that a checkpoint must reach on validation: the utility floor of section 6.2."
    )
    attack_points: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="`edgeveil audit`: points over chance that attacks may reach, upper end. Left out: no limit.",
    )
    bits: float | None = Field(
        default=None,
        ge=0,
        description="`edgeveil audit`: bits per sample beyond y that attacks may learn, upper end. Left out: no limit.",
    )
    unseen_accuracy: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="codebook: accuracy of y-hat on the worst person, by an encoder trained without that person.",
    )


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
    perturber: Perturber = Field(description="What is trained to perturb.")
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
        return self.data.sensor or SENSORS.get(self.data.source)

    @model_validator(mode="after")
    def _belongs_together(self) -> Recipe:
        linear = self.classifiers.architecture == "linear"
        if self.data.homogeneous and not self.perturber.unbounded:
            raise ValueError('`data.homogeneous` is for perturber.kind = "cleaner" or "noise"')
        if linear and not self.perturber.unbounded:
            raise ValueError('classifiers.architecture = "linear" is for perturber.kind = "cleaner" or "noise"')
        if self.certificate is not None and self.perturber.kind not in CERTIFIED:
            known = " or ".join(f'"{kind}"' for kind in CERTIFIED)
            raise ValueError(
                f'no `[certificate]` for perturber.kind = "{self.perturber.kind}": what it sends cannot be counted. '
                f"Leave the section out, or take {known}"
            )
        if (self.data.also_sensitive or self.data.family) and self.perturber.kind not in PRICED:
            raise ValueError(
                "one `data.sensitive` and no `data.family`: codebook, prgan and minimax hide more than one attribute, "
                f'and this is perturber.kind = "{self.perturber.kind}"'
            )
        if isinstance(self.perturber, Codebook) and self.data.source in STREAMS and self.perturber.hold == "none":
            raise ValueError('`perturber.hold` to be "track:7", "period:600s" or "frame": these data are streams')
        if self.perturber.unbounded and (self.data.low is not None or self.data.high is not None):
            raise ValueError(
                f'no `data.low` and `data.high` for perturber.kind = "{self.perturber.kind}": it has no range'
            )
        self._spends()
        if self.private is not None:
            extremes, unseen = self.data.bounds is not None, self.limits.unseen_accuracy is not None
            check_private(self.perturber, self.prior.kind, from_training=extremes, unseen=unseen)
        if self.head is not None:
            check_head(self.head, self.perturber, promises=self.promises)
        self._counts()
        if not isinstance(self.perturber, Codebook) and self.limits.unseen_accuracy is not None:
            raise ValueError('perturber.kind = "codebook" with `limits.unseen_accuracy`')
        return self

    def _spends(self) -> None:
        """Raise ``ValueError`` where ``[spending]`` and what the perturber promises do not fit."""
        asked = self.perturber.kind == "local" or getattr(self.perturber, "epsilon", None) is not None
        if self.spending is None:
            if asked:
                raise ValueError("a section [spending] with `perturber.epsilon`: what a unit's releases may add up to")
            return
        if not self.promises:
            raise ValueError(
                f'no [spending] for perturber.kind = "{self.perturber.kind}" without `epsilon`: it promises none'
            )
        one = getattr(self.perturber, "epsilon", None)
        if one is not None and self.spending.most < one:
            raise ValueError(f"`spending.most` of at least one release's `perturber.epsilon`, {one:g}")

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

    @property
    def promises(self) -> bool:
        """Whether one release has an epsilon, which asks for public bounds."""
        return self.perturber.kind in ("local", "laplace") or getattr(self.perturber, "epsilon", None) is not None

    @property
    def holds(self) -> bool:
        """Whether it is one to use; the others are there to compare with."""
        return self.perturber.kind not in BASELINES and getattr(self.perturber, "hold", "none") != "frame"

    @classmethod
    def names(cls) -> list[str]:
        """The recipes that come with EdgeVeil, sorted."""
        return sorted(path.stem for path in FOLDER.glob("*.toml"))

    @classmethod
    def find(cls, recipe: str | Path) -> Recipe:
        """The recipe of that name, alias or TOML path. Raises ``BadInput`` in one sentence."""
        path = cls._path(recipe)
        return cls.parse(cls.text(recipe), origin=str(path), folder=path.parent)

    @classmethod
    def text(cls, recipe: str | Path) -> str:
        """The TOML text of a recipe, unchanged. Raises ``BadInput``."""
        path = cls._path(recipe)
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"A recipe was expected in {path}, which cannot be read as UTF-8 text: {error}.") from None

    @classmethod
    def parse(cls, text: str, *, origin: str = "the recipe", folder: Path = Path()) -> Recipe:
        """A recipe from TOML text; its paths are relative to ``folder``. Raises ``BadInput`` that names the key."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"{origin} is not valid TOML: {error}.") from None
        recipe = cls.check(table, origin=origin)
        found: dict[str, Any] = {}
        if recipe.data.own is not None:
            own, path = recipe.data.own
            found["source"] = f"{own}:{(folder / path.expanduser()).resolve()}"
        if recipe.data.labels is not None:
            found["labels"] = str((folder / Path(recipe.data.labels).expanduser()).resolve())
        perturber = recipe.perturber
        if isinstance(perturber, (Cleaner, Noise)) and perturber.operator != "data":
            kind, _, place = perturber.operator.partition(":")
            operator = f"{kind}:{(folder / Path(place).expanduser()).resolve()}"
            perturber = perturber.model_copy(update={"operator": operator})
        data = recipe.data.model_copy(update=found)
        return recipe.model_copy(update={"data": data, "perturber": perturber})

    @classmethod
    def check(cls, table: dict[str, Any], *, origin: str = "the recipe") -> Recipe:
        """A recipe from parsed TOML. Raises ``BadInput``: the key, what was expected, what came."""
        perturber = table.get("perturber")
        if isinstance(perturber, dict):
            renamed.refuse_old(perturber.get("kind"), renamed.KINDS, f"{origin}: the perturber kind")
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
            }
        )
        return self.model_copy(update={"budget": cut})

    def with_private(self, text: str) -> Recipe:
        """This recipe under [private] with the epsilon and delta of a text as 8,1e-5. Raises ``BadInput``."""
        table = self.model_dump(exclude_none=True)
        table["private"] = {**table.get("private", {}), **epsilon_and_delta(text)}
        return self.check(table, origin=f"--private {text}")

    def toml(self) -> str:
        """The recipe with every default written out; ``parse`` gives it back."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))

    @classmethod
    def _path(cls, recipe: str | Path) -> Path:
        text = str(recipe)
        if own := form_of(Path(text).expanduser()):
            raise BadInput(
                f"A recipe was expected, and {text} are data. Write one for them: edgeveil recipe new --data {own} "
                "--out mine.toml"
            )
        if text.endswith(".toml") or "/" in text or isinstance(recipe, Path):
            path = Path(text).expanduser()
            if not path.is_file():
                raise BadInput(f"Expected a recipe in {path}; there is no such file. See `edgeveil recipe list`.")
            return path
        renamed.refuse_old(text, renamed.RECIPES, "The recipe")
        name = ALIASES.get(text, text)
        if name not in cls.names():
            raise BadInput(
                f'There is no recipe "{text}"{nearest(text, [*ALIASES, *cls.names()])}. `edgeveil recipe list --all` '
                "names those that come with EdgeVeil; your own is a .toml file."
            )
        return FOLDER / f"{name}.toml"
