"""What a profile holds, and the checks that a TOML document must pass to become one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from edgeveil.edge_runtime.device import backends_on, check_device
from edgeveil.edge_runtime.errors import BadInput

ARTEFACTS = ("tflite-int8", "tflite-float16", "tflite-float32", "onnx-int8", "onnx-float16", "onnx-float32")
_RUNS = {
    "ai-edge-litert": "tflite",
    "tflite-runtime": "tflite",
    "onnxruntime": "onnx",
    "openvino": "onnx",
}
# What a run can be watched by: a file of the board's, or a command behind "!"; see docs/reference/benchmarks.md.
SENSORS = ("clock_khz", "governor", "temperature_millic", "gpu_temperature_millic", "throttled", "power_mw", "power_uw")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_PLACE = re.compile(r"(/[A-Za-z0-9._-]+)+")
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_VERSION = re.compile(r"\d+(\.\d+){0,3}")


@dataclass(frozen=True)
class Backend:
    """An interpreter the board can have: its versions there (``"<2.12"``, as pip has them), the artefacts it runs, and
    on what.
    """

    name: str
    versions: str
    artefacts: tuple[str, ...]
    accelerator: str | None = None
    device: str | None = None  # the word of --device that asks for it


@dataclass(frozen=True)
class TfliteLimits:
    """The newest TensorFlow Lite the board reads, and, where ``ops`` is given, operation -> highest version there."""

    min_runtime_version: str | None
    ops: Mapping[str, int] | None


@dataclass(frozen=True)
class OnnxLimits:
    """The highest opset and IR version the board reads, and, where ``ops`` is given, the operations it knows."""

    opset: int
    ir: int
    ops: frozenset[str] | None


@dataclass(frozen=True)
class Calibration:
    """Which published rows stand for the board: ``group`` as published.csv spells it (``jetson-nano/tensorrt``).

    ``precision`` is what the board makes of the artefact there. ``range_only``: no single figure is to be named.
    """

    group: str
    artefact: str
    precision: str
    range_only: bool = False


@dataclass(frozen=True)
class Service:
    """Whom the service runs as there, by which Python, and where EdgeVeil lies."""

    user: str = "edgeveil"
    inside_user: str = "edgeveil-inside"
    python: str = "/usr/bin/python3"
    root: str = "/opt/edgeveil"


@dataclass(frozen=True)
class Camera:
    """How cameras are opened there: sources to try, and the groups of V4L2 devices and of USB devices."""

    sources: tuple[str, ...] = ()
    group: str = "video"
    usb_group: str = "plugdev"


@dataclass(frozen=True)
class Install:
    """What brings the interpreter onto a board with this Python: wheels of the public index, packages of the board's
    own distribution, and what only a vendor offers and the user supplies. Nothing is compiled there.
    """

    python: str
    glibc: str | None = None  # where it is not that of the profile's system
    packages: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    vendor: tuple[str, ...] = ()

    def text(self) -> str:
        """The recipe for people."""
        parts = [", ".join(self.packages)] if self.packages else []
        parts += [f"the board's own {', '.join(self.system)}"] if self.system else []
        parts += [f"from its vendor, by you: {', '.join(self.vendor)}"] if self.vendor else []
        return f"Python {self.python}: " + "; ".join(parts)


@dataclass(frozen=True)
class Profile:
    """The facts of one board. ``artefacts`` and ``backends`` are in order of preference, best first."""

    name: str
    title: str
    architecture: str
    system: str
    python: str
    artefacts: tuple[str, ...]
    backends: tuple[Backend, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    accelerator_path: str | None = None
    accelerator_devices: tuple[str, ...] = ()  # what else the inside opens for it
    accelerator_group: str | None = None  # that may open a device file
    compiler: str | None = None
    tflite: TfliteLimits | None = None
    onnx: OnnxLimits | None = None
    calibration: tuple[Calibration, ...] = ()
    sensors: Mapping[str, str] = field(default_factory=dict)
    service: Service = Service()
    camera: Camera = Camera()
    install: tuple[Install, ...] = ()

    def recipe(self, python: str | None = None) -> Install:
        """What to install for that Python (the profile's own for None). Raises ``BadInput`` without a recipe for it."""
        wanted = python or self.python
        for install in self.install:
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

    def text(self) -> str:
        """The facts for people, what was never run on the real board among them."""
        lines = [
            self.title,
            f"  {self.architecture}, {self.system}, Python {self.python}",
            f"  artefacts: {', '.join(self.artefacts)}",
        ]
        for b in self.backends:
            where = f", on the {b.accelerator}" if b.accelerator else ""
            where += f" (--device {b.device})" if b.device else ""
            lines.append(f"  backend: {b.name} {b.versions} for {', '.join(b.artefacts)}{where}")
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
        if self.camera.sources:
            lines.append(f"  cameras: {', '.join(self.camera.sources)}")
        if self.sensors:
            lines.append(f"  sensors: {', '.join(self.sensors)}")
        lines += [f"  checked: {fact}" for fact in self.checked]
        lines += [f"  never run: {fact}" for fact in self.unchecked]
        return "\n".join(lines)


class _Table:
    """One TOML table being read: every complaint names the file, the key, what was expected and what came."""

    def __init__(self, source: str, where: str, value: Any) -> None:
        self._source, self._where = source, where
        self._seen: set[str] = set()
        if not isinstance(value, dict):
            raise self.wrong("", "a table", value)
        self._value = value

    def wrong(self, key: str, expected: str, came: Any) -> BadInput:
        where = ".".join(part for part in (self._where, key) if part) or "the document"
        return BadInput(
            f"profile {self._source}: {where} must be {expected}, and is {came!r}. See docs/reference/boards.md."
        )

    def get(self, key: str, kind: type, expected: str, *, default: Any = ...) -> Any:
        self._seen.add(key)
        if key not in self._value:
            if default is ...:
                raise BadInput(f"profile {self._source}: {self._path(key)} is missing; it must be {expected}.")
            return default
        value = self._value[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.wrong(key, expected, value)
        return value

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def text(self, key: str, *, pattern: re.Pattern[str] | None = None, expected: str = "text", **more: Any) -> Any:
        value = self.get(key, str, expected, **more)
        if value is not None and (not value.strip() or (pattern and not pattern.fullmatch(value))):
            raise self.wrong(key, expected, value)
        return value

    def texts(self, key: str, *, among: tuple[str, ...] = (), empty: bool = False, **more: Any) -> tuple[str, ...]:
        expected = f"a list of {' | '.join(among)}" if among else "a list of texts"
        expected += " without repeats" if empty else ", at least one, without repeats"
        values = self.get(key, list, expected, **more)
        if values is None:
            return ()
        good = all(isinstance(v, str) and (not among or v in among) for v in values)
        if not good or len(set(values)) != len(values) or not (values or empty):
            raise self.wrong(key, expected, values)
        return tuple(values)

    def versions(self, key: str) -> str:
        expected = 'versions such as "<2.12" or ">=2022.3.1,<2023"'
        value = self.text(key, expected=expected)
        try:
            SpecifierSet(value)
        except InvalidSpecifier:
            raise self.wrong(key, expected, value) from None
        return value

    def done(self) -> None:
        for key in self._value:
            if key not in self._seen:
                raise BadInput(
                    f"profile {self._source}: {self._path(key)} is not a known key; "
                    f"known here are {', '.join(sorted(self._seen))}."
                )


def parse(document: Mapping[str, Any], *, source: str) -> Profile:
    """A checked ``Profile`` from a TOML document; ``source`` names it in messages. Raises ``BadInput``."""
    top = _Table(source, "", document)
    artefacts = top.texts("artefacts", among=ARTEFACTS)
    backends = tuple(
        _backend(_Table(source, f"backends[{number}]", table))
        for number, table in enumerate(top.get("backends", list, "a list of [[backends]]"))
    )
    profile = Profile(
        name=top.text("name", pattern=_NAME, expected="small letters, digits and '-' (40 at most)"),
        title=top.text("title"),
        architecture=top.text("architecture"),
        system=top.text("system"),
        python=top.text("python", pattern=_VERSION, expected='a version such as "3.11"'),
        artefacts=artefacts,
        backends=backends,
        checked=top.texts("checked", empty=True),
        unchecked=top.texts("unchecked", empty=True),
        accelerator_path=top.text("accelerator_path", default=None),
        accelerator_devices=top.texts("accelerator_devices", default=None),
        accelerator_group=top.text("accelerator_group", pattern=_USER, expected="the name of a group", default=None),
        compiler=top.text("compiler", default=None),
        tflite=_tflite(source, top.get("tflite", dict, "a table", default=None)),
        onnx=_onnx(source, top.get("onnx", dict, "a table", default=None)),
        calibration=tuple(
            _calibration(_Table(source, f"calibration[{number}]", table), artefacts)
            for number, table in enumerate(top.get("calibration", list, "a list of [[calibration]]", default=[]))
        ),
        sensors=_sensors(source, top.get("sensors", dict, "a table", default={})),
        service=_service(_Table(source, "service", top.get("service", dict, "a table", default={}))),
        camera=_camera(_Table(source, "camera", top.get("camera", dict, "a table", default={}))),
        install=tuple(
            _install(_Table(source, f"install[{number}]", table))
            for number, table in enumerate(top.get("install", list, "a list of [[install]]", default=[]))
        ),
    )
    top.done()
    for artefact in artefacts:
        if not any(artefact in backend.artefacts for backend in backends):
            raise BadInput(f"profile {source}: no [[backends]] runs {artefact}; add it to one, or leave it out.")
    if profile.install and profile.python not in {install.python for install in profile.install}:
        raise BadInput(f"profile {source}: no [[install]] is for its own Python {profile.python}; add one.")
    return profile


def _service(table: _Table) -> Service:
    there = Service()
    user: dict[str, Any] = {"pattern": _USER, "expected": "the name of a user"}
    place: dict[str, Any] = {"pattern": _PLACE, "expected": "a plain path"}
    service = Service(
        user=table.text("user", default=there.user, **user),
        inside_user=table.text("inside_user", default=there.inside_user, **user),
        python=table.text("python", default=there.python, **place),
        root=table.text("root", default=there.root, **place),
    )
    table.done()
    return service


def _camera(table: _Table) -> Camera:
    there = Camera()
    group: dict[str, Any] = {"pattern": _USER, "expected": "the name of a group"}
    camera = Camera(
        sources=table.texts("sources", default=None),
        group=table.text("group", default=there.group, **group),
        usb_group=table.text("usb_group", default=there.usb_group, **group),
    )
    table.done()
    return camera


def _install(table: _Table) -> Install:
    install = Install(
        python=table.text("python", pattern=_VERSION, expected='a version such as "3.11"'),
        glibc=table.text("glibc", pattern=_VERSION, expected='a version such as "2.31"', default=None),
        packages=table.texts("packages", empty=True, default=None),
        system=table.texts("system", empty=True, default=None),
        vendor=table.texts("vendor", empty=True, default=None),
    )
    for package in install.packages:
        if not _REQUIREMENT.fullmatch(package):
            raise table.wrong("packages", 'names with exact versions, as "numpy==1.26.4"', package)
    table.done()
    return install


def _backend(table: _Table) -> Backend:
    name = table.text("name")
    if name not in _RUNS:
        raise table.wrong("name", " | ".join(_RUNS), name)
    can = tuple(artefact for artefact in ARTEFACTS if artefact.startswith(_RUNS[name]))
    backend = Backend(
        name=name,
        versions=table.versions("versions"),
        artefacts=table.texts("artefacts", among=can),
        accelerator=table.text("accelerator", default=None),
        device=table.text("device", default=None),
    )
    table.done()
    able = [
        backends_on(check_device(backend.device), a.split("-")[0]) or () for a in backend.artefacts if backend.device
    ]
    if any(name not in names for names in able):
        raise table.wrong("device", f"one that {name} asks for", backend.device)
    return backend


def _calibration(table: _Table, artefacts: tuple[str, ...]) -> Calibration:
    calibration = Calibration(
        group=table.text("group", pattern=re.compile(r"[a-z0-9-]+/[a-z0-9-]+"), expected='as "jetson-nano/tensorrt"'),
        artefact=table.text("artefact"),
        precision=table.text("precision", pattern=re.compile("int8|fp16|fp32"), expected="int8 | fp16 | fp32"),
        range_only=bool(table.get("range_only", int, "0 or 1", default=0)),
    )
    if calibration.artefact not in artefacts:
        raise table.wrong("artefact", f"one of this board's ({', '.join(artefacts)})", calibration.artefact)
    table.done()
    return calibration


def _sensors(source: str, value: Any) -> Mapping[str, str]:
    table = _Table(source, "sensors", value)
    found = {name: table.text(name, default=None) for name in SENSORS}
    table.done()
    return {name: path for name, path in found.items() if path is not None}


def _tflite(source: str, value: Any) -> TfliteLimits | None:
    if value is None:
        return None
    table = _Table(source, "tflite", value)
    ops = table.get("ops", dict, "a table of OPERATION = highest version", default=None)
    for op, version in (ops or {}).items():
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise table.wrong(f"ops.{op}", "a version from 1", version)
    limits = TfliteLimits(
        min_runtime_version=table.text(
            "min_runtime_version", pattern=_VERSION, expected='a version such as "2.5"', default=None
        ),
        ops=ops,
    )
    table.done()
    return limits


def _onnx(source: str, value: Any) -> OnnxLimits | None:
    if value is None:
        return None
    table = _Table(source, "onnx", value)
    limits = OnnxLimits(
        opset=table.get("opset", int, "a number"),
        ir=table.get("ir", int, "a number"),
        ops=frozenset(table.texts("ops", default=None)) or None,
    )
    table.done()
    return limits
