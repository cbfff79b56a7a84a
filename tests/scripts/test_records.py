"""Every script has a purpose and says how it is run, and two runs can be compared."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

from scripts import record
from scripts.measure import soak
from tests.support.checkout import ROOT

FOLDERS = ("papers", "measure")
SCRIPTS = sorted(
    [*(ROOT / "scripts").glob("*.py"), *(path for one in FOLDERS for path in (ROOT / "scripts" / one).glob("*.py"))]
)


def name_of(path: Path) -> str:
    """The module's name, as it is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(path: Path) -> set[str]:
    """The names of all that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_every_script_is_a_command_or_is_imported_by_one_or_by_a_test():
    modules = {name_of(path): path for path in SCRIPTS}
    reached, todo = set(), [name for name, path in modules.items() if "__main__" in path.read_text()]
    tests = (path for path in (ROOT / "tests").rglob("*.py") if "scripts" in path.read_text())
    todo += [name for path in tests for name in imports(path) if name in modules]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [other for other in imports(modules[name]) if other in modules]
    assert set(modules) - reached == set()


COMMANDS = [path for path in SCRIPTS if "record.run(main)" in path.read_text() or path.stem in ("pages", "reference")]


def test_a_script_says_how_it_is_run(monkeypatch, capsys):
    for path in COMMANDS:
        monkeypatch.setattr(sys, "argv", [str(path), "--help"])
        with pytest.raises(SystemExit) as ended:
            importlib.import_module(name_of(path)).main()
        assert ended.value.code == 0
        said = capsys.readouterr().out
        assert said.startswith(f"usage: python -m {name_of(path)}")
        assert f"Example: python -m {name_of(path)}" in said


def test_an_option_that_is_not_known_is_the_users_mistake(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["x", "--no-such"])
    with pytest.raises(SystemExit) as ended:
        record.run(soak.main)
    assert ended.value.code == 2
    assert "--no-such" in capsys.readouterr().err


def test_a_record_says_what_was_asked_for_and_no_path(tmp_path):
    script = record.Script(str(ROOT / "scripts/measure/soak.py"), "Soaks.", out=tmp_path / "a", timing=True)
    script.add_argument("--seconds", type=float, default=1800.0)
    script.add_argument("--seeds", type=int, nargs="+", default=[0])
    script.add_argument("--again", action="store_true")
    assert script.made_by(script.parse_args([])) == "scripts/measure/soak.py"
    words = ["--seconds", "60", "--seeds", "1", "2", "--again", "--anyway", "--out", "elsewhere"]
    by = script.made_by(script.parse_args(words))
    assert by == "scripts/measure/soak.py --seconds 60.0 --seeds 1 2 --again"
    record.write(tmp_path / "new/a.json", by, {"made_by": "something older", "rows": [1.5]})
    assert list(record.read(tmp_path / "new/a.json").items()) == [("made_by", by), ("rows", [1.5])]


def test_documents_differ_by_more_than_rounding_or_not_at_all(tmp_path, capsys):
    old = {"made_by": "a", "wall_s": 3.0, "rows": [{"mean": 0.5, "name": "x"}, {"mean": 1e-13, "name": "y"}]}
    new = {"made_by": "b", "wall_s": 9.0, "rows": [{"mean": 0.50001, "name": "x"}, {"mean": 3e-13, "name": "y"}]}
    near = {"relative": 1e-3, "absolute": 1e-6}
    assert list(record.differences(old, new, **near)) == []
    assert len(list(record.differences(old, new))) == 2
    new["rows"][0]["mean"] = 0.51
    new["rows"][1]["name"] = "z"
    found = list(record.differences(old, new, **near))
    assert found == ["rows[0].mean was 0.5, now 0.51", "rows[1].name was 'y', now 'z'"]
    assert list(record.differences(old, {"rows": old["rows"][:1]}))
    assert list(record.differences(old, {**old, "eps": 1}))
    assert record.compare(tmp_path, found) == 3
    assert record.compare(tmp_path, []) == 0
    assert "2 differences" in capsys.readouterr().out


def test_there_must_be_a_record_to_compare_with(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        record.run(lambda: record.recorded(tmp_path / "none.json") and 0)
    assert ended.value.code == 2
    assert "record it first" in capsys.readouterr().err
