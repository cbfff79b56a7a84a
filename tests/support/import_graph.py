"""Which module of the checkout imports which, read from the sources and not from what happens to be loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.checkout import ROOT

ROOTS = ("trainer", "models", "devices", "edge_runtime")


def module_name(path: Path) -> str:
    """``edgeveil.trainer.cli`` for trainer/cli/__init__.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("edgeveil", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def modules() -> dict[str, Path]:
    """Every module of the four roots, by name. The face (trainer/api) is ``edgeveil`` itself and stands apart."""
    paths = (path for root in ROOTS for path in (ROOT / root).rglob("*.py") if "api" not in path.parts)
    return {module_name(path): path for path in paths}


def imports_of(path: Path, known: set[str], *, everywhere: bool = False) -> set[str]:
    """The first-party modules that ``path`` imports when it is imported; ``everywhere``: and inside functions."""
    found: set[str] = set()
    for node in _statements(ast.parse(path.read_text()), everywhere):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                below = f"{node.module}.{name.name}"
                found |= {below} & known or {node.module} & known
    return found


def _statements(node: ast.AST, everywhere: bool) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if everywhere or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(child, everywhere)


def graph(*, everywhere: bool = False) -> dict[str, set[str]]:
    """What each module imports."""
    known = modules()
    return {name: imports_of(path, set(known), everywhere=everywhere) - {name} for name, path in known.items()}


def children(package: str, edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same between the parts of ``package``: a module, an extension, or a folder with all that is in it."""

    def child(name: str) -> str:
        parts = name[len(package) + 1 :].split(".") if name.startswith(package + ".") else [""]
        return ".".join(parts[: 2 if parts[0] == "ext" else 1])

    found: dict[str, set[str]] = {}
    for name, targets in edges.items():
        mine = child(name)
        if mine:
            found.setdefault(mine, set()).update(other for other in map(child, targets) if other and other != mine)
    return found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one member (Tarjan 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(edges.get(name, ())):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            component, stack[at:] = stack[at:], []
            if len(component) > 1:
                found.append(sorted(component))

    for name in sorted(edges):
        if name not in order:
            visit(name)
    return found
