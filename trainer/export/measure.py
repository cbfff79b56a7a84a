"""Every artefact measured against Keras, on both kinds of kernels: parity, tolerance, golden vectors, manifest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.trainer.export import golden, manifest, parity, runners
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.kept_pieces import KeptPieces
from edgeveil.trainer.graphs.macs import keras_macs
from edgeveil.trainer.private.cover import PUBLIC
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run

PARITY_ROWS = 256
REFERENCE_ROWS = 64  # reference kernels are twenty times slower

Outputs = Mapping[str, np.ndarray]


def measure(
    run: Run,
    fitted: FittedPerturber,
    made: Sequence[Artefact],
    chosen: Sequence[Profile],
    kept: KeptPieces,
    advance: Callable[[], None],
    calibrated: str,
) -> tuple[dict[str, Any], dict[str, bytes], dict[str, Any]]:
    """The manifest, its members, and the measured half of export.json.

    Samples are of the validation cut that checkpoints were chosen on, never of the test slice; where what ships was
    ``calibrated`` on public samples, they have no say in it. Sets the tolerance of every entry of ``made``.
    Raises ``BadInput`` where the perturber leaves samples unchanged.
    """
    dataset, target = run.dataset(), run.classifiers()["target"]
    x = run.validation().x[:PARITY_ROWS]
    draws = runners.recorded_draws(fitted, len(x), np.random.default_rng([run.recipe.seed, 3]))
    candidates = golden.candidates(fitted)

    keras = runners.on_keras(fitted)
    expected = keras.run(x, draws)
    runs: list[Outputs] = [keras.run(candidates.x, candidates.draws)]
    flows = [golden.contested(fitted, keras)]
    recorded: dict[str, Outputs] = {}
    tolerances: dict[str, golden.Tolerance] = {}
    rows = []
    for one in made:
        told = (repr(fitted.description()), fitted.tables, repr(one.entries), {"x": x}, draws)
        found = _parts(
            kept.piece(partial(_answers, fitted, one, x, draws, candidates), one.name, *one.data.values(), *told)
        )
        rows.append(
            {
                "artefact": one.name,
                "backend": str(found["info"]["backend"]),
                **parity.compare(fitted, dataset, target, expected, found["got"]),
            }
        )
        pairs: list[tuple[Outputs, Outputs]] = [] if calibrated == PUBLIC else [(_first(found["got"]), found["plain"])]
        for kernels in ("production", "reference"):
            runs.append(found[f"golden {kernels}"])
            flows.append(found[f"contested {kernels}"])
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
    document, members = manifest.build(run, fitted, made, chosen, vectors, outputs, calibrated)
    report = {
        "parity": rows,
        "costs": [_costs(model, network, made) for model, network in fitted.models.items()],
        "tolerance": {name: tolerance.facts() for name, tolerance in tolerances.items()},
        "golden": {"candidates": len(candidates.x), "kept": [int(row) for row in vectors.rows]},
    }
    return document, members, report


def _answers(
    fitted: FittedPerturber, one: Artefact, x: np.ndarray, draws: Outputs, candidates: golden.Golden
) -> dict[str, np.ndarray]:
    """What an artefact says on both kinds of kernels, as ``PART/NAME``: of samples and of candidates."""
    found: dict[str, Outputs] = {}
    for kernels in ("production", "reference"):
        engine = runners.on_backend(fitted, one.entries, one.data, kernels=kernels)
        if kernels == "production":
            on = f"{engine.info['backend']} {engine.info['version']}"
            found |= {"info": {"backend": np.array(on)}, "got": engine.run(x, draws)}
        else:
            found["plain"] = engine.run(x[:REFERENCE_ROWS], _first(draws))
        found[f"golden {kernels}"] = engine.run(candidates.x, candidates.draws)
        found[f"contested {kernels}"] = golden.contested(fitted, engine)
        engine.close()
    return {f"{part}/{name}": value for part, values in found.items() for name, value in values.items()}


def _parts(answers: Outputs) -> dict[str, dict[str, np.ndarray]]:
    parts: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for key, value in answers.items():
        part, _, name = key.partition("/")
        parts[part][name] = value
    return parts


def _first(values: Outputs) -> dict[str, np.ndarray]:
    return {name: value[:REFERENCE_ROWS] for name, value in values.items()}


def _costs(model: str, network: Any, made: Sequence[Artefact]) -> dict[str, Any]:
    found = {"keras": keras_macs(network), **{one.name: one.costs[model] for one in made}}
    return {"model": model, **{name: cost._asdict() for name, cost in found.items()}}
