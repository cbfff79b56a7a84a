"""What a person says of their own data on the command line, as sections of a recipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.capture import FITS
from edgeveil.trainer.datasets.columns import Table, listed, read_table, recordings_at
from edgeveil.trainer.datasets.encoding import proposed
from edgeveil.trainer.datasets.loaders import films, formats, image_folder
from edgeveil.trainer.datasets.loaders.npz import header
from edgeveil.trainer.datasets.readings import SMALLEST_SIDE, channels_first
from edgeveil.trainer.recipe.data_section import OWN, PICTURES, Columns, form_of, format_of, own_forms, sets

# What a person says of a series on the command line: how fast its steps come, and what its channels are.


CHANNELS = "ax:g,ay:g,az:g"
EXAMPLE = f"--series rate=50 --series channels={CHANNELS}"


@dataclass(frozen=True)
class Steps:
    """The words of the command: ``channels`` as NAME:UNIT,...; ``window`` and ``hop`` in steps.

    ``window`` and ``time``, a column of seconds, are of recordings, which are cut into windows.
    """

    rate: float | None = None
    channels: str | None = None
    window: int | None = None
    hop: int | None = None
    time: str | None = None

    @classmethod
    def parse(cls, words: Sequence[str]) -> Steps:
        """From KEY=VALUE each. Raises ``BadInput``."""
        types = {"rate": float, "channels": str, "window": int, "hop": int, "time": str}
        settings: dict[str, Any] = {}
        for word in words:
            key, _, value = word.partition("=")
            try:
                settings[key] = types[key](value)
            except (KeyError, ValueError):
                raise BadInput(
                    f"--series: expected {EXAMPLE.removeprefix('--series ')}, or window, hop or time; got {word}."
                ) from None
        return cls(**settings)

    def given(self) -> list[str]:
        """The options that were given, with their values."""
        return [f"--series {name}={value}" for name, value in asdict(self).items() if value is not None]

    def section(self, source: str, path: Path) -> dict[str, Any] | None:
        """``[data.series]``; None where the samples are no series. Raises ``BadInput`` with what is missing."""
        form, recordings = format_of(source), is_folder(source, path)
        if not self.given() and not recordings:
            return None
        recordings = recordings or (form is not None and bool(form.facts.get("timed")))
        if source != "npz" and not recordings and form is None:
            raise BadInput(
                f"{self.given()[0]} is of a series: an .npz with x (N, steps, channels), or csv:FOLDER with a file for "
                "each recording. Leave it out."
            )
        needed = ("rate", "channels", *(("window", "hop", *(() if form else ("time",))) if recordings else ()))
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise BadInput(
                f"{path}: of a series {', '.join(missing)} must be said{_seen(source, path)}, as in "
                f"{EXAMPLE}{' --series window=100 --series hop=25' if recordings else ''}"
                f"{' --series time=seconds' if recordings and not form else ''}."
            )
        if not recordings and (self.window is not None or self.time is not None):
            raise BadInput(
                f"--series window and time are of recordings, csv:FOLDER: each x of {source} is a window already."
            )
        names, units = zip(*map(_channel, str(self.channels).split(",")), strict=True)
        section = {"length": self.window, "hop": self.hop, "rate_hz": self.rate, "channels": names, "units": units}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in section.items()
            if value is not None
        }


NO_SERIES = Steps()


def is_folder(source: str, path: Path) -> bool:
    """Whether the data are recordings: a folder of csv files."""
    return source == "csv" and path.is_dir()


def _channel(word: str) -> tuple[str, str]:
    name, _, unit = (part.strip() for part in word.partition(":"))
    if not name or not unit:
        raise BadInput(f'--series channels: expected a name and a unit for each, as in {CHANNELS}; got "{word}".')
    return name, unit


def _seen(kind: str, path: Path) -> str:
    """The columns of the first recording in a folder."""
    first = next(iter(recordings_at(kind, path)), None) if kind == "csv" else None
    return "" if first is None else f" ({first.name} has the columns {listed(read_table('csv', first).columns)})"


LARGE = 128  # pixels: pictures with a longer side make a large network
PEOPLE = "people"  # of --camera crop: a patch around each person, wherever they are
KINECT_COLUMNS = 512  # of a Kinect v2's pictures, for which [capture.crop] has its defaults
LABELS = "labels.csv"  # of a folder of pictures, where --labels names no other


@dataclass(frozen=True)
class Given:
    """The words of the command: where the data are, which columns say what, and what the camera gives.

    ``target`` and ``sensitive`` may name several columns, with commas between.
    ``capture`` is WIDTHxHEIGHTxCHANNELS, ``size`` WIDTHxHEIGHT or WIDTHxHEIGHTx1, ``crop`` WIDTHxHEIGHT,
    WIDTHxHEIGHT+LEFT+TOP or ``people``. ``fit`` brings pictures of any size to ``capture``: one of ``FITS``.
    """

    source: str
    target: str | None = None
    sensitive: str | None = None
    subject: str | None = None
    session: str | None = None
    labels: Path | None = None
    leave_out: tuple[str, ...] = ()
    capture: str | None = None
    size: str | None = None
    crop: str | None = None
    fit: str | None = None
    steps: Steps = NO_SERIES
    missing: tuple[str, ...] = ()
    x: str | None = None

    @cached_property
    def table(self) -> Table:
        """The table, read once. Raises ``BadInput``."""
        return read_table(self.kind, self.path, self.missing, self.x)

    @property
    def is_table(self) -> bool:
        """Whether samples are rows of a table, and no arrays or pictures. Raises ``BadInput``."""
        return self.kind in ("csv", "parquet") or (format_of(self.kind) is not None and not self.table.arrays)

    def arrays(self) -> str:
        """The fields of arrays or pictures, for the end of a sentence about columns; empty where there are none."""
        return f", and arrays or pictures in {listed(self.table.arrays)}" if self.table.arrays else ""

    @property
    def kind(self) -> str:
        """npz, images, csv, parquet, or the name of a format. Raises ``BadInput``."""
        kind, _, place = self.source.partition(":")
        if (kind in OWN or format_of(kind)) and place:
            return kind
        more = f" {self.source} comes with EdgeVeil: see `edgeveil recipe list`." if self.source in sets() else ""
        if form := form_of(Path(self.source)):
            more = f" Write {form}."
        raise BadInput(f'Your own data were expected as {own_forms()}; got "{self.source}".{more}')

    def named(self, role: str) -> list[str]:
        """The columns of ``target`` or of ``sensitive``; a name with a comma that is a column's is one. Raises
        ``BadInput``."""
        words = getattr(self, role)
        if words is None or "," not in words or (self.kind != "npz" and words in _labelled(self)[1].columns):
            return [] if words is None else [words]
        return [word.strip() for word in words.split(",")]

    @property
    def path(self) -> Path:
        """The file or folder."""
        return Path(self.source.partition(":")[2]).expanduser()

    def labels_file(self) -> Path:
        """The CSV about a folder of pictures."""
        usual = self.path.with_suffix(".csv") if self.path.is_file() else self.path / LABELS
        return usual if self.labels is None else self.labels.expanduser()


def camera_of(words: Sequence[str]) -> tuple[str | None, str | None, str | None, str | None]:
    """``capture``, ``size``, ``crop`` and ``fit`` of ``Given`` from KEY=VALUE each. Raises ``BadInput``."""
    settings = dict(word.partition("=")[::2] for word in words)
    if wrong := sorted(set(settings) - {"frame", "size", "crop", "fit"}) or [
        key for key, value in settings.items() if not value
    ]:
        raise BadInput(
            f"--camera: expected frame=640x480x3, size=32x32, crop=480x480 or fit=letterbox; got {wrong[0]}."
        )
    return settings.get("frame"), settings.get("size"), settings.get("crop"), settings.get("fit")


def data_section(given: Given, rows: np.ndarray | None = None) -> dict[str, Any]:
    """``[data]`` with paths in full, ``target`` and ``sensitive`` as names of the bundle; of a table, how columns are
    encoded by what ``rows`` of it hold (None: all). Raises ``BadInput``."""
    kind = given.kind
    both = [*given.named("target"), *given.named("sensitive")]
    if twice := [word for word in both if both.count(word) > 1]:
        raise BadInput(f'--target and --sensitive: expected two columns, to keep and to hide; got "{twice[0]}" twice.')
    targets, hidden = (
        [_name(one, other) for one in given.named(role)] or [other]
        for role, other in (("target", "y"), ("sensitive", "z"))
    )
    targets = ["y"] if targets == hidden else targets
    section: dict[str, Any] = {"source": f"{kind}:{given.path.resolve()}"}
    section |= {name: words if words[1:] else words[0] for name, words in (("target", targets), ("sensitive", hidden))}
    series, form = given.steps.section(kind, given.path), format_of(kind)
    timed = form is not None and bool(form.facts.get("timed"))
    if series is not None:
        section |= {"kind": "series", "series": series}
    if format_of(kind) is None:
        _refuse(given, ("x",), "it names a field of hdf5 and its like")
    if kind == "npz":
        _refuse(
            given, ("subject", "session", "labels", "leave_out"), "an .npz file has arrays: x, y, z, subject, session"
        )
        return section
    if kind in PICTURES:
        _refuse(given, ("leave_out",), "pictures have no columns of features")
        section["labels"] = str(given.labels_file().resolve())
    elif series is not None and (form is None or timed):
        _refuse(given, ("leave_out", "session"), "each recording is a session, and its channels are named")
        section |= {} if given.labels is None else {"labels": str(given.labels_file().resolve())}
    elif timed and given.labels is not None:
        section["labels"] = str(given.labels_file().resolve())
    else:
        _refuse(given, ("labels",), "a table has its labels in columns of its own")
    needed = ("sensitive",) if kind == "images" else ("target", "sensitive")
    missing = [name for name in needed if getattr(given, name) is None]
    if missing:
        raise BadInput(f"{_columns(given)} Name {' and '.join(f'--{name} COLUMN' for name in missing)}.")
    roles = {name: getattr(given, name) for name in ("x", "target", "sensitive", "subject", "session")}
    first = {role: next(iter(given.named(role)), None) for role in ("target", "sensitive")}
    section["columns"] = {name: word for name, word in (roles | first).items() if word is not None}
    others = [*zip(targets, given.named("target")), *zip(hidden, given.named("sensitive"))]
    also = {name: word for name, word in others if word not in first.values()}
    section["columns"] |= {"also": also} if also else {}
    if series is not None and (given.steps.time is not None or timed):
        section["columns"]["time"] = given.steps.time or formats.TIME
    if given.leave_out:
        section["columns"]["leave_out"] = list(given.leave_out)
    if given.missing:
        section["columns"]["missing"] = list(given.missing)
    if kind not in PICTURES and series is None and given.is_table:
        rules = proposed(given.table, Columns.model_validate(section["columns"]), rows)
        section["columns"] |= {"encode": rules} if rules else {}
    return section


def capture_section(given: Given) -> dict[str, Any] | None:
    """``[capture]``; None where the samples are what the sensor gives. Raises ``BadInput``."""
    if given.capture is None:
        _refuse(given, ("size", "crop", "fit"), "they are of --camera frame=WIDTHxHEIGHTxCHANNELS: add it")
        return None
    if given.steps.given() or (given.kind not in ("npz", *PICTURES) and given.is_table):
        raise BadInput("--camera is for a camera's pictures, and these are none: leave it out.")
    columns, rows, channels = _numbers(
        "--camera frame", given.capture, r"(\d+)x(\d+)x([13])", "640x480x3 (or x1 for gray)"
    )
    if given.fit not in (None, *FITS) or (given.fit and given.crop == PEOPLE):
        raise BadInput(f"--camera fit: expected {' or '.join(FITS)}, without crop=people; got {given.fit}.")
    if given.kind != "npz" and given.fit is None:
        high, wide, *last = _first_picture(given).shape
        sides = [wide, high, *(last or [1])]
        if sides != [columns, rows, channels]:
            came = "x".join(map(str, sides))
            raise BadInput(
                f"--camera frame: expected what the pictures are, {came}; got {given.capture}. "
                f"Or say with --camera fit={', '.join(FITS[:-1])} or {FITS[-1]} how they are brought to that."
            )
    section: dict[str, Any] = {
        "frame": {"shape": [rows, columns] if channels == 1 else [rows, columns, channels], "dtype": _dtype(given)}
    }
    section |= {"fit": given.fit, "resize": "area"} if given.fit else {}
    whole = [rows, columns]
    if given.crop == PEOPLE:
        section = _people(section["frame"])
        whole = section["crop"]["size"]
    elif given.crop is not None:
        section["window"] = _window(given.crop, rows, columns)
        whole = section["window"][2:]
    if given.size is not None:
        wide, high, *last = _numbers(
            "--camera size", given.size, r"(\d+)x(\d+)(?:x(1|3))?", "32x32, or 32x32x1 for gray"
        )
        if min(wide, high) < SMALLEST_SIDE:
            raise BadInput(f"--camera size: expected at least {SMALLEST_SIDE}x{SMALLEST_SIDE}; got {given.size}.")
        section["size"] = [high, wide]
        section |= {"channels": last[0]} if last and last[0] != channels else {}
        if given.crop != PEOPLE and high <= whole[0] and wide <= whole[1]:
            section["resize"] = "area"
    return section


def turned_round(given: Given) -> bool:
    """Whether the pictures of an .npz have their channels first, and are turned."""
    return given.kind == "npz" and not given.steps.given() and channels_first(header(given.path)[0])


def smaller(shape: Sequence[int]) -> list[str]:
    """The options by which large pictures (height, width, channels) make a small network; none for small pictures."""
    high, wide, channels = shape
    if max(high, wide) <= LARGE:
        return []
    side = LARGE // 4
    return [
        f"--camera frame={wide}x{high}x{channels}",
        f"--camera size={side}x{max(SMALLEST_SIDE, round(side * high / wide))}",
    ]


def _window(crop: str, rows: int, columns: int) -> list[int]:
    wide, high, *place = _numbers(
        "--camera crop",
        crop,
        r"(\d+)x(\d+)(?:\+(\d+)\+(\d+))?",
        "480x480 (the middle), 480x480+80+0 (its left and top) or people",
    )
    left, top = place or ((columns - wide) // 2, (rows - high) // 2)
    if not (wide and high and 0 <= left <= columns - wide and 0 <= top <= rows - high):
        raise BadInput(f"--camera crop: expected a part of the camera's {columns}x{rows}; got {crop}.")
    return [top, left, high, wide]


def _people(frame: dict[str, Any]) -> dict[str, Any]:
    """Height above the floor in a patch around each person under a depth camera, with a Kinect v2's optics."""
    if frame["dtype"] != "uint16" or len(frame["shape"]) != 2:
        raise BadInput(
            f"--camera crop=people: people are found in depth, in pictures of 16 bits and one channel; these are "
            f"{frame['dtype']} {tuple(frame['shape'])}. Name the part that is used, as in 480x480."
        )
    scale = frame["shape"][1] / KINECT_COLUMNS
    return {
        "frame": {**frame, "unit_mm": 1.0},
        "measure": "height",
        "low": 0.0,
        "high": 2200.0,
        "dtype": "uint8",
        "crop": {
            "size": [min(round(180 * scale), side) for side in frame["shape"]],
            "focal_px": round(365 * scale, 1),
            "least_pixels": max(1, round(600 * scale**2)),
            "step_px": max(1, round(60 * scale)),
        },
    }


