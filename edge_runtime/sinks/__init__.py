"""Where perturbed frames go: ``open_sink("npz:FILE")``, ``"images:DIR"``, ``"csv:-"``."""

import importlib

from edge_runtime.errors import BadInput
from edge_runtime.sinks.base import Sink

__all__ = ["Sink", "open_sink"]

_KINDS = {"npz": ("npz", "NpzSink"), "images": ("images", "ImagesSink"), "csv": ("lines", "CsvSink")}


def open_sink(text, outputs):
    """The sink that ``text`` (``KIND:WHERE``) names, for frames with ``outputs`` as the manifest lists them.

    Raises ``BadInput`` for a kind nobody knows or a place that cannot take them, ``DeviceFailed`` where a library that
    the kind needs is not installed or the place cannot be written to.
    """
    kind, colon, place = text.partition(":")
    if kind not in _KINDS or not colon or not place:
        raise BadInput("expected a sink as csv:FILE, npz:FILE or images:DIR; got {!r}".format(text))
    module, name = _KINDS[kind]
    return getattr(importlib.import_module("edge_runtime.sinks." + module), name)(place, outputs)
