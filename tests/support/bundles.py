"""Small real bundles for tests: no TensorFlow, no interpreter, a signature that is real.

``numpy_example()`` is a whole pipeline without a model (argmax of four features, then that class's row) that a runtime
can run; ``artefact_example()`` is the manifest of an image perturber whose two artefacts are bytes that nothing runs.
Both return ``(manifest, members)`` without signature: change them as you like, then ``make_bundle`` or ``sealed``.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from edgeveil.edge_runtime.bundle.archive import pack
from edgeveil.edge_runtime.bundle.reader import signature_member, signed_message
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.manifest.capture import pipeline_sha256
from edgeveil.edge_runtime.manifest.manifest import CaptureRules
from edgeveil.edge_runtime.manifest.schema import (
    CARD_MEMBER,
    PAGE_MEMBER,
    PRIVACY_FILES,
    PRIVACY_MEMBER,
    RUNTIME_MEMBER,
    referenced_files,
)
from edgeveil.edge_runtime.signing.keys import Key, public_key_line

Manifest = dict[str, Any]
Members = dict[str, bytes]

KEY = Ed25519PrivateKey.from_private_bytes(b"edgeveil tests: not for real use")
STRANGER = Ed25519PrivateKey.from_private_bytes(b"edgeveil tests: the one unknown.")


@dataclass(frozen=True)
class Made:
    """A bundle on disk, the folder with the one key that it is signed by, and what is in it."""

    path: Path
    trust: Path
    manifest: Manifest
    members: Members


def make_bundle(
    folder: Path,
    *,
    example: tuple[Manifest, Members] | None = None,
    change: Callable[[Manifest, Members], None] | None = None,
    key: Ed25519PrivateKey = KEY,
    development: bool = False,
    name: str = "test.veil",
) -> Made:
    """Write ``folder/test.veil`` and ``folder/trust/test.pub``. ``change`` alters manifest and members in place."""
    manifest, members = example or numpy_example()
    manifest["development"] = development
    if change:
        change(manifest, members)
    manifest = with_members(manifest, members)
    (folder / "trust").mkdir(parents=True, exist_ok=True)
    (folder / "trust" / "test.pub").write_text(public_key_line(trusted(key, development=development)))
    (folder / name).write_bytes(sealed(manifest, members, key))
    return Made(folder / name, folder / "trust", manifest, members)


def with_members(manifest: Manifest, members: Members) -> Manifest:
    """A copy of the manifest that lists these members with their true sizes and hashes."""
    listed = [
        {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(members.items())
    ]
    return {**copy.deepcopy(manifest), "members": listed}


def sealed(manifest: Manifest | bytes, members: Mapping[str, bytes], key: Ed25519PrivateKey = KEY) -> bytes:
    """The bytes of a bundle: signed whatever the manifest says."""
    data = manifest if isinstance(manifest, bytes) else json.dumps(manifest, indent=1, sort_keys=True).encode()
    signature = signature_member(public_hex(key), key.sign(signed_message(data)))
    return pack([("manifest.json", data), ("signature.json", signature), *sorted(members.items())])


def public_hex(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def trusted(key: Ed25519PrivateKey = KEY, *, development: bool = False) -> Key:
    return Key(public_hex(key), "test", development)


def trust(key: Ed25519PrivateKey = KEY, *, development: bool = False) -> Trust:
    return Trust([trusted(key, development=development)])


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def numpy_example() -> tuple[Manifest, Members]:
    """Vector uint8 (4,) in 0..16 -> which feature is largest -> the mean reading of that class; runs on numpy alone."""
    means = np.array([[1, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0.25, 0], [0.125, 0.25, 0.5, 1]], np.float32)
    x = np.array([[9, 1, 2, 3], [0, 16, 15, 1], [3, 1, 4, 1], [1, 2, 3, 4]], np.uint8)
    label = x.argmax(axis=1)
    members = {
        RUNTIME_MEMBER: b"in a real bundle, the runtime as a zipapp",
        "tables/means.npy": npy(means),
        "golden/input.npy": npy(x),
        "golden/numpy.frame.npy": npy(np.rint(means[label] * 16).astype(np.uint8)),
        "golden/numpy.label.npy": npy(label.astype(np.int64)),
    }
    manifest = {
        **_head("numpy-example"),
        "input": {"name": "x", "kind": "vector", "shape": [4], "dtype": "uint8", "low": 0.0, "high": 16.0},
        "capture": None,
        "stream": None,
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", "low": 0.0, "high": 16.0},
            {"stage": "table", "op": "argmax", "input": "u", "output": "label"},
            {"stage": "synthesis", "op": "row", "input": "label", "table": "means", "output": "v"},
            {"stage": "output", "input": "v", "output": "x_out", "low": 0.0, "high": 16.0, "dtype": "uint8"},
        ],
        "outputs": [
            {"name": "frame", "kind": "frame", "tensor": "x_out", "shape": [4], "dtype": "uint8"},
            {"name": "label", "kind": "label", "tensor": "label", "shape": [], "dtype": "int64"},
        ],
        "models": {},
        "preference": [],
        "profiles": {"workstation": {"artefacts": [], "backends": []}},
        "tables": {"means": {"file": "tables/means.npy", "shape": [4, 4], "dtype": "float32"}},
        "golden": {
            "input": "golden/input.npy",
            "draws": {},
            "outputs": {"numpy": {"frame": "golden/numpy.frame.npy", "label": "golden/numpy.label.npy"}},
        },
        "privacy": not_audited(),
    }
    return manifest, members


def whole_samples_example() -> tuple[Manifest, Members]:
    """The same with the mean readings as they are sent, whole numbers."""
    manifest, members = numpy_example()
    means = np.load(io.BytesIO(members["tables/means.npy"]))
    members["tables/means.npy"] = npy(np.rint(means * 16).astype(np.uint8))
    manifest["tables"]["means"]["dtype"] = "uint8"
    manifest["stages"] = [*manifest["stages"][:2], {**manifest["stages"][2], "output": "x_out"}]
    return manifest, members


# One graph without operations: what a lint passes and no interpreter takes for the manifest's tensors.
EMPTY_TFLITE = struct.pack("<I4s5H2xiIIIHHi", 20, b"TFL3", 10, 8, 0, 0, 4, 12, 4, 1, 8, 4, 4, 4)
EMPTY_ONNX = b"\x08\x07" + b"\x32\x09" + b"no graph."  # IR version 7, and a text


def artefact_example(*, audited: bool = True) -> tuple[Manifest, Members]:
    """Image uint8 (8, 8, 1) -> a generator with noise, in two variants of no operation, which no interpreter runs."""
    members = {
        RUNTIME_MEMBER: b"in a real bundle, the runtime as a zipapp",
        "artefacts/generator.tflite-int8.tflite": EMPTY_TFLITE,
        "artefacts/generator.onnx-float32.onnx": EMPTY_ONNX,
        "golden/input.npy": npy(np.zeros((2, 8, 8, 1), np.uint8)),
        "golden/draws.noise.npy": npy(np.zeros((2, 16), np.float32)),
        "golden/tflite-int8.frame.npy": npy(np.zeros((2, 8, 8, 1), np.uint8)),
        "golden/onnx-float32.frame.npy": npy(np.ones((2, 8, 8, 1), np.uint8)),
    }
    quantised = {"dtype": "int8", "scale": 1 / 255, "zero_point": -128}
    plain = {"dtype": "float32", "scale": None, "zero_point": None}
    artefacts = {
        variant: {
            "file": file,
            "format": variant.split("-")[0],
            "precision": variant.split("-")[1],
            "sha256": hashlib.sha256(members[file]).hexdigest(),
            "weight_bytes": 12,
            "inputs": [
                {"name": "image", "tensor": "serving_default_image:0", "shape": [1, 8, 8, 1], **number},
                {"name": "noise", "tensor": "serving_default_noise:0", "shape": [1, 16], **number},
            ],
            "outputs": [{"name": "output", "tensor": "StatefulPartitionedCall:0", "shape": [1, 8, 8, 1], **number}],
            "tolerance": {"max_abs": 1.0},
        }
        for variant, file, number in (
            ("tflite-int8", "artefacts/generator.tflite-int8.tflite", quantised),
            ("onnx-float32", "artefacts/generator.onnx-float32.onnx", plain),
        )
    }
    manifest = {
        **_head("artefact-example"),
        "input": {"name": "x", "kind": "image", "shape": [8, 8, 1], "dtype": "uint8", "low": 0.0, "high": 16.0},
        "capture": None,
        "stream": None,
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", "low": 0.0, "high": 16.0},
            {"stage": "draw", "distribution": "uniform", "output": "noise", "shape": [16]},
            {
                "stage": "artefact",
                "model": "generator",
                "inputs": {"image": "u", "noise": "noise"},
                "outputs": {"output": "v"},
            },
            {"stage": "output", "input": "v", "output": "x_out", "low": 0.0, "high": 16.0, "dtype": "uint8"},
        ],
        "outputs": [{"name": "frame", "kind": "frame", "tensor": "x_out", "shape": [8, 8, 1], "dtype": "uint8"}],
        "models": {"generator": {"macs": 1000, "parameters": 12, "artefacts": artefacts}},
        "preference": ["tflite-int8", "onnx-float32"],
        "profiles": {
            "coral-dev-board": {"artefacts": ["tflite-int8"], "backends": ["tflite"]},
            "workstation": {"artefacts": ["tflite-int8", "onnx-float32"], "backends": ["tflite", "onnx"]},
        },
        "tables": {},
        "golden": {
            "input": "golden/input.npy",
            "draws": {"noise": "golden/draws.noise.npy"},
            "outputs": {variant: {"frame": f"golden/{variant}.frame.npy"} for variant in artefacts},
        },
        "privacy": not_audited(),
    }
    if audited:
        document = audit_document(manifest)
        add_audit(manifest, members, document)
    return manifest, members


def channel_example() -> tuple[Manifest, Members]:
    """As ``numpy_example``, but the label goes through a noisy channel, and label and code are all that leaves."""
    manifest, members = numpy_example()
    counts = np.full((4, 4), 2, np.uint32) + np.eye(4, dtype=np.uint32) * 8
    members["tables/q.npy"] = npy(counts)
    members["golden/draws.code.npy"] = members["golden/numpy.label.npy"]
    for name in ("tables/means.npy", "golden/numpy.frame.npy"):
        del members[name]
    members["golden/numpy.code.npy"] = members["golden/draws.code.npy"]
    del members["golden/numpy.label.npy"]
    manifest["tables"] = {"q": {"file": "tables/q.npy", "shape": [4, 4], "dtype": "uint32"}}
    draw = {"stage": "draw", "distribution": "channel", "input": "label", "table": "q", "output": "code"}
    manifest["stages"] = [*manifest["stages"][:2], draw]
    manifest["outputs"] = [{"name": "code", "kind": "code", "tensor": "code", "shape": [], "dtype": "int64"}]
    manifest["golden"]["draws"] = {"code": "golden/draws.code.npy"}
    manifest["golden"]["outputs"] = {"numpy": {"code": "golden/numpy.code.npy"}}
    return manifest, members


def held_example() -> tuple[Manifest, Members]:
    """As ``numpy_example``, of a stream: the label is held by three votes and a code drawn once; flat until then."""
    manifest, members = numpy_example()
    table = np.array([[3, 1, 0], [3, 1, 0], [1, 3, 0], [1, 3, 0], [0, 0, 4]], np.uint32)
    pictures = np.array([[1, 0, 0, 0], [0, 1, 0, 0.5], [0.5, 0.5, 0.5, 0.5]], np.float32)
    code = np.array([0, 1, 1, 0])
    del members["tables/means.npy"]
    members |= {
        "tables/channel.npy": npy(table),
        "tables/pictures.npy": npy(pictures),
        "golden/draws.drawn.npy": npy(code),
        "golden/numpy.frame.npy": npy(np.rint(pictures[code] * 16).astype(np.uint8)),
    }
    manifest["stream"] = {"hold": "track", "votes": 3, "period_s": None, "acknowledged": None}
    manifest["stages"][2:3] = [
        {"stage": "hold", "op": "majority", "input": "label", "groups": 4, "output": "held"},
        {"stage": "draw", "distribution": "channel", "input": "held", "table": "channel", "output": "drawn"},
        {"stage": "hold", "op": "keep", "input": "drawn", "by": "held", "output": "kept"},
        {"stage": "synthesis", "op": "row", "input": "kept", "table": "pictures", "output": "v"},
    ]
    manifest["outputs"][1]["tensor"] = "held"
    manifest["tables"] = {
        "channel": {"file": "tables/channel.npy", "shape": [5, 3], "dtype": "uint32"},
        "pictures": {"file": "tables/pictures.npy", "shape": [3, 4], "dtype": "float32"},
    }
    manifest["golden"]["draws"] = {"drawn": "golden/draws.drawn.npy"}
    return manifest, members


def laplace_example() -> tuple[Manifest, Members]:
    """Vector uint8 (4,) in 0..16, discrete Laplace noise of scale 16/3 steps on each; runs on numpy alone."""
    manifest, members = numpy_example()
    for name in ("tables/means.npy", "golden/numpy.label.npy"):
        del members[name]
    x = np.load(io.BytesIO(members["golden/input.npy"]))
    noise = np.array([[-9, 1, 0, 40], [3, 3, -3, 0], [0, 1, -2, 2], [-40, 0, 0, 1]], np.int64)
    members["golden/draws.noise.npy"] = npy(noise)
    members["golden/numpy.frame.npy"] = npy(np.clip(x.astype(np.int64) + noise, 0, 16).astype(np.uint8))
    scale = {"numerator": 16, "denominator": 3}
    manifest["stages"] = [
        manifest["stages"][0],
        {"stage": "draw", "distribution": "laplace", "output": "noise", "shape": [4], **scale},
        {"stage": "add", "input": "u", "noise": "noise", "levels": 16, "output": "v"},
        manifest["stages"][3],
    ]
    manifest["outputs"] = manifest["outputs"][:1]
    manifest["perturber"]["identity_allowed"] = True
    manifest["tables"] = {}
    manifest["golden"]["draws"] = {"noise": "golden/draws.noise.npy"}
    manifest["golden"]["outputs"] = {"numpy": {"frame": "golden/numpy.frame.npy"}}
    return manifest, members


def captured_example() -> tuple[Manifest, Members]:
    """As ``artefact_example``, behind an overhead depth camera: crops of people, by their height above the floor."""
    manifest, members = artefact_example(audited=False)
    manifest["capture"] = {
        "frame": {"shape": [424, 512], "dtype": "uint16", "unit_mm": 1.0},
        "access_points": None,
        "measure": "height",
        "low": 0.0,
        "high": 2200.0,
        "crop": {
            "size": [180, 180],
            "focal_px": 365.0,
            "least_height_mm": 1000.0,
            "least_pixels": 600,
            "apart_mm": 500.0,
            "step_px": 60,
            "gone_frames": 5,
            "floor_frames": 900,
        },
        "resize": "nearest",
        "slots": 2,
        "tick_hz": 10.0,
        "on_fault": "previous",
        "degraded_after_s": 60,
    }
    return manifest, members


def fingerprint_example() -> tuple[Manifest, Members]:
    """As ``numpy_example``, behind a Wi-Fi radio: which of four access points are seen."""
    manifest, members = numpy_example()
    manifest["capture"] = {
        "frame": {"shape": [4], "dtype": "int8", "unit_mm": None},
        "access_points": [f"00:11:22:33:44:{n:02x}" for n in range(4)],
        "measure": "seen",
        "low": -104.0,
        "high": 0.0,
        "crop": None,
        "resize": None,
        "slots": 1,
        "tick_hz": 0.1,
        "on_fault": "flat",
        "degraded_after_s": 60,
    }
    return manifest, members


def cleaner_arrays(features: int = 6, rank: int = 2, eps: float = 0.02) -> dict[str, np.ndarray]:
    """What a ``numpy`` artefact holds: a cleaner of ``rank`` wanted outputs, around a mean that is not zero."""
    from edgeveil.trainer.linear import algorithm1

    rng = np.random.default_rng(5)
    cleaner = algorithm1(rng.normal(size=(features, rank)), rng.normal(size=(features, 2)), eps=eps)
    mean = rng.normal(size=features)
    arrays = {
        "encoder": cleaner.encoder,
        "encoder_bias": -mean @ cleaner.encoder,
        "decoder": cleaner.decoder.T,
        "decoder_bias": mean,
        "eps": np.array(eps),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def cleaner_entry(data: bytes, features: int = 6, rank: int = 2) -> dict[str, Any]:
    def tensor(name: str, size: int) -> dict[str, Any]:
        shape = {"shape": [1, size], "dtype": "float32", "scale": None, "zero_point": None}
        return {"name": name, "tensor": name, **shape}

    return {
        "file": "artefacts/cleaner.numpy-float32.npz",
        "format": "numpy",
        "precision": "float32",
        "sha256": hashlib.sha256(data).hexdigest(),
        "weight_bytes": 4,
        "inputs": [tensor("features", features)],
        "outputs": [tensor("output", features), tensor("code", rank)],
        "tolerance": {"max_abs": 1e-4},
    }


def cleaner_example(*, code: bool = False) -> tuple[Manifest, Members]:
    """Vector float32 (6,) without a range -> a linear cleaner -> x~, or the quantised code alone; numpy runs it."""
    from edgeveil.edge_runtime.backends import open_backend

    arrays = cleaner_arrays()
    data = npz(arrays)
    entry = cleaner_entry(data)
    x = np.random.default_rng(6).normal(size=(4, 6)).astype(np.float32)
    made = open_backend("numpy", data, entry).run({"features": x})
    name = "code" if code else "frame"
    leaves = np.rint(made["code"] * 1024).astype(np.int16) if code else made["output"]
    members = {
        RUNTIME_MEMBER: b"in a real bundle, the runtime as a zipapp",
        entry["file"]: data,
        "golden/input.npy": npy(x),
        f"golden/numpy-float32.{name}.npy": npy(leaves),
    }
    manifest = {
        **_head("cleaner-example"),
        "input": {"name": "x", "kind": "vector", "shape": [6], "dtype": "float32", "low": None, "high": None},
        "capture": None,
        "stream": None,
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", "low": None, "high": None},
            {
                "stage": "artefact",
                "model": "cleaner",
                "inputs": {"features": "u"},
                "outputs": {"output": "v", "code": "c"},
            },
            {"stage": "output", "input": "v", "output": "x_out", "low": None, "high": None, "dtype": "float32"},
        ],
        "outputs": [{"name": "frame", "kind": "frame", "tensor": "x_out", "shape": [6], "dtype": "float32"}],
        "models": {"cleaner": {"macs": 24, "parameters": 32, "artefacts": {"numpy-float32": entry}}},
        "preference": ["numpy-float32"],
        "profiles": {"raspberry-pi-cpu": {"artefacts": ["numpy-float32"], "backends": ["numpy"]}},
        "tables": {},
        "golden": {
            "input": "golden/input.npy",
            "draws": {},
            "outputs": {"numpy-float32": {name: f"golden/numpy-float32.{name}.npy"}},
        },
        "privacy": not_audited(),
    }
    manifest["perturber"] |= {"kind": "cleaner", "identity_allowed": True}
    if code:
        decoder = np.vstack([arrays["decoder"] / 1024, arrays["decoder_bias"]])
        members["tables/decoder.npy"] = npy(decoder)
        manifest["tables"] = {"decoder": {"file": "tables/decoder.npy", "shape": [3, 6], "dtype": "float32"}}
        manifest["stages"][2] = {"stage": "quantise", "input": "c", "output": "q", "scale": 2**-10, "dtype": "int16"}
        leaving = {"name": "code", "kind": "code", "tensor": "q", "shape": [2], "dtype": "int16", "decoder": "decoder"}
        manifest["outputs"] = [leaving]
        entry["tolerance"]["max_abs"] = 2.0
    return manifest, members


def audit_document(manifest: Manifest, artefact: str = "tflite-int8", members: Members | None = None) -> dict[str, Any]:
    """A small audit.json with the keys that sealing and showing read. Its numbers are made up.

    ``members`` has the files of the manifest's tables, where there are any.
    """

    def row(name: str, kind: str, accuracy: float) -> dict[str, Any]:
        interval = {"accuracy": accuracy, "low": accuracy - 0.02, "high": accuracy + 0.02}
        beyond = {"auc": 0.6, "bits": 0.05, "bits_counted": 0.05, "bits_counted_low": 0.02}
        return {"name": name, "kind": kind, **interval, **beyond, "train_samples": 900, "seed": 0}

    rows = [row("fixed", "fixed", 0.52), row("transfer-cnn", "transfer", 0.55), row("forest", "adaptive", 0.64)]
    part = {
        "target": {"accuracy": 0.97, "low": 0.96, "high": 0.98},
        "chance": {"prior": 0.5, "majority": 0.51},
        "adversaries": rows,
        "not_run": [],
        "worst_adaptive": rows[-1],
        "most_bits": rows[-1],
    }
    models = manifest["models"]
    files = {name: (members or {})[table["file"]] for name, table in manifest["tables"].items()}
    tables = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    hashes = {name: model["artefacts"][artefact]["sha256"] for name, model in models.items()}
    rate = {"accuracy": 0.98, "low": 0.97, "high": 0.99}
    return {
        "schema": 1,
        "kind": "edgeveil-audit",
        "created": "2026-11-21T12:00:00Z",
        "artefact": artefact,
        "speaks_of": {artefact: hashes},
        "pipeline": {artefact: pipeline_sha256(manifest, artefact, tables)},
        "backends": {},
        "data": {
            "name": "digits",
            "target": manifest["perturber"]["target"],
            "sensitive": manifest["perturber"]["sensitive"],
            "y_classes": 2,
            "z_classes": 2,
            "rows": {"test": 599},
            "clusters": None,
        },
        **part,
        "raw": {"target": rate, "sensitive": rate},
        "label_only": part,
        "intervals": "Wilson",
        "not_covered": ["Several releases of the same reading."],
        "budget": "quick",
        "seed": 0,
        "versions": {"edgeveil": "0.1.0"},
        "machine": {"system": "Linux", "architecture": "x86_64", "cores": 2},
    }


def add_audit(manifest: Manifest, members: Members, document: dict[str, Any]) -> None:
    """Put an audit into a bundle, with a card that says the same."""
    spoken = {key: {name: value for part in _parts(document) for name, value in part[key].items()} for key in _SPOKEN}
    members[PRIVACY_MEMBER] = json.dumps(document, indent=1).encode()
    members[CARD_MEMBER] = card_of(document)
    members[PAGE_MEMBER] = b"<!doctype html><title>a card</title>"
    manifest["privacy"] = {**PRIVACY_FILES, **spoken}


def card_of(document: dict[str, Any]) -> bytes:
    """The least privacy card of an audit."""
    fields = _ON_CARD if document["schema"] == 1 else ("artefact", "findings", "verdict")
    shown = [{name: part.get(name) for name in (*_SPOKEN, *fields)} for part in _parts(document)]
    card = {
        "schema": document["schema"],
        "kind": "edgeveil-privacy-card",
        "sensitive": {"name": document["data"]["sensitive"]},
    }
    return json.dumps({**card, "artefacts": shown}).encode()


def _parts(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in (document, *document.get("others", [])) if part["speaks_of"]]


_SPOKEN = ("speaks_of", "pipeline")
_ON_CARD = ("artefact", "target", "chance", "adversaries", "worst_adaptive", "most_bits")


def not_audited() -> dict[str, Any]:
    """A manifest's ``privacy`` without an audit."""
    return {"file": None, "card": None, "page": None, "speaks_of": {}, "pipeline": {}}


