"""Where perturbed frames go: ``open_sink("npz:FILE")``, ``"images:DIR"``, ``"mqtt://broker/hall"``."""

from typing import Any, Dict, List, Optional, Sequence

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SINKS, check_sink
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.registry import Kind
from edgeveil.edge_runtime.sinks.base import Sink
from edgeveil.edge_runtime.sinks.group import SinkGroup, retention
from edgeveil.edge_runtime.sinks.uri import Known, rotation, split, without_secrets

__all__ = ["Sink", "SinkGroup", "open_sink", "open_sinks"]


def open_sink(
    uri: str, outputs: List[Output], manifest: Optional[Manifest] = None, options: Optional[Dict[str, Any]] = None
) -> Sink:
    """The sink that ``uri`` (``KIND:WHERE``) names, for frames with ``outputs`` as the manifest lists them.

    ``manifest`` is the whole verified manifest, ``options`` are of the program (docs/reference/sinks.md lists them).
    Raises ``BadInput`` for an unknown kind or a path that cannot take them, ``DeviceFailed`` where a library that the
    kind needs is not installed or the path cannot be written to.
    """
    kind, where = check_sink(uri)
    if SINKS[kind].facts.get("file"):
        return _open_file_sink(SINKS[kind], where, outputs, manifest)
    opened: Sink = SINKS[kind].load()(uri, outputs, manifest, dict(options or {}))
    return opened


def open_sinks(
    uris: Sequence[str],
    outputs: List[Output],
    manifest: Optional[Manifest] = None,
    options: Optional[Dict[str, Any]] = None,
) -> SinkGroup:
    """The sinks of all ``uris`` as one, named by their URIs without secrets. Opens all or none; see ``open_sink``."""
    shown = [without_secrets(uri) for uri in uris]
    # Two addresses of one server may differ in what is not shown.
    names = [
        "{} ({})".format(name, place) if name.endswith("/...") and shown.count(name) > 1 else name
        for place, name in enumerate(shown, 1)
    ]
    if not names or len(set(names)) != len(names) or len(set(uris)) != len(uris):
        raise BadInput("expected one sink or more, all of them different; got {}".format(", ".join(names) or "none"))
    sinks: Dict[str, Sink] = {}
    try:
        for name, uri in zip(names, uris):
            sinks[name] = open_sink(uri, outputs, manifest, options)
    except BaseException:
        for sink in sinks.values():
            # Records that an earlier run left in a spool are still good.
            if sink.live:
                sink.close()
            else:
                sink.discard()
        raise
    return SinkGroup(sinks)


def _open_file_sink(kind: Kind, where: str, outputs: List[Output], manifest: Optional[Manifest]) -> Sink:
    make_sink, part = kind.load(), kind.facts.get("part")
    known: Known = dict(make_sink.options)
    if part is not None:
        known.update(rotate=rotation, keep=retention)
    path, settings = split(where, known) if known else (where, {})
    limits, keep = settings.pop("rotate", None), settings.pop("keep", None)
    if keep is not None and limits is None:
        raise BadInput("expected rotate= with keep=, which says how many of its parts stay: rotate=1h&keep=30")
    capture = manifest.capture if manifest else None
    if "fps" in known and capture and "fps" not in settings:
        settings["fps"] = capture.tick_hz

    def make(path: str) -> Sink:
        opened: Sink = make_sink(
            path, outputs, **settings, **({"manifest": manifest} if kind.facts.get("named") else {})
        )
        return opened

    if limits is None or part is None:
        return make(path)
    from edgeveil.edge_runtime.sinks.group import RotatingSink
    from edgeveil.edge_runtime.sinks.wire import Format

    # npz holds every output and the index; the other kinds hold little more than the main output.
    size, twice = Format(outputs).payload_bytes + 8, bool(kind.facts.get("twice"))
    return RotatingSink(path, make, suffix=part, limits=limits, frame_bytes=size, twice=twice, keep=keep)
