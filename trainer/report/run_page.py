"""report.html: one page in one file, made from recorded results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.audit.card import SUBSTITUTED
from edgeveil.trainer.report import page_facts
from edgeveil.trainer.report import pictures as drawing
from edgeveil.trainer.report.card_page import environment

PICTURES = 12


def write_report(
    run: Path,
    export: Path,
    bundle: Path | None,
    out: Path,
    *,
    bench: Path | None = None,
    pictures: bool = False,
    comparison: tuple[Path, str] | None = None,
) -> Path:
    """Write the page about a finished run, its audited export folder and, where given, its bundle and bench.json.

    ``pictures`` also shows raw samples next to perturbed ones: off by default, since they are personal data.
    ``comparison`` is a PNG of ``edgeveil.trainer.report.comparison`` and its description.
    Raises ``BadInput`` if the export was not audited or a file is not what it should be.
    """
    from edgeveil.trainer.export.folder import ExportFolder
    from edgeveil.trainer.runs.run import Run

    folder, source = ExportFolder.open(export), Run.open(run)
    if folder.audit is None:
        raise BadInput(f"{export} was not audited, and a report shows the audit: run `edgeveil audit {export}` first.")
    audit = folder.audit
    measured = None if bench is None else page_facts.read_bench(bench)
    values = {
        **page_facts.summary(audit),
        "title": source.recipe.name,
        "substituted": SUBSTITUTED if folder.manifest["perturber"]["substituted"] else "",
        "development": page_facts.is_development(bundle),
        "bench": None if measured is None else page_facts.speed_facts(measured),
        "speed": None if measured is None else page_facts.headline(measured),
        "comparison": None if comparison is None else drawing.file(comparison[0]),
        "comparison_says": "" if comparison is None else comparison[1],
        "curves": drawing.curves(source.metrics()),
        "training_note": "Losses and accuracies by epoch, as recorded while training; none of it is an audit.",
        "boards": folder.report.get("profiles", []),
        "identities": page_facts.identities(audit, folder.manifest, bundle),
        **shown(source, folder, audit, raw=pictures),
    }
    write_atomic(out, render(values).encode())
    return out


def shown(run: Any, folder: Any, audit: Mapping[str, Any], *, raw: bool) -> dict[str, Any]:
    """A dozen test samples as the audited artefact sends them; with ``raw`` also the samples themselves."""
    dataset = run.dataset()
    if dataset.input.kind != "image" or not _frames(folder):
        return {"pictures": None, "pictures_raw": raw, "pictures_note": ""}
    test = dataset.part("test")
    rows = np.random.default_rng(0).permutation(len(test))[:PICTURES]
    some = test.take(rows[np.argsort(test.y[rows], kind="stable")])
    after = through(folder, audit["artefact"], some.x)
    low, high = dataset.input.low, dataset.input.high
    pairs = [
        {
            "before": drawing.png(some.x[i], low, high) if raw else None,
            "after": drawing.png(after[i], low, high),
            "label": f"{audit['data']['target']}: {dataset.y_names[some.y[i]]}",
        }
        for i in range(len(some))
    ]
    note = (
        "Test samples and what the device sends in their place, through the audited artefact."
        if raw
        else "Test samples as the device sends them. The samples themselves are shown only with --pictures."
    )
    return {"pictures": pairs, "pictures_raw": raw, "pictures_note": note}


def through(folder: Any, artefact: str, x: np.ndarray) -> np.ndarray:
    """The frames (n, ...) that an artefact of an export sends in place of samples ``x`` (n, ...)."""
    from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline

    pipeline = load_pipeline(parse(folder.manifest), folder.members, artefact)
    try:
        return pipeline.run(x)[_frames(folder)[0]]
    finally:
        pipeline.close()


def _frames(folder: Any) -> list[str]:
    return [output["name"] for output in folder.manifest["outputs"] if output["kind"] == "frame"]


def render(values: Mapping[str, Any]) -> str:
    """The page; every value is escaped."""
    return environment().get_template("report.html").render(**values)
