"""Where frames come from: ``open_source("npz:FILE")``, ``"images:DIR"``, ``"csv:-"``."""

import importlib

from edge_runtime.errors import BadInput
from edge_runtime.sources.base import Source, SourceFailed

__all__ = ["Source", "SourceFailed", "open_source"]

_KINDS = {
    "npz": ("npz", "NpzSource"),
    "images": ("images", "ImagesSource"),
    "csv": ("lines", "LinesSource"),
    "arff": ("lines", "ArffSource"),
}


def open_source(text, spec):
    """The source that ``text`` (``KIND:WHERE``) names, for readings as ``spec``, the manifest's ``input``, has them.

    Raises ``BadInput`` for a kind nobody knows or a place that holds no such readings, ``DeviceFailed`` where a
    library that the kind needs is not installed.
    """
    kind, colon, place = text.partition(":")
    if kind not in _KINDS or not colon or not place:
        raise BadInput("expected a source as csv:FILE, arff:FILE, npz:FILE or images:DIR; got {!r}".format(text))
    module, name = _KINDS[kind]
    return getattr(importlib.import_module("edge_runtime.sources." + module), name)(place, spec)
