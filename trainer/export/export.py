"""A finished run becomes an export folder: converted, linted, measured against Keras, with golden vectors."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices import profiles as board_profiles
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError
from edgeveil.edge_runtime.manifest.model_lint import check, check_all
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.trainer.child_processes import free_memory
from edgeveil.trainer.datasets.ranges import EXTREMES
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export import artefact, board_report, folder, golden, layers, manifest, runners
from edgeveil.trainer.export.artefact import Artefact, network_macs
from edgeveil.trainer.export.compilers import compiled
from edgeveil.trainer.export.compilers.quantising import Quantising
from edgeveil.trainer.export.compilers.vendors import check_compilers, compile_for
from edgeveil.trainer.export.converters import converter
from edgeveil.trainer.export.converters.converter import Converter
from edgeveil.trainer.export.folder import ExportFolder, check_place, write
from edgeveil.trainer.export.head import with_head
from edgeveil.trainer.export.kept_pieces import Arrays, KeptPieces, kept_pieces
from edgeveil.trainer.export.manifest import PACKAGES, Finding, lint, refuse
from edgeveil.trainer.ext.private import DATA, PUBLIC
from edgeveil.trainer.graphs import files as graph_files
from edgeveil.trainer.graphs.macs import Graph
from edgeveil.trainer.graphs.prediction import asked_once
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.progress import Steps, progress, say
from edgeveil.trainer.recipe.perturber import of_kind
from edgeveil.trainer.results import locked
from edgeveil.trainer.runs.fitted import FittedPerturber, GivenFile
from edgeveil.trainer.runs.run import Head, Run, package_versions
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

# Every artefact measured against Keras, on both kinds of kernels: parity, tolerance, golden vectors, manifest.


PARITY_ROWS = 256
REFERENCE_ROWS = 64  # reference kernels are twenty times slower

Outputs = Mapping[str, np.ndarray]


def measure(
    run: Run,
    fitted: FittedPerturber,
    made: Sequence[Artefact],
    chosen: Sequence[Profile],
    kept: KeptPieces,
    count: Steps,
    advance: Callable[[], None],
    calibrated: str,
    packages: Sequence[str] = PACKAGES,
) -> tuple[dict[str, Any], dict[str, bytes], dict[str, Any]]:
    """The manifest, its members, and the measured half of export.json.

    Samples are of the validation cut that checkpoints were chosen on, never of the test slice; where what ships was
    ``calibrated`` on public samples, they have no say in it. Sets the tolerance of every entry of ``made``.
    Raises ``BadInput`` where the perturber leaves samples unchanged.
    """
    dataset, target = run.dataset(), run.classifiers("target")["target"]
    x = run.validation().x[:PARITY_ROWS]
    draws = runners.recorded_draws(fitted, len(x), np.random.default_rng([run.recipe.seed, 3]))
    candidates = golden.candidates(fitted)

    keras = runners.on_keras(fitted)
    expected = keras.run(x, draws)
    inputs = {model: keras.model_inputs(model) for model in fitted.models}
    runs: list[Outputs] = [keras.run(candidates.x, candidates.draws)]
    flows = [golden.contested(fitted, keras)]
    recorded: dict[str, Outputs] = {}
    tolerances: dict[str, golden.Tolerance] = {}
    rows = []

    def answers(one: Artefact) -> Arrays:
        told = (repr(fitted.description()), fitted.tables, repr(one.entries), {"x": x}, draws)
        return kept.piece(partial(_answers, fitted, one, x, draws, candidates), one.name, *one.data.values(), *told)

    with asked_once(target):  # most of what two artefacts send is the same
        for one, answered in zip(made, _side_by_side(answers, made, x.nbytes, count), strict=True):
            parts = _parts(answered)
            compared = folder.compare(fitted, dataset, target, expected, parts["got"])
            rows.append({"artefact": one.name, "backend": str(parts["info"]["backend"]), **compared})
            pairs: list[tuple[Outputs, Outputs]] = []
            if calibrated != PUBLIC:
                pairs.append((_first(parts["got"]), parts["plain"]))
            for kernels in ("production", "reference"):
                runs.append(parts[f"golden {kernels}"])
                flows.append(parts[f"contested {kernels}"])
            pairs.append((runs[-2], runs[-1]))
            recorded[one.name] = runs[-1]
            tolerances[one.name] = golden.tolerance(fitted, one.precision, pairs)
            for entry in one.entries.values():
                entry["tolerance"]["max_abs"] = tolerances[one.name].allowed
            advance()
    allowed = max((tolerance.allowed for tolerance in tolerances.values()), default=0.0)
    loose = [name for name, tolerance in tolerances.items() if tolerance.loose]
    vectors = golden.choose(fitted, candidates, runs, flows, allowed, loose)
    outputs = {
        name: {key: value[vectors.rows] for key, value in out.items()}
        for name, out in (recorded or {NO_MODEL: runs[0]}).items()
    }
    document, members = manifest.build(run, fitted, made, chosen, vectors, outputs, calibrated, packages)
    report = {
        "parity": rows,
        "costs": [_costs(model, network, made) for model, network in fitted.models.items()],
        "layers": layers.by_model(made, inputs) if fitted.given is None else [],
        "tolerance": {name: tolerance.facts() for name, tolerance in tolerances.items()},
        "golden": {"candidates": len(candidates.x), "kept": [int(row) for row in vectors.rows]},
    }
    return document, members, report


# An interpreter computes outside Python's lock, one frame at a time on one core.
SIDE_BY_SIDE = 2
TIMES_SAMPLES = 40  # of the samples' bytes: what inputs and outputs of two artefacts, and their copies, may take


def _side_by_side(
    answers: Callable[[Artefact], Arrays], made: Sequence[Artefact], size_bytes: int, count: Steps
) -> Iterator[Arrays]:
    """The answers of each artefact in order, of two at a time where there are two cores, and memory for it."""
    enough = free_memory() > TIMES_SAMPLES * size_bytes + sum(len(d) for one in made for d in one.data.values())
    workers = min(SIDE_BY_SIDE if enough else 1, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        try:
            for one, answered in [(one, pool.submit(answers, one)) for one in made]:
                count.begin(f"{one.name} compared with Keras")
                yield answered.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _answers(
    fitted: FittedPerturber, one: Artefact, x: np.ndarray, draws: Outputs, candidates: golden.Golden
) -> dict[str, np.ndarray]:
    """What an artefact says on both kinds of kernels, as ``PART/NAME``: of samples and of candidates."""
    by_part: dict[str, Outputs] = {}
    for kernels in ("production", "reference"):
        engine = runners.on_backend(fitted, one.entries, one.data, kernels=kernels)
        if kernels == "production":
            on = f"{engine.info['backend']} {engine.info['version']}"
            by_part |= {"info": {"backend": np.array(on)}, "got": engine.run(x, draws)}
        else:
            by_part["plain"] = engine.run(x[:REFERENCE_ROWS], _first(draws))
        by_part[f"golden {kernels}"] = engine.run(candidates.x, candidates.draws)
        by_part[f"contested {kernels}"] = golden.contested(fitted, engine)
        engine.close()
    return {f"{part}/{name}": value for part, values in by_part.items() for name, value in values.items()}


def _parts(answers: Outputs) -> dict[str, dict[str, np.ndarray]]:
    parts: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for key, value in answers.items():
        part, _, name = key.partition("/")
        parts[part][name] = value
    return parts


def _first(values: Outputs) -> dict[str, np.ndarray]:
    return {name: value[:REFERENCE_ROWS] for name, value in values.items()}


def _costs(model: str, network: Any, made: Sequence[Artefact]) -> dict[str, Any]:
    by_artefact = {"keras": network_macs(network), **{one.name: one.costs[model] for one in made}}
    return {"model": model, **{name: cost._asdict() for name, cost in by_artefact.items()}}


def export(
    run: Path,
    profiles: Sequence[str],
    out: Path,
    *,
    all_formats: bool = False,
    emit: str = "frame",
    pool: np.ndarray | None = None,
    compiler_python: Path | None = None,
    replace: bool = False,
    leave_out: bool = False,
    keep_float: Sequence[str] = (),
) -> ExportFolder:
    """Export the run in the folder ``run`` for boards, by name or TOML file, into the folder ``out``.

    Every artefact that the boards run is made (with ``all_formats``, every one there is), linted against these boards,
    compared with Keras, and recorded with golden vectors; ``out`` is written whole or not at all. ``emit`` is
    ``"frame"``; ``"both"`` for the label of the run's head as well; or ``"code"`` for a cleaner or codebook that
    sends its code, of which the receiver makes x'; of a codebook's it draws from ``pool`` (codes, m, *shape), where
    that is given. ``compiler_python`` is the Python that has a board's compiler. After Ctrl-C what was made is kept
    next to ``out``, and the next export to there goes on from it. ``replace`` gives an earlier export there a dated
    name. ``leave_out``: boards and artefacts that do not pass the lint are left out, each with a line that states why.
    ``keep_float`` names operations of export.json's table of int8 errors that stay in float32 in the int8 files.
    Raises ``BadInput``, with the lint's findings where there are any.
    """
    source, out = Run.open(Path(run)), Path(out)
    chosen = [board_profiles.load(name, commands=True) for name in dict.fromkeys(profiles)]
    if not chosen and not all_formats:
        known = ", ".join(board_profiles.names())
        raise BadInput(f"A board to export for was expected (--for): one of {known}; or all.")
    for one in chosen:
        if one.stopped:
            say(f"{one.name}: {one.stopped}.")
    check_compilers(chosen, compiler_python)
    with locked(out, "export"):
        check_place(out, replace=replace)
        with whole_steps() as check, kept_pieces(out, package_versions(PACKAGES)) as pieces:
            how: dict[str, Any] = {"all_formats": all_formats, "emit": emit, "pool": pool, "python": compiler_python}
            how |= {"leave_out": leave_out, "keep_float": tuple(dict.fromkeys(keep_float))}
            return _export(source, chosen, out, pieces, check, **how)


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
    leave_out: bool,
    keep_float: tuple[str, ...],
) -> ExportFolder:
    load_tensorflow()
    fitted = source.perturber()
    if pool is not None and emit != "code":
        raise BadInput("A pool is what the receiver of a code draws from: give it with --emit code:N.")
    if emit == "code":
        fitted = of_kind(fitted.kind).as_code(fitted, source.sample().part("perturber").x, pool)
    if emit == "both":
        fitted = with_head(fitted, Head.of_run(source.folder))
    wanted = board_report.wanted(chosen, all_formats=all_formats, kind=fitted.kind)
    if fitted.given is not None:
        chosen, wanted = _that_take(fitted.given, chosen, wanted, leave_out=leave_out)
    exported = [Artefact(name) for name in wanted] if fitted.models else []
    if fitted.models and not exported:
        raise BadInput(
            f"None of these boards runs an artefact that a perturber of the kind {fitted.kind!r} can have: "
            f"{artefact.why_not(fitted.kind, chosen[0].artefacts[0])}."
        )
    layers.check_mixed(keep_float, chosen, exported, given=fitted.given is not None)
    formats = [artefact.base(one.name) for one in exported if one.format != "numpy"]
    # Next to a file that was given may stand networks of ours, which bring its input and output to the sample's.
    ours = any(not isinstance(network, GivenFile) for network in fitted.models.values())
    converters = converter.choose(chosen, formats, keep_float) if ours else {}
    packages = [*PACKAGES, *(name for one in converters.values() for name in one.packages if name not in PACKAGES)]
    with progress("export", total=(len(fitted.models) + 1) * len(exported) + 2) as count:

        def advance() -> None:
            count()
            check()

        calibration, calibrated = calibration_of(source, fitted) if exported else ({}, DATA)
        _convert(fitted, exported, converters, calibration, kept, count, advance)
        layers.check_kept(keep_float, exported)
        if leave_out:
            exported, chosen = _that_pass(exported, chosen)
        findings = _lint(exported, chosen, keep_float)
        advance()
        manifest, members, report = measure(
            source, fitted, exported, chosen, kept, count, advance, calibrated, packages
        )
        ready = Quantising(fitted, calibration, manifest, members)
        by_compiler = compile_for(chosen, exported, ready, python=python)
        compiled.add(manifest, members, chosen, by_compiler)
        report |= {
            "schema": 1,
            "run": os.path.relpath(source.folder.absolute(), out.absolute()),
            "lint": findings,
            "keep_float": list(keep_float),
            "converters": {form: one.made_by() for form, one in converters.items()},
            "profiles": board_report.rows(chosen, exported, by_compiler, kind=fitted.kind),
        }
        check_all(manifest, members)
        write(out, manifest, members, report)
        count()
    if source.dataset().input.extremes:
        say(f"{EXTREMES} Set `data.low` and `data.high` to what the sensor can give, and train again.")
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
    return part.x[np.sort(rng.permutation(len(part))[: runners.CALIBRATION_ROWS])], DATA


def _convert(
    fitted: FittedPerturber,
    made: Sequence[Artefact],
    converters: Mapping[str, Converter],
    calibration: Mapping[str, Mapping[str, np.ndarray]],
    kept: KeptPieces,
    count: Steps,
    advance: Callable[[], None],
) -> None:
    if not made:
        return
    for model, network in fitted.models.items():
        network_macs(network)  # refuses what cannot be counted before the slow part
        if isinstance(network, GivenFile):
            for one in made:
                one.add(fitted, model, network.data)
                advance()
            continue
        weights = {str(number): value for number, value in enumerate(network.get_weights())}
        for name, batch in sorted({(one.format, one.batch) for one in made}):
            mine = [one for one in made if (one.format, one.batch) == (name, batch)]
            by = converters.get(name)
            converted = partial(_files, network, by, [one.precision for one in mine], calibration[model], batch)
            names = " ".join(
                [one.name for one in mine] + ([] if by is None else [repr(by.made_by()), str(by.opset), *by.keep_float])
            )
            count.begin(f"{model}: {' '.join(one.name for one in mine)} by {by.name if by else 'EdgeVeil'}")
            try:
                files = kept.piece(converted, names, network.to_json(), weights, calibration[model])
            except (EdgeVeilError, OSError):
                raise
            except Exception as error:  # converters raise errors of many kinds
                first = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
                raise BadInput(
                    f"{model!r} cannot be converted to {name} by {by.name if by else 'EdgeVeil'} ({first}); "
                    f"{board_profiles.PAGE} lists what every board can run."
                ) from error
            for one in mine:
                one.add(fitted, model, files[one.precision].tobytes())
                advance()


def _files(
    network: Any, by: Converter | None, precisions: Sequence[str], calibration: Mapping[str, np.ndarray], batch: int
) -> dict[str, np.ndarray]:
    """The bytes of a network as files of one format, by precision; ``by`` None: as numpy's arrays."""
    if by is None:
        files = {"float32": graph_files.convert(network)}
    else:
        files = by.convert(network, precisions, calibration, batch=batch)
    return {precision: np.frombuffer(data, np.uint8) for precision, data in files.items()}


