"""A data set: samples with their two labels, cut into slices before anything is fitted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from edgeveil.edge_runtime.stages.preprocess import to_raw, to_unit
from edgeveil.trainer.datasets.samples import applied, pieces

# The units that [private] guards, cut into slices by a keyed hash of each one's own number.
#
# Whichever slice a unit is in, and whether it is held out there, depends on no one else: adding or removing a unit
# leaves all others where they are, so what two slices spend does not add up. Nothing is stratified, and no class is
# thinned.


Kind = Literal["subject", "row"]


@dataclass(frozen=True)
class Units:
    """Whose each row is, (N,): the unit's number, and two values in [0, 1) by its hash, which cut and hold out."""

    kind: Kind
    number: np.ndarray
    place: np.ndarray
    second: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Units:
        return Units(self.kind, self.number[rows], self.place[rows], self.second[rows])

    def dealt(self, slices: int, *, share: float = 1.0) -> list[np.ndarray]:
        """The row numbers of each slice, sorted; of about ``share`` of all units."""
        deal = np.floor(self.place / share * slices)
        return [np.flatnonzero(deal == number) for number in range(slices)]

    def rows(self, rows: np.ndarray) -> list[np.ndarray]:
        """The places within ``rows`` (n,) of each unit's rows."""
        order = np.argsort(self.number[rows], kind="stable")
        starts = np.flatnonzero(np.diff(self.number[rows][order])) + 1
        return np.split(order, starts)


SliceName = Literal["classifiers", "perturber", "attack", "test"]
PARTS: tuple[SliceName, ...] = ("classifiers", "perturber", "attack", "test")
NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Sampling:
    """What the steps of a series are: ``rate_hz`` of them a second, with a name and a unit for each channel."""

    rate_hz: float
    channels: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(frozen=True)
class InputSpec:
    """Kind, shape, type and range of a raw sample; becomes ``input`` in the manifest.

    A perturber's networks work in the *unit cube*: u = clip((x - low) / (high - low), 0, 1), float32.
    ``low`` and ``high`` are in units of x: numbers for images, one value per feature for vectors, one per channel for
    series, None for both if vectors are not scaled (u is x as float32). ``extremes``: they are those of training rows,
    rounded outward; the manifest does not have this.
    """

    kind: Literal["image", "vector", "series"]
    shape: tuple[int, ...]  # of one sample: (height, width, channels), (features,) or (steps, channels)
    dtype: str  # of x: "uint8", "float32", ...
    low: float | tuple[float, ...] | None
    high: float | tuple[float, ...] | None
    series: Sampling | None = None  # of a series alone
    extremes: bool = field(default=False, compare=False)
    features: tuple[str, ...] | None = None  # names of a vector's, where its samples were rows of a table
    table: Mapping[str, Any] | None = None  # how the cells of a row become these, as a manifest has it

    @property
    def plural(self) -> str:
        """The word for several of its kind."""
        return "series" if self.kind == "series" else f"{self.kind}s"

    @property
    def span(self) -> np.ndarray:
        """high - low, for each feature or for all; 1 if there is no range."""
        return np.ones(()) if self.low is None or self.high is None else np.subtract(self.high, self.low)

    def as_json(self) -> dict[str, Any]:
        """The manifest's ``input`` without its name; what is None of the last three has no key."""
        facts: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        del facts["extremes"]
        optional = ("series", "features", "table")
        return {key: value for key, value in facts.items() if value is not None or key not in optional}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> InputSpec:
        """What ``as_json`` gave."""
        values = {key: _frozen(value) for key, value in facts.items() if key not in ("name", "series")}
        series = facts.get("series")
        if series is not None:
            values["series"] = Sampling(**{key: _frozen(value) for key, value in series.items()})
        return cls(**values)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Slices:
    """Row numbers of the three parts of section 5.3 and of a fourth. Subjects or sessions never straddle them.

    A perturber leaks least on the rows that trained it, so adversaries learn on ``attack`` too, which neither the
    classifiers nor the perturber see. It is empty where the data are too few for four slices: adversaries then learn
    on folds of ``test``.
    """

    classifiers: np.ndarray  # trains D_y and D_z
    perturber: np.ndarray  # trains the perturber
    test: np.ndarray  # reported on, once
    attack: np.ndarray = field(default_factory=NO_ROWS.copy)  # trains adversaries alone

    def training(self) -> np.ndarray:
        """Row numbers of the two slices that the perturber comes from."""
        return np.concatenate([self.classifiers, self.perturber])

    def rows(self) -> np.ndarray:
        """Row numbers of all slices, one after the other in the order of ``PARTS``."""
        return np.concatenate([getattr(self, part) for part in PARTS])

    def places(self, part: SliceName) -> slice:
        """Where the rows of a slice are in ``rows()``."""
        first = sum(len(getattr(self, other)) for other in PARTS[: PARTS.index(part)])
        return slice(first, first + len(getattr(self, part)))


