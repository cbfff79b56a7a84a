"""docs/reference/edge-runtime.md says what the code does."""

import json
import re
from pathlib import Path

import jsonschema

from edgeveil import edge_runtime
from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.device import words
from tests.support import bundles
from tests.support.checkout import ROOT

PAGE = (ROOT / "docs/reference/edge-runtime.md").read_text()


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    made = bundles.make_bundle(tmp_path, name="demo.veil")
    assert made.trust == tmp_path / "trust"
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", PAGE, re.S).group(1)
    exec(compile(code, "edge-runtime.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out == "0 (4,)\n"


def test_every_command_is_understood():
    lines = [line for line in PAGE.splitlines() if line.startswith("edgeveil-edge ")]
    assert len(lines) == 7
    for line in lines:
        given = main._parser().parse_args(line.split()[1:])
        assert given.file == "ledger" if given.command == "ledger" else given.bundle == "demo.veil"


def test_every_command_is_in_the_table():
    table = PAGE.split("| command | does |")[1].split("\n\n")[0]
    listed = {name for row in table.splitlines() for name in _names(row)}
    assert listed == set(main._parser()._subparsers._group_actions[0].choices)


def test_every_setting_is_in_the_table_with_its_default():
    table = PAGE.split("| setting | default | meaning |")[1].split("\n\n")[0]
    rows = {name: row.split("|")[2].strip(" `") for row in table.splitlines() for name in _names(row)}
    assert set(rows) == set(config.SETTINGS)
    for name, setting in config.SETTINGS.items():
        if setting.default not in (None, False):
            shown = f"{setting.default:g}" if type(setting.default) is float else str(setting.default)
            assert rows[name] == shown, name


def test_every_device_is_in_the_table():
    table = PAGE.split("| `device` | needs |")[1].split("\n\n")[0]
    assert set(words()) <= set(re.findall(r"`([a-z0-9,]+)`", table))


def test_every_reason_a_frame_is_dropped_for_is_explained():
    found = {"error"}
    for path in Path(edge_runtime.__file__).parent.rglob("*.py"):
        found |= set(re.findall(r'FrameDropped\("([a-z-]+)"\)', path.read_text()))
    explained = {name for row in PAGE.split("| reason |")[1].split("\n\n")[0].splitlines() for name in _names(row)}
    assert explained == found


def _names(row):
    return re.findall(r"`([a-z-]+)`", row.split("|")[1]) if row.startswith("| `") else []


def test_every_lock_that_is_named_is_there():
    for name in re.findall(r"requirements/py[0-9a-z-]+\.txt", PAGE):
        text = (ROOT / name).read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text


def test_the_schemas_are_schemas():
    for name in ("run", "bench"):
        jsonschema.Draft202012Validator.check_schema(
            json.loads((ROOT / f"docs/reference/schemas/{name}.schema.json").read_text())
        )
