"""The manifest of an export folder and the members it names, checked by the edge runtime."""

from __future__ import annotations

import importlib.metadata
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.manifest.schema import NO_MODEL, check_manifest
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.pipeline.self_test import self_test
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export import detector, variants
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.golden import Golden
from edgeveil.trainer.graphs.macs import keras_macs
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.runs.versions import package_versions

PACKAGES = (
    "tensorflow", "tensorflow-cpu", "keras", "numpy", "tf2onnx", "onnx", "onnxruntime", "onnxconverter-common",
    "ai-edge-litert",
)  # fmt: skip


def not_audited() -> dict[str, Any]:
    """The manifest's ``privacy`` without an audit."""
    return {"file": None, "card": None, "page": None, "speaks_of": {}, "pipeline": {}}


def build(
    run: Run,
    fitted: FittedPerturber,
    made: Sequence[Artefact],
    profiles: Sequence[Profile],
    golden: Golden,
    outputs: Mapping[str, Mapping[str, np.ndarray]],
    calibrated: str,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members ``{name: bytes}``.

    ``made`` are the artefacts in order of preference, ``golden`` the vectors and ``outputs`` those of each artefact for
    them; ``calibrated`` is the mark of what they were calibrated and compared on. Class names of z, their counts, and
    paths are left out.
    Raises ``BadInput`` where the edge runtime would refuse the manifest, or where its self-test fails here.
    """
    members: dict[str, bytes] = {}
    for one in made:
        members |= {one.entries[model]["file"]: data for model, data in one.data.items()}
    tables = {}
    for name, table in fitted.tables.items():
        tables[name] = {"file": f"tables/{name}.npy", "shape": list(table.shape), "dtype": table.dtype.name}
        members[f"tables/{name}.npy"] = npy(table)
    golden_entry = _golden(golden, outputs, members)
    description = fitted.description()
    if "training" in description:
        description["training"]["marks"]["calibration"] = calibrated
    counted = _counted(run.recipe, profiles, members)
    dataset, recipe, names = run.dataset(), run.recipe, [one.name for one in made]
    manifest = {
        "schema": 1,
        "name": recipe.name,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "development": False,
        "security_version": 1,
        "audience": "",
        **description,
        "input": {**description["input"], **({} if recipe.sensor is None else {"sensor": recipe.sensor})},
        "capture": _capture(recipe, fitted.input),
        **counted,
        "perturber": {
            **description["perturber"],
            "target": recipe.data.target,
            "sensitive": recipe.data.sensitive,
            "target_classes": list(dataset.y_names),
        },
        "models": {
            model: {
                **keras_macs(network)._asdict(),
                "artefacts": {one.name: one.entries[model] for one in made},
            }
            for model, network in fitted.models.items()
        },
        "preference": names,
        "profiles": {profile.name: _facts(profile, names) for profile in profiles},
        "tables": tables,
        "golden": golden_entry,
        "privacy": not_audited(),
        "provenance": {
            "edgeveil": importlib.metadata.version("edgeveil"),
            "recipe_sha256": run.recipe_sha256(),
            "packages": package_versions(PACKAGES),
        },
    }
    checked = check_manifest(manifest, sealed=False)
    for name in names or [NO_MODEL]:
        pipeline = load_pipeline(checked, members, name)
        self_test(pipeline, checked, members, name)
        pipeline.close()
    return manifest, members


def _counted(recipe: Recipe, profiles: Sequence[Profile], members: dict[str, bytes]) -> dict[str, Any]:
    """What is counted, and the network that finds the people, whose files are added to ``members``."""
    if recipe.count is None:
        return {}
    if recipe.count.detector is None:
        return {"count": recipe.count.manifest()}
    section, files = detector.section(recipe.count.detector, profiles)
    members |= files
    return {"count": recipe.count.manifest(), "detector": section}


def _capture(recipe: Recipe, spec: InputSpec) -> dict[str, Any] | None:
    """How a sensor's frames become samples; None where they are samples already."""
    if recipe.data.series is not None and spec.series is not None:
        return recipe.data.series.capture(spec.shape[1], spec.series.rate_hz)
    return None if recipe.capture is None else recipe.capture.manifest()


def npy(array: np.ndarray) -> bytes:
    """The bytes of a ``.npy`` file, without pickles."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def _golden(
    golden: Golden, outputs: Mapping[str, Mapping[str, np.ndarray]], members: dict[str, bytes]
) -> dict[str, Any]:
    def put(name: str, array: np.ndarray) -> str:
        members[f"golden/{name}.npy"] = npy(array)
        return f"golden/{name}.npy"

    return {
        "input": put("input", golden.x),
        "draws": {name: put(f"draws.{name}", values) for name, values in golden.draws.items()},
        "outputs": {
            artefact: {name: put(f"{artefact}.{name}", value) for name, value in by_name.items()}
            for artefact, by_name in outputs.items()
        },
    }


def _facts(profile: Profile, names: Sequence[str]) -> dict[str, list[str]]:
    facts = profile.facts()
    mine = [name for name in names if variants.runs_on(name, facts["artefacts"])]
    backends = [*facts["backends"], "numpy"] if variants.NUMPY in mine else facts["backends"]
    return {"artefacts": sorted(mine, key=lambda name: _place(name, facts["artefacts"])), "backends": backends}


def _place(name: str, preferred: Sequence[str]) -> tuple[int, int]:
    """The board's order; numpy last, and batches after single frames."""
    at = preferred.index(variants.base(name)) if variants.base(name) in preferred else len(preferred)
    return variants.batch(name), at
