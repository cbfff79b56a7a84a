"""The table of guards is of this code: each stands where it says, its test is there, and every finding has one."""

import ast

import pytest

from scripts import record
from scripts.measure import guards

LATER = {f"2026-11-26/{number}" for number in range(1, 20)} | {f"2026-11-27/{number}" for number in range(1, 4)}
FINDINGS = {*map(str, range(1, 20)), "hardening", "promise", "settings", "aim", "own-networks", "attributes", *LATER}
TABLE = guards.read_guards()


def test_each_stands_there_once_and_its_test_is_there():
    named = {}  # a text that does not stand there once is an error of its own
    for guard in TABLE:
        assert guards.taken_out(guard, record.ROOT) != (record.ROOT / guard["file"]).read_text(), guard["attack"]
        path, _, name = guard["test"].partition("::")
        named.setdefault(path, set()).add(name)
    missing = {}
    for path, names in named.items():
        tree = ast.parse((record.ROOT / path).read_text())
        missing[path] = names - {part.name for part in tree.body if isinstance(part, ast.FunctionDef)}
    assert {path: names for path, names in missing.items() if names} == {}


def test_every_finding_has_a_guard():
    assert {guard["finding"] for guard in TABLE} == FINDINGS


def test_every_guard_of_the_table_was_recorded_red():
    red = {
        (one["finding"], one["attack"]): one["red"] for one in record.recorded(record.ROOT / guards.RESULT)["guards"]
    }
    assert [guard["attack"] for guard in TABLE if not red.get((guard["finding"], guard["attack"]))] == []


def test_what_stands_nowhere_is_an_error(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    for text, times in (("y", 0), ("x = 1", 2)):
        with pytest.raises(guards.DeviceFailed, match=f"has {times} times"):
            guards.taken_out({"file": "a.py", "text": text, "without": "", "attack": "none"}, tmp_path)
