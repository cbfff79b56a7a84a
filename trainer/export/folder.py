"""The folder that ``edgeveil export`` writes: manifest, members and report."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.atomic import take_name, write_atomic
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.export import layers
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.recipe import messages
from edgeveil.trainer.results import require_free, set_aside
from edgeveil.trainer.runs.fitted import FittedPerturber


@dataclass(frozen=True, repr=False)
class ExportFolder:
    """An export folder on disk. Read it with ``ExportFolder.open``.

    ``manifest`` is without ``members`` and audit; ``members`` has the bytes of every file it names; ``report`` is
    export.json, ``run`` the folder of the run it was exported from, or None where that was moved.
    """

    folder: Path
    manifest: dict[str, Any]
    members: dict[str, bytes]
    report: dict[str, Any]
    run: Path | None

    def __repr__(self) -> str:
        return f"<ExportFolder {self.folder}: {self.manifest['name']}, {', '.join(self.manifest['preference'])}>"

    @classmethod
    def open(cls, folder: Path) -> ExportFolder:
        """Read and check the folder. Raises ``BadInput`` where it is not one that ``edgeveil export`` wrote,
        ``BundleRefused`` for a model that no board would take."""
        from edgeveil.edge_runtime.manifest.model_lint import check_all
        from edgeveil.edge_runtime.manifest.schema import check_manifest, referenced_files

        folder = Path(folder)
        manifest, report = _json(folder, "manifest.json"), _json(folder, "export.json")
        check_manifest(manifest, sealed=False)
        kind = manifest["perturber"]["kind"]
        messages.refuse_old(kind, messages.KINDS, f"{folder}: the perturber kind", cure="; export the run again")
        members = {}
        for name in referenced_files(manifest):
            members[name] = _bytes(folder, name)
        for model in manifest["models"].values():
            for artefact in model["artefacts"].values():
                _check_file(folder, artefact, members)
        if "detector" in manifest:
            _check_file(folder, manifest["detector"]["artefact"], members)
        check_all(manifest, members)
        run = Path(os.path.normpath(folder / report["run"])) if report.get("run") else None  # as people write it
        return cls(
            folder=folder,
            manifest=manifest,
            members=members,
            report=report,
            run=run if run is not None and (run / "run.json").is_file() else None,
        )

    @cached_property
    def audit(self) -> dict[str, Any] | None:
        """audit.json as schema 2; None where the folder was not audited. Raises ``BadInput`` for what is no audit."""
        if not (self.folder / "audit.json").exists():
            return None
        try:
            return as_schema_2(_json(self.folder, "audit.json"))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            where = f"{self.folder / 'audit.json'} is not an audit that edgeveil audit wrote"
            raise BadInput(f"{where} ({error}): audit again.") from None

    def text(self) -> str:
        """What was exported, for a terminal: boards first, then parity with Keras."""

        lines = [f"{self.manifest['name']}: {', '.join(self.manifest['preference'])}"]
        lines += [
            f"  {row['profile']:18} {row['artefact'] or '-':19} {row['status']}" for row in self.report["profiles"]
        ]
        lines += [
            f"Made by {one['name']} ({', '.join(f'{name} {version}' for name, version in one['packages'].items())})"
            for one in self.report.get("converters", {}).values()
        ]
        what = "what was given" if self.manifest["perturber"]["kind"] == "wrapped" else "Keras"
        lines.append(f"Compared with {what}, in units of x':")
        lines.append(table(self.report["parity"]))
        lines += layers.text(self.report.get("layers", ()))
        if kept := self.report.get("keep_float"):
            lines.append(f"In float32 in the int8 files: {', '.join(kept)}")
        for name, tolerance in self.report["tolerance"].items():
            if tolerance["loose"]:
                off = f"{tolerance['measured']:g}"
                lines.append(
                    f"WARNING: production and reference kernels of {name} differ by up to {off} here: its self-test "
                    "proves little. Train with a smaller change, or ship another precision."
                )
        return "\n".join(lines)


def _bytes(folder: Path, name: str) -> bytes:
    """A file of the folder, which may be a stranger's: what is sealed is nothing that a link of theirs leads to."""
    path = folder / name
    if not os.path.lexists(path):
        raise BadInput(f"The export folder {folder} lacks {name}: make it again with edgeveil export.")
    if path.resolve() != folder.resolve() / name or not path.is_file() or path.stat().st_size > MAX_BUNDLE_BYTES:
        raise BadInput(
            f"{path} is a link, no file, or too large for a bundle: export the run again, into a new folder."
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None


def _check_file(folder: Path, artefact: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    if hashlib.sha256(members[artefact["file"]]).hexdigest() != artefact["sha256"]:
        raise BadInput(
            f"{folder / artefact['file']} is not the file that was exported: its hash is another. Export the run "
            "again, and audit it."
        )


def check_place(out: Path, *, replace: bool) -> None:
    """Raise ``BadInput`` unless ``out`` is free, an empty folder, or an export folder that may be replaced."""
    if not os.path.lexists(out):
        return
    if not out.is_dir() or out.is_symlink():
        raise BadInput(f"{out} exists and is not a folder: choose another place for the export.")
    inside = {entry.name for entry in out.iterdir()}
    if inside and not {"manifest.json", "export.json"} <= inside:
        raise BadInput(f"{out} exists and is not an export folder: choose a new name, or an empty folder.")
    if inside:
        require_free(out, replace=replace)


def write(out: Path, manifest: Mapping[str, Any], members: Mapping[str, bytes], report: Mapping[str, Any]) -> None:
    """Write the whole folder under a temporary name next to ``out`` and rename it: whole or not at all.

    An earlier export folder keeps all that is in it, its audit too, under a dated name. Raises ``BadInput``,
    ``WriteFailed`` where the disk refuses.
    """
    new = out.parent / f".{out.name}.{os.urandom(4).hex()}"
    try:
        new.mkdir(parents=True)
        for name, data in sorted(members.items()):
            (new / name).parent.mkdir(exist_ok=True)
            write_atomic(str(new / name), data)
        for name, document in (("manifest.json", manifest), ("export.json", report)):
            text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
            write_atomic(str(new / name), text.encode())
        with suppress(OSError):
            out.rmdir()  # an empty folder is nothing to keep
        old = set_aside(out)
        try:
            take_name(new, out)
        except BaseException:
            if old is not None:
                take_name(old, out)
            raise
    except OSError as error:
        raise BadInput(f"Cannot write the export folder {out}: {error.strerror}. Choose another place.") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _json(folder: Path, name: str) -> dict[str, Any]:
    try:
        document = strict_json.loads(_bytes(folder, name))
    except strict_json.BadJson:
        raise BadInput(f"{folder / name} is not JSON; export the run again.") from None
    if not isinstance(document, dict):
        raise BadInput(f"{folder / name} holds no JSON object; export the run again.")
    return document


# Parity of each artefact with its Keras network on validation samples: the error, and D_y's accuracy.


def compare(
    fitted: FittedPerturber,
    dataset: Dataset,
    target: Any,
    keras: Mapping[str, np.ndarray],
    artefact: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """One row of the parity table from the outputs (n, ...) of both.

    ``max_abs`` and ``mean_abs`` are in units of x', or of the code where no frame is sent (codes that are numbered are
    off by 1 where they differ, so the mean is the share of these), ``max_abs_unit`` and
    ``mean_abs_unit`` in the unit cube; ``target_agreement`` is the share of samples whose arg max of D_y (``target``,
    a Keras model from the unit cube to logits) is the same, ``label_agreement`` that of all label outputs, null where
    there is none.
    """
    row: dict[str, Any] = {"frames": len(next(iter(keras.values())))}
    names = {output["kind"]: output["name"] for output in fitted.outputs}
    compared = names.get("frame", names.get("code"))
    if compared:
        ours, theirs = artefact[compared], keras[compared]
        numbered = compared != "frame" and ours.ndim == 1
        difference = (ours != theirs).astype(np.float64) if numbered else np.abs(ours.astype(np.float64) - theirs)
        row |= {"max_abs": float(difference.max()), "mean_abs": float(difference.mean())}
    if "frame" in names:
        unit = difference / dataset.input.span
        row |= {"max_abs_unit": float(unit.max()), "mean_abs_unit": float(unit.mean())}
        labels = [predict(target, dataset.unit(x)).argmax(axis=1) for x in (ours, theirs)]
        row["target_agreement"] = float((labels[0] == labels[1]).mean())
    agree = [artefact[o["name"]] == keras[o["name"]] for o in fitted.outputs if o["kind"] == "label"]
    row["label_agreement"] = float(np.all(agree, axis=0).mean()) if agree else None
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The table for a terminal."""
    lines = []
    for row in rows:
        agreement = f"D_y agrees on {100 * row['target_agreement']:.1f} %" if "target_agreement" in row else ""
        off = f"off by at most {row['max_abs']:g}, {row['mean_abs']:.3g} on average" if "max_abs" in row else ""
        on = f"({row['frames']} validation samples, {row['backend']})"
        lines.append(f"  {row['artefact']:16} {off}; {agreement} {on}")
    return "\n".join(lines)
