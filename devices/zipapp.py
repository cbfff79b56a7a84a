"""The edge runtime as one file, ``edgeveil-edge.pyz``: runs on any Python from 3.6 with numpy."""

from __future__ import annotations

import ast
import functools
import io
import threading
import tokenize
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from edgeveil import edge_runtime
from edgeveil.edge_runtime import kinds, registry
from edgeveil.edge_runtime.stages import STAGES
from edgeveil.edge_runtime.util.atomic import write_atomic

# Python sources without what only people read: a board parses and compiles all of them at every start.
#
# Comments, docstrings and the annotations of functions and variables go. Every statement stays on its line, so that a
# traceback names the line of the source that people read.


_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Cut(NamedTuple):
    """From one place to another, as (line, column in bytes); ``instead`` stands there then."""

    start: tuple[int, int]
    end: tuple[int, int]
    instead: bytes = b""


def lean(source: bytes) -> bytes:
    """``source``, UTF-8, without comments, docstrings and annotations; those of class bodies stay, as fields need them.

    Raises ``SyntaxError`` where it is not Python.
    """
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    for cut in sorted([*_comments(source, lines), *_of(tree, tree, lines)], reverse=True):
        (first, left), (last, right) = cut.start, cut.end
        line = lines[first - 1][:left] + cut.instead + lines[last - 1][right:]
        lines[first - 1 : last] = [line.rstrip() + b"\n"] + [b"\n"] * (last - first)
    return b"".join(lines)


def _comments(source: bytes, lines: list[bytes]) -> Iterator[_Cut]:
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            left = len(lines[line - 1].decode()[:column].encode())
            yield _Cut((line, left), (line, left + len(token.string.encode())))


def _of(node: ast.AST, scope: ast.AST, lines: list[bytes]) -> Iterator[_Cut]:
    """What goes of ``node``, which stands in ``scope``: a module, a class or a function."""
    if isinstance(node, (ast.Module, ast.ClassDef, *_Function)):
        scope = node
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            # A body needs a statement: a constant is one that compiles to nothing.
            yield _Cut(*_span(first), b"0" if len(node.body) == 1 else b"")
    if isinstance(node, _Function) and node.returns is not None:
        start, end = _span(node.returns)
        yield _Cut(_before(start, b"->", lines), end)
    if isinstance(node, ast.arg) and node.annotation is not None:
        yield _Cut((node.lineno, node.col_offset + len(node.arg.encode())), _span(node.annotation)[1])
    if isinstance(node, ast.AnnAssign) and node.value is not None and not isinstance(scope, ast.ClassDef):
        yield _Cut(_span(node.target)[1], _span(node.annotation)[1])
    for child in ast.iter_child_nodes(node):
        yield from _of(child, scope, lines)


def _span(node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    if node.end_lineno is None or node.end_col_offset is None:
        raise ValueError("a node of a parsed source has an end")
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _before(place: tuple[int, int], text: bytes, lines: list[bytes]) -> tuple[int, int]:
    """The place of ``text`` next before ``place``, without the spaces before it."""
    line, column = place
    start = lines[line - 1].rfind(text, 0, column)
    while start < 0:
        line -= 1
        start = lines[line - 1].rfind(text)
    return line, len(lines[line - 1][:start].rstrip())


_SHEBANG = b"#!/usr/bin/env python3\n"
# Flashing unpacks wheels into ROOT/site; this file is ROOT/releases/SHA/*.pyz.
_MAIN = b"""import os
import sys

# The release's own path, not the link to it: later imports must come from the same release.
sys.path[0] = os.path.realpath(sys.path[0])
site = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "..", "..", "site")
if os.path.isdir(site):
    sys.path.insert(0, os.path.realpath(site))

from edgeveil.edge_runtime.cli.main import main

sys.exit(main())
"""
# Runs before any other module of ours is looked for, in every process.
_INIT = b"""import os
import sys
import zipimport


class Importer(zipimport.zipimporter):
    # From Python 3.10 on, zipimport compiles a module twice: for its file's name, and to run it.

    def get_filename(self, fullname):
        ending = os.sep + "__init__.py" if self.is_package(fullname) else ".py"
        return os.path.join(self.archive, *fullname.split(".")) + ending


def importer(path):
    if not path.startswith(os.path.dirname(__file__)):
        raise ImportError(path)
    return Importer(path)


sys.path_hooks.insert(0, importer)
"""


_one = threading.Lock()  # a fleet flashes in threads, and CPython 3.11 fails where two of them parse at a time


def zipapp_bytes() -> bytes:
    """The zipapp: ``edge_runtime`` without what only people read, sorted and undated: equal sources give equal bytes.

    Sources, for any Python; not compressed, for the bytes would depend on the version of zlib.
    """
    with _one:
        return _built()


@functools.cache
def _built() -> bytes:
    root = Path(edge_runtime.__file__).parent
    sources = {f"edgeveil/edge_runtime/{path.relative_to(root).as_posix()}": path for path in root.rglob("*.py")}
    contents = {"__main__.py": _MAIN, "edgeveil/__init__.py": _INIT}
    contents |= {name: lean(path.read_bytes()) for name, path in sources.items()}
    contents[f"edgeveil/edge_runtime/{registry.TABLE}"] = registry.table([*kinds.REGISTRIES, STAGES])
    file = io.BytesIO()
    file.write(_SHEBANG)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, contents[name])
    return file.getvalue()


def build_zipapp(out: Path) -> Path:
    """Write the zipapp to ``out``, executable; returns ``out``. Raises ``DeviceFailed`` where it cannot be written."""
    write_atomic(out, zipapp_bytes(), mode=0o777)
    return out
