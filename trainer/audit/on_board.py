"""An audit of what a board makes of the test slice, by its own interpreter, beside what the workstation makes of it.

A board compiles for itself (an engine, a blob), or has other kernels: then what it lets out is not what was audited
here. Its test rows are attacked by those who learned on the workstation's, and both are compared reading by reading,
with the noise that the board drew: what differs then is the arithmetic alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from devices.execute import Board
from devices.rows import Rows, through_board
from edge_runtime.backends.device import CPU
from edge_runtime.bundle import read_file
from edge_runtime.errors import BadInput
from edge_runtime.manifest import NO_MODEL
from edge_runtime.pipeline import load_pipeline
from trainer.audit import intervals
from trainer.audit.adversaries.networks import logits
from trainer.audit.anatomy import SENT
from trainer.audit.document import interval
from trainer.audit.opening import open_target
from trainer.audit.perturbing import ROWS_AT_ONCE, Perturbed, Subject, as_received, further_outputs
from trainer.datasets.base import Dataset
from trainer.progress import progress

if TYPE_CHECKING:
    from trainer.export.folder import ExportFolder

MEANING = (
    "The test slice went through the installed runtime on this board, one reading at a time. Attackers learned on what "
    "the workstation lets out of the first two slices. Readings are compared with the workstation's under the noise "
    "that the board drew."
)
NOT_THERE = (
    "An adversary who retrains on what this very board lets out: those here learned on the workstation's.",
    "Many releases of one track, on the board itself.",
)
MEMBERSHIP = "what left of members was made on the workstation, and of others on the board: that alone tells them apart"
_DRAWN = "draw "  # before the names of draws that a board hands out
# distribution -> type of what is drawn, and whether the stage says its shape
_DRAWS = {"uniform": ("float32", True), "laplace": ("int64", True), "channel": ("int64", False)}


@dataclass(frozen=True)
class OnBoard:
    """What came back from a board, and the bundle's manifest hash."""

    rows: Rows
    bundle: str


def audit_on_board(
    bundle: Path,
    board: Board,
    *,
    run: Path,
    trust: Path,
    artefact: str = "auto",
    device: str = CPU,
    label_only: Mapping[str, Any] | None = None,
    budget: str = "quick",
    seed: int = 0,
    tried: int | None = None,
) -> dict[str, Any]:
    """The audit document of ``bundle`` as ``board`` runs it, with its section ``on_board``.

    ``artefact`` is a name, or ``auto`` for what the board would run on ``device``; everything else is as in ``audit``.
    Of an artefact compiled for an accelerator, the first two slices go through the one it was compiled from. What was
    pushed is gone from the board at the end; what came back is kept in ``RUN/audit-cache`` until the document is made.
    Raises as ``audit`` does, ``BadInput`` where the board refuses the bundle, ``DeviceFailed`` where it or the line
    fails.
    """
    from trainer.audit.auditing import audit

    opened = open_target(bundle, run=run, trust=trust, artefact=artefact)
    if artefact != "auto":
        opened.subject.sha256()
    test = opened.run.dataset().part("test")
    kept = opened.run.folder / "audit-cache" / "on-board"
    rows = through_board(
        board,
        read_file(str(bundle)),
        test.x,
        artefact=artefact,
        device=device,
        further=[*further_outputs(opened.subject), *draws(opened.subject.manifest)],
        kept=kept,
        progress=lambda pieces: progress(f"{len(test):,} rows on {board.transport.name}", total=pieces),
    )
    document = audit(
        bundle,
        run=run,
        trust=trust,
        artefact=rows.artefact,
        budget=budget,
        seed=seed,
        tried=tried,
        label_only=label_only,
        there=OnBoard(rows, rows.ran["manifest_sha256"]),
    )
    shutil.rmtree(kept, ignore_errors=True)
    return document


