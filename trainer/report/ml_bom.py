"""A bundle as a CycloneDX 1.6 ML-BOM: its privacy card as the model card, its files, and what exported it.

https://cyclonedx.org/docs/1.6/json/ is the form. cyclonedx-python-lib has no classes for model cards, so the document
is made here and checked by the library's strict validator.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit import board_column
from edgeveil.trainer.audit.frozen import LICENCES
from edgeveil.trainer.audit.verdict import guess
from edgeveil.trainer.recipe.count import leaving

DETECTOR = "detector"
_NAMES = uuid.UUID("6f0f5b1e-3c0c-5d0e-9a53-0d5a3c1f2b77")  # so that one bundle has one serial number


def ml_bom(bundle: Bundle, card: Mapping[str, Any]) -> bytes:
    """The document as JSON; the same bundle gives the same bytes. ``card`` is the bundle's.

    Raises ``BadInput`` where cyclonedx-python-lib is not installed, or where the card does not fit the form.
    """
    text = json.dumps(_document(bundle, card), indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"
    _check(text)
    return text.encode()


def _check(text: str) -> None:
    try:
        from cyclonedx.exception import MissingOptionalDependencyException
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator

        found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    except (ImportError, MissingOptionalDependencyException):
        raise BadInput(
            "A CycloneDX document is written only if it can be checked, and cyclonedx-python-lib with its JSON "
            'validation is not installed: pip install "edgeveil[cyclonedx]".'
        ) from None
    if found is not None:
        raise BadInput(f"The card does not fit CycloneDX 1.6 ({found.data.message}): seal the bundle again.")


def _document(bundle: Bundle, card: Mapping[str, Any]) -> dict[str, Any]:
    manifest = bundle.manifest.document
    provenance, has_detector = manifest["provenance"], bundle.manifest.detector is not None
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(_NAMES, bundle.manifest_sha256).urn,
        "version": 1,
        "metadata": {
            "timestamp": manifest["created"],
            "tools": {
                "components": [{"type": "application", "name": "edgeveil", "version": provenance["edgeveil"]}],
            },
            "component": {
                "type": "machine-learning-model",
                "bom-ref": "perturber",
                "name": manifest["name"],
                "version": bundle.manifest_sha256,
                "description": f"A perturber of the kind {card['perturber']['kind']}, sealed as an EdgeVeil bundle. "
                "Its version is the SHA-256 of its manifest.",
                "modelCard": _model_card(bundle, card),
                "properties": _properties(
                    signer=bundle.key,
                    development=bundle.development,
                    security_version=manifest["security_version"],
                    recipe_sha256=provenance["recipe_sha256"],
                    **{f"pipeline_sha256:{name}": sha256 for name, sha256 in manifest["privacy"]["pipeline"].items()},
                ),
            },
        },
        "components": [
            *([_detector(manifest)] if has_detector else []),
            *(
                {
                    "type": "file",
                    "bom-ref": member.name,
                    "name": member.name,
                    "hashes": [{"alg": "SHA-256", "content": member.sha256}],
                }
                for member in bundle.manifest.members
            ),
            *(
                {
                    "type": "library",
                    "bom-ref": f"pkg:pypi/{name}@{version}",
                    "purl": f"pkg:pypi/{name}@{version}",
                    "name": name,
                    "version": version,
                    "scope": "excluded",
                    "description": "Exported the perturber; not in the bundle.",
                }
                for name, version in sorted(provenance["packages"].items())
            ),
        ],
        "dependencies": [
            {"ref": "perturber", "dependsOn": [member.name for member in bundle.manifest.members]},
            *([{"ref": DETECTOR, "dependsOn": [manifest["detector"]["artefact"]["file"]]}] if has_detector else []),
        ],
    }


def _detector(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The network that finds the people who are counted, as a model of its own."""
    entry = manifest["detector"]["artefact"]
    picture = entry["inputs"][0]
    return {
        "type": "machine-learning-model",
        "bom-ref": DETECTOR,
        "name": DETECTOR,
        "description": "Finds the people who are counted. Whose it is, and what it was trained on, the bundle does not "
        "say; how well it finds people was not measured.",
        "hashes": [{"alg": "SHA-256", "content": entry["sha256"]}],
        "modelCard": {
            "modelParameters": {
                "task": "people in a picture",
                "inputs": [{"format": _format({"kind": "image", **picture})}],
                "outputs": [{"format": _format({"kind": one["name"], **one})} for one in entry["outputs"]],
            },
        },
        "properties": _properties(file=entry["file"], precision=entry["precision"]),
    }