def check_given(fitted: FittedPerturber, chosen: Sequence[Profile]) -> None:
    """Raise ``BadInput`` where one of these boards does not run the file that was given; None was: no finding yet."""
    if fitted.given is None:
        return
    _that_take(fitted.given, chosen, [fitted.given], leave_out=False)
    one = Artefact(fitted.given)
    for model, network in fitted.models.items():
        if isinstance(network, GivenFile):
            one.add(fitted, model, network.data)
    _lint([one], chosen)


def _that_take(
    given: str, chosen: Sequence[Profile], wanted: Sequence[str], *, leave_out: bool
) -> tuple[list[Profile], list[str]]:
    """The boards that run the file that was given, and its name where it is wanted. Raises ``BadInput`` without any."""
    taking = [profile for profile in chosen if artefact.runs_on(given, profile.artefacts)]
    others = [profile.name for profile in chosen if profile not in taking]
    if others and leave_out:
        say(f"Left out, since the file that was given is {given}, which they do not run: {', '.join(others)}.")
    if given not in wanted or (others and not leave_out):
        raise BadInput(
            f"The file that was given ships as it is, as {given}, and {', '.join(others) or 'no board'} does not run "
            "that: name other boards with --for, or give the Keras model, which is converted."
        )
    return taking, [given]


