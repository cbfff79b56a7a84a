"""Where perturbed frames go: ``open_sink("npz:FILE")``, ``"images:DIR"``, ``"mqtt://broker/hall"``, several of them."""

import importlib

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.base import Sink

__all__ = ["Sink", "open_sink"]

_FILES = {
    "npz": ("npz", "NpzSink"),
    "images": ("images", "ImagesSink"),
    "video": ("video", "VideoSink"),
    "csv": ("text", "CsvSink"),
}
_ROTATING = {"npz": ".npz", "images": "", "video": ".avi"}
_LIVE = {
    "mqtt": ("network.mqtt", "MqttSink"),
    "mqtts": ("network.mqtt", "MqttSink"),
    "http": ("network.http", "HttpSink"),
    "https": ("network.http", "HttpSink"),
    "tcp": ("network.tcp", "TcpSink"),
}


def open_sink(text, outputs, manifest=None, options=None):
    """The sink that ``text`` (``KIND:WHERE``) names, for frames with ``outputs`` as the manifest lists them.

    Several texts in a list are one sink that hands every frame to each. ``manifest`` is the whole verified manifest,
    ``options`` what the program around it brings (docs/reference/sinks.md lists them).

    Raises ``BadInput`` for a kind nobody knows or a place that cannot take them, ``DeviceFailed`` where a library that
    the kind needs is not installed or the place cannot be written to.
    """
    if not isinstance(text, str):
        from edgeveil.edge_runtime.sinks.group import open_several

        return open_several(text, lambda one: open_sink(one, outputs, manifest, options))
    kind, colon, place = text.partition(":")
    if kind in _LIVE and colon and place.startswith("//"):
        module, name = _LIVE[kind]
        return _class(module, name)(text, outputs, manifest, dict(options or {}))
    if kind == "preview" and colon and place:
        return _class("preview.sink", "PreviewSink")(place, outputs, manifest, dict(options or {}))
    if kind in _FILES and colon and place:
        return _file_sink(kind, place, outputs, manifest)
    # What stands behind the colon may hold a password.
    raise BadInput(
        "expected a sink as csv:FILE, npz:FILE or images:DIR, video:FILE, mqtt://HOST/TOPIC, http://HOST/PATH, "
        "tcp://HOST:PORT or preview:PORT; got {!r}".format(kind if colon else text)
    )


def _file_sink(kind, place, outputs, manifest):
    from edgeveil.edge_runtime.sinks.uri import Known, rotation, split

    module, name = _FILES[kind]
    known: Known = {"rotate": rotation} if kind in _ROTATING else {}
    if kind == "video":
        from edgeveil.edge_runtime.sinks import video

        known.update(fps=video.rate, codec=video.codec)
    path, settings = split(place, known) if known else (place, {})
    limits = settings.pop("rotate", None)
    capture = manifest.get("capture") if manifest else None
    if kind == "video" and capture and "fps" not in settings:
        settings["fps"] = capture["tick_hz"]

    def make(where):
        return _class(module, name)(where, outputs, **settings)

    if limits is None:
        return make(path)
    from edgeveil.edge_runtime.sinks.network.wire import Format
    from edgeveil.edge_runtime.sinks.rotating import RotatingSink

    # npz holds every output and the index; of the others the main one is most of it.
    size = Format(outputs).payload_bytes + 8
    return RotatingSink(path, make, suffix=_ROTATING[kind], limits=limits, frame_bytes=size, twice=kind == "npz")


def _class(module, name):
    return getattr(importlib.import_module("edgeveil.edge_runtime.sinks." + module), name)
