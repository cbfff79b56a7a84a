"""Every recorded result says which script makes it, every script has a purpose, and two runs can be compared."""

from __future__ import annotations

import ast
import importlib
import json
import shlex
import sys
from pathlib import Path

import pytest

from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sweep.axes import points
from scripts.reproduce import record
from scripts.reproduce.codebooks import frontiers
from scripts.reproduce.pages import write_pages
from scripts.reproduce.papers import digits, predictors
from scripts.reproduce.runtime import serial_goodput
from tests.support.checkout import ROOT

RESULTS = ROOT / "docs/results"
RECORDS = sorted(RESULTS.rglob("*.json"))
SCRIPTS = sorted((ROOT / "scripts/reproduce").rglob("*.py"))
MADE_BY = {path: shlex.split(json.loads(path.read_text()).get("made_by", "nothing"))[0] for path in RECORDS}


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


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.relative_to(RESULTS).as_posix())
def test_a_record_names_the_script_that_makes_it(path):
    script = ROOT / MADE_BY[path]
    assert script.suffix == ".py"
    assert script.is_file()
    text = script.read_text()
    # Scripts that are told where a record goes, as tests on boards are, name its folder or the file.
    folder = path.parent.relative_to(ROOT).as_posix()
    assert folder in text or path.name in text, f"{MADE_BY[path]} says nothing of {path}"


def test_every_script_makes_a_record_or_a_page_or_is_imported_by_one_that_does():
    pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    modules = {name_of(path): path for path in SCRIPTS}
    named = {
        name
        for name, path in modules.items()
        if path.relative_to(ROOT).as_posix() in {*MADE_BY.values()}
        or name in pages
        or name in write_pages.modules()
        or f"{path.relative_to(ROOT)}" in pages
    }
    reached, todo = set(), sorted(named)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [other for other in imports(modules[name]) if other in modules]
    assert set(modules) - reached == set()


@pytest.mark.parametrize("root", ["trainer", "devices", "edge_runtime", "models"])
def test_nothing_that_is_installed_imports_scripts(root):
    at_fault = {
        path for path in (ROOT / root).rglob("*.py") for name in imports(path) if name.split(".")[0] == "scripts"
    }
    assert at_fault == set()


COMMANDS = [path for path in SCRIPTS if "__main__" in path.read_text()]


@pytest.mark.parametrize("path", COMMANDS, ids=name_of)
def test_a_script_says_how_it_is_run(path, monkeypatch, capsys):
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
        record.run(serial_goodput.main)
    assert ended.value.code == 2
    assert "--no-such" in capsys.readouterr().err


def test_a_record_says_what_was_asked_for_and_no_path(tmp_path):
    script = record.Script(str(ROOT / "scripts/reproduce/runtime/soak.py"), "Soaks.", out=tmp_path / "a", timing=True)
    script.add_argument("--seconds", type=float, default=1800.0)
    script.add_argument("--seeds", type=int, nargs="+", default=[0])
    script.add_argument("--again", action="store_true")
    assert script.made_by(script.parse_args([])) == "scripts/reproduce/runtime/soak.py"
    words = ["--seconds", "60", "--seeds", "1", "2", "--again", "--anyway", "--out", "elsewhere"]
    by = script.made_by(script.parse_args(words))
    assert by == "scripts/reproduce/runtime/soak.py --seconds 60.0 --seeds 1 2 --again"
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


def test_figures_of_the_cleaner_are_compared_but_for_what_is_rounding_error():
    def found(cp, leace):
        ours = {"cp": {"mean": cp}, "leace_linear": {"mean": leace, "largest": leace + 0.1}}
        return {"rows": [{"data": "scene", "wanted": 1, "ours": ours}]}

    assert list(predictors.unequal(found(0.5, 0.53), found(0.5001, 0.48))) == []
    assert list(predictors.unequal(found(0.5, 0.5), found(0.5, 0.61))) == ["scene 1: leace_linear was 0.5, now 0.61"]
    assert list(predictors.unequal(found(0.5, 0.5), found(0.6, 0.5))) == ["rows[0].ours.cp.mean was 0.5, now 0.6"]
    assert list(predictors.unequal(found(0.5, 0.5), {"rows": []}))


def test_there_must_be_a_record_to_compare_with(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        record.run(lambda: record.recorded(tmp_path / "none.json") and 0)
    assert ended.value.code == 2
    assert "record it first" in capsys.readouterr().err


def test_goodput_is_compared_with_what_was_recorded():
    def rows(*goodput, cuts=0, exact=True):
        return {"clean": [{"goodput": one, "cuts": cuts, "exact": exact} for one in goodput]}

    old = rows(0.78, 0.85, 0.87)
    assert list(serial_goodput.unequal(old, rows(0.1, 0.70, 0.9))) == []
    assert "goodput" in next(serial_goodput.unequal(old, rows(0.6, 0.6, 0.9)))
    assert "cuts" in next(serial_goodput.unequal(old, rows(0.8, 0.8, 0.8, cuts=1)))
    assert "did not arrive" in next(serial_goodput.unequal(old, rows(0.8, 0.8, 0.8, exact=False)))


def test_the_audit_of_digits_is_compared_by_its_intervals():
    def found(best):
        def rate(accuracy):
            return {"accuracy": accuracy, "low": accuracy - 0.02, "high": accuracy + 0.02}

        adversaries = [
            {"kind": "fixed", **rate(0.5)},
            {"kind": "fixed", **rate(0.6)},
            {"kind": "transfer", **rate(0.7)},
        ]
        audit = {"target": rate(0.97), "worst_adaptive": rate(best), "adversaries": adversaries}
        return {"rows": {"prgan": {"audit": audit}}}

    assert list(digits.unequal(found(0.9), found(0.935))) == []
    assert list(digits.unequal(found(0.9), found(0.95))) == [
        "prgan: z, best attack was 0.900 (0.880 to 0.920), now 0.950 (0.930 to 0.970)"
    ]


@pytest.mark.parametrize("data", list(frontiers.SWEEPS))
def test_the_frontiers_are_of_the_points_that_the_script_sweeps(data):
    recipe = Recipe.find(f"{data}-codebook")
    swept = [dict(point.settings) for point in points([recipe], frontiers.SWEEPS[data])]
    recorded = json.loads((RESULTS / f"privacy/frontier-{data}.json").read_text())["points"]
    assert [row["settings"] for row in recorded if row["recipe"] == recipe.name] == swept
