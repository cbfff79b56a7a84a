"""The settings of ``edgeveil-edge run``: flags, and a file with the same names; flags win.

    {"bundle": "/var/lib/edgeveil/hall.veil", "trust": "/etc/edgeveil/trust", "source": "camera:0",
     "sink": ["mqtts://broker/hall"], "max-latency": 0.5}

The bundle signs what may be emitted, how often and of which size; no setting here can make it more.
"""

import errno
import os
from typing import Any, Dict, List, NamedTuple, Optional

from edgeveil.edge_runtime.camera_address import on_network, parse
from edgeveil.edge_runtime.device import check_device
from edgeveil.edge_runtime.errors import GONE, BadInput
from edgeveil.edge_runtime.kinds import SINKS, SOURCES, check_replay, check_sink, check_source, fact_of
from edgeveil.edge_runtime.paths import DEFAULT_PATH, LEDGER
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.filesystem import STATE_BYTES, read_strict

REQUIRED = ("bundle", "trust", "source", "sink")
LOG_KINDS = ("memory", "text", "json")
# Each lets something of the raw picture go further than usual: only a person at the device may set it, as a flag.
FLAGS_ALONE = ("camera-aid", "accept-raw-on-network")
RENAMED = {"aim": "camera-aid"}  # names of earlier versions
TRIAL_FRAMES = 30  # on which a release is tried before it replaces another
CHOICES = ("artefact", "backend", "device", "threads")  # what runs the models; options of ``Perturber.open``


class Settings(NamedTuple):
    """Every setting, by its flag's name with ``_`` for ``-``. Times are in seconds, ``fps`` in ticks a second."""

    bundle: str
    trust: str
    source: str
    source_credentials: Optional[str]
    sink: List[str]
    artefact: str
    backend: str
    device: str
    threads: int
    strict: bool
    realtime: bool
    repeat: bool
    fps: Optional[float]
    max_latency: float
    duration: Optional[float]
    frames: Optional[int]
    recheck: float
    hang_after: float
    restarts: int
    health: str
    log: str
    inside_at: Optional[str]
    frames_at: Optional[str]
    inside_user: Optional[str]
    ledger: str
    subject_column: Optional[int]
    camera_aid: bool
    accept_raw_on_network: bool
    as_root: bool


class Setting(NamedTuple):
    """The type, default and help of one setting; ``low`` and ``high`` are the limits of a number."""

    kind: Any  # str, int, float, bool, or list (of str)
    default: Any
    metavar: str
    help: str
    low: float = 0
    high: float = 0


