"""Python sources without what only people read: a board parses and compiles all of them at every start.

Comments, docstrings and the annotations of functions and variables go. Every statement stays on its line, so that a
traceback names the line of the source that people read.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

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
        kept = lines[first - 1][:left] + cut.instead + lines[last - 1][right:]
        lines[first - 1 : last] = [kept.rstrip() + b"\n"] + [b"\n"] * (last - first)
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
    found = lines[line - 1].rfind(text, 0, column)
    while found < 0:
        line -= 1
        found = lines[line - 1].rfind(text)
    return line, len(lines[line - 1][:found].rstrip())