def _dtype(given: Given) -> str:
    if given.kind == "npz":
        return header(given.path)[1]
    return str(_first_picture(given).dtype)


def _first_picture(given: Given) -> np.ndarray:
    if given.kind == "video":
        return films.first_frame(given.path)
    if format_of(given.kind):
        return next(formats.x_of(given.table, Columns(x=given.x, sensitive="z"))[1][[0]])
    pictures = image_folder.find(given.path)
    return np.asarray(next(pictures[np.array([0])]))


def _numbers(flag: str, words: str, pattern: str, example: str) -> list[int]:
    match = re.fullmatch(pattern, words)
    if match is None:
        raise BadInput(f"{flag}: expected pixels as in {example}; got {words}.")
    return [int(number) for number in match.groups() if number is not None]


def _refuse(given: Given, names: tuple[str, ...], reason: str) -> None:
    for name in names:
        if getattr(given, name):
            option = f"--camera {name}" if name in ("size", "crop", "fit") else f"--{name.replace('_', '-')}"
            raise BadInput(f"{'#FIELD' if name == 'x' else option} does not go with {given.kind}: {reason}.")


def _columns(given: Given) -> str:
    path, table = _labelled(given)
    arrays = given.arrays() if path == given.path and given.kind not in PICTURES else ""
    return f"{path} has the columns {listed(table.columns)}{arrays}."


def _labelled(given: Given) -> tuple[Path, Table]:
    """The table that has the columns of y and z, and its file. Raises ``BadInput``."""
    path = given.labels_file() if given.kind in PICTURES or given.labels else given.path
    if is_folder(given.kind, path):
        path = next(iter(recordings_at("csv", path)), path)
    own = path == given.path and given.kind not in PICTURES
    return path, given.table if own else read_table("csv", path)


def _name(column: str, other: str) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", column.lower()).strip("-._")[:80]
    return name or other