def _model_card(bundle: Bundle, card: Mapping[str, Any]) -> dict[str, Any]:
    manifest, counts = bundle.manifest.document, bundle.manifest.counts
    counted = [] if counts is None else [{"format": f"counts of people, {leaving(counts)}"}]
    data, y, z = card["data"], card["target"]["name"], card["sensitive"]["name"]
    described = _properties(**{f"rows:{part}": count for part, count in data["rows"].items()})
    if data["name"] in LICENCES:
        described += _properties(licence=LICENCES[data["name"]])
    return {
        "modelParameters": {
            "task": f"perturbation on the sensor: keep {y}, hide {z}",
            "architectureFamily": card["perturber"]["kind"],
            "datasets": [
                {
                    "type": "dataset",
                    "name": data["name"],
                    "contents": {"properties": described},
                    "sensitiveData": [z],
                }
            ],
            "inputs": [{"format": _format(manifest["input"])}],
            "outputs": [*({"format": _format(output)} for output in manifest["outputs"]), *counted],
        },
        "quantitativeAnalysis": {
            "performanceMetrics": [row for part in card["artefacts"] for row in _metrics(part, y, z)],
        },
        "considerations": {
            "technicalLimitations": [card["statement"], card["reading"], *card["not_tested"]],
            "performanceTradeoffs": [part["sentence"] for part in card["artefacts"]],
            "ethicalConsiderations": [{"name": line} for line in card["warnings"]],
        },
        "properties": [
            {"name": f"edgeveil:guarantee:{one['artefact']}", "value": one["sentence"]} for one in card["guarantees"]
        ],
    }


def _metrics(part: Mapping[str, Any], y: str, z: str) -> Iterator[dict[str, Any]]:
    """The figures of one audited artefact; ``slice`` names it."""

    def metric(kind: str, row: Mapping[str, Any], value: str = "accuracy", ends: str = "") -> dict[str, Any]:
        low, high = row.get(f"{ends}low"), row.get(f"{ends}high")
        between = {} if low is None or high is None else {"lowerBound": str(low), "upperBound": str(high)}
        found = {"type": kind, "value": str(row[value]), "slice": f"test, {board_column.title(part)}"}
        return {**found, "confidenceInterval": between} if between else found

    yield metric("verdict", part, "verdict")
    for said, of in (("", part), ("label-only: ", part["label_only"])):
        worst, most = of["worst_adaptive"], of["most_bits"]
        yield metric(f"{said}accuracy of {y}", of["target"])
        yield metric(f"{said}accuracy on {z}, best attack found ({worst['name']})", worst)
        yield metric(f"{said}bits about {z} beyond {y}, most of any attack ({most['name']})", most, "bits", "bits_")
    yield metric(f"chance at {z}", {"accuracy": guess(part)})
    yield metric(f"accuracy of {y}, raw samples", part["raw"]["target"])
    yield metric(f"accuracy on {z}, raw samples", part["raw"]["sensitive"])
    certificate = part.get("certificate") or {}
    if (certificate.get("per_code") or {}).get("given"):
        yield metric(
            f"factor by which any code raises the chance of any {z}, at most", certificate["per_code"], "factor"
        )
    if certificate.get("given"):
        yield metric(f"accuracy on {z} of any adversary on average, at most", certificate, "bound")
    worst = (part.get("what_else") or {}).get("worst")
    if worst is not None:
        yield metric(f"area under the ROC curve of the worst other question: {worst['question']}", worst["auc"], "mean")
    for one in part["leakage_about_others"]:
        found = one["read_from_it"]
        if found is not None:
            value = "accuracy" if "accuracy" in found else "correlation"
            yield metric(f"{value} of {one['attribute']}, read from what leaves", found, value)


def _properties(**facts: Any) -> list[dict[str, str]]:
    return [
        {"name": f"edgeveil:{name}", "value": json.dumps(value) if value in (True, False) else str(value)}
        for name, value in facts.items()
    ]


def _format(entry: Mapping[str, Any]) -> str:
    return f"{entry['kind']}, {'x'.join(map(str, entry['shape'])) or 'one number'}, {entry['dtype']}"
