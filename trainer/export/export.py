"""A finished run becomes an export folder: converted, linted, measured against Keras, with golden vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices import profiles as board_profiles
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export import board_report, runners, variants
from edgeveil.trainer.export.artefact import Artefact, by_format
from edgeveil.trainer.export.convert import edgetpu
from edgeveil.trainer.export.convert.code_output import as_code
from edgeveil.trainer.export.folder import ExportFolder, check_place, write
from edgeveil.trainer.export.lint import lint, refuse
from edgeveil.trainer.export.measure import measure
from edgeveil.trainer.graphs.graph import Graph
from edgeveil.trainer.graphs.macs import keras_macs, numpy_macs, onnx_macs, tflite_macs
from edgeveil.trainer.progress import progress
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

CALIBRATION_ROWS = 256


def export(
    run: Path, profiles: Sequence[str], out: Path, *, all_formats: bool = False, emit: str = "frame"
) -> ExportFolder:
    """Export the run in the folder ``run`` for boards, by name or TOML file, into the folder ``out``.

    Every artefact that the boards want is made (with ``all_formats``, every one there is), linted against the boards
    that want it, run beside Keras, and recorded with golden vectors; ``out`` is written whole or not at all. ``emit``
    is ``"frame"``, or ``"code"`` for a cleaner that sends its code instead of the vector. Raises ``BadInput`` in one
    sentence, or with the lint's findings, where something is not as it must be.
    """
    source, out = Run.open(Path(run)), Path(out)
    chosen = [board_profiles.load(name) for name in dict.fromkeys(profiles)]
    if not chosen and not all_formats:
        known = ", ".join(board_profiles.names())
        raise BadInput(f"A board to export for was expected (--for): one of {known}; or --all-formats.")
    check_place(out)
    load_tensorflow()
    fitted = source.perturber()
    if emit == "code":
        fitted = as_code(fitted, source.dataset().part("perturber").x)
    made = [Artefact(name) for name in board_report.wanted(chosen, all_formats=all_formats, kind=fitted.kind)]
    made = made if fitted.models else []
    if fitted.models and not made:
        raise BadInput(
            f"None of these boards runs what a perturber of the kind {fitted.kind!r} can be exported as: "
            f"{variants.why_not(fitted.kind, chosen[0].artefacts[0])}."
        )
    with progress("export", total=2 * len(made) + 2) as advance:
        _convert(source, fitted, made, advance)
        findings = _lint(made, chosen)
        advance()
        manifest, members, report = measure(source, fitted, made, chosen, advance)
        by_compiler = edgetpu.compile_for(chosen, made)
        edgetpu.add(manifest, members, chosen, by_compiler)
        report |= {
            "schema": 1,
            "run": os.path.relpath(source.folder.absolute(), out.absolute()),
            "lint": findings,
            "profiles": board_report.rows(chosen, made, by_compiler, kind=fitted.kind),
        }
        write(out, manifest, members, report)
        advance()
    return ExportFolder.open(out)


def _convert(run: Run, fitted: FittedPerturber, made: Sequence[Artefact], advance: Callable[[], None]) -> None:
    from edgeveil.trainer.export.convert import to_onnx, to_tflite
    from edgeveil.trainer.graphs import numpy_arrays

    if not made:
        return
    rng = np.random.default_rng([run.recipe.seed, 2])
    part, _ = fit_and_validation(run.dataset(), "perturber")
    rows = np.sort(rng.permutation(len(part))[:CALIBRATION_ROWS])
    calibration = runners.calibration(fitted, part.x[rows], rng)
    for model, network in fitted.models.items():
        keras_macs(network)  # what cannot be counted is refused before the slow part
        for one in by_format("numpy", made):
            data = numpy_arrays.convert(network)
            one.add(fitted, model, data, numpy_macs(data))
            advance()
        for name, batch in sorted({(one.format, one.batch) for one in made}):
            if name == "numpy":
                continue
            convert, count = {"tflite": (to_tflite.convert, tflite_macs), "onnx": (to_onnx.convert, onnx_macs)}[name]
            mine = [one for one in by_format(name, made) if one.batch == batch]
            try:
                files = convert(network, [one.precision for one in mine], calibration[model], batch=batch)
            except (EdgeVeilError, OSError):
                raise
            except Exception as error:  # a converter has as many kinds of errors as it has parts
                first = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
                raise BadInput(
                    f"{model!r} cannot be converted to {name} ({first}); docs/reference/boards.md "
                    "lists what every board can run."
                ) from error
            for one in mine:
                one.add(fitted, model, files[one.precision], count(files[one.precision]))
                advance()


def _lint(made: Sequence[Artefact], chosen: Sequence[Profile]) -> list[dict[str, Any]]:
    """One row per artefact, model and board that wants it. Raises ``BadInput`` with all findings, if there are any."""
    rows, failures = [], []
    for one in made:
        for model in one.data:
            graph = one.graph(model)
            boards_of: list[Profile | None] = [
                profile for profile in chosen if variants.runs_on(one.name, profile.artefacts)
            ]
            for profile in boards_of or [None]:
                board = profile.name if profile else None
                failures.append((one.name, model, board, lint(graph, one.precision, profile)))
                rows.append({"artefact": one.name, "model": model, "profile": board, "findings": 0, **_facts(graph)})
    refuse(failures)
    return rows


def _facts(graph: Graph) -> dict[str, Any]:
    """What the lint judged: operations, with TFLite's versions of them, and what the file asks for."""
    if graph.format == "onnx":
        return {"operations": sorted({op.kind for op in graph.ops}), "opset": graph.opset, "ir": graph.ir}
    versions = {op.kind: op.version for op in sorted(graph.ops, key=lambda op: (op.kind, op.version))}
    return {"operations": versions, "min_runtime_version": graph.min_runtime_version}
