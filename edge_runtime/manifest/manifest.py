"""A manifest as typed records, which ``edgeveil.edge_runtime.manifest.schema.check_manifest`` makes of checked JSON.

The runtime reads the records. The workstation builds and reads the JSON: ``Manifest.document``.
"""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

if TYPE_CHECKING:
    from edgeveil.edge_runtime.manifest.count import CountRules
    from edgeveil.edge_runtime.manifest.detector import DetectorRules


Bound = Any  # a number, a list with one for each feature, or None: no range
AND = " and "  # between the names of attributes that are kept, or hidden, together; no such name has a space
MOST_CLASSES = 4096  # of y


class PerturberFacts(NamedTuple):
    """What the perturber is for. ``identity_allowed``: it may leave a sample unchanged."""

    kind: str = ""
    identity_allowed: bool = False
    substituted: bool = False
    target: str = ""
    sensitive: str = ""
    target_classes: Sequence[str] = ()

    def class_of(self, label: int) -> Optional[str]:
        """The class of a label; None where the bundle names none."""
        return self.target_classes[label] if 0 <= label < len(self.target_classes) else None

    def hides(self, attribute: str) -> bool:
        """Whether that attribute is what it hides, or one of several that it hides jointly."""
        return attribute == self.sensitive or attribute in self.sensitive.split(AND)


class Sampling(NamedTuple):
    """What the steps of a series are: ``rate_hz`` of them a second, with a name and a unit for each channel."""

    rate_hz: float
    channels: Sequence[str]
    units: Sequence[str]


class Input(NamedTuple):
    """x: an ``image`` (height, width, channels), a ``vector`` (features,) or a ``series`` (steps, channels).

    Its range is in units of x.

    ``sensor`` is the kind of sensor that gives it, one of ``sensor.SENSORS``; None where the bundle does not say.
    """

    name: str
    kind: str
    shape: Tuple[int, ...]
    dtype: str
    low: Bound
    high: Bound
    sensor: Optional[str] = None
    series: Optional[Sampling] = None  # of a series alone
    features: Optional[Tuple[str, ...]] = None  # names of a vector's, where its samples were rows of a table
    table: Optional[Mapping[str, Any]] = None  # how a row's cells become them (``manifest.columns``)


class Stage(object):
    """One step of the pipeline: the keys of its kind (``edgeveil.edge_runtime.stages``) are its attributes.

    ``name``: the kind. What another kind has of these is empty here. ``inputs`` and ``outputs``: tensor of the model to
    value.
    """

    input = output = model = table = group = by = op = distribution = ""
    inputs: Mapping[str, str] = {}
    outputs: Mapping[str, str] = {}
    noise: Tuple[str, ...] = ()
    shape: Tuple[int, ...] = ()

    def __init__(self, entry: Mapping[str, Any]) -> None:
        noise = entry.get("noise", ())
        self.__dict__.update(entry, noise=(noise,) if isinstance(noise, str) else tuple(noise))
        self.__dict__.update(shape=tuple(entry.get("shape", ())), entry=entry)

    def __getattr__(self, key: str) -> Any:
        raise AttributeError("a stage {} has no {}".format(self.entry.get("stage"), key))


class Output(NamedTuple):
    """What is sent under ``name``: a ``frame``, ``label`` or ``code`` of this shape, from the value ``tensor``."""

    name: str
    kind: str
    tensor: str
    shape: Tuple[int, ...]
    dtype: str
    decoder: Optional[str] = None  # the table by which a receiver decodes a code


class Artefact(NamedTuple):
    """One file of a model. ``entry`` is the whole of what the manifest says of it, for a backend."""

    file: str
    format: str
    sha256: str
    max_abs: float  # the tolerance of the self-test, in units of x'
    compiled_for: Optional[str]  # the accelerator, where a vendor's compiler made the file
    entry: Mapping[str, Any]


class Model(NamedTuple):
    """A network: its cost, and its artefacts by variant."""

    macs: int
    parameters: int
    artefacts: Dict[str, Artefact]


class Table(NamedTuple):
    """An array of the bundle."""

    file: str
    shape: Tuple[int, ...]
    dtype: str


class Golden(NamedTuple):
    """Members with the golden input, its recorded draws by stage output, and outputs by variant and name."""

    input: str = ""
    draws: Mapping[str, str] = {}
    outputs: Mapping[str, Mapping[str, str]] = {}


