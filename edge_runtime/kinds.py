"""The kinds of sources and sinks, the words before the colon. Each is checked before anything is opened."""

import re
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.errors import BadInput


class SourceKind(NamedTuple):
    """The module and class of a source, whether it needs text behind the colon, and its sensor (None: a file)."""

    module: str
    name: str
    needs_text: bool
    sensor: Optional[str] = None


SOURCES = {
    "csv": SourceKind("text", "LinesSource", True),
    "arff": SourceKind("text", "ArffSource", True),
    "npz": SourceKind("npz", "NpzSource", True),
    "images": SourceKind("images", "ImagesSource", True),
    "simulate": SourceKind("simulate", "SimulatedSource", True, "depth"),
    "video": SourceKind("video", "VideoSource", True),
    "camera": SourceKind("camera", "CameraSource", True, "camera"),
    "libcamera": SourceKind("libcamera", "LibcameraSource", False, "camera"),
    "gst": SourceKind("gst", "GstSource", True),  # any sensor that a pipeline reads
    "kinect": SourceKind("kinect", "KinectSource", False, "depth"),
    "openni": SourceKind("openni", "OpenNISource", False, "depth"),
    "realsense": SourceKind("realsense", "RealSenseSource", False, "depth"),
    "wifi": SourceKind("wifi", "WifiSource", True, "wifi"),
    "serial": SourceKind("serial_port", "SerialPort", True, "motion"),  # or any other that a microcontroller reads
    "iio": SourceKind("iio", "IioDevice", True, "motion"),  # or what else Industrial I/O knows
    "http": SourceKind("http", "HttpSource", True, "camera"),
    "https": SourceKind("http", "HttpsSource", True, "camera"),
    "rtsp": SourceKind("rtsp", "RtspSource", True, "camera"),
    "rtsps": SourceKind("rtsp", "RtspsSource", True, "camera"),
}
# Their libraries need shared memory, which a limit on the files that a process may write would cover.
WRITES_FILES = ("libcamera", "gst")
_DAEMON_CAMERA = r"(?s)gst:.*\bnvarguscamerasrc\b"
FILE_SINKS = {
    "npz": ("npz", "NpzSink"),
    "images": ("images", "ImagesSink"),
    "video": ("video", "VideoSink"),
    "csv": ("text", "CsvSink"),
}
LIVE_SINKS = {
    "mqtt": ("mqtt", "MqttSink"),
    "mqtts": ("mqtt", "MqttSink"),
    "http": ("http", "HttpSink"),
    "https": ("http", "HttpSink"),
    "tcp": ("tcp", "TcpSink"),
}
PREVIEW = "preview"
_REPLAYED = ("images", "video")  # files that can be played at the pace they were recorded at
_SINKS = (*FILE_SINKS, *LIVE_SINKS, PREVIEW)


def needs_daemon(source: str) -> bool:
    """Whether a source's frames come from a daemon that answers at a socket: NVIDIA's CSI cameras."""
    return re.match(_DAEMON_CAMERA, source) is not None


def check_source(text: str) -> Tuple[str, str]:
    """Kind and place of a source. Raises ``BadInput`` with the nearest kind for one that there is not."""
    kind, colon, where = text.partition(":")
    if kind in SOURCES and colon and (where or not SOURCES[kind].needs_text):
        return kind, where
    kinds = ", ".join(name + ":" for name in sorted(SOURCES))
    problem = "expected a source as KIND:WHERE, such as npz:FILE or images:DIR, with a KIND of {}; got {!r}"
    # The text after the colon may be an address with a password.
    given = kind + ":" if colon and where else text
    raise BadInput(problem.format(kinds, given) + _nearest(kind, dict.fromkeys(SOURCES, ""), _SINKS, "sink"))


def check_sink(uri: str) -> Tuple[str, str]:
    """Kind and place of a sink. Raises ``BadInput`` with the nearest kind for one that there is not."""
    kind, colon, where = uri.partition(":")
    if kind in _SINKS and colon and where and (kind not in LIVE_SINKS or where.startswith("//")):
        return kind, where
    # The text after the colon may hold a password.
    raise BadInput(
        "expected a sink as csv:FILE, npz:FILE or images:DIR, video:FILE, mqtt://HOST/TOPIC, http://HOST/PATH, "
        "tcp://HOST:PORT or preview:PORT; got {!r}".format(kind if colon else uri)
        + _nearest(kind, {name: "//" if name in LIVE_SINKS else "" for name in _SINKS}, tuple(SOURCES), "source")
    )


def check_replay(source: str, realtime: bool, repeat: bool) -> bool:
    """Whether a source is a recording. Raises ``BadInput`` for another one that is to be played as one."""
    kind = source.partition(":")[0]
    if (realtime or repeat) and kind not in _REPLAYED:
        problem = (
            "expected a recording ({}) to play in real time or again and again; {}: is not one. Leave that option out."
        )
        raise BadInput(problem.format(", ".join(name + ":" for name in _REPLAYED), kind))
    return kind in _REPLAYED


def check_sensor(source: str, wanted: Optional[str]) -> None:
    """Raise ``BadInput`` where a source reads another sensor than the one that the bundle is for.

    ``wanted`` is the manifest's ``input.sensor``; None: the bundle does not say, and anything of its shape is taken.
    """
    kind = source.partition(":")[0]
    given = SOURCES[kind].sensor if kind in SOURCES else None
    if wanted is None or given is None or given == wanted:
        return
    fits = ", ".join(name + ":" for name, one in SOURCES.items() if one.sensor == wanted)
    raise BadInput(
        "{}: gives {}, and this bundle is for {}: its output would mean nothing. Take one of {}, or a file of such "
        "samples".format(kind, _WORDS[given], _WORDS[wanted], fits)
    )


def check_shape(source: str, shape: Sequence[int]) -> None:
    """Raise ``BadInput`` where a source never gives frames of the shape that a bundle takes of its sensor.

    A bundle may not say which sensor it is for; its ``shape`` (manifest/sensor.py) still rules some out.
    """
    kind = source.partition(":")[0]
    given = SOURCES[kind].sensor if kind in SOURCES else None
    if given is None or given == "motion":  # its steps become windows, of which the source says more
        return
    if len(shape) == (3 if given in ("camera", "depth") else 1) and (given != "depth" or shape[2] == 1):
        return
    raise BadInput(
        "{}: gives {}, and this bundle takes frames of {}: it could use none. Take a source or a file of such "
        "samples".format(kind, _WORDS[given], " x ".join(map(str, shape)))
    )


_WORDS = {"camera": "pictures of a camera", "depth": "depth pictures", "wifi": "WiFi strengths", "motion": "motion"}


def _nearest(word: str, known: Dict[str, str], others: Tuple[str, ...], other: str) -> str:
    """A sentence with the kind that was meant, where one is near."""
    if word in known:
        return ". Write {}:{}...".format(word, known[word])
    if word in others:
        return ". {}: is a {}.".format(word, other)
    import difflib

    near = difflib.get_close_matches(word.lower(), known, 1)
    return ". Did you mean {}:{}?".format(near[0], known[near[0]]) if near else ""
