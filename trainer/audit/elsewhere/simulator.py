"""An audit of what a vendor's simulator computes of a compiled artefact: a column of the card, though no board ran it.

The simulator computes what the compiler's quantisation made of the network. It compiles anew, from the same artefact
and calibration rows; that this is the same network is held by the golden outputs, which must come out to the bit.
"""

from __future__ import annotations

import hashlib
import io
import platform
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.remote import RemoteRows
from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.trainer.audit.open import open_target
from edgeveil.trainer.audit.sections.board_section import OnBoard, draws
from edgeveil.trainer.audit.subject import Subject, further_outputs, in_chunks
from edgeveil.trainer.export.compilers import rockchip
from edgeveil.trainer.export.compilers.compiled import NotCompiled
from edgeveil.trainer.export.export import calibration_of
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

MEANING = (
    "The test slice went through the simulator of the compiler's maker on a workstation; no board ran it. Attackers "
    "learned on what the artefact that was compiled lets out of the other slices. Readings are compared with that "
    "artefact's under the noise that was drawn for the simulator."
)


def audit_on_simulator(
    folder: ExportFolder, python: Path, *, artefact: str, budget: str, seed: int, tried: int | None, resume: bool
) -> dict[str, Any]:
    """The audit document of an export's compiled artefact as its simulator computes it, with its ``on_board``.

    As ``simulated`` and ``audit``. Raises ``BadInput`` as these, and where the export was not audited yet.
    """
    from edgeveil.trainer.audit.audit import audit

    if folder.audit is None:
        raise BadInput(f"{folder.folder} was not audited yet: run edgeveil audit {folder.folder} first.")
    alike = folder.audit["budget"] == budget and folder.audit["seed"] == seed
    return audit(
        folder.folder,
        artefact=artefact,
        budget=budget,
        seed=seed,
        tried=tried,
        label_only=folder.audit["label_only"] if alike else None,
        there=simulated(folder, python, artefact),
        resume=resume,
    )


def simulated(folder: ExportFolder, python: Path, artefact: str) -> OnBoard:
    """The test slice as the simulator computes it.

    ``python`` has the toolkit that compiled the artefact, in the same version. Raises ``BadInput`` where the artefact
    has no simulator, or where this is not the network that was compiled.
    """
    opened = open_target(folder.folder, run=None, trust=None, artefact=artefact)
    subject: Subject = opened.subject
    subject.sha256()
    load_tensorflow()
    runners = _runners(subject, opened.run, python)
    _same_network(subject, runners)
    further = [*subject.manifest["outputs"], *further_outputs(subject), *draws(subject.manifest)]
    pipeline = Pipeline(parse({**subject.manifest, "outputs": further}), tables=subject.tables(), runners=runners)
    try:
        outputs = in_chunks(pipeline.run, opened.run.dataset().part("test").x)
    except NotCompiled as error:
        raise BadInput(f"The simulator did not compute the test slice: {rockchip.TOOLKIT} {error}.") from None
    infos = {model: runner.info() for model, runner in runners.items()}
    chip = next(iter(runners.values())).chip
    ran = {"backends": infos, "device": chip, "edge_runtime": __version__, "numpy": np.__version__}
    place = {"architecture": platform.machine(), "system": None, "python": platform.python_version()}
    rows = RemoteRows(artefact, outputs, ran, {"board": rockchip.SIMULATOR, **place, "simulated": True})
    return OnBoard(rows, hashlib.sha256((folder.folder / "manifest.json").read_bytes()).hexdigest(), MEANING)


def _runners(subject: Subject, run: Run, python: Path) -> dict[str, rockchip.Simulator]:
    entries = {name: model["artefacts"] for name, model in subject.manifest["models"].items()}
    compiled = {name: mine[subject.artefact] for name, mine in entries.items()}
    if any(entry["format"] != "rknn" for entry in compiled.values()):
        raise BadInput(
            f"An artefact that {rockchip.TOOLKIT} compiled was expected, since only that has a simulator here; got "
            f"{subject.artefact}. Audit others as they are, or on their board (--on)."
        )
    by = f"{rockchip.TOOLKIT} {rockchip.version(python)}"
    wrong = {entry["compiled"]["by"] for entry in compiled.values()} - {by}
    if wrong:
        raise BadInput(f"{subject.artefact} was compiled by {wrong.pop()}; {python} has {by}. Name the same version.")
    calibration, _ = calibration_of(run, run.perturber())
    if set(calibration) != set(entries):
        raise BadInput("This export has other networks than its run: it cannot be calibrated anew. Audit its board.")
    found = {}
    for name, mine in entries.items():
        source = mine[compiled[name]["compiled"]["from"]]
        chip, model = compiled[name]["compiled"]["for"], subject.members[source["file"]]
        found[name] = rockchip.Simulator(python, chip, model, source, calibration[name])
    return found


def _same_network(subject: Subject, runners: dict[str, rockchip.Simulator]) -> None:
    """Raise ``BadInput`` unless the simulator's golden outputs are those that were recorded."""
    golden = subject.manifest["golden"]

    def array(file: str) -> np.ndarray:
        return np.asarray(np.load(io.BytesIO(subject.members[file]), allow_pickle=False))

    pipeline = Pipeline(parse(dict(subject.manifest)), tables=subject.tables(), runners=runners)
    drawn = {name: array(file) for name, file in golden["draws"].items()}
    try:
        made = pipeline.run(array(golden["input"]), drawn)
    except NotCompiled as error:
        raise BadInput(f"The simulator did not compute the golden samples: {rockchip.TOOLKIT} {error}.") from None
    for name, file in golden["outputs"][subject.artefact].items():
        if not np.array_equal(made[name], array(file)):
            raise BadInput(
                f"The simulator's golden {name} was expected to be that of the export, and is another: its run, or "
                "the compiler, changed since. Export again."
            )