class Privacy(NamedTuple):
    """The members with the audit, its privacy card and the card's page, None without an audit.

    ``speaks_of`` has the audited variants, and ``pipeline`` the hash of each one's pipeline. ``countersignature`` is
    the member with the auditors' signatures, None where none signed.
    """

    file: Optional[str] = None
    card: Optional[str] = None
    page: Optional[str] = None
    speaks_of: Mapping[str, Mapping[str, str]] = {}
    pipeline: Mapping[str, str] = {}
    countersignature: Optional[str] = None


class Stream(NamedTuple):
    """How the frames of a stream are held together: by ``track``, ``period``, ``bout`` or ``frame``.

    ``draws``: of so many frames of a track or period, the first ones, something is drawn; None: of one.
    """

    hold: str
    votes: Optional[int] = None
    period_s: Optional[int] = None
    acknowledged: Optional[str] = None
    gap: Optional[int] = None
    draws: Optional[int] = None


class Spending(NamedTuple):
    """What one release costs at most, in steps of 1e-6 epsilon, and what a ``unit`` (``release``, ``track`` or
    ``subject``) may cost in all, or in ``period_s`` seconds. ``manifest.promises`` checks it."""

    micro_epsilon: int
    unit: str
    most_micro_epsilon: int
    period_s: Optional[float]


AHEAD = 64  # releases that are reserved at once: SD cards wear
DAY_S = 86400.0  # of the budget of counts


class Limit(NamedTuple):
    """The most that one unit may spend in each period; ``period_s`` None: ever."""

    most_micro_epsilon: int
    period_s: Optional[float]


class Price(NamedTuple):
    """What one release costs, and the limits that hold for its unit."""

    micro_epsilon: int
    limits: Sequence[Limit]


class SensorFrame(NamedTuple):
    """What the sensor gives; ``unit_mm`` is one step of a depth sample."""

    shape: Tuple[int, ...]
    dtype: str
    unit_mm: Optional[float]


class Crop(NamedTuple):
    """How people are found and cut out of depth pictures."""

    size: Tuple[int, int]
    focal_px: float
    least_height_mm: float
    least_pixels: int
    apart_mm: float
    step_px: int
    gone_frames: int
    floor_frames: int


class Windows(NamedTuple):
    """How samples become windows of a series: one every ``hop`` steps, none across a gap of over ``longest_gap_s``.

    ``full_scale`` (channels,) is where the sensor saturates, on either side of 0; None: not known.
    """

    hop: int
    longest_gap_s: float
    full_scale: Optional[Sequence[float]]


class CaptureRules(NamedTuple):
    """How a sensor's frames become the input, and when something leaves. ``window``: top, left, height, width.

    ``fit``: how frames of any size are brought to that of ``frame``; None where they have it.
    """

    frame: SensorFrame
    access_points: Optional[List[str]]
    measure: str
    low: Optional[float]
    high: Optional[float]
    crop: Optional[Crop]
    resize: Optional[str]
    slots: int
    tick_hz: float
    on_fault: str
    degraded_after_s: float
    window: Optional[Sequence[int]] = None
    windows: Optional[Windows] = None  # of a series alone
    fit: Optional[str] = None


class Member(NamedTuple):
    """One file of a sealed bundle."""

    name: str
    size: int
    sha256: str


class Manifest(NamedTuple):
    """A whole manifest. ``members`` is empty before sealing; ``document`` is the JSON it was made of."""

    def __repr__(self) -> str:
        return "<Manifest {}: {} {}>".format(self.name, self.input.dtype, tuple(self.input.shape))

    name: str
    created: str
    development: bool
    security_version: int
    audience: str
    perturber: PerturberFacts
    input: Input
    capture: Optional[CaptureRules]
    stream: Optional[Stream]
    stages: List[Stage]
    outputs: List[Output]
    models: Dict[str, Model]
    preference: List[str]
    tables: Dict[str, Table]
    golden: Golden
    privacy: Privacy
    spending: Optional[Spending]
    counts: "Optional[CountRules]"
    detector: "Optional[DetectorRules]"
    members: List[Member]
    document: Dict[str, Any]

    @property
    def crops(self) -> bool:
        """Whether people are cut out of frames: a slot without one holds a blank then."""
        return self.capture is not None and self.capture.crop is not None