SETTINGS = {
    "bundle": Setting(str, None, "BUNDLE", "the .veil file"),
    "trust": Setting(str, None, "DIR", "folder of public keys that may sign (*.pub)"),
    "source": Setting(str, None, "KIND:WHERE", "csv:FILE (- for stdin), arff:FILE, npz:FILE, images:DIR, camera:N ..."),
    "source-credentials": Setting(str, None, "FILE", "file with USER:PASSWORD of a network camera"),
    "sink": Setting(list, None, "KIND:WHERE", "csv:FILE (- for stdout), npz:FILE, images:DIR, mqtt:..., or several"),
    "artefact": Setting(str, "auto", "NAME", "such as tflite-int8 (auto: the preferred)"),
    "backend": Setting(str, "auto", "NAME", "such as onnxruntime (auto: the first here)"),
    "device": Setting(str, "cpu", "WORD", "what runs the model: cpu, or the word of an accelerator (cpu)"),
    "threads": Setting(int, 1, "N", "for the interpreter (1)", 1, 1024),
    "strict": Setting(bool, False, "", "stop at the first refused line, with exit code 2"),
    "realtime": Setting(bool, False, "", "play a recording at its own pace, as if it were live"),
    "repeat": Setting(bool, False, "", "repeat a recording from its start at its end"),
    "fps": Setting(float, None, "N", "ticks a second, at most what the bundle signs (10 if it signs none)", 1e-4, 1e3),
    "max-latency": Setting(float, 1.0, "S", "drop a frame that was not perturbed within this time (1)", 0.001, 60),
    "duration": Setting(float, None, "S", "end after this many seconds", 0.001, 1e9),
    "frames": Setting(int, None, "N", "end after this many frames of a live source", 1, 2**53),
    "recheck": Setting(float, 60.0, "S", "time between two golden self-tests (60)", 0.05, 3600),
    "hang-after": Setting(float, 10.0, "S", "kill the inside when it has hung for this long (10)", 0.2, 600),
    "restarts": Setting(int, 20, "N", "most restarts of the inside in an hour (20)", 0, 10000),
    "health": Setting(
        str, "127.0.0.1:9464", "HOST:PORT", "address of /livez /readyz /metrics (127.0.0.1:9464), or off"
    ),
    "log": Setting(str, "memory", "KIND", "memory (the last 500 events, at /logs), text or json (on stderr too)"),
    "inside-at": Setting(str, None, "DIR", "folder to meet an inside that is its own unit (edgeveil-edge inside)"),
    "frames-at": Setting(
        str, None, "DIR", "folder to meet a camera's process that is its own unit (edgeveil-edge camera)"
    ),
    "inside-user": Setting(
        str, None, "NAME", "run the process with the camera as this user (of root: nobody); needs root"
    ),
    "ledger": Setting(str, LEDGER, "FILE", "where a bundle that promises an epsilon counts it ({})".format(LEDGER)),
    "subject-column": Setting(
        int, None, "N", "column of csv: that says whose line it is, from 1; no feature", 1, 65536
    ),
    "camera-aid": Setting(bool, False, "", "for 15 minutes, show coarse levels of the raw picture on the preview page"),
    "accept-raw-on-network": Setting(bool, False, "", "read a camera over a network where others can read it"),
    "as-root": Setting(bool, False, "", "let the process with the network be root"),
}


def read(path: Optional[str]) -> Dict[str, Any]:
    """The checked settings of the file at ``path``; for None, of ``/etc/edgeveil/edge.json`` if that exists.

    Raises ``BadInput`` for a file that cannot be read, is not strict JSON, or has a wrong key or value.
    """
    if path is None:
        path = DEFAULT_PATH
        if not os.path.lexists(path):
            return {}
    try:
        if path.startswith("/dev/fd/"):  # a descriptor that was given to this process
            with open(path, "rb") as file:
                data: Optional[bytes] = file.read(STATE_BYTES)
        else:
            data = read_strict(path, links=True)
        if data is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    except OSError as error:
        raise BadInput(
            "the configuration {} cannot be read: {}. Correct that, or name another with --config.".format(
                path, (error.strerror or "no such file").lower()
            )
        ) from None
    try:
        document = strict_json.loads(data)
    except strict_json.BadJson as error:
        raise BadInput("the configuration {} is not strict JSON: {}. Correct it.".format(path, error)) from None
    return checked(document, path)


def checked(document: Any, path: str) -> Dict[str, Any]:
    """The settings of a configuration, each checked; ``path`` is for messages. Raises as ``read``."""
    if type(document) is not dict:
        raise BadInput("expected an object of settings in {}; got something else".format(path))
    for name in sorted(document):
        if name in RENAMED:
            raise BadInput("{!r} in {} is now called {!r}: rename it".format(name, path, RENAMED[name]))
        if "run --" + name in GONE:
            raise BadInput("{!r} in {}: {}. Remove it.".format(name, path, GONE["run --" + name]))
        if name not in SETTINGS:
            raise BadInput(
                "{} has the key {!r}, which is unknown; the keys are those of the flags: {}".format(
                    path, name[:40], ", ".join(sorted(SETTINGS))
                )
            )
        if name in FLAGS_ALONE and document[name]:
            raise BadInput("{!r} in {} would stay on unseen: give it as a flag, --{}".format(name, path, name))
    return {name: check(name, value, "in " + path) for name, value in document.items()}


