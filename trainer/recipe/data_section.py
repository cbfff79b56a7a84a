"""``[data]`` of a recipe: which samples, and which two of their attributes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_serializer, field_validator, model_validator

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.columns import normal
from edgeveil.edge_runtime.manifest.manifest import AND
from edgeveil.edge_runtime.registry import Kind, Registry
from edgeveil.trainer.recipe.training_sections import Section

# The ``[data.series]`` section of a recipe: what the steps of a series are, and how recordings become windows.


Named = Annotated[list[Annotated[str, Field(min_length=1, max_length=40)]], Field(min_length=1, max_length=64)]
TICK_HZ = (0.01, 1000.0)  # the slowest and the fastest tick of a capture loop
TICKS = 1.1  # for a window: ticks at a sensor's own rate, on another clock, would now and then meet two


class Series(Section):
    """Windows of a sensor's samples: the same in training and on a device."""

    length: int | None = Field(
        default=None, ge=8, le=65536, description="Steps of a window. Left out for npz, whose x are windows."
    )
    hop: int | None = Field(
        default=None,
        ge=1,
        description="Steps from the start of a window to the start of the next. npz: left out, the bundle takes whole "
        "windows alone, and no live sensor.",
    )
    rate_hz: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="Steps a second; recordings and sensors of another rate are resampled. Left out for built-in data.",
    )
    channels: Named | None = Field(default=None, description="A name for each channel. Left out for built-in data.")
    units: Named | None = Field(default=None, description='Their units ("g", "deg/s"). Left out for built-in data.')
    longest_gap_s: float = Field(
        default=0.1, gt=0, le=3600, description="Seconds between two samples above which the window is dropped."
    )
    full_scale: list[Annotated[float, Field(gt=0)]] | None = Field(
        default=None,
        description="Where the sensor saturates, on either side of 0, for each channel; a window with such a sample is "
        "dropped. Left out: not known.",
    )
    people: list[Annotated[int, Field(ge=1)]] | None = Field(
        default=None,
        min_length=2,
        description="utd-mhad: the numbers of the people whose recordings are taken. Left out: all 8.",
    )

    @model_validator(mode="after")
    def _of_each_channel(self) -> Series:
        if self.channels is not None and len(set(self.channels)) != len(self.channels):
            raise ValueError("channels of different names")
        for key in ("units", "full_scale"):
            values = getattr(self, key)
            if values is not None and self.channels is not None and len(values) != len(self.channels):
                raise ValueError(f"as many `{key}` as `channels`, {len(self.channels)}; got {len(values)}")
        if self.hop is not None and self.length is not None and self.hop > self.length:
            raise ValueError(f"`hop` of at most `length`, {self.length}; got {self.hop}")
        if self.hop is not None and self.rate_hz is not None:
            every_s = self.hop / self.rate_hz
            if not TICK_HZ[0] <= TICKS / every_s <= TICK_HZ[1]:
                raise ValueError(f"a window every 0.0011 to 110 s; got one every {every_s:g} s by `hop`")
        return self

    def capture(self, channels: int, rate_hz: float) -> dict[str, Any] | None:
        """The manifest's ``capture``: samples of that many channels become windows; None without a ``hop``."""
        if self.hop is None:
            return None
        return {
            "frame": {"shape": [channels], "dtype": "float32", "unit_mm": None},
            "access_points": None,
            "measure": "value",
            "low": None,
            "high": None,
            "crop": None,
            "resize": None,
            "slots": 1,
            "tick_hz": round(TICKS * rate_hz / self.hop, 6),
            "on_fault": "previous",
            "degraded_after_s": 60,
            "windows": {"hop": self.hop, "longest_gap_s": self.longest_gap_s, "full_scale": self.full_scale},
        }


