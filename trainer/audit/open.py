"""Open what is audited, an export folder or a sealed bundle: its manifest, its files and its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.backends.model_lint import check_all
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.trainer.audit.subject import KERAS, Subject


@dataclass(frozen=True)
class Opened:
    """What is audited and the run (``edgeveil.trainer.runs.run.Run``) whose data and classifiers it is audited with."""

    subject: Subject
    run: Any


def open_target(target: Path, *, run: Path | None, trust: Path | None, artefact: str) -> Opened:
    """Open an export folder, which remembers its run, or verify a bundle against a trust folder.

    Raises ``BadInput`` where something is missing, ``BundleRefused`` where no trusted key signed the bundle.
    """
    from edgeveil.trainer.runs.run import Run

    if target.is_dir():
        from edgeveil.trainer.export.folder import ExportFolder

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
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    bundle = read_bundle(str(target), open_trust(str(trust)))
    return Opened(_subject(bundle.manifest.document, bundle.members, artefact), Run.open(run))


def _subject(manifest: Mapping[str, Any], members: Mapping[str, bytes], artefact: str) -> Subject:
    """What to audit. Without networks there is one way to run the pipeline, for any ``artefact``.

    Raises ``BundleRefused`` for a network that draws or keeps something: what is measured of it is of this run alone.
    """
    check_all(manifest, members)
    return Subject(manifest, members, artefact if manifest["models"] or artefact == KERAS else NO_MODEL)
