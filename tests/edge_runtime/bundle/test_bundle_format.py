"""The specification says what the code does: its constants, its keys, its reasons."""

from __future__ import annotations

import json
import re
import struct

import jsonschema
import pytest

from edgeveil.edge_runtime.bundle import archive
from edgeveil.edge_runtime.bundle.reader import SIGNED_PREFIX
from edgeveil.edge_runtime.manifest import dataflow, detector, schema
from edgeveil.edge_runtime.stages import STAGES
from edgeveil.edge_runtime.util import strict_json
from scripts import reference
from tests.hostile_bundles import audits, manifests, museum, promises, signatures, zips  # noqa: F401 - they register
from tests.support import bundles
from tests.support.checkout import ROOT
from tests.support.promised import local_examples

TEXT = (ROOT / "docs" / "reference" / "bundle-format.md").read_text()
SCHEMA = json.loads((ROOT / "docs" / "reference" / "schemas" / "manifest.schema.json").read_text())


def reasons_of_the_table() -> set[str]:
    rows = TEXT.split("## 8. Reasons")[1].split("|---|---|")[1].splitlines()
    return {word for row in rows if row.startswith("|") for word in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])}


def test_every_reason_is_in_the_table_and_in_the_museum():
    shown = {exhibit.reason for exhibit in museum.EXHIBITS.values()}
    assert shown == reasons_of_the_table()


def test_every_reason_of_the_code_is_in_the_table():
    """The words are taken from the source: a new one must be written down and shown in the museum."""
    found = set()
    folder = ROOT / "edge_runtime"
    for path in (*folder.glob("bundle/*.py"), *folder.glob("manifest/*.py"), folder / "util/validate.py"):
        source = path.read_text()
        found |= set(re.findall(r"(?:refuse|BundleRefused)\(\s*\"([a-z0-9-]+)\"", source))
        found |= set(re.findall(r"reason = \"([a-z-]+)\"", source))
    found |= set(re.findall(r"BadJson\(\"([a-z-]+)\"", (folder / "util/strict_json.py").read_text()))
    assert found - reasons_of_the_table() == set()
    assert len(found) > 55


@pytest.mark.parametrize(
    "words",
    [
        f"{detector.MAX_BUNDLE_BYTES:,}".replace(",", " ") + " bytes (256 MiB)",
        f"{detector.MAX_MEMBERS} members, {detector.MAX_NAME} characters for a name",
        f"{schema.MAX_MANIFEST_BYTES:,}".replace(",", " ") + " bytes for",
        f"`{detector.NAME.pattern.replace('(?:', '(')}`",
        f"the {len(SIGNED_PREFIX)} bytes `{SIGNED_PREFIX.decode().strip()}\\n`",
        f"at most {strict_json.MAX_DIGITS} characters to a number, at most {strict_json.MAX_DEPTH}",
        f"list of 1 to {dataflow.MAX_STAGES} | what is done",
        "`" + " ".join(dataflow.DTYPES) + "`",
        schema.RUNTIME_MEMBER,
        schema.PRIVACY_MEMBER,
    ],
)
def test_constants_are_those_of_the_code(words):
    assert re.sub(r"\s+", " ", words) in re.sub(r"\s+", " ", TEXT)


def test_a_bundle_can_be_made_from_the_tables_of_the_page():
    """The local header, the directory entry and the end record, written from the tables and from nothing else."""
    members = [("manifest.json", b"{}"), ("signature.json", b"x" * 9), ("tables/means.npy", b"\x00\xff")]
    front = directory = b""
    for name, data in members:
        header = b"PK\x03\x04" + _fields(_rows("Each **member**")[1:], name, data, len(front))
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + header[4:30]
        directory += _fields(_rows("Each **directory entry**")[3:], name, data, len(front)) + name.encode()
        front += header + name.encode() + data
    count = len(members)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(front), 0)
    assert front + directory + end == archive.pack(members)


def _rows(heading: str) -> list[list[str]]:
    table = TEXT.split(heading)[1].split("|---|---|\n", 1)[1].split("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


def _fields(rows: list[list[str]], name: str, data: bytes, offset: int) -> bytes:
    import zlib

    values = {
        "CRC-32": zlib.crc32(data),
        "size, packed": len(data),
        "size": len(data),
        "length of the name": len(name),
        "offset of the local header": offset,
    }
    packed = b""
    for _, size, field, value in rows:
        number = values[field] if field in values else int(value.split()[0])
        packed += number.to_bytes(int(size), "little")
    return packed


def test_keys_of_the_page_are_those_of_the_code_and_of_the_schema():
    section = TEXT.split("## 5. The manifest's keys")[1].split("An **artefact**")[0]
    keys = re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE)
    example, members = bundles.artefact_example()
    example = bundles.with_members(example, members)
    assert set(keys) == {*example, "spending", "training", "count", "detector"} == set(SCHEMA["properties"])


def test_the_schema_takes_the_examples():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(plain_first(SCHEMA))
    examples = [
        bundles.laplace_example(),
        bundles.numpy_example(),
        bundles.artefact_example(),
        bundles.channel_example(),
        *(local_examples.example(op) for op in local_examples.OPS),
    ]
    for document, members in (*examples, bundles.cleaner_example(), bundles.cleaner_example(code=True)):
        validator.validate(bundles.with_members(document, members))


def plain_first(schema):
    """The same, with numbers before what is asked of each entry: of ten thousand, their number is asked first."""
    if isinstance(schema, list):
        return list(map(plain_first, schema))
    if not isinstance(schema, dict):
        return schema
    keys = sorted(schema, key=lambda key: isinstance(schema[key], dict | list))
    return {key: plain_first(schema[key]) for key in keys}


def test_the_schema_refuses_most_of_what_the_code_refuses_for_its_form():
    """It cannot say what ties places together, nor tell 1.0 from 1; for the rest it must not be the laxer one."""
    of_form = {"unknown-key", "missing-key", "wrong-type", "unsupported-stage", "schema", "bad-count"}
    known_to_be_looser = {"whole_number_with_a_point", "range_of_too_few_features", "schema_is_true"}
    validator = jsonschema.Draft202012Validator(plain_first(SCHEMA))
    count = 0
    for exhibit in museum.EXHIBITS.values():
        if exhibit.reason not in of_form or exhibit.name in known_to_be_looser:
            continue
        document = json.loads(dict(archive.read_archive(exhibit.bundle()[0]))["manifest.json"])
        assert not validator.is_valid(document), exhibit.name
        count += 1
    assert count > 12


def test_the_table_of_stages_is_that_of_the_classes():
    assert reference.stages_page(TEXT) == TEXT, reference.HOW
    assert [name for name in STAGES.kinds() if f"\n| `{name}` |" not in TEXT] == []