def check(name: str, value: Any, where: str) -> Any:
    """The checked ``value`` of the setting ``name``; raises ``BadInput``. ``where`` is for the message."""
    setting = SETTINGS[name]
    if setting.kind is list:
        value = [value] if type(value) is str else value
        if type(value) is not list or not value or not all(type(one) is str for one in value):
            raise BadInput("expected one text or a list of texts as {!r} {}".format(name, where))
        return value
    if setting.kind is float and type(value) is int:
        value = float(value)
    if type(value) is not setting.kind:
        words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        raise BadInput("expected {} as {!r} {}; got {}".format(words[setting.kind], name, where, type(value).__name__))
    if setting.high and not setting.low <= value <= setting.high:
        raise BadInput(
            "expected {:g} to {:g} as {!r} {}; got {:g}".format(setting.low, setting.high, name, where, value)
        )
    if name == "device":
        check_device(value)
    if name == "log" and value not in LOG_KINDS:
        raise BadInput("expected one of {} as 'log' {}; got {!r}".format(", ".join(LOG_KINDS), where, value))
    return value


def value_of(name: str, flag: Any, file: Dict[str, Any]) -> Any:
    """One setting: the flag's value, else the file's, else the default. Raises ``BadInput``."""
    if flag is not None:
        if name == "source" and on_network(flag) and parse(flag).user is not None:
            raise BadInput(
                "a password on the command line shows up in process lists: put USER:PASSWORD into a file that only you "
                "may read, and name it with --source-credentials FILE; or put the source into the configuration"
            )
        return check(name, flag, "on the command line")
    return file.get(name, SETTINGS[name].default)


def merged(flags: Dict[str, Any], file: Dict[str, Any]) -> Settings:
    """Every setting: the flag's, else the file's, else its default. Raises ``BadInput`` if one is missing.

    ``flags`` are by their fields of ``Settings``, ``file`` by the flags' names, such as ``"max-latency"``.
    """
    result = {name: value_of(name, flags.get(field(name)), file) for name in SETTINGS}
    missing = [name for name in REQUIRED if not result[name]]
    if missing:
        raise BadInput(
            "expected {} on the command line or in the configuration".format(
                " and ".join("a bundle" if name == "bundle" else "--" + name for name in missing)
            )
        )
    return Settings(**{field(name): value for name, value in result.items()})


def check_start(settings: Settings) -> None:
    """Raise ``BadInput`` where a run with these settings would not begin, whatever its bundle and its board are."""
    check_source(settings.source)
    if settings.frames_at and not settings.inside_at:
        raise BadInput("--frames-at is for the inside of a unit of its own: leave it out, or add --inside-at DIR")
    check_replay(settings.source, settings.realtime, settings.repeat)
    for sink in settings.sink:
        check_sink(sink)


def field(name: str) -> str:
    """The field of ``Settings`` for a flag."""
    return name.replace("-", "_")


def choices(settings: Settings) -> Dict[str, Any]:
    """The options of ``Perturber.open`` that choose what runs the models."""
    return {name: getattr(settings, name) for name in CHOICES}


def needs_service(settings: Settings) -> bool:
    """Whether these settings need the service of two processes; else one process perturbs file to file."""
    if settings.inside_at or settings.inside_user or settings.realtime or settings.repeat:
        return True
    return not (fact_of(SOURCES, settings.source, "file") and all(fact_of(SINKS, one, "file") for one in settings.sink))


def for_inside(settings: Settings) -> Settings:
    """The settings for the inside: no sinks, and no camera credentials, which only the fetching process needs."""
    return settings._replace(
        source=parse(settings.source).shown if on_network(settings.source) else settings.source,
        source_credentials=None,
        trust=os.path.abspath(settings.trust),
        sink=[],
        health="off",
    )