def draws(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of outputs that hand out what each draw stage drew."""
    found = []
    for stage in manifest["stages"]:
        if stage["stage"] == "draw":
            dtype, shaped = _DRAWS[stage["distribution"]]
            shape = list(stage["shape"]) if shaped else []
            entry = {"kind": "code", "tensor": stage["output"], "shape": shape, "dtype": dtype}
            found.append({"name": _DRAWN + stage["output"], **entry})
    return found


def section(there: OnBoard, subject: Subject, dataset: Dataset, perturbed: Perturbed, target: Any) -> dict[str, Any]:
    """The document's ``on_board``. ``target`` is D_y, which reads y from frames on both sides."""
    outputs = there.rows.outputs
    test = dataset.part("test")
    drawn = {name[len(_DRAWN) :]: value for name, value in outputs.items() if name.startswith(_DRAWN)}
    declared, here = as_received(subject, _replayed(subject, test.x, drawn))
    made = as_received(subject, outputs)[1]
    found = []
    for output in _kept(declared, perturbed):
        name, kind = output["name"], output["kind"]
        found.append(_compared(name, kind, here[name], made[name], test.cluster))
        if kind == "frame":
            y, y_there = (logits(target, dataset.unit(frames[name])).argmax(axis=1) for frames in (here, made))
            found.append(_compared("y read from it", "label", y, y_there, test.cluster))
    if perturbed.table is not None:
        found.append(_compared("code before the channel", "code", here[SENT], outputs[SENT], test.cluster))
    ran = there.rows.ran
    return {
        **there.rows.board,
        "device": ran.get("device", CPU),
        "edge_runtime": ran["edge_runtime"],
        "numpy": ran["numpy"],
        "bundle": there.bundle,
        "rows": len(test),
        "compared": found,
        "meaning": MEANING,
    }


def _kept(declared: Sequence[Mapping[str, Any]], perturbed: Perturbed) -> Sequence[Mapping[str, Any]]:
    """Behind a channel both sides have what the board drew; only what is before it can differ, and is compared."""
    if perturbed.table is None:
        return declared
    hidden = isinstance(perturbed.funnel, str) or perturbed.funnel.hidden_label
    return [] if hidden else [output for output in declared if output["kind"] == "label"]


def _replayed(subject: Subject, x: np.ndarray, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same readings through the same artefact here, with the noise that was drawn there."""
    manifest = {**subject.manifest, "outputs": [*subject.manifest["outputs"], *further_outputs(subject)]}
    pipeline = load_pipeline(manifest, subject.members, subject.runs_here())
    try:
        pieces = []
        for at in range(0, len(x), ROWS_AT_ONCE):
            piece = slice(at, at + ROWS_AT_ONCE)
            pieces.append(pipeline.run(x[piece], {name: value[piece] for name, value in drawn.items()}))
    finally:
        pipeline.close()
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _compared(name: str, kind: str, here: np.ndarray, there: np.ndarray, cluster: np.ndarray | None) -> dict[str, Any]:
    """How many readings came out otherwise there, the share with its interval, and a frame's largest difference."""
    other = (here != there).reshape(len(here), -1).any(axis=1)
    share = interval(intervals.rate(other, cluster))
    apart = np.abs(here.astype(np.float64) - there.astype(np.float64)).max() if kind == "frame" else None
    return {
        "what": name,
        "kind": kind,
        "differ": int(other.sum()),
        "share": share["accuracy"],
        "low": share["low"],
        "high": share["high"],
        "max_abs": None if apart is None else round(float(apart), 6),
    }


def same_export(
    folder: ExportFolder, bundle: Path, trust: Path, run: Path, settings: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Raise ``BadInput`` unless an export folder is that of the bundle, and was audited: its card gets a column.

    Returns the label-only part of its audit where that is of the same run, budget and seed: it need not be measured
    again.
    """
    if folder.audit is None:
        raise BadInput(f"{folder.folder} was not audited here yet: run edgeveil audit {folder.folder} first.")
    subject = open_target(bundle, run=run, trust=trust, artefact="auto").subject
    for artefact in subject.manifest["preference"] or [NO_MODEL]:
        there, here = (Subject(one.manifest, one.members, artefact) for one in (subject, folder))
        if artefact not in (folder.manifest["preference"] or [NO_MODEL]) or (
            here.pipeline_sha256() != there.pipeline_sha256()
        ):
            raise BadInput(
                f"{folder.folder} is another export than the one that the bundle was sealed from: a column of its card "
                "would speak of other files. Name the right folder with --into."
            )
    alike = all(folder.audit[key] == settings[key] for key in ("budget", "seed"))
    same_run = folder.run is not None and folder.run.resolve() == run.resolve()
    return folder.audit["label_only"] if alike and same_run else None