def export_folder(folder: Path, example: tuple[Manifest, Members] | None = None) -> Path:
    """An export folder as ``edgeveil export`` leaves it, audited where the example is; returns ``folder``."""
    manifest, members = example or artefact_example()
    manifest = copy.deepcopy(manifest)
    manifest["privacy"] = not_audited()
    for name in referenced_files(manifest):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(members[name])
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    (folder / "export.json").write_text("{}")
    if PRIVACY_MEMBER in members:
        (folder / "audit.json").write_bytes(members[PRIVACY_MEMBER])
    return folder


def _head(name: str) -> Manifest:
    return {
        "schema": 1,
        "name": name,
        "created": "2026-11-21T12:00:00Z",
        "development": False,
        "security_version": 1,
        "audience": "",
        "perturber": {
            "kind": "prgan",
            "identity_allowed": False,
            "substituted": False,
            "target": "parity",
            "sensitive": "less-than-five",
            "target_classes": ["even", "odd"],
        },
        "provenance": {"edgeveil": "0.1.0", "recipe_sha256": "0" * 64, "packages": {"numpy": "2.4.0"}},
    }


def capture_of(frame, access_points=None):
    """A capture of which only the sensor's side matters."""
    return CaptureRules(frame, access_points, "value", None, None, None, None, 1, 10.0, "flat", 10.0)
