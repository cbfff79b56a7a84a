"""A frozen benchmark set: the outputs of one artefact, with labels and slices, for others to attack.

::

    x          (n, *shape)  x' as it left
    beside     (n, k)       every further output, one-hot; only where there is one
    y, z       (n,)         class numbers; the values of z are not named
    slice      (n,)         0 classifiers, 1 perturber, 2 test, 3 attack: 0 and 1 trained the perturber, 3 did not;
                            learn on 0, 1 and 3, report on 2
    unit       (n,)         which subject or session a row is of; only where that is known
    theta      (classes of y, classes of z)  the public prior P(z|y)
    about      text, JSON: artefact and its hashes, data set, licence note

No original sample is in it, unless the perturber passed it unchanged.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.devices.flashing.board import Board
from edgeveil.devices.remote import perturb_on_board
from edgeveil.edge_runtime.bundle.reader import read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.util.atomic import atomic_path
from edgeveil.trainer.audit.findings import about_label_only
from edgeveil.trainer.audit.sections.board_section import OnBoard, draws
from edgeveil.trainer.audit.subject import KERAS, Subject, as_received, further_outputs, released_rows, run_artefact
from edgeveil.trainer.datasets.base import PARTS, SliceName
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.progress import progress
from edgeveil.trainer.results import own_folder
from edgeveil.trainer.runs.run import Run

# Open what is audited, an export folder or a sealed bundle: its manifest, its files and its run.


@dataclass(frozen=True)
class Opened:
    """What is audited and the run whose data and classifiers it is audited with."""

    subject: Subject
    run: Run


def open_target(target: Path, *, run: Path | None, trust: Path | None, artefact: str) -> Opened:
    """Open an export folder, which remembers its run, or verify a bundle against a trust folder.

    Raises ``BadInput`` where something is missing, ``BundleRefused`` where no trusted key signed the bundle.
    """
    if target.is_dir():
        folder = ExportFolder.open(target)
        place = folder.run if run is None else run
        if place is None:
            raise BadInput(f"The run that {target} was exported from is no longer there: name it with --run.")
        return Opened(_subject(folder.manifest, folder.members, artefact), Run.open(place))
    if not target.is_file():
        raise BadInput(f"An export folder or a .veil bundle was expected at {target}; there is none. Check the path.")
    if run is None or trust is None:
        raise BadInput(
            "A bundle holds no data to attack it with, and is only opened against trusted keys: name the run with "
            "--run and the folder of public keys with --trust."
        )
    bundle = read_bundle(str(target), open_trust(str(trust)))
    return Opened(_subject(bundle.manifest.document, bundle.members, artefact), Run.open(run))


def _subject(manifest: Mapping[str, Any], members: Mapping[str, bytes], artefact: str) -> Subject:
    """What to audit. Without networks there is one way to run the pipeline, for any ``artefact``."""
    return Subject(manifest, members, artefact if manifest["models"] or artefact == KERAS else NO_MODEL)


SCHEMA = 1
NUMBERS: Mapping[SliceName, int] = {"classifiers": 0, "perturber": 1, "test": 2, "attack": 3}
TASK = (
    "Infer z from x and y. Slices 0 and 1 trained the perturber, slice 3 did not: learn on any of them, choose on "
    "slice 3, report on slice 2."
)
TASK_OF_THREE = "Infer z from x and y. Learn on slices 0 and 1, choose there too, report on slice 2."
# What the publishers of each data set state. All others need a recipe that states `data.public = true`.
LICENCES = {
    "digits": "CC BY 4.0: E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998",
    "wifi": "CC BY 4.0: J. Torres-Sospedra et al., UJIIndoorLoc, UCI Machine Learning Repository, data set 310",
    "wrist": "BSD 3-clause: D. M. Burns, in the package seglearn 1.2.5",
    "drawn": "drawn by EdgeVeil: no licence is needed",
}
UNCLEAR = {
    "mnist": "its publishers state no licence",
    "faces": "it is free for research with acknowledgement, and not to be passed on in a product",
    "depth": "it is called freely available, and no licence comes with it",
    "utd-mhad": "it is called freely available, and no licence comes with it",
    "scene": "Mulan states no licence for it",
    "wq": "Mulan states no licence for it",
}


def write_frozen(opened: Opened, out: Path) -> Path:
    """Perturb every row of the run's slices with what was opened, and write them to ``out``, whole or not at all.

    Raises ``BadInput`` for data that may not be passed on, for the Keras networks, which never ship, and where ``out``
    exists.
    """
    subject, run = opened.subject, opened.run
    if subject.artefact == KERAS:
        raise BadInput(
            "A benchmark set needs an artefact that ships, and the Keras networks never do: name tflite-int8, or the "
            "artefact that goes onto the board."
        )
    if Path(out).exists():
        raise BadInput(f"{out} exists, and a frozen set is never changed: name another file.")
    licence = _licence(run.recipe.data)
    dataset = run.sample()
    rows = dataset.slices.rows()
    outputs, backends = run_artefact(subject, dataset.x[rows], own_folder(run.folder))
    declared, received = as_received(subject, outputs)
    left = released_rows(declared, received, dataset, rows)
    about = {
        "schema": SCHEMA,
        "kind": "edgeveil-frozen",
        "artefact": subject.artefact,
        "speaks_of": subject.sha256(),
        "backends": backends,
        "perturber": subject.manifest["perturber"]["kind"],
        "data": dataset.name,
        "target": run.recipe.data.target,
        "sensitive": run.recipe.data.sensitive,
        "licence": licence,
        "task": TASK if len(dataset.slices.attack) else TASK_OF_THREE,
    }
    arrays: dict[str, Any] = {
        "x": left.x,
        "y": left.y,
        "z": left.z,
        "slice": np.repeat(
            np.array([NUMBERS[name] for name in PARTS], np.uint8), [len(dataset.part(name)) for name in PARTS]
        ),
        "theta": dataset.theta,
        "about": np.array(json.dumps(about, sort_keys=True)),
    }
    arrays |= {name: one for name, one in (("beside", left.also), ("unit", left.cluster)) if one is not None}
    try:
        with atomic_path(str(out)) as temporary, Path(temporary).open("wb") as file:
            np.savez_compressed(file, **cast(Any, arrays))
    except OSError as error:
        raise BadInput(f"Cannot write {out}: {error.strerror}. Name a file in a folder that can be written.") from None
    return Path(out)


def _licence(data: Any) -> str:
    """A note on what may be done with the set. Raises ``BadInput`` unless it is known that it may be passed on."""
    source = data.own[0] if data.own else data.source
    known = LICENCES.get(source)
    if known is not None:
        return known
    reason = UNCLEAR.get(source, "it is your own")
    if not data.public:
        raise BadInput(
            f"It is not known whether the data set {source!r} may be passed on, even perturbed: {reason}. If it may, "
            "write `public = true` into [data] of the run's recipe.toml."
        )
    return f"The recipe states that these data are public; of {source!r} itself: {reason}."


# An audit of a board's own output on the test slice, compared with the workstation's.
#
# A board compiles for itself (an engine, a blob), or has other kernels: then its outputs are not those that were
# audited here. Adversaries that learned on the workstation's rows attack the board's test rows. Both are also compared
# sample by sample, with the noise that the board drew, so that only the arithmetic differs.


def audit_on_board(
    bundle: Path, board: Board, *, run: Path, trust: Path, artefact: str = "auto", device: str = CPU, **settings: Any
) -> dict[str, Any]:
    """The audit document of ``bundle`` as ``board`` runs it, with its section ``on_board``.

    ``artefact`` is a name, or ``auto`` for what the board would run on ``device``; ``settings`` are those of ``audit``.
    Of an artefact compiled for an accelerator, all other slices go through the one it was compiled from. What was
    pushed is gone from the board at the end; what came back is kept in ``own_folder`` until the document is made.
    Raises as ``audit`` does, ``BadInput`` where the board refuses the bundle, ``DeviceFailed`` where it or the line
    fails.
    """
    from edgeveil.trainer.audit.audit import audit

    opened = open_target(bundle, run=run, trust=trust, artefact=artefact)
    if artefact != "auto":
        opened.subject.sha256()
    test = opened.run.sample().part("test")
    pieces_folder = own_folder(opened.run.folder) / "on-board"
    further = [*further_outputs(opened.subject), *draws(opened.subject.manifest)]
    how: dict[str, Any] = {"artefact": artefact, "device": device, "further": further, "kept": pieces_folder}
    how["progress"] = lambda pieces: progress(f"{len(test):,} rows on {board.transport.name}", total=pieces)
    rows = perturb_on_board(board, read_file(str(bundle)), test.x, **how)
    on_board = OnBoard(rows, rows.ran["manifest_sha256"])
    document = audit(bundle, run=run, trust=trust, artefact=rows.artefact, there=on_board, **settings)
    shutil.rmtree(pieces_folder, ignore_errors=True)
    return document


def same_export(
    folder: ExportFolder, bundle: Path, trust: Path, run: Path, settings: Mapping[str, Any]
) -> Sequence[Mapping[str, Any]] | None:
    """Raise ``BadInput`` unless an export folder is that of the bundle, and was audited: its card gets a column.

    Returns the findings of its audit about label-only where that is of the same run, budget and seed: they need not be
    measured again.
    """
    if folder.audit is None:
        raise BadInput(f"{folder.folder} was not audited here yet: run edgeveil audit {folder.folder} first.")
    subject = open_target(bundle, run=run, trust=trust, artefact="auto").subject
    for artefact in subject.manifest["preference"] or [NO_MODEL]:
        sealed, here = (Subject(one.manifest, one.members, artefact) for one in (subject, folder))
        if artefact not in (folder.manifest["preference"] or [NO_MODEL]) or (
            here.pipeline_sha256() != sealed.pipeline_sha256()
        ):
            raise BadInput(
                f"{folder.folder} is not the export that the bundle was sealed from: a column of its card "
                "would be about other files. Name the right folder with --into."
            )
    alike = all(folder.audit[key] == settings[key] for key in ("budget", "seed"))
    same_run = folder.run is not None and folder.run.resolve() == run.resolve()
    return about_label_only(folder.audit) if alike and same_run else None
