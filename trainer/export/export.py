"""A finished run becomes an export folder: converted, linted, measured against Keras, with golden vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices import profiles as board_profiles
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.backends.model_lint import check, check_all
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export import board_report, golden, runners, variants
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.compilers import compiled
from edgeveil.trainer.export.compilers.quantising import Quantising
from edgeveil.trainer.export.compilers.vendors import check_python, compile_for
from edgeveil.trainer.export.convert.code_output import as_code
from edgeveil.trainer.export.convert.head_output import with_head
from edgeveil.trainer.export.folder import ExportFolder, check_place, write
from edgeveil.trainer.export.kept_pieces import KeptPieces, kept_pieces
from edgeveil.trainer.export.lint import lint, refuse
from edgeveil.trainer.export.manifest import PACKAGES
from edgeveil.trainer.export.measure import measure
from edgeveil.trainer.graphs.graph import Graph
from edgeveil.trainer.graphs.macs import keras_macs
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.private.cover import DATA, PUBLIC
from edgeveil.trainer.progress import progress
from edgeveil.trainer.results import locked
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.fitted_head import Head
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.runs.versions import package_versions
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

CALIBRATION_ROWS = 256


def export(
    run: Path,
    profiles: Sequence[str],
    out: Path,
    *,
    all_formats: bool = False,
    emit: str = "frame",
    pool: np.ndarray | None = None,
    compiler_python: Path | None = None,
    resume: bool = False,
    replace: bool = False,
) -> ExportFolder:
    """Export the run in the folder ``run`` for boards, by name or TOML file, into the folder ``out``.

    Every artefact that the boards run is made (with ``all_formats``, every one there is), linted against these boards,
    compared with Keras, and recorded with golden vectors; ``out`` is written whole or not at all. ``emit`` is
    ``"frame"``; ``"both"`` for the label of the run's head beside it; or ``"code"`` for a cleaner or codebook that
    sends its code, of which the receiver makes x'; of a codebook's it draws from ``pool`` (codes, m, *shape), where
    that is given. ``compiler_python`` is the Python that has rknn-toolkit2. After Ctrl-C what was made is kept
    beside ``out``, and ``resume`` goes on from it. ``replace`` gives an earlier export there a dated name. Raises
    ``BadInput``, with the lint's findings where there are any.
    """
    source, out = Run.open(Path(run)), Path(out)
    chosen = [board_profiles.load(name) for name in dict.fromkeys(profiles)]
    if not chosen and not all_formats:
        known = ", ".join(board_profiles.names())
        raise BadInput(f"A board to export for was expected (--for): one of {known}; or --all-formats.")
    check_python(chosen, compiler_python)
    with locked(out, "export"):
        check_place(out, replace=replace)
        with whole_steps() as check, kept_pieces(out, package_versions(PACKAGES), resume=resume) as kept:
            how: dict[str, Any] = {"all_formats": all_formats, "emit": emit, "pool": pool, "python": compiler_python}
            return _export(source, chosen, out, kept, check, **how)


def _export(
    source: Run,
    chosen: Sequence[Profile],
    out: Path,
    kept: KeptPieces,
    check: Callable[[], None],
    *,
    all_formats: bool,
    emit: str,
    pool: np.ndarray | None,
    python: Path | None,
) -> ExportFolder:
    load_tensorflow()
    fitted = source.perturber()
    if pool is not None and emit != "code":
        raise BadInput("--pool is what the receiver of a code draws from: give it with --emit code.")
    if emit == "code":
        fitted = as_code(fitted, source.dataset().part("perturber").x, pool)
    if emit == "both":
        fitted = with_head(fitted, Head.of_run(source.folder))
    made = [Artefact(name) for name in board_report.wanted(chosen, all_formats=all_formats, kind=fitted.kind)]
    made = made if fitted.models else []
    if fitted.models and not made:
        raise BadInput(
            f"None of these boards runs an artefact that a perturber of the kind {fitted.kind!r} can have: "
            f"{variants.why_not(fitted.kind, chosen[0].artefacts[0])}."
        )
    with progress("export", total=(len(fitted.models) + 1) * len(made) + 2) as count:

        def advance() -> None:
            count()
            check()

        calibration, calibrated = calibration_of(source, fitted) if made else ({}, DATA)
        _convert(fitted, made, calibration, kept, advance)
        findings = _lint(made, chosen)
        advance()
        manifest, members, report = measure(source, fitted, made, chosen, kept, advance, calibrated)
        ready = Quantising(fitted, calibration, manifest, members)
        by_compiler = compile_for(chosen, made, ready, python=python)
        compiled.add(manifest, members, chosen, by_compiler)
        report |= {
            "schema": 1,
            "run": os.path.relpath(source.folder.absolute(), out.absolute()),
            "lint": findings,
            "profiles": board_report.rows(chosen, made, by_compiler, kind=fitted.kind),
        }
        check_all(manifest, members)
        write(out, manifest, members, report)
        count()
    return ExportFolder.open(out)


def calibration_of(source: Run, fitted: FittedPerturber) -> tuple[dict[str, dict[str, np.ndarray]], str]:
    """Every model's inputs to calibrate on, always the same for a run, and their mark."""
    rng = np.random.default_rng([source.recipe.seed, 2])
    x, mark = calibration_samples(source, fitted, rng)
    return runners.calibration(fitted, x, rng), mark