# The data sets that come along, and those of installed packages. Of their classes only the literals are read here.
SETS = Registry("edgeveil.trainer.datasets.loaders", key="names", group="edgeveil.datasets", word="data set")
OWN = ("npz", "images", "video", "csv", "parquet")  # the user's own data, as KIND:PATH; formats are more of them
PICTURES = ("images", "video")  # whose labels are in a CSV of their own
FILMS = ("mp4", "avi", "mkv", "mov", "webm", "m4v", "mpg")  # endings by which a film is known without its kind
_NAME = "[a-z0-9][a-z0-9._-]{0,79}"
NAME = f"^{_NAME}$"  # an identifier of the manifest
MOST_ATTRIBUTES = 8  # that are kept, or hidden, together

Name = Annotated[str, Field(pattern=NAME)]
Names = Annotated[str, Field(pattern=f"^{_NAME}(?:{AND}{_NAME}){{0,{MOST_ATTRIBUTES - 1}}}$")]  # several: joined by AND


def format_of(kind: str) -> Kind | None:
    """The format of that name (``edgeveil.trainer.datasets.loaders.formats.Format``); None where there is none."""
    found = None if kind in OWN else SETS.find(kind)
    return found if found is not None and "forms" in found.facts else None


def sets() -> list[str]:
    """The names of data sets that come along and of those of packages: all of ``SETS`` but formats."""
    return [name for name, one in {**SETS.kinds(), **SETS.plugins()}.items() if "forms" not in one.facts]


def own_forms() -> str:
    """How the user's own data are named, for a sentence."""
    found = (one.facts.get("forms", ()) for one in {**SETS.kinds(), **SETS.plugins()}.values())
    forms = (
        "npz:FILE",
        "images:DIR",
        "video:FILE",
        "csv:FILE",
        *dict.fromkeys(form for all_ in found for form in all_),
    )
    return ", ".join(f'"{form}"' for form in forms) + ' or "parquet:FILE"'


class Encoding(Section):
    """How a column becomes features of x: signed with the bundle, and the same on the board."""

    kind: Literal["number", "one-hot", "ordinal", "boolean", "date"] = Field(
        description='"number" as it is, "date" as days since 1970-01-01, "boolean" as 1 or 0, "ordinal" as its place '
        'among `values`, "one-hot" as a feature for each of `values`. A cell that is none of them is a missing '
        "one, and of one-hot has 0 in each."
    )
    values: list[str] | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description='one-hot, ordinal: cells as written; "" is a missing one.',
    )
    decimal: Literal[".", ","] = Field(default=".", description="number: the decimal mark.")
    thousands: Literal["", ".", ",", " ", "'"] = Field(default="", description="number: the mark between thousands.")
    days: Literal["year-month-day", "day.month.year", "day/month/year", "month/day/year"] = Field(
        default="year-month-day", description="date: how it is written."
    )
    fill: float | None = Field(
        default=None,
        ge=-1e15,
        le=1e15,
        description="All but one-hot: the value of a missing cell; it ships. Left out: a board refuses such a row.",
    )
    flag: bool = Field(default=False, description="All but one-hot: a feature more is 1 where the cell is missing.")

    @model_validator(mode="after")
    def _of_its_kind(self) -> Encoding:
        valued = self.kind in ("one-hot", "ordinal")
        if valued != (self.values is not None):
            raise ValueError(f'{"" if valued else "no "}`values` with `kind = "{self.kind}"`')
        if self.kind == "one-hot" and (self.fill is not None or self.flag):
            raise ValueError('no `fill` or `flag` with `kind = "one-hot"`, which has "" among its values')
        return self

    def entry(self, name: str) -> dict[str, Any]:
        """The column of a manifest's ``input.table``."""
        entry: dict[str, Any] = {"name": name, "kind": self.kind}
        if self.kind == "number":
            entry |= {"decimal": self.decimal, "thousands": self.thousands}
        if self.kind == "date":
            entry["days"] = self.days
        if self.values is not None:
            entry["values"] = [normal(value) for value in self.values]
        return entry if self.kind == "one-hot" else {**entry, "fill": self.fill, "flag": self.flag}


