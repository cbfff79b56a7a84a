"""manifest.manifest: the records say what the JSON says."""

import json

import pytest

from edgeveil.edge_runtime.manifest.manifest import Crop, parse
from edgeveil.edge_runtime.manifest.schema import check_manifest
from tests.edge_runtime.sources import series_example
from tests.support import bundles

EXAMPLES = (
    bundles.numpy_example,
    bundles.artefact_example,
    bundles.held_example,
    bundles.captured_example,
    series_example.example,
)


def _as_json(record):
    """A record as the JSON it was made of: named fields, lists for tuples."""
    if hasattr(record, "_asdict"):
        return {key: _as_json(value) for key, value in record._asdict().items()}
    if isinstance(record, dict):
        return {key: _as_json(value) for key, value in record.items()}
    return [_as_json(value) for value in record] if isinstance(record, (list, tuple)) else record


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_every_record_says_what_the_document_says(example):
    document, members = example()
    document = json.loads(json.dumps(bundles.with_members(document, members)))
    manifest = check_manifest(document)
    assert manifest.document == document
    for name, value in _as_json(manifest).items():
        if name in ("models", "stages", "outputs", "document", "privacy", "stream"):
            continue
        if name in ("spending", "counts", "detector") and name not in document:
            assert value is None
            continue
        if name == "capture" and value is not None:
            for key in {"window", "windows", "fit"} - set(document[name]):
                assert value.pop(key) is None
        default = {"sensor": None, "series": None, "features": None, "table": None} if name == "input" else {}
        assert value == ({**default, **document[name]} if default else document[name]), name
    for stage, entry in zip(manifest.stages, document["stages"], strict=True):
        noise = entry.get("noise", [])
        assert list(stage.noise) == ([noise] if isinstance(noise, str) else noise)  # one name, or several
        rest = {key: value for key, value in entry.items() if key != "noise"}
        assert {key: _as_json(getattr(stage, key)) for key in rest} == rest
        with pytest.raises(AttributeError, match="has no colour"):
            _ = stage.colour
    for output, entry in zip(manifest.outputs, document["outputs"], strict=True):
        assert {key: value for key, value in _as_json(output).items() if value is not None} == entry
    for key in ("file", "speaks_of", "pipeline"):
        assert getattr(manifest.privacy, key) == document["privacy"][key]
    if document["stream"] is not None:
        assert manifest.stream._asdict() == {"gap": None, "draws": None, **document["stream"]}
    for name, model in manifest.models.items():
        said = document["models"][name]
        assert (model.macs, model.parameters) == (said["macs"], said["parameters"])
        for variant, artefact in model.artefacts.items():
            entry = said["artefacts"][variant]
            assert artefact.entry == entry
            assert artefact[:4] == (entry["file"], entry["format"], entry["sha256"], entry["tolerance"]["max_abs"])


def test_a_part_of_a_manifest_is_enough_in_training():
    document, _ = bundles.numpy_example()
    part = parse({key: document[key] for key in ("input", "stages", "outputs")})
    assert (part.models, part.members, part.capture, part.stream, part.name) == ({}, [], None, None, "")
    assert part.input.shape == tuple(document["input"]["shape"])


def test_a_crop_has_a_field_for_each_key():
    document, _ = bundles.captured_example()
    assert set(Crop._fields) == set(document["capture"]["crop"])