def calibration_samples(run: Run, fitted: FittedPerturber, rng: np.random.Generator) -> tuple[np.ndarray, str]:
    """Samples (n, ...) to calibrate on, and their mark: training rows, or under [private] the synthetic candidates."""
    if run.recipe.private is not None:
        return golden.candidates(fitted).x, PUBLIC
    part, _ = fit_and_validation(run.dataset(), "perturber")
    return part.x[np.sort(rng.permutation(len(part))[:CALIBRATION_ROWS])], DATA


def _convert(
    fitted: FittedPerturber,
    made: Sequence[Artefact],
    calibration: Mapping[str, Mapping[str, np.ndarray]],
    kept: KeptPieces,
    advance: Callable[[], None],
) -> None:
    if not made:
        return
    for model, network in fitted.models.items():
        keras_macs(network)  # refuses what cannot be counted before the slow part
        weights = {str(number): value for number, value in enumerate(network.get_weights())}
        for name, batch in sorted({(one.format, one.batch) for one in made}):
            mine = [one for one in made if (one.format, one.batch) == (name, batch)]
            converted = partial(_files, network, name, [one.precision for one in mine], calibration[model], batch)
            names = " ".join(one.name for one in mine)
            try:
                files = kept.piece(converted, names, network.to_json(), weights, calibration[model])
            except (EdgeVeilError, OSError):
                raise
            except Exception as error:  # converters raise errors of many kinds
                first = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
                raise BadInput(
                    f"{model!r} cannot be converted to {name} ({first}); docs/reference/boards.md "
                    "lists what every board can run."
                ) from error
            for one in mine:
                one.add(fitted, model, files[one.precision].tobytes())
                advance()


def _files(
    network: Any, name: str, precisions: Sequence[str], calibration: Mapping[str, np.ndarray], batch: int
) -> dict[str, np.ndarray]:
    """The bytes of a network as files of one format, by precision."""
    from edgeveil.trainer.export.convert import to_onnx, to_tflite
    from edgeveil.trainer.graphs import numpy_arrays

    if name == "numpy":
        files = {"float32": numpy_arrays.convert(network)}
    else:
        files = (to_tflite if name == "tflite" else to_onnx).convert(network, precisions, calibration, batch=batch)
    return {precision: np.frombuffer(data, np.uint8) for precision, data in files.items()}


def _lint(made: Sequence[Artefact], chosen: Sequence[Profile]) -> list[dict[str, Any]]:
    """One row per artefact, model and board that runs it. Raises ``BadInput`` with all findings, if there are any."""
    rows, failures = [], []
    for one in made:
        for model, data in one.data.items():
            check(data, one.format, what=f"{one.name} of {model!r}")
        for model, graph in one.graphs.items():
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
    """What the lint checked: operations, with their TFLite versions, and the versions that the file needs."""
    if graph.format == "onnx":
        return {"operations": sorted({op.kind for op in graph.ops}), "opset": graph.opset, "ir": graph.ir}
    versions = {op.kind: op.version for op in sorted(graph.ops, key=lambda op: (op.kind, op.version))}
    return {"operations": versions, "min_runtime_version": graph.min_runtime_version}
