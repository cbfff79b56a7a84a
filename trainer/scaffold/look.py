"""``edgeveil data inspect``: what a user's data hold, what could be y and z, and what is wrong, before any training."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sources.picture_size import orientation
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.columns import Column, Table, listed, read_table
from edgeveil.trainer.datasets.encoding import described
from edgeveil.trainer.datasets.loaders import films, formats, image_folder, npz
from edgeveil.trainer.datasets.readings import LABELS, checked_samples, class_numbers, taken_for
from edgeveil.trainer.datasets.samples import extremes
from edgeveil.trainer.datasets.slicing import FEWEST_GROUPS, SLICES
from edgeveil.trainer.measures.enough import SLICE_ROWS
from edgeveil.trainer.networks.classifiers import Windows
from edgeveil.trainer.recipe.data_section import PICTURES, Columns
from edgeveil.trainer.scaffold import new
from edgeveil.trainer.scaffold.given import EXAMPLE, Given, data_section, is_folder, smaller, turned_round
from edgeveil.trainer.scaffold.new import first_guess

SHOWN = 10  # classes of a column, the commonest first
MOST_CLASSES = 50  # of a column that could be y or z
LEAST = SLICES * SLICE_ROWS  # rows of a class


@dataclass(frozen=True)
class Label:
    """A column or array with one value a row. ``classes`` are the commonest with their rows, none of a measurement."""

    name: str
    type: str
    missing: int
    different: int
    classes: Mapping[str, int]
    could_be: Sequence[str]


@dataclass(frozen=True)
class Found:
    """What data hold: samples of ``shape`` and ``dtype`` (None: what is x depends on the columns named).

    ``wrong`` are sentences; with any of them nothing can be trained.
    """

    source: str
    kind: str
    rows: int
    what: str
    shape: Sequence[int] | None
    dtype: str | None
    low: float | None
    high: float | None
    labels: Sequence[Label]
    notes: Sequence[str]
    wrong: Sequence[str]

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"schema": 1, **asdict(self)}

    def text(self) -> str:
        """For people."""
        lines = [f"{self.source}: {self.rows:,} {self.what}"]
        if self.shape is not None:
            shape = " x ".join(map(str, self.shape))
            lines.append(f"  each {shape}, {self.dtype}, values {self.low:g} to {self.high:g}")
        for one in self.labels:
            gone = f", {one.missing} missing" if one.missing else ""
            may = f"; could be {' or '.join(one.could_be)}" if one.could_be else ""
            lines.append(f"  {one.name}: {one.type}, {one.different} different{gone}{may}")
            if one.classes:
                more = "" if one.different <= len(one.classes) else ", ..."
                lines.append(f"    {', '.join(f'{name} {count}' for name, count in one.classes.items())}{more}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, *(f"  wrong: {one}" for one in self.wrong)])


def look(given: Given) -> Found:
    """Read data and say what they hold. Raises ``BadInput`` for what cannot be read at all."""
    if given.steps.given() or is_folder(given.kind, given.path):
        return _series(given)
    return {"npz": _npz, "images": _images, "video": _films}.get(given.kind, _table)(given)


def next_command(given: Given, found: Found) -> str:
    """The command to go on with."""
    flags = {name: getattr(given, name) for name in ("target", "sensitive", "subject", "session", "labels")}
    words = [f"--{name} {shlex.quote(str(value))}" for name, value in flags.items() if value is not None]
    words += [*given.steps.given(), *(f"--leave-out {shlex.quote(name)}" for name in given.leave_out)]
    words += [f"--missing {shlex.quote(word)}" for word in given.missing]
    named = {name for one in found.labels for name in one.could_be}
    needed = {"npz": (), "images": ("sensitive",)}.get(given.kind, ("target", "sensitive"))
    words += [f"--{name} COLUMN" for name in needed if flags[name] is None and named]
    if given.subject is given.session is None and _subjects(given, found.labels):
        words.append("[--subject COLUMN]")
    if given.kind not in ("npz", "video") and found.shape is not None and len(found.shape) == 3:
        words += smaller(found.shape)
    source = given.source if given.x is None else f"{given.source}#{given.x}"
    return " ".join(["edgeveil recipe new", shlex.quote(source), *words, "--out mine.toml"])


def unnamed_subjects(given: Given) -> list[str]:
    """A sentence where a column could say whose a row is, and none was named for it."""
    recordings = is_folder(given.kind, given.path)
    if given.kind == "npz" or recordings or given.subject is not None or given.session is not None:
        return []
    table = read_table("csv", given.labels_file()) if given.kind in PICTURES else given.table
    candidates = _subjects(given, _columns(table))
    if not candidates:
        return []
    part = "" if given.kind in PICTURES or not given.is_table else " It is a part of x now."
    return [
        f"{listed(candidates)} could say whose a sample is: name it with --subject, or samples of one person are in "
        f"training and in the test, and every number flatters.{part}"
    ]


def _subjects(given: Given, labels: Sequence[Label]) -> list[str]:
    """The columns that could be the subject, without those that were named."""
    taken = {*given.named("target"), *given.named("sensitive"), *given.leave_out}
    return [one.name for one in labels if "subject" in one.could_be and one.name not in taken]


def _npz(given: Given) -> Found:
    arrays = npz.read_arrays(given.path, stored=True)
    raw = arrays["x"]
    x, notes = checked_samples(raw, given.path), taken_for(raw.shape)
    if turned_round(given):
        notes.append(
            f"x has channels first, {' x '.join(map(str, raw.shape[1:]))}; it is turned round, as cameras give pictures"
        )
    if raw.ndim == 3 and str(raw.dtype) not in ("uint8", "uint16"):
        notes.append(f"x is taken for pictures of one channel; of a series say {EXAMPLE}")
    if raw.ndim == 2 and raw.shape[1] >= Windows.least:
        notes.append(
            f"x is taken for {raw.shape[1]} features, and a network of flat windows is tried; where they are steps of "
            f"channels, x.reshape(N, steps, channels) with {EXAMPLE} makes them a series"
        )
    labels = []
    for name, values in arrays.items():
        if name not in ("x", LABELS):
            class_numbers(values, name, len(x), given.path)
            labels.append(_label(name, Column(values, np.zeros(len(x), bool)), roles=()))
    if "subject" not in arrays and "groups" not in arrays:
        notes.append("no array says whose a row is (subject): rows of one person may be in training and in the test")
    return Found(
        given.source,
        "npz",
        len(x),
        "vectors" if x.ndim == 2 else "pictures",
        *_samples(x),
        labels,
        notes,
        _wrong(given),
    )


def _series(given: Given) -> Found:
    dataset = datasets.load(first_guess(given))
    wrong = list[str]()
    try:
        new.check(dataset)
    except BadInput as problem:
        wrong.append(str(problem))
    both = (("y", dataset.y, dataset.y_names), ("z", dataset.z, dataset.z_names))
    labels = [
        replace(_label(name, Column(np.array(names)[values], np.zeros(len(values), bool)), roles=()), type="classes")
        for name, values, names in both
    ]
    notes = [] if dataset.cluster_kind else ["nothing says whose a window is: those of one person may be in two slices"]
    clusters = Counter(dataset.cluster.tolist()) if dataset.cluster is not None else {}
    if clusters:
        notes.append(f"{len(clusters)} {dataset.cluster_kind}s, none of them in two slices")
    x = dataset.x
    return Found(given.source, "series", len(x), "windows of a series", *_samples(x), labels, notes, wrong)


def _images(given: Given) -> Found:
    pictures = image_folder.find(given.path)
    kinds: Counter[tuple[tuple[int, ...], str]] = Counter()
    low, high, wrong, turned = np.inf, -np.inf, list[str](), 0
    for number in range(len(pictures)):
        path = given.path / pictures.names[number]
        try:
            picture = image_folder.read_picture(path)
        except BadInput as problem:
            wrong.append(str(problem))
            continue
        kinds[picture.shape, str(picture.dtype)] += 1
        turned += orientation(path.read_bytes()) > 1
        low, high = min(low, float(picture.min())), max(high, float(picture.max()))
    if not kinds:
        raise BadInput(wrong[0])
    (shape, dtype), _ = kinds.most_common(1)[0]
    labels = []
    if given.target is None:
        folders = Column(pictures.classes(), np.zeros(len(pictures), bool))
        labels.append(_label("folder", folders, roles=("y",)))
    if len(wrong) > 1:
        wrong = [f"{counted(len(wrong), 'picture')} cannot be used; the first: {wrong[0]}"]
    if len(kinds) > 1:
        wrong.append(f"{image_folder.several(kinds)}. {image_folder.alike(kinds)}")
    if given.labels is None and not given.labels_file().is_file():
        wrong.append(
            f"what z is of each picture was expected in {given.labels_file()}; there is no such file. Write a CSV with "
            f'a column "{image_folder.FILE}" (such as "{pictures.names[0]}") and one of z, and name it with --labels.'
        )
    else:
        table = read_table("csv", given.labels_file())
        labels += _columns(Table(table.path, {n: c for n, c in table.columns.items() if n != image_folder.FILE}))
        try:
            image_folder.matched(pictures, table)
        except BadInput as problem:
            wrong.append(str(problem))
    if not wrong and given.sensitive is not None:
        wrong += _wrong(given)
    notes = pictures.notes()
    notes += [f"{counted(turned, 'picture')} turned as EXIF says, which a board does too"] if turned else []
    return Found(given.source, "images", len(pictures), "pictures", shape, dtype, low, high, labels, notes, wrong)


def _films(given: Given) -> Found:
    table = read_table("csv", given.labels_file())
    picture = films.first_frame(given.path)
    named = given.target is not None and given.sensitive is not None
    return Found(
        given.source,
        "video",
        table.rows,
        "stretches of films, from start to end",
        *_samples(picture[None]),
        _columns(Table(table.path, {n: c for n, c in table.columns.items() if n not in films.OF_FILMS})),
        [] if named else ["name the column to keep with --target and the one to hide with --sensitive"],
        _wrong(given) if named else [],
    )


def _table(given: Given) -> Found:
    table = given.table
    named = given.target is not None and given.sensitive is not None
    notes = ["name the column to keep with --target and the one to hide with --sensitive"]
    if named:
        notes = []
        with suppress(BadInput):  # which `_wrong` says
            rules = data_section(given)["columns"].get("encode", {})
            notes = [described(name, one) for name, one in rules.items()]
    what, seen, wrong = f"rows of {len(table.columns)} columns", (None, None, None, None), _unknown(given, table)
    if table.arrays:
        what, seen, unclear = _seen(given, table)
        wrong += unclear
    labels = _columns(table)
    if given.labels is not None:
        about = read_table("csv", given.labels_file())
        labels += _columns(Table(about.path, {n: c for n, c in about.columns.items() if n not in films.OF_FILMS}))
    return Found(
        given.source,
        given.kind,
        table.rows,
        what,
        *seen,
        labels,
        notes,
        _wrong(given) if named and not wrong else wrong,
    )


def _seen(given: Given, table: Table) -> tuple[str, Any, list[str]]:
    """What the samples of a format are: in words, as ``_samples``, and what is wrong with them."""
    what, nothing = f"rows of {len(table.columns)} columns{given.arrays()}", (None, None, None, None)
    try:
        name, samples = formats.x_of(table, Columns(x=given.x, sensitive="z", leave_out=list(given.leave_out)))
        kinds, low, high = samples.seen()
    except BadInput as problem:
        return what, nothing, [str(problem)]
    (shape, dtype), _ = kinds.most_common(1)[0]
    return f'rows, x is "{name}"', (shape, dtype, low, high), [formats.uneven(kinds)] if len(kinds) > 1 else []


def _unknown(given: Given, table: Table) -> list[str]:
    """What is named and is no column, where too little is named to load the data."""
    roles = [(role, name) for role in ("target", "sensitive") for name in given.named(role)]
    roles += [(role, getattr(given, role)) for role in ("subject", "session")]
    wrong = table.unnamed(set(table.columns) - set(given.leave_out)) if given.is_table else []
    for role, name in [*roles, *(("leave_out", name) for name in given.leave_out)]:
        try:
            if name is not None and name not in table.arrays and given.labels is None:
                table.column(name, role)
        except BadInput as problem:
            wrong.append(str(problem))
    return wrong


def _wrong(given: Given) -> list[str]:
    """What keeps the data from being cut into slices."""
    try:
        new.check(datasets.load(first_guess(given)))
    except BadInput as problem:
        return [str(problem)]
    return []


def _samples(x: np.ndarray) -> tuple[Sequence[int], str, float, float]:
    low, high = extremes(x)
    return x.shape[1:], str(x.dtype), float(low), float(high)


def _columns(table: Table) -> list[Label]:
    """Rows of a timed format without a label are left out, and do not count here."""
    found = [_label(name, column) for name, column in table.columns.items()]
    if formats.TIME not in table.columns or not table.arrays:
        return found
    there = [_label(name, column[~column.missing]) for name, column in table.columns.items()]
    return [replace(one, could_be=kept.could_be) for one, kept in zip(found, there, strict=True)]


def _label(name: str, column: Column, *, roles: Sequence[str] | None = None) -> Label:
    """``roles``: what it is; None: judged by its values."""
    values, counts = np.unique(column.classes[~column.missing], return_counts=True)
    kind = {"i": "whole numbers", "u": "whole numbers", "b": "true or false", "f": "numbers"}
    measured = column.has_fractions or len(values) > MOST_CLASSES
    order = np.argsort(-counts, kind="stable")[:SHOWN]
    return Label(
        name,
        kind.get(column.values.dtype.kind, "text"),
        int(column.missing.sum()),
        len(values),
        {} if measured else {str(values[one]): int(counts[one]) for one in order},
        _roles(column, counts) if roles is None else roles,
    )


def _roles(column: Column, counts: np.ndarray) -> list[str]:
    """What a column could be: y or z of enough rows a class, a subject that has several rows."""
    if column.missing.any() or column.has_fractions:
        return []
    roles = ["y", "z"] if 2 <= len(counts) <= MOST_CLASSES and counts.min() >= LEAST else []
    people = len(counts) >= FEWEST_GROUPS and counts.mean() >= 2
    return (
        [*roles, "subject"] if people and (column.values.dtype.kind != "i" or len(counts) < counts.sum() / 2) else roles
    )
