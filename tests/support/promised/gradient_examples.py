"""A bundle that reports the clipped gradient of a training round by duchi-linf: what a fleet of devices runs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.ipc.rounds import Round, RoundFormat
from edgeveil.edge_runtime.manifest.manifest import parse
from tests.support import bundles
from tests.support.promised import local_examples

FEATURES, CLIP, MOST = 2, 1.0, 100.0
LOW, HIGH = [-4.0, -4.0, 0.0], [4.0, 4.0, 1.0]
FORM = RoundFormat(FEATURES, MOST)


def document(
    alpha: float = 4.0, *, loss: str = "logistic", clip: float = CLIP, unit: str = "subject", releases: int = 1
) -> dict[str, Any]:
    """The parts of a manifest that a pipeline is made of; a unit may report ``releases`` times."""
    ends = {"low": LOW, "high": HIGH}
    made = local_examples.stages("duchi-linf", alpha, FEATURES)
    made[-1]["input"] = "g"
    micro = int(alpha * 1e6)
    return copy.deepcopy(
        {
            "input": {"name": "x", "kind": "vector", "shape": [FEATURES + 1], "dtype": "float32", **ends},
            "stages": [
                {"stage": "preprocess", "input": "x", "output": "u", **ends},
                {"stage": "parameters", "output": "theta", "shape": [FEATURES], "most": MOST},
                {"stage": "gradient", "loss": loss, "input": "u", "parameters": "theta", "clip": clip, **ends}
                | {"output": "g"},
                *made,
            ],
            "outputs": [
                {"name": "report", "kind": "code", "tensor": "report", "shape": [FEATURES], "dtype": "int8"}
                | {"decoder": "decoder"}
            ],
            "spending": {"micro_epsilon": micro, "unit": unit, "most_micro_epsilon": releases * micro}
            | {"period_s": None},
        }
    )


def table(parts: dict[str, Any], clip: float = CLIP) -> np.ndarray:
    """[report, 1] @ table is an unbiased clipped gradient; float32 (3, 2), by the formula of the bundle format."""
    coin = next(stage["numerator"] for stage in parts["stages"] if stage.get("distribution") == "coin")
    factor = 2 / (2 * coin / local_examples.COIN - 1)  # 2^(d'-1) / C(d'-1, (d'-1)/2) = 2 for d' = 3
    return np.vstack([clip * factor * np.eye(FEATURES), np.zeros(FEATURES)]).astype(np.float32)


def golden(parts: dict[str, Any], n: int = 4) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A sample x (n, 3), and draws with parameters."""
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(size=(n, FEATURES)), rng.integers(0, 2, n)]).astype(np.float32)
    theta = rng.normal(size=(n, FEATURES)).astype(np.float32)
    return x, {**local_examples.recorded(parts["stages"], n), "theta": theta}


def example(alpha: float = 4.0, **more: Any) -> tuple[bundles.Manifest, bundles.Members]:
    """A whole manifest and its members."""
    parts = document(alpha, **more)
    x, draws = golden(parts)
    manifest, members = bundles.numpy_example()
    members = {name: data for name, data in members.items() if name.startswith("runtime/")}
    members["golden/input.npy"] = bundles.npy(x)
    members |= {f"golden/draws.{name}.npy": bundles.npy(values) for name, values in draws.items()}
    members["tables/decoder.npy"] = bundles.npy(table(parts))
    members["golden/numpy.report.npy"] = bundles.npy(local_examples.pipeline(parts, {}).run(x, draws)["report"])
    manifest |= parts
    manifest["perturber"]["identity_allowed"] = True
    manifest["tables"] = {"decoder": {"file": "tables/decoder.npy", "shape": [FEATURES + 1, FEATURES]}}
    manifest["tables"]["decoder"]["dtype"] = "float32"
    manifest["golden"] = {
        "input": "golden/input.npy",
        "draws": {name: f"golden/draws.{name}.npy" for name in draws},
        "outputs": {"numpy": {"report": "golden/numpy.report.npy"}},
    }
    return manifest, members


def made(folder: Path, alpha: float = 4.0, **more: Any) -> bundles.Made:
    """That bundle on the disk."""
    return bundles.make_bundle(folder, example=example(alpha, **more))


def pipeline(**more: Any) -> Any:
    """Its stages, ready to run."""
    parts = document(**more)
    return local_examples.pipeline(parts, {})


def manifest(**more: Any) -> Any:
    """Its records, without members."""
    return parse(document(**more))


def asked(number: int, theta: tuple[float, ...] = (0.0, 0.0), *, run: int = 7, lot: int = 2, devices: int = 2) -> bytes:
    """The record of a round."""
    return FORM.pack(Round(run, number, lot, devices, np.array(theta, np.float32)))


def write_people(path: Path, x: np.ndarray, first: int = 0) -> None:
    """Lines of a subject, features and a label, as ``--subject-column 1`` takes them; x float (n, 3)."""
    path.write_text("".join(f"p{first + row},{','.join(map(str, line))}\n" for row, line in enumerate(x.tolist())))
