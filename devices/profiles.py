"""Facts of boards, one TOML file each: the artefacts that a board runs, its interpreters, and their limits.

``load("jetson-nano")`` reads a profile that ships with EdgeVeil; ``load("my-board.toml")`` reads your own. A file may
come from a stranger: what of it would run as root on a board is refused unless the owner of the board allowed it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, Field, model_validator

from edgeveil.devices.toml_tables import NO_REPEATS, SomeTexts, Table, Text, Texts, checked, matching, read_toml
from edgeveil.edge_runtime.bench import sensors
from edgeveil.edge_runtime.device import backends_on, check_device, compiled_formats, forms
from edgeveil.edge_runtime.errors import BadInput, nearest
from edgeveil.edge_runtime.kinds import backends
from edgeveil.edge_runtime.paths import FIRST, named, service_of

INT16 = "tflite-int16x8"  # activations of 16 bits, weights of 8, which interpreters run on processors alone
ARTEFACTS = ("tflite-int8", INT16, "tflite-float16", "tflite-float32", "onnx-int8", "onnx-float16", "onnx-float32")
CONVERTERS = ("tf.lite", "keras-litert", "tf2onnx")  # of a board that names none
PAGE = "docs/reference/boards.md"
FOLDER = Path(__file__).with_suffix("")  # of those that ship with EdgeVeil
_BACKENDS = {kind.name: kind.facts for kind in backends() if kind.name != "numpy"}
# These run what a compiler made of an artefact, and nothing else.
_COMPILED = {name for name, facts in _BACKENDS.items() if compiled_formats().issuperset(facts["formats"])}


def _formats(name: str) -> set[str]:
    """The formats of artefacts that a backend runs, or that a compiler makes its files of."""
    facts = _BACKENDS[name]
    return {source for (source, _), *_ in facts["compiled"].values()} if name in _COMPILED else set(facts["formats"])


def _limits(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier:
        raise ValueError('versions such as "<2.12" or ">=2022.3.1,<2023"') from None
    return value


def _known_sensors(value: dict[str, str]) -> dict[str, str]:
    if not set(value) <= set(sensors.NAMES):
        raise ValueError(f"a table of {', '.join(sensors.NAMES)}")
    return value


_Artefact = Annotated[str, matching("|".join(ARTEFACTS), " | ".join(ARTEFACTS))]
_Artefacts = Annotated[tuple[_Artefact, ...], Field(strict=False, min_length=1), NO_REPEATS]
# Names of the registries of compilers and converters, which alone say what program that is; never a path.
_Compiler = Annotated[str, matching(r"[a-z0-9][a-z0-9_-]{0,39}", "the name of a compiler")]
_Converter = Annotated[str, matching(r"[a-z0-9][a-z0-9._-]{0,39}", "the name of a converter")]
_LOADS_CODE = re.compile(r"(LD_|PYTHON|GLIBC|GCONV)\w*|PATH|ENV|BASH_ENV|LOCPATH")
# What a foreign profile may name unasked: groups of cameras and accelerators, the system's Pythons, and readings.
_GROUPS = ("video", "render", "plugdev", "users", "apex", "dialout")
_PYTHONS = re.compile(r"/usr/(local/)?bin/python3(\.\d+)?")
_READINGS = re.compile(r"zone:.*|/sys/(?!.*\.\.).*")
_Version = Annotated[str, matching(r"\d+(\.\d+){0,3}", 'a version such as "3.11"')]
_User = Annotated[str, matching(r"(?!root$)[a-z_][a-z0-9_-]{0,30}", "the name of a user other than root")]
_Group = Annotated[str, matching(r"[a-z_][a-z0-9_-]{0,30}", "the name of a group")]
_Path = Annotated[str, matching(r"(/[A-Za-z0-9._-]+)+", "a plain path")]
# What a library reads as it is loaded. A quote or a percent sign would mean something else in a unit.
_Variable = Annotated[str, matching(r"[A-Z][A-Z0-9_]{0,40}", "the name of a variable")]
_Words = Annotated[str, matching(r"[A-Za-z0-9_./:,=+-]+", "a value without blanks and quotes")]
_Pinned = Annotated[
    str, matching(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", 'a name with an exact version, as "numpy==1.26.4"')
]


class Backend(Table):
    """An interpreter that the board can have.

    ``versions`` limits its version as pip does (``"<2.12"``). ``device`` is the word of --device for ``accelerator``.
    ``driver`` has patterns of the versions that the device's library may have with it, as its package names them
    (``"16.0"``, ``"16.0tf2.1[5-7]*"``): the two are built for each other.
    """

    name: Annotated[str, matching("|".join(_BACKENDS), " | ".join(_BACKENDS))]
    versions: Annotated[str, AfterValidator(_limits)]
    artefacts: _Artefacts
    accelerator: Text | None = None
    device: Text | None = None
    driver: SomeTexts = ()


class TfliteLimits(Table):
    """The newest TensorFlow Lite the board reads, and, where ``ops`` is given, operation -> highest version there."""

    min_runtime_version: _Version | None = None
    ops: dict[str, Annotated[int, Field(ge=1)]] | None = None


class OnnxLimits(Table):
    """The highest opset and IR version the board reads, and, where ``ops`` is given, the operations it knows."""

    opset: int
    ir: int
    ops: Annotated[frozenset[Text], Field(strict=False, min_length=1), NO_REPEATS] | None = None


class Calibration(Table):
    """Which published rows stand for the board: ``group`` as in published.csv (``jetson-nano/tensorrt``).

    ``precision`` is what the board makes of the artefact.
    """

    group: Annotated[str, matching(r"[a-z0-9-]+/[a-z0-9-]+", 'as "jetson-nano/tensorrt"')]
    artefact: str
    precision: Annotated[str, matching("int8|fp16|fp32", "int8 | fp16 | fp32")]


class Published(Table):
    """A latency that others published of the board, shown on its page alone: of what, and by whom."""

    network: Text
    input: Annotated[str, matching(r"[0-9]+x[0-9]+", 'as "640x640"')]
    precision: Annotated[str, matching("int8|fp16|fp32", "int8 | fp16 | fp32")]
    ms: float = Field(gt=0)
    source: Text


class Service(Table):
    """The users that the service runs as, its Python, EdgeVeil's folder on the board, and what libraries need there.

    ``environment`` is set in the units, and for each command and probe that runs Python there. ``watchdog_s`` is the
    time after which the board's own watchdog restarts it where systemd hangs; None leaves the system's setting.
    """

    user: _User = "edgeveil"
    inside_user: _User = "edgeveil-inside"
    camera_user: _User = "edgeveil-camera"  # only where frames come over a network or from a camera's daemon
    python: _Path = "/usr/bin/python3"
    root: _Path = "/opt/edgeveil"
    watchdog_s: int | None = Field(default=None, ge=5, le=600)
    environment: dict[_Variable, _Words] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        return service_of(self.root)


class Camera(Table):
    """How cameras are opened there: sources to try, and the groups of V4L2 devices, of USB devices, of I2C buses and
    of serial ports."""

    sources: SomeTexts = ()
    group: _Group = "video"
    usb_group: _Group = "plugdev"
    i2c_group: _Group = "i2c"
    serial_group: _Group = "dialout"


class Install(Table):
    """How a board with this Python gets its interpreter. Nothing is compiled there.

    ``packages`` are wheels of the public index, ``system`` packages of the board's own distribution, and ``vendor``
    what the user must get from a vendor. ``glibc`` is given where it is not that of the profile's system.
    ``unavailable`` says why there is no interpreter for this Python, and what to do.
    """

    python: _Version
    glibc: _Version | None = None
    packages: Annotated[tuple[_Pinned, ...], Field(strict=False), NO_REPEATS] = ()
    system: Texts = ()
    vendor: Texts = ()
    unavailable: Text | None = None

    def text(self) -> str:
        """The recipe for people."""
        if self.unavailable:
            return f"Python {self.python}: {self.unavailable}"
        parts = [", ".join(self.packages)] if self.packages else []
        parts += [f"the board's own {', '.join(self.system)}"] if self.system else []
        parts += [f"from its vendor, by you: {', '.join(self.vendor)}"] if self.vendor else []
        return f"Python {self.python}: " + "; ".join(parts)


class Profile(Table):
    """The facts of one board. ``artefacts``, ``backends`` and ``converters`` are in order of preference, best first."""

    name: Annotated[str, matching(r"[a-z0-9][a-z0-9-]{0,39}", "small letters, digits and '-' (40 at most)")]
    title: Text
    architecture: Text
    system: Text
    python: _Version
    artefacts: _Artefacts
    backends: Annotated[tuple[Backend, ...], Field(strict=False)]
    checked: Texts
    unchecked: Texts
    stopped: Text | None = None  # that its maker has stopped, and what to take instead
    memory_mib: Annotated[int, Field(ge=16)] | None = None  # of the smallest such board; None: any, as of a PC
    models: SomeTexts = ()  # patterns of what the board says that it is (/proc/device-tree/model)
    accelerator_path: Text | None = None
    accelerator_devices: SomeTexts = ()  # what else the inside opens for it
    accelerator_group: _Group | None = None  # that may open a device file
    compiler: _Compiler | None = None
    converters: Annotated[tuple[_Converter, ...], Field(strict=False, min_length=1), NO_REPEATS] = CONVERTERS
    tflite: TfliteLimits | None = None
    onnx: OnnxLimits | None = None
    calibration: Annotated[tuple[Calibration, ...], Field(strict=False)] = ()
    published: Annotated[tuple[Published, ...], Field(strict=False)] = ()
    sensors: Annotated[dict[str, Text], AfterValidator(_known_sensors)] = Field(default_factory=dict)
    service: Service = Service()
    camera: Camera = Camera()
    install: Annotated[tuple[Install, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Profile:
        for backend in self.backends:
            for artefact in backend.artefacts:
                file_format = artefact.split("-")[0]
                if file_format not in _formats(backend.name):
                    raise ValueError(f"{backend.name} does not run {artefact}; remove it from that [[backends]].")
                if artefact == INT16 and backend.accelerator:
                    raise ValueError(f"the {backend.accelerator} has no {INT16}: remove it from that [[backends]].")
                if backend.name in _COMPILED and (backend.device is None or self.compiler is None):
                    raise ValueError(f"{backend.name} runs compiled files alone: give its device, and a compiler.")
                form = forms().get(backend.device or "")
                runs = form.made[0] if form is not None and "-".join(form.source) == artefact else file_format
                names = backends_on(check_device(backend.device), runs) if backend.device else None
                if backend.device and backend.name not in (names or ()):
                    raise ValueError(f"{backend.name} cannot ask for the device {backend.device!r}; see {PAGE}.")
        if len({self.service.user, self.service.inside_user, self.service.camera_user}) < 3:
            raise ValueError("service.user, inside_user and camera_user must be three users.")
        run = {artefact for backend in self.backends for artefact in backend.artefacts}
        for artefact in self.artefacts:
            if artefact not in run:
                raise ValueError(f"no [[backends]] runs {artefact}; add it to one, or leave it out.")
        for calibration in self.calibration:
            if calibration.artefact not in self.artefacts:
                known = ", ".join(self.artefacts)
                raise ValueError(
                    f"calibration.artefact must be one of this board's ({known}), and is {calibration.artefact!r}."
                )
        if self.install and self.python not in {install.python for install in self.install}:
            raise ValueError(f"no [[install]] is for its own Python {self.python}; add one.")
        return self

    def at(self, root: str) -> Profile:
        """The same with the folder and users of the service of ``root``, whatever the users of the first are called."""
        service, name = self.service, service_of(root)
        own = {part: getattr(service, part) for part in ("user", "inside_user", "camera_user")}
        own = {part: named(user, name) if FIRST in user else user + name[len(FIRST) :] for part, user in own.items()}
        return self.model_copy(update={"service": service.model_copy(update={"root": root, **own})})

    def recipe(self, python: str | None = None) -> Install:
        """What to install for that Python (the profile's own for None). Raises ``BadInput`` without a recipe for it."""
        wanted = python or self.python
        for install in self.install:
            if install.python == wanted and install.unavailable:
                raise BadInput(
                    f"There is nothing to collect for {self.name} with Python {wanted}: {install.unavailable}."
                )
            if install.python == wanted:
                return install
        known = ", ".join(install.python for install in self.install) or "none"
        raise BadInput(
            f"The profile {self.name} has no recipe for Python {wanted} (it has {known}). Name packages and versions "
            "with --with, or choose another Python with --python."
        )

    def limits(self, artefact: str) -> TfliteLimits | OnnxLimits | None:
        """What the board asks of an artefact of that name; None where it asks for nothing in particular."""
        return self.tflite if artefact.startswith("tflite-") else self.onnx

    def accelerator(self, artefact: str) -> str | None:
        """What the artefact runs on there, if not on the CPU: that of the first backend that runs it."""
        return next(backend.accelerator for backend in self.backends if artefact in backend.artefacts)

    def facts(self) -> dict[str, list[str]]:
        """What goes into the manifest: the device reads JSON, and only this of it."""
        return {"artefacts": list(self.artefacts), "backends": [backend.name for backend in self.backends]}

    def commands(self) -> list[str]:
        """What of it runs on a board, or changes what runs there: commands and files of any kind that are sensors, the
        environment, another Python than the system's, and groups that may do more than open a camera."""
        places = {name: place for name, place in self.sensors.items() if name != "expected_power_mode"}
        lines = [f"{name} = {place}" for name, place in places.items() if not _READINGS.fullmatch(place)]
        lines += [] if _PYTHONS.fullmatch(self.service.python) else [f"python = {self.service.python}"]
        named = (self.camera.group, self.camera.usb_group, self.camera.serial_group, self.accelerator_group)
        lines += [f"group = {group}" for group in named if group and group not in _GROUPS]
        return lines + [f"{name}={value}" for name, value in self.service.environment.items()]

    def text(self) -> str:
        """The facts for people, what was never run on the real board among them."""
        lines = [
            self.title,
            f"  {self.architecture}, {self.system}, Python {self.python}",
            f"  artefacts: {', '.join(self.artefacts)}",
        ]
        lines += [f"  stopped: {self.stopped}"] if self.stopped else []
        lines += [f"  memory: {self.memory_mib:,} MiB or more"] if self.memory_mib else []
        for b in self.backends:
            where = f", on the {b.accelerator}" if b.accelerator else ""
            where += f" (--device {b.device})" if b.device else ""
            lines.append(f"  backend: {b.name} {b.versions} for {', '.join(b.artefacts)}{where}")
        lines.append(f"  converted by: {', '.join(self.converters)}")
        if self.compiler:
            lines.append(f"  compiled by: {self.compiler}")
        if self.tflite:
            ops = "any operation" if self.tflite.ops is None else f"{len(self.tflite.ops)} operations"
            lines.append(f"  TFLite: runtime {self.tflite.min_runtime_version or 'any'}, {ops}")
        if self.onnx:
            ops = "any operation" if self.onnx.ops is None else f"{len(self.onnx.ops)} operations"
            lines.append(f"  ONNX: opset {self.onnx.opset}, IR {self.onnx.ir}, {ops}")
        lines += [f"  install: {install.text()}" for install in self.install]
        lines.append(f"  service: as {self.service.user} and {self.service.inside_user}, in {self.service.root}")
        lines += [f"  environment: {name}={value}" for name, value in self.service.environment.items()]
        if self.camera.sources:
            lines.append(f"  cameras: {', '.join(self.camera.sources)}")
        if self.sensors:
            lines.append(f"  sensors: {', '.join(self.sensors)}")
        lines += [f"  checked: {fact}" for fact in self.checked]
        lines += [f"  never run: {fact}" for fact in self.unchecked]
        return "\n".join(lines)


def parse(document: Any, *, source: str) -> Profile:
    """A checked ``Profile`` from a TOML document; ``source`` names it in messages. Raises ``BadInput``."""
    return checked(Profile, document, f"profile {source}", PAGE)


def names() -> list[str]:
    """The profiles that ship with EdgeVeil, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _called(word: str) -> str:
    """The profile that a word as pi4 or raspberrypi5 is nearest to, by name or by model; one of a plain board first."""
    known = {name: name for name in names()}
    plain_first = sorted(names(), key=lambda name: load(name).accelerator_path is not None)
    for name in plain_first:
        for model in load(name).models:
            known.setdefault(model, name)
    near = nearest(word, known)
    return known[near] if near else ""


def load(name_or_path: str | Path | Profile, *, commands: bool = False) -> Profile:
    """The profile of that name, or in that TOML file; one that was loaded is returned.

    ``commands``: the owner allows the commands of a file, or nothing of it runs on a board. Raises ``BadInput`` if it
    is missing or invalid, or has commands that are not allowed.
    """
    if isinstance(name_or_path, Profile):
        return name_or_path
    path = Path(name_or_path)
    if str(name_or_path) in names():
        path = FOLDER / f"{name_or_path}.toml"
    elif path.suffix != ".toml":
        near = _called(str(name_or_path))
        raise BadInput(
            f"there is no profile {str(name_or_path)!r}{f'; did you mean {near}?' if near else ':'} choose one of "
            f"{', '.join(names())}, or name a .toml file."
        )
    profile = parse(read_toml(path, "profile", PAGE), source=str(path))
    if path.parent != FOLDER:
        _check_commands(profile, path, allowed=commands)
    return profile


def _check_commands(profile: Profile, path: Path, *, allowed: bool) -> None:
    for name in profile.service.environment:
        if _LOADS_CODE.fullmatch(name):
            raise BadInput(
                f"The profile {path} sets {name}, by which other code would be loaded into EdgeVeil: leave it out, and "
                "have the board's own loader find its libraries (ldconfig, a .pth file)."
            )
    if profile.commands() and not allowed:
        raise BadInput(
            f"The profile {path} does not come with EdgeVeil and would run on the board: "
            f"{'; '.join(profile.commands())}. If you wrote that, or trust it, add --allow-commands."
        )