def parse(document: Mapping[str, Any]) -> Manifest:
    """The records of a manifest's JSON, which is not checked here.

    In training only ``input``, ``stages``, ``outputs`` and ``stream`` exist; missing sections come out empty. Raises
    ``KeyError`` or ``TypeError`` for a section with other keys than its record.
    """
    count = detector = None
    if document.get("count") is not None:
        from edgeveil.edge_runtime.manifest.count import parse_count  # few bundles count: the others start sooner

        count = parse_count(document["count"])
    if document.get("detector") is not None:
        from edgeveil.edge_runtime.manifest.detector import parse_detector

        detector = parse_detector(document["detector"])
    return Manifest(
        name=document.get("name", ""),
        created=document.get("created", ""),
        development=document.get("development", False),
        security_version=document.get("security_version", 0),
        audience=document.get("audience", ""),
        perturber=PerturberFacts(**document.get("perturber", {})),
        input=parse_input(document["input"]),
        capture=parse_capture(document.get("capture")),
        stream=_made(Stream, document.get("stream")),
        stages=[Stage(entry) for entry in document.get("stages", [])],
        outputs=[_made(Output, entry) for entry in document.get("outputs", [])],
        models={name: _model(entry) for name, entry in document.get("models", {}).items()},
        preference=document.get("preference", []),
        tables={name: parse_table(entry) for name, entry in document.get("tables", {}).items()},
        golden=Golden(**document.get("golden", {})),
        privacy=Privacy(**document.get("privacy", {})),
        spending=_made(Spending, document.get("spending")),
        counts=count,
        detector=detector,
        members=[Member(**entry) for entry in document.get("members", [])],
        document=dict(document),
    )


def _made(of: Any, entry: Optional[Mapping[str, Any]], **parts: Any) -> Any:
    """The record of an object of the JSON, whose shapes are tuples; None of null."""
    if entry is None:
        return None
    lists = {key: tuple(entry[key]) for key in ("shape", "size", "features") if key in entry}
    return of(**dict(entry, **lists, **parts))


def parse_input(entry: Mapping[str, Any]) -> Input:
    """The record of ``input``."""
    keys = ("name", "kind", "shape", "dtype", "low", "high", "sensor", "features", "table")
    given = dict(
        {"name": "", "kind": "", "low": None, "high": None}, **{key: entry[key] for key in keys if key in entry}
    )
    parsed: Input = _made(Input, given, series=_made(Sampling, entry.get("series")))
    return parsed


def parse_table(entry: Mapping[str, Any]) -> Table:
    """The record of one entry of ``tables``."""
    parsed: Table = _made(Table, entry)
    return parsed


def parse_capture(entry: Optional[Mapping[str, Any]]) -> Optional[CaptureRules]:
    """The record of ``capture``; None where a source's frames are the input."""
    if entry is None:
        return None
    parts = {"frame": SensorFrame, "crop": Crop, "windows": Windows}
    return CaptureRules(**dict(entry, **{key: _made(of, entry.get(key)) for key, of in parts.items()}))


def _model(entry: Mapping[str, Any]) -> Model:
    artefacts = {variant: _artefact(one) for variant, one in entry["artefacts"].items()}
    return Model(entry.get("macs", 0), entry.get("parameters", 0), artefacts)


def _artefact(entry: Mapping[str, Any]) -> Artefact:
    compiled, tolerance = entry.get("compiled"), entry.get("tolerance", {})
    return Artefact(
        entry["file"],
        entry.get("format", ""),
        entry.get("sha256", ""),
        tolerance.get("max_abs", 0.0),
        None if compiled is None else compiled["for"],
        entry,
    )


# What a bundle expects of the sensor.


SENSORS = ("camera", "depth", "wifi", "motion")  # what a bundle may be for; files may hold what any of them gave


def expected(spec: Input, capture: Optional[CaptureRules]) -> Dict[str, Any]:
    """What the sensor must give: the frame of the manifest's ``capture``, or without one the pipeline's ``input``.

    ``kind`` is "image" with ``shape`` (height, width, channels), "vector" with (features,), or "series" with (steps,
    channels), where the frames are whole windows; one step of a series is a vector. ``dtype``; ``unit_mm``, the
    millimetres of one step of a depth sample, or None; ``access_points``, in order, or None; ``tick_hz``, the ticks
    per second, or None. A vector may have ``features``, the names of its columns, and ``table``. ``any_size``: the
    frames may have another height and width, which the capture's ``fit`` brings to these.
    """
    frame: Any = spec if capture is None else capture.frame
    shape, kind = list(frame.shape), "vector" if len(frame.shape) == 1 else "image"
    if spec.kind == "series" and capture is None:
        kind = "series"
    named: Dict[str, Any] = {}
    if capture is None and spec.features is not None:
        named = {"features": list(spec.features), "table": spec.table}
    return {
        "kind": kind,
        "shape": shape + [1] if len(shape) == 2 and kind == "image" else shape,
        "dtype": frame.dtype,
        "unit_mm": None if capture is None else capture.frame.unit_mm,
        "access_points": None if capture is None else capture.access_points,
        "tick_hz": None if capture is None else capture.tick_hz,
        "any_size": capture is not None and capture.fit is not None,
        **named,
    }