@dataclass(frozen=True)
class Labels:
    """Several numeric labels of each sample, (N, labels): the first ``wanted`` are kept, the others confidential."""

    values: np.ndarray
    wanted: int

    def __getitem__(self, rows: np.ndarray) -> Labels:
        return Labels(self.values[rows], self.wanted)

    def parts(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Wanted and confidential labels of some rows."""
        return self.values[rows, : self.wanted], self.values[rows, self.wanted :]


@dataclass(frozen=True)
class Known:
    """A label that a data set knows of every sample: class numbers ``values`` (N,), and their ``names``.

    ``ordered``: the order of the classes means something (a digit, an age), so that thresholds of it are questions too.
    """

    values: np.ndarray
    names: tuple[str, ...]
    ordered: bool = False

    def __getitem__(self, rows: np.ndarray) -> Known:
        return Known(self.values[rows], self.names, self.ordered)

    @classmethod
    def from_values(cls, values: np.ndarray, names: tuple[str, ...]) -> Known:
        """A label of a recipe; numbers are taken as ordered."""
        return cls(values, names, ordered=all(name.lstrip("-").isdecimal() for name in names))


@dataclass(frozen=True)
class Joint:
    """Which class of each attribute a joint class is: ``of`` (joint classes, attributes) holds class numbers.

    ``names`` are those of the attributes, ``classes`` the names of the classes of each.
    """

    names: tuple[str, ...]
    classes: tuple[tuple[str, ...], ...]
    of: np.ndarray

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        """Each attribute's name, and (joint classes, its classes) with a 1 at the class that a joint class is."""
        for place, (name, classes) in enumerate(zip(self.names, self.classes, strict=True)):
            yield name, np.eye(len(classes))[self.of[:, place]]


@dataclass(frozen=True)
class Dataset:
    """Samples x (N, ...), target y (N,) and sensitive z (N,) as class numbers, with what is known about them.

    Where x is large it is ``samples.Stored``: rows of it that are few are an array, others are read when they are used.
    ``theta`` is MED(z|y), shape (classes of y, classes of z), rows summing to 1: the public prior completed by
    maximum entropy (eq. 3). ``cluster`` (N,) numbers the independent units (subject or session; None if every row
    is its own): intervals are taken over them. ``attributes`` are further properties by name, float64 (N,); ``known``
    are all labels that the data set has, by name, those of y and z among them. ``priced`` is what a perturber must
    hide (``joint.priced``); None: z alone. ``joint`` has, by "y" and "z", what the classes of a label of several
    attributes are. ``consent`` (N,) says which sample may be shown in place of another (a donor); None if consent is
    not known. ``units`` are those that [private] guards; None without it. ``seed`` is that of the cuts within slices.
    ``homogeneous`` vectors end in a feature that is 1.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    y_names: tuple[str, ...]
    z_names: tuple[str, ...]
    theta: np.ndarray
    input: InputSpec
    slices: Slices
    cluster: np.ndarray | None = None
    cluster_kind: Literal["subject", "session"] | None = None
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    known: Mapping[str, Known] = field(default_factory=dict)
    priced: Known | None = None
    joint: Mapping[str, Joint] = field(default_factory=dict)
    labels: Labels | None = None
    consent: np.ndarray | None = None
    units: Units | None = None
    seed: int = 0
    homogeneous: bool = False

    def part(self, name: SliceName) -> Part:
        """The rows of one slice, in the slice's own order."""
        return self.rows(getattr(self.slices, name))

    def rows(self, index: np.ndarray) -> Part:
        """The rows of these numbers (n,), in this order."""
        return Part(self.x[index], self.y[index], self.z[index], taken(self.cluster, index), index)

    def for_training(self) -> Dataset:
        """The same data set with empty slices ``attack`` and ``test``: all that ``fit`` may see."""
        return self.limited(replace(self.slices, test=NO_ROWS, attack=NO_ROWS))

    def limited(self, slices: Slices) -> Dataset:
        """The rows of these slices alone, numbered anew in the order of the data."""
        keep = np.sort(slices.rows())
        return replace(
            self,
            x=self.x[keep],
            y=self.y[keep],
            z=self.z[keep],
            slices=Slices(**{part: np.searchsorted(keep, getattr(slices, part)) for part in PARTS}),
            cluster=taken(self.cluster, keep),
            attributes={name: values[keep] for name, values in self.attributes.items()},
            known={name: one[keep] for name, one in self.known.items()},
            priced=taken(self.priced, keep),
            labels=taken(self.labels, keep),
            consent=taken(self.consent, keep),
            units=taken(self.units, keep),
        )

    def in_memory(self) -> Dataset:
        """The same with samples that are an array. Raises ``BadInput`` where there is no memory for that."""
        return replace(self, x=np.asarray(self.x))

    def as_priced(self) -> Dataset:
        """The same rows with what is priced as z: ``theta`` is counted in the training slices."""
        if self.priced is None:
            return self
        z, rows = self.priced.values, self.slices.training()
        counts = np.zeros((len(self.y_names), len(self.priced.names)))
        np.add.at(counts, (self.y[rows], z[rows]), 1.0)
        return replace(self, z=z, z_names=self.priced.names, theta=counts / counts.sum(axis=1, keepdims=True))

    def sha256(self) -> str:
        """The hash of samples and labels, by which a run knows its data again."""
        h = hashlib.sha256()
        for array in (self.x, self.y, self.z):
            h.update(f"{array.dtype}{array.shape}".encode())
            for _, some in pieces(array):
                h.update(np.ascontiguousarray(some).data)
        return h.hexdigest()

    def unit(self, x: np.ndarray) -> np.ndarray:
        """Raw samples (n, ...) to the unit cube the networks work in; float32 (n, *input.shape)."""
        function = to_unit(self.input.dtype, self.input.low, self.input.high)
        return applied(lambda some: function(some.reshape((-1, *self.input.shape))), x)

    def as_sent(self, v: np.ndarray) -> np.ndarray:
        """v (n, *input.shape) as a receiver gets it: rounded to the type of x, and back in the unit cube."""
        ends = self.input.low, self.input.high
        return to_unit(self.input.dtype, *ends)(to_raw(self.input.dtype, *ends)(v))


@dataclass(frozen=True)
class Part:
    """Some rows of a data set: x (n, ...) raw, y (n,), z (n,), cluster (n,) or None, and their row numbers."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    cluster: np.ndarray | None
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def in_memory(self) -> Part:
        """The same with samples that are an array."""
        return replace(self, x=np.asarray(self.x))

    def take(self, rows: np.ndarray) -> Part:
        """Some of these rows (m,), by their place in this part."""
        return Part(self.x[rows], self.y[rows], self.z[rows], taken(self.cluster, rows), self.index[rows])


def taken(values: Any, rows: np.ndarray) -> Any:
    """``values[rows]``; None for None."""
    return None if values is None else values[rows]