def _that_pass(made: Sequence[Artefact], chosen: Sequence[Profile]) -> tuple[list[Artefact], list[Profile]]:
    """Those that pass the lint, after a line about each other one. Raises ``BadInput`` with the findings if none do."""

    def failures(one: Artefact, profile: Profile | None) -> list[Finding]:
        return [found for graph in one.graphs.values() for found in lint(graph, one.precision, profile)]

    whole = [one for one in made if not failures(one, None)]
    passing = []
    for profile in chosen:
        mine = [one for one in whole if artefact.runs_on(one.name, profile.artefacts)]
        problems = [finding for one in mine for finding in failures(one, profile)]
        if mine and not problems:
            passing.append(profile)
            say(f"{profile.name} can run {', '.join(one.name for one in mine)}.")
        else:
            why = problems or [finding for one in made for finding in failures(one, profile)]
            more = f" ({len(why) - 1} more)" if len(why) > 1 else ""
            say(f"{profile.name} is left out: {why[0].text() if why else 'it runs none of the artefacts'}{more}")
    if not passing:
        return list(made), list(chosen)  # the lint then says all that is wrong
    return [one for one in whole if any(artefact.runs_on(one.name, p.artefacts) for p in passing)], passing


def _lint(made: Sequence[Artefact], chosen: Sequence[Profile], kept: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row per artefact, model and board that runs it. Raises ``BadInput`` with all findings, if there are any."""
    rows, failures = [], []
    for one in made:
        for model, data in one.data.items():
            check(data, one.format, what=f"{one.name} of {model!r}")
        for model, graph in one.graphs.items():
            boards_of: list[Profile | None] = [
                profile for profile in chosen if artefact.runs_on(one.name, profile.artefacts)
            ]
            for profile in boards_of or [None]:
                board = profile.name if profile else None
                failures.append((one.name, model, board, lint(graph, one.precision, profile, kept)))
                rows.append({"artefact": one.name, "model": model, "profile": board, "findings": 0, **_facts(graph)})
    refuse(failures)
    return rows


def _facts(graph: Graph) -> dict[str, Any]:
    """What the lint checked: operations, with their TFLite versions, and the versions that the file needs."""
    if graph.format == "onnx":
        return {"operations": sorted({op.kind for op in graph.ops}), "opset": graph.opset, "ir": graph.ir}
    versions = {op.kind: op.version for op in sorted(graph.ops, key=lambda op: (op.kind, op.version))}
    return {"operations": versions, "min_runtime_version": graph.min_runtime_version}
