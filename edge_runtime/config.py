"""The settings of ``edgeveil-edge run``: flags, and a file of the same names that is read first; flags win.

    {"bundle": "/var/lib/edgeveil/hall.veil", "trust": "/etc/edgeveil/trust", "source": "camera:0",
     "sink": ["mqtts://broker/hall"], "max-latency": 0.5}

What may leave, how often, and of which size, is signed in the bundle; no setting here can make it more.
"""

import os
from typing import Any, Dict, List, NamedTuple, Optional

from edgeveil.edge_runtime.camera_address import on_network, parse
from edgeveil.edge_runtime.device import WORDS, check_device
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.paths import DEFAULT_PATH

_MOST_BYTES = 1 << 20
REQUIRED = ("bundle", "trust", "source", "sink")
LOG_KINDS = ("memory", "text", "json")
# Each lets something of the raw picture go further than usual: only a person at the device may set them, as a flag.
FLAGS_ALONE = ("camera-aid", "accept-raw-on-network")
RENAMED = {"aim": "camera-aid"}  # names of earlier versions
_FILES = ("npz", "csv", "arff", "images", "video")  # kinds of sources and sinks that are files; all others are live


class Settings(NamedTuple):
    """Every setting, by its flag's name with ``_`` for ``-``. Times are in seconds, ``fps`` in ticks a second."""

    bundle: str
    trust: str
    source: str
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
    inside_user: Optional[str]
    camera_aid: bool
    accept_raw_on_network: bool


Setting = NamedTuple(
    "Setting",
    [
        ("kind", Any),  # str, int, float, bool, or list (of str)
        ("default", Any),
        ("metavar", str),
        ("help", str),
        ("low", float),
        ("high", float),
    ],
)


def _number(kind: Any, default: Any, metavar: str, text: str, low: float, high: float) -> Setting:
    return Setting(kind, default, metavar, text, low, high)


def _other(kind: Any, default: Any, metavar: str, text: str) -> Setting:
    return Setting(kind, default, metavar, text, 0, 0)


SETTINGS = {
    "bundle": _other(str, None, "BUNDLE", "the .veil file"),
    "trust": _other(str, None, "DIR", "folder of public keys that may sign (*.pub)"),
    "source": _other(str, None, "KIND:WHERE", "csv:FILE (- for stdin), arff:FILE, npz:FILE, images:DIR, camera:N, ..."),
    "sink": _other(list, None, "KIND:WHERE", "csv:FILE (- for stdout), npz:FILE, images:DIR, mqtt:..., or several"),
    "artefact": _other(str, "auto", "NAME", "such as tflite-int8 (auto: the preferred)"),
    "backend": _other(str, "auto", "NAME", "such as onnxruntime (auto: the first here)"),
    "device": _other(str, "cpu", "WORD", "what runs the model: {} (cpu)".format(" | ".join(WORDS))),
    "threads": _number(int, 1, "N", "for the interpreter (1)", 1, 1024),
    "strict": _other(bool, False, "", "stop at the first line that is refused, with exit code 2"),
    "realtime": _other(bool, False, "", "play a recording at its own pace, as if it were live"),
    "repeat": _other(bool, False, "", "begin a recording again at its end"),
    "fps": _number(float, None, "N", "ticks a second, at most what the bundle signs (10 if it signs none)", 1e-4, 1e3),
    "max-latency": _number(float, 1.0, "S", "discard what was perturbed later than this after it came (1)", 0.001, 60),
    "duration": _number(float, None, "S", "end after so many seconds", 0.001, 1e9),
    "frames": _number(int, None, "N", "end after so many frames of a live source", 1, 2**53),
    "recheck": _number(float, 60.0, "S", "how often the golden self-test is run again (60)", 0.05, 3600),
    "hang-after": _number(float, 10.0, "S", "end the inside when it has not moved for so long (10)", 0.2, 600),
    "restarts": _number(int, 20, "N", "how often in an hour the inside may be started again (20)", 0, 10000),
    "health": _other(str, "127.0.0.1:9464", "HOST:PORT", "where /livez /readyz /metrics are (127.0.0.1:9464), or off"),
    "log": _other(str, "memory", "KIND", "memory (the last 500 events, at /logs), text or json (on stderr too)"),
    "inside-at": _other(str, None, "DIR", "the inside is a unit of its own (edgeveil-edge inside), and meets us here"),
    "inside-user": _other(str, None, "NAME", "run the process with the camera as this user (ours); needs root"),
    "camera-aid": _other(bool, False, "", "for 15 minutes, show coarse levels of the raw picture on the preview page"),
    "accept-raw-on-network": _other(bool, False, "", "read a camera over a network that may be listened to"),
}


def read(path: Optional[str]) -> Dict[str, Any]:
    """The settings of the file at ``path``, checked; of ``/etc/edgeveil/edge.json``, if it is there, for None.

    Raises ``BadInput`` for a file that cannot be read, is no strict JSON, or has a wrong key or value.
    """
    if path is None:
        path = DEFAULT_PATH
        if not os.path.lexists(path):
            return {}
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError as error:
        raise BadInput(
            "the configuration {} cannot be read: {}. Correct that, or name another with --config.".format(
                path, (error.strerror or "no such file").lower()
            )
        ) from None
    try:
        document = strict_json.loads(data)
    except strict_json.BadJson as error:
        raise BadInput("the configuration {} is no strict JSON: {}. Correct it.".format(path, error)) from None
    if type(document) is not dict:
        raise BadInput("expected an object of settings in {}; got something else".format(path))
    for name in sorted(document):
        if name in RENAMED:
            raise BadInput("{!r} in {} is now called {!r}: rename it".format(name, path, RENAMED[name]))
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
    """``value`` as the setting ``name`` has it; raises ``BadInput``. ``where`` is for the message."""
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


def merged(flags: Dict[str, Any], file: Dict[str, Any]) -> Settings:
    """Every setting: the flag's, else the file's, else its default. Raises ``BadInput`` where one is missing.

    ``flags`` and ``file`` are by the flags' names, such as ``"max-latency"``.
    """
    result = {}
    for name, setting in SETTINGS.items():
        if flags.get(name) is not None:
            result[name] = check(name, flags[name], "on the command line")
        else:
            result[name] = file.get(name, setting.default)
    missing = [name for name in REQUIRED if not result[name]]
    if missing:
        raise BadInput(
            "expected {} as a flag (the bundle as the first argument) or in the configuration".format(
                " and ".join(missing)
            )
        )
    return Settings(**{field(name): value for name, value in result.items()})


def field(name: str) -> str:
    """The field of ``Settings`` that holds the setting of that flag."""
    return name.replace("-", "_")


def needs_service(settings: Settings) -> bool:
    """Whether these settings ask for the service of two processes; else one process goes from file to file."""
    if settings.inside_at or settings.inside_user or settings.realtime or settings.repeat:
        return True
    return any(text.partition(":")[0] not in _FILES for text in [settings.source] + settings.sink)


def for_inside(settings: Settings) -> Settings:
    """The settings that the inside gets: no sinks, and no camera credentials, which only the fetching process needs."""
    return settings._replace(
        source=parse(settings.source).shown if on_network(settings.source) else settings.source,
        trust=os.path.abspath(settings.trust),
        sink=[],
        health="off",
    )
