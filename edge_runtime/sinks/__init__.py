"""Where perturbed frames go: ``open_sink("npz:FILE")``, ``open_sink("images:DIR")``."""

import importlib

from edge_runtime.errors import BadInput
from edge_runtime.sinks.base import Sink

__all__ = ["Sink", "open_sink"]

_KINDS = {"npz": "NpzSink", "images": "ImagesSink"}


def open_sink(text, outputs):
    """The sink that ``text`` (``KIND:WHERE``) names, for frames with ``outputs`` as the manifest lists them.

    Raises ``BadInput`` for a kind nobody knows or a place that cannot take them, ``DeviceFailed`` where a library that
    the kind needs is not installed or the place cannot be written to.
    """
    kind, colon, place = text.partition(":")
    if kind not in _KINDS or not colon or not place:
        raise BadInput("expected a sink as npz:FILE or images:DIR; got {!r}".format(text))
    return getattr(importlib.import_module("edge_runtime.sinks." + kind), _KINDS[kind])(place, outputs)