class Columns(Section):
    """Own data: which columns say what. ``csv``, ``parquet``: all others are features; ``images``: of ``labels``."""

    x: str | None = Field(
        default=None,
        min_length=1,
        description="hdf5, tfrecord, webdataset, huggingface: the field with an array or picture in each row; mcap, "
        "rosbag: the topic of the samples. Left out: the only one, or numbers of all other fields.",
    )

    target: str | None = Field(
        default=None, min_length=1, description="The column of y. Left out: for images, the folder that each lies in."
    )
    sensitive: str = Field(min_length=1, description="The column of z.")
    also: dict[Name, Annotated[str, Field(min_length=1)]] | None = Field(
        default=None,
        description="Columns of further labels, by name: those that `data.target` and `data.sensitive` list after the "
        "first.",
    )
    subject: str | None = Field(default=None, min_length=1, description="The column that says whose sample it is.")
    session: str | None = Field(default=None, min_length=1, description="The column of the recording it is from.")
    leave_out: list[str] | None = Field(default=None, description="csv, parquet: columns that are no features.")
    time: str | None = Field(default=None, min_length=1, description="Recordings: the column of a sample's seconds.")
    missing: list[str] | None = Field(default=None, description='Words for an empty cell, such as "NA"; else none is.')
    encode: dict[str, Encoding] | None = Field(
        default=None,
        description="csv, parquet: `[data.columns.encode.NAME]` for each column of x that is no plain number.",
    )


def form_of(path: Path) -> str | None:
    """How a file of data is named, as KIND:PATH; None for what is none."""
    kind = path.suffix[1:].lower()
    kind = "video" if kind in FILMS else kind if kind in OWN else _by_fact("endings", {kind})
    return f"{kind}:{path}" if path.is_file() and kind else None


def _by_fact(fact: str, words: Collection[str]) -> str:
    """The first format that has one of the words in that fact; "" where none has."""
    found = {**SETS.plugins(), **SETS.kinds()}
    return next((name for name, one in found.items() if set(words) & set(one.facts.get(fact, ()))), "")


def data_at(text: str) -> str:
    """KIND:PATH of your own data that are given by their path alone; any other text as it came.

    A folder is one of a format where it holds its files alone, or has its mark (metadata.yaml); one of recordings where
    it holds CSV files besides labels.csv; and else one of pictures. Raises ``BadInput`` for a folder with both.
    """
    path = Path(text).expanduser()
    if not path.is_dir():
        return form_of(path) or text
    entries = [one for one in path.iterdir() if one.name != "labels.csv" and not one.name.startswith(".")]
    names, endings = {one.name for one in entries}, {one.suffix[1:].lower() for one in entries}
    kind = _by_fact("marks", names) or (_by_fact("endings", endings) if len(endings) == 1 else "")
    if kind:
        return f"{kind}:{text}"
    tables = [one for one in entries if one.suffix.lower() == ".csv"]
    if tables and len(tables) < len(entries):
        raise BadInput(f"{text} holds CSV files and others: write csv:{text} for recordings, or images:{text}.")
    return f"csv:{text}" if tables else f"images:{text}"


def field_at(text: str) -> tuple[str, str | None]:
    """``data_at``, and the field or topic of x behind a ``#``, of data of a format. Raises ``BadInput``."""
    path, mark, field = text.rpartition("#")
    if mark and not Path(text).exists() and format_of((at := data_at(path)).partition(":")[0]) is not None:
        return at, field
    return data_at(text), None


