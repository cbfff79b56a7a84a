"""An audit of a board's own output on the test slice, compared with the workstation's.

A board compiles for itself (an engine, a blob), or has other kernels: then its outputs are not those that were audited
here. Adversaries that learned on the workstation's rows attack the board's test rows. Both are also compared sample by
sample, with the noise that the board drew, so that only the arithmetic differs.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeveil.devices.flashing.board import Board
from edgeveil.devices.remote import perturb_on_board
from edgeveil.edge_runtime.bundle.reader import read_file
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.trainer.audit.open import open_target
from edgeveil.trainer.audit.sections.board_section import OnBoard, draws
from edgeveil.trainer.audit.subject import Subject, further_outputs
from edgeveil.trainer.progress import progress

if TYPE_CHECKING:
    from edgeveil.trainer.export.folder import ExportFolder


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
    resume: bool = False,
) -> dict[str, Any]:
    """The audit document of ``bundle`` as ``board`` runs it, with its section ``on_board``.

    ``artefact`` is a name, or ``auto`` for what the board would run on ``device``; everything else is as in ``audit``.
    Of an artefact compiled for an accelerator, all other slices go through the one it was compiled from. What was
    pushed is gone from the board at the end; what came back is kept in ``RUN/audit-cache`` until the document is made.
    Raises as ``audit`` does, ``BadInput`` where the board refuses the bundle, ``DeviceFailed`` where it or the line
    fails.
    """
    from edgeveil.trainer.audit.audit import audit

    opened = open_target(bundle, run=run, trust=trust, artefact=artefact)
    if artefact != "auto":
        opened.subject.sha256()
    test = opened.run.dataset().part("test")
    kept = opened.run.folder / "audit-cache" / "on-board"
    rows = perturb_on_board(
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
        resume=resume,
    )
    shutil.rmtree(kept, ignore_errors=True)
    return document


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
                f"{folder.folder} is not the export that the bundle was sealed from: a column of its card "
                "would be about other files. Name the right folder with --into."
            )
    alike = all(folder.audit[key] == settings[key] for key in ("budget", "seed"))
    same_run = folder.run is not None and folder.run.resolve() == run.resolve()
    return folder.audit["label_only"] if alike and same_run else None
