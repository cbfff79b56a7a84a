"""Where frames come from: ``open_source("npz:FILE")``, ``open_source("images:DIR")``."""

import importlib

from edge_runtime.errors import BadInput
from edge_runtime.sources.base import Source, SourceFailed

__all__ = ["Source", "SourceFailed", "open_source"]

_KINDS = {"npz": "NpzSource", "images": "ImagesSource"}


def open_source(text, spec):
    """The source that ``text`` (``KIND:WHERE``) names, for readings as ``spec``, the manifest's ``input``, has them.

    Raises ``BadInput`` for a kind nobody knows or a place that holds no such readings, ``DeviceFailed`` where a
    library that the kind needs is not installed.
    """
    kind, colon, place = text.partition(":")
    if kind not in _KINDS or not colon or not place:
        raise BadInput("expected a source as npz:FILE or images:DIR; got {!r}".format(text))
    return getattr(importlib.import_module("edge_runtime.sources." + kind), _KINDS[kind])(place, spec)