class Data(Section):
    """Which samples, and which of their attributes."""

    source: str = Field(
        description='"digits" (in scikit-learn), "mnist", "wifi", "wifi-strength", "faces", "depth", "scene", "wq", '
        '"utd-mhad", "wrist" (files that you download once), "overhead" (simulated), or your own, relative to the '
        'recipe: "npz:FILE" with arrays x, y, z (and labels), "images:DIR" with a folder for each class, "video:FILE" '
        'or a folder of films, "csv:FILE", "parquet:FILE"; "hdf5:FILE", "tfrecord:PATH", "webdataset:PATH", '
        '"huggingface:PATH", "mcap:PATH", "rosbag:PATH"; of series, "csv:FOLDER" with a file for each recording.'
    )
    kind: Literal["series"] | None = Field(
        default=None,
        description='"series": samples are windows of a sensor\'s steps, (T, C): an x (N, T, C) of npz, which is '
        "pictures otherwise, a folder of csv, utd-mhad or wrist. Goes with `[data.series]`.",
    )
    target: Names = Field(
        description="The attribute y to keep; of a list, each of them, and y is their joint class. digits and mnist "
        'have "parity", "less-than-five", "digit"; wifi "floor", "building", "storey"; faces "light", "height"; depth '
        '"action", "movement"; utd-mhad "action"; wrist "exercise"; overhead "direction"; for your own data: its name, '
        "and in a list the names of further labels."
    )
    sensitive: Names = Field(
        description='The attribute z to hide, or a list: as for `target`; wifi "region", faces "person", overhead '
        '"build".'
    )
    also_sensitive: list[Name] | None = Field(
        default=None,
        description="Further labels of the data set that codebook, prgan and minimax hide jointly with z, and that "
        "the verdict is not about.",
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
        "`edgeveil bundle samples` requires it for data that it does not know.",
    )
    sensor: Literal["camera", "depth", "wifi", "motion"] | None = Field(
        default=None,
        description="What gives such samples: the bundle refuses sources of another sensor. Left out: known of the "
        "data that come with EdgeVeil and by `[capture]`, else any.",
    )
    low: float | list[float] | None = Field(
        default=None,
        description="The value that becomes 0. Own pictures; left out: 0, or the smallest in training. Vectors: one "
        "for all features, or a list of one for each; left out: the smallest in training, rounded outward; it ships.",
    )
    high: float | list[float] | None = Field(
        default=None,
        description="The value that becomes 1. Own pictures; left out: 255 for 8 bits, else the largest in training. "
        "Vectors: as for `low`; left out: the largest in training, rounded outward; it ships.",
    )
    bounds: Literal["from-training"] | None = Field(
        default=None,
        description="What is promised of a release (`[spending]`, laplace, local) needs bounds that are public: `low` "
        'and `high`, or those that come with the data. "from-training" takes the extremes of training rows, rounded '
        "outward, in spite of that; they ship, and card and messages say so.",
    )
    labels: str | None = Field(
        default=None,
        min_length=1,
        description="images, and series of csv whose files do not say it: a CSV, relative to the recipe, with a column "
        '"file" (a path below the folder) and those of `columns`; video, and mcap and rosbag where they do not say it: '
        'with "start" and "end" (seconds) too.',
    )
    columns: Columns | None = Field(default=None, description="images, csv, parquet: which columns say what.")
    series: Series | None = Field(default=None, description="What the steps of a series are, and its windows.")

    @field_validator("target", "sensitive", mode="before")
    @classmethod
    def _joined(cls, names: Any) -> Any:
        """A list, or text with commas as --set has it, as one name. Raises ``ValueError``."""
        listed = names.split(",") if isinstance(names, str) and "," in names else names
        if not isinstance(listed, list):
            return names
        words = [one.strip() if isinstance(one, str) else "" for one in listed]
        if not 0 < len(words) <= MOST_ATTRIBUTES or not all(re.fullmatch(_NAME, one) for one in words):
            raise ValueError(f'1 to {MOST_ATTRIBUTES} names of a-z, 0-9, dot and dash, as in ["count", "direction"]')
        if twice := [one for one in words if words.count(one) > 1]:
            raise ValueError(f'each attribute once; "{twice[0]}" is listed {words.count(twice[0])} times')
        return AND.join(words)

    @field_serializer("target", "sensitive")
    def _as_written(self, names: str) -> str | list[str]:
        return names.split(AND) if AND in names else names

    @property
    def targets(self) -> list[str]:
        """The attributes to keep."""
        return self.target.split(AND)

    @property
    def sensitives(self) -> list[str]:
        """The attributes to hide that the verdict is about."""
        return self.sensitive.split(AND)

    @property
    def attributes(self) -> list[str]:
        """All of these."""
        return [*self.targets, *self.sensitives]

    @model_validator(mode="after")
    def _apart(self) -> Data:
        both = [name for name in self.targets if name in self.sensitives]
        if both and len(self.attributes) > 2:
            raise ValueError(f'other attributes in `sensitive` than in `target`: "{both[0]}" is in both')
        return self

    @field_validator("source")
    @classmethod
    def _known_source(cls, source: str) -> str:
        kind, _, place = source.partition(":")
        if not ((kind in OWN or format_of(kind)) and place) and source not in sets():
            known = ", ".join(f'"{name}"' for name in sets())
            raise ValueError(f"{known}, or {own_forms()}")
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
        if self.fact("series") and self.kind is None:
            raise ValueError(f'`kind = "series"` with `source = "{self.source}"`')
        kind = self.own[0] if self.own else ""
        if self.series is None:
            return self
        if not self.fact("series") and kind not in ("npz", "csv") and format_of(kind) is None:
            have = ", ".join(("npz", "csv", *(name for name, one in SETS.kinds().items() if one.facts.get("series"))))
            raise ValueError(f'no `kind = "series"` with `source = "{self.source}"`: {have} have series')
        if kind and (self.series.rate_hz is None or self.series.channels is None or self.series.units is None):
            raise ValueError("`rate_hz`, `channels` and `units` in [data.series] for your own data")
        if kind and self.series.people is not None:
            raise ValueError("no `series.people` with your own data: leave out their rows")
        if self.windows and self.series.length is not None:
            raise ValueError(f"no `series.length` with {kind}, whose x are windows already")
        if not self.windows and (self.series.length is None or self.series.hop is None):
            raise ValueError("`length` and `hop` in [data.series], by which recordings are cut into windows")
        return self

    @model_validator(mode="after")
    def _columns_of_what_has_them(self) -> Data:
        kind = self.own[0] if self.own else ""
        form = format_of(kind)
        timed = form is not None and bool(form.facts.get("timed"))
        if self.columns is not None and self.columns.x is not None and form is None:
            raise ValueError(
                f'no `columns.x` with `source = "{self.source}"`: it is of files of several arrays or topics'
            )
        if self.series is not None and (kind == "csv" or timed):
            return self._columns_of_recordings()
        named = kind in (*PICTURES, "csv", "parquet") or form is not None
        if named != (self.columns is not None):
            wanted = "a section [data.columns]" if named else "no section [data.columns]"
            raise ValueError(f'{wanted} with `source = "{self.source}"`')
        if (kind in PICTURES) != (self.labels is not None) and not timed:
            wanted = "`labels`, the CSV with z of each picture," if kind in PICTURES else "no `labels`"
            raise ValueError(f'{wanted} with `source = "{self.source}"`')
        if named and kind != "images" and self.columns is not None and self.columns.target is None:
            raise ValueError("`columns.target`, the column of y")
        return self

    def _columns_of_recordings(self) -> Data:
        if self.columns is None or self.columns.time is None or self.columns.target is None:
            raise ValueError("a section [data.columns] with `time`, `target` and `sensitive` for recordings")
        return self

    @property
    def windows(self) -> bool:
        """Whether x of own series are windows already, and no recordings that are cut."""
        kind = self.own[0] if self.own else ""
        form = format_of(kind)
        return kind == "npz" or (form is not None and not form.facts.get("timed"))

    def fact(self, name: str) -> Any:
        """A fact of the data set (see ``edgeveil.trainer.datasets.readings.DataSet``); None of the user's own data."""
        data_set = None if self.own else SETS.find(self.source)
        return data_set.facts.get(name) if data_set else None

    @property
    def own(self) -> tuple[str, Path] | None:
        """(kind, path) of the user's own data; None for a data set that EdgeVeil knows."""
        kind, colon, place = self.source.partition(":")
        return (kind, Path(place)) if colon else None
