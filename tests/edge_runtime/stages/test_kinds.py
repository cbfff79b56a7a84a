"""Every stage kind is one class: what the JSON Schema of a manifest has of it is what its table of fields has."""

import io
import json
import zipfile

import pytest

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime import registry
from edgeveil.edge_runtime.stages import STAGES, choices, kind_of, name_of
from edgeveil.edge_runtime.util.validate import Field
from tests.support.checkout import ROOT
from tests.support.promised import local_examples

SCHEMA = json.loads((ROOT / "docs/reference/schemas/manifest.schema.json").read_text())["$defs"]
STAGE_SCHEMAS = {name: one for name, one in SCHEMA.items() if "stage" in one.get("properties", {})}

NUMBERS = {"a whole number": "integer", "a number": "number"}


def in_schema(name):
    name = name.replace(" ", "_").replace("-", "_")
    return STAGE_SCHEMAS[name if name in STAGE_SCHEMAS else name + "_stage"]


def test_the_schema_has_these_kinds_and_no_others():
    assert len({id(in_schema(name)) for name in STAGES.kinds()}) == len(STAGES.kinds()) == len(STAGE_SCHEMAS)


@pytest.mark.parametrize("name", STAGES.kinds())
def test_the_schema_has_the_keys_and_ranges_of_the_class(name):
    kind, schema = STAGES[name].load()(), in_schema(name)
    assert sorted(kind.table()) == sorted(schema["required"]) == sorted(schema["properties"])
    word, _, chosen = name.partition(" ")
    assert schema["properties"]["stage"] == {"const": word}
    assert choices()[word] == kind.chooses
    if chosen:
        assert schema["properties"][kind.chooses] == {"const": chosen}
    for key, field in kind.fields.items():
        there = schema["properties"][key]
        if isinstance(field, Field) and field.what in NUMBERS and field.high not in (2**53, 1e30):
            assert there == {"type": NUMBERS[field.what], "minimum": field.low, "maximum": field.high}
        if isinstance(field, Field) and field.types == (str,) and field.of:
            assert list(field.of) == SCHEMA["dtype"]["enum"] if "$ref" in there else there["enum"]


@pytest.mark.parametrize("op", [*local_examples.OPS, "k-rr"])
def test_a_stage_is_named_by_what_it_is(op):
    for stage in local_examples.document(op, 1.0, 4)[0]["stages"]:
        assert kind_of(stage).name == name_of(stage)


def test_a_zipapp_has_the_table_of_the_folder():
    with zipfile.ZipFile(io.BytesIO(zipapp_bytes())) as archive:
        table = json.loads(archive.read(f"edgeveil/edge_runtime/{registry.TABLE}"))
    assert [row[:3] for row in table[STAGES.package]] == [list(row[:3]) for row in STAGES.rows()]
