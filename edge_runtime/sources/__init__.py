"""Where frames come from: ``open_source("camera:0")``, ``"kinect:"``, ``"npz:FILE"``; docs/reference/sources.md."""

from typing import Optional

from edgeveil.edge_runtime.camera_address import on_network
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SOURCES, check_replay, check_sensor, check_source, with_fact
from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Input, expected
from edgeveil.edge_runtime.sources.base import Source
from edgeveil.edge_runtime.sources.series import open_samples

__all__ = ["Source", "on_network", "open_source"]


def open_source(
    text: str,
    spec: Input,
    capture: Optional[CaptureRules] = None,
    *,
    realtime: bool = False,
    repeat: bool = False,
    subject_column: Optional[int] = None,
) -> Source:
    """The source that ``text`` (``KIND:WHERE``) names.

    ``spec`` is the manifest's ``input`` and ``capture`` its ``capture``: together they say what the sensor must give.
    ``realtime`` plays a recording at its own pace, as if it were live; ``repeat`` starts it again at its end.
    ``subject_column`` of ``csv:``, from 1, says whose line it is.
    Raises ``BadInput`` for an unknown kind, another sensor or a file that holds no such samples, ``Missing`` where a
    library that the kind needs is not installed, ``SourceFailed`` where the device is not there or cannot give such
    frames.
    """
    kind, where = check_source(text)
    check_sensor(text, spec.sensor)
    replayed = check_replay(text, realtime, repeat)
    registered = SOURCES[kind]
    if subject_column is not None and not registered.facts.get("subjects"):
        problem = "expected {}FILE with --subject-column; {}: has no columns. Leave it out."
        raise BadInput(problem.format(" or ".join(with_fact("subjects")), kind))
    if capture is not None and capture.windows is not None and not registered.facts.get("windows"):
        if not registered.facts.get("samples"):
            raise BadInput(
                "{}: gives no samples of a series, and this bundle takes windows of them: use {} or {}FILE with "
                "windows".format(kind, ", ".join(with_fact("samples")), " or ".join(with_fact("windows")))
            )
        if subject_column is not None:
            raise BadInput("expected no --subject-column: a line of a series is a sample, no release. Leave it out")
        return open_samples(kind, where, spec, capture.windows)
    if registered.facts.get("series_only"):
        raise BadInput("{}: gives samples of a series, and this bundle takes none. Use another source".format(kind))
    make = registered.load()
    sensor = expected(spec, None if spec.kind == "series" else capture)  # here, whole windows
    if replayed:
        return make(where, sensor, realtime=realtime, repeat=repeat)
    if subject_column is not None:
        return make(where, sensor, subject_column=subject_column)
    return make(where, sensor)
