"""The network that finds the people who are counted: read from its file, linted, and recorded on golden pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.backends.model_lint import check
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, FrameDropped
from edgeveil.trainer.export.lint import Finding, lint, refuse
from edgeveil.trainer.export.manifest_entry import artefact_entry
from edgeveil.trainer.graphs.graph import Graph
from edgeveil.trainer.graphs.read import read
from edgeveil.trainer.recipe.count import CountedBy

PICTURES = 2
TOLERANCE = 0.05  # of scores between two machines
_OWN = "CUSTOM TFLite_Detection_PostProcess"  # every TFLite interpreter has it, under a name of its own
_ENDS = ("no-float-island", "int8-ends")  # boxes are float, whatever finds them


def section(asked: CountedBy, profiles: Sequence[Profile]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest's ``detector`` and its members. Raises ``BadInput`` where a board cannot run the file."""
    path = Path(asked.file)
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = (error.strerror or "it cannot be read").lower()
        raise BadInput(f"`count.detector.file`: a network was expected at {path}: {problem}.") from None
    form = path.suffix[1:]
    try:
        graph = read(data, form)
    except BadInput as error:
        raise BadInput(f"`count.detector.file`: {path} is no {form} file that can be read: {error}") from None
    entry = _entry(asked, data, graph)
    check(data, graph.format, what="The detector")
    _lint(graph, entry, profiles)
    golden = {"input": "golden/detector.input.npy", "scores": "golden/detector.scores.npy"}
    pictures, scores = _golden(asked, data, entry)
    members = {entry["file"]: data, golden["input"]: _npy(pictures), golden["scores"]: _npy(scores)}
    rest = asked.model_dump(exclude={"file", "boxes", "scores", "classes"})
    return {"artefact": entry, "golden": golden, **rest}, members


def _entry(asked: CountedBy, data: bytes, graph: Graph) -> dict[str, Any]:
    ends = {"boxes": asked.boxes, "scores": asked.scores}
    ends |= {} if asked.classes is None else {"classes": asked.classes}
    missing = [name for name in ends.values() if name not in graph.outputs]
    if missing or len(graph.inputs) != 1:
        raise BadInput(
            f"`count.detector`: a network with one input and the outputs {', '.join(ends.values())} was expected; "
            f"{asked.file} has {len(graph.inputs)} and {', '.join(sorted(graph.outputs))}. Name its own with `boxes`, "
            "`scores` and `classes`."
        )
    ((name, picture),) = graph.inputs.items()
    precision = "int8" if picture.dtype in ("int8", "uint8") else "float32"
    entry = artefact_entry(
        data,
        graph,
        file=f"artefacts/detector.{graph.format}",
        precision=precision,
        inputs=[name],
        outputs=list(ends.values()),
        max_abs=TOLERANCE,
    )
    for tensor, own in zip([*entry["inputs"], *entry["outputs"]], ["picture", *ends], strict=True):
        tensor["name"] = own
    return entry


def _lint(graph: Graph, entry: dict[str, Any], profiles: Sequence[Profile]) -> None:
    def told(finding: Finding) -> bool:
        return finding.rule not in _ENDS and (finding.op is None or finding.op.kind != _OWN)

    name = f"{graph.format}-{entry['precision']}"
    without = [one.name for one in profiles if not any(a.startswith(graph.format + "-") for a in one.artefacts)]
    if without:
        raise BadInput(
            f"`count.detector.file`: {', '.join(without)} runs no {graph.format}: give another format of it."
        )
    boards: list[Profile | None] = [*profiles]
    for board in boards or [None]:
        findings = [one for one in lint(graph, entry["precision"], board) if told(one)]
        refuse([(name, "detector", None if board is None else board.name, findings)])


def _golden(asked: CountedBy, data: bytes, entry: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of noise in the range that it takes, and its scores for them here."""
    shape = entry["inputs"][0]["shape"]
    rng = np.random.default_rng(0)
    pictures = rng.uniform(asked.low, asked.high, (PICTURES, *shape[1:])).astype(np.float32)
    try:
        runner = open_backend(entry["format"], data, entry)
    except DeviceFailed as error:
        raise BadInput(f"`count.detector.file`: {asked.file} does not run here: {error}") from None
    try:
        scores = [np.asarray(runner.run({"picture": one[None]})["scores"]) for one in pictures]
    except FrameDropped as drop:
        raise BadInput(f"`count.detector.file`: {asked.file} fails on a picture ({drop.reason}).") from None
    finally:
        runner.close()
    return pictures, np.concatenate(scores).astype(np.float32)


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
