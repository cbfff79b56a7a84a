"""The house: who may import whom, how full a folder is, and that the tests lie where the code does.

Layers stand in pyproject.toml (import-linter). Here is what that tool does not say.
"""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.support import import_graph
from tests.support.checkout import ROOT

EDGES = import_graph.graph()
PACKAGES = sorted({name.rpartition(".")[0] for name in EDGES})
MOST = 15  # modules in a folder
# What may have one name in two folders of a root: what every folder has, and the two ends of one format or protocol.
TWICE = {"__init__", "__main__", "base"}
PAIRS = [{"edge_runtime/sources", "edge_runtime/sinks"}]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_of_packages(package):
    assert import_graph.circles(import_graph.children(package, EDGES)) == []


def test_a_circle_is_found():
    edges = {"p.a.x": {"p.b.y"}, "p.b.z": {"p.a.w"}, "p.c": {"p.a.x"}}
    assert import_graph.circles(import_graph.children("p", edges)) == [["a", "b"]]
    assert import_graph.circles(edges) == []


def folders() -> list[Path]:
    """Every folder of Python modules: the four roots, the scripts and the tests."""
    roots = (*import_graph.ROOTS, "scripts", "tests")
    return sorted({path.parent for root in roots for path in (ROOT / root).rglob("*.py")})


def test_a_folder_has_few_modules():
    counts = {path.relative_to(ROOT).as_posix(): len([*path.glob("*.py")]) for path in folders()}
    here = {path: count - ((ROOT / path / "__init__.py").exists()) for path, count in counts.items()}
    assert {path: count for path, count in here.items() if count > MOST} == {}


@pytest.mark.parametrize("root", import_graph.ROOTS)
def test_no_two_modules_of_a_root_share_a_name(root):
    found: dict[str, list[str]] = {}
    for path in (ROOT / root).rglob("*.py"):
        found.setdefault(path.stem, []).append(path.parent.relative_to(ROOT).as_posix())
    shared = {name: where for name, where in found.items() if len(where) > 1 and name not in TWICE}
    assert {name: where for name, where in shared.items() if not _is_pair(where)} == {}


def _is_pair(folders: list[str]) -> bool:
    """Whether they are one in ``sources`` and one in ``sinks``, or their folders below."""
    return len(folders) == 2 and {"/".join(one.split("/")[:2]) for one in folders} in PAIRS


@pytest.mark.parametrize("root", [*import_graph.ROOTS, "scripts"])
def test_the_tests_mirror_the_tree(root):
    here = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests" / root).rglob("test_*.py")}
    assert {str(path) for path in here if not (ROOT / path).is_dir()} == set()


def test_nothing_of_the_product_imports_scripts_or_tests():
    found = [
        (path.relative_to(ROOT).as_posix(), name)
        for path in import_graph.modules().values()
        for name in _roots_imported(path)
        if name in {"scripts", "tests"}
    ]
    assert found == []


def _roots_imported(path: Path) -> Counter[str]:
    names: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names[node.module.partition(".")[0]] += 1
    return names
