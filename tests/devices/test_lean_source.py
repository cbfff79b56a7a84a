"""What a board parses is the same program as what people read, line by line."""

import ast
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from edgeveil import edge_runtime
from edgeveil.devices import zipapp
from edgeveil.devices.zipapp import lean

SOURCES = sorted(Path(edge_runtime.__file__).parent.rglob("*.py"))


class Bare(ast.NodeTransformer):
    """Drops docstrings and annotations of a tree, as ``lean`` does of a source."""

    def __init__(self):
        self.scopes = ["module"]

    def _scope(self, node, kind):
        self.scopes.append(kind)
        self.generic_visit(node)
        self.scopes.pop()
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            if len(node.body) == 1:
                first.value.value = 0
            else:
                del node.body[0]
        return node

    def visit_Module(self, node):
        return self._scope(node, "module") if node.body else node

    def visit_ClassDef(self, node):
        return self._scope(node, "class")

    def visit_FunctionDef(self, node):
        node.returns = None
        return self._scope(node, "function")

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_AnnAssign(self, node):
        self.generic_visit(node)
        if node.value is None or self.scopes[-1] == "class":
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def described(tree):
    """Every node's type, line, and the words and numbers in it; but not the columns, nor the ends of nodes that lost a
    part."""
    for node in ast.walk(tree):
        fields = [getattr(node, name) for name in node._fields]
        said = [one for one in fields if not isinstance(one, ast.AST | list)]
        names = [one for many in fields if isinstance(many, list) for one in many if not isinstance(one, ast.AST)]
        yield type(node), getattr(node, "lineno", None), said, names


def same(path):
    """Whether what is made of a source is the same program on the same lines, and made of itself again."""
    source = path.read_bytes()
    made = lean(source)
    trees = (ast.parse(made), Bare().visit(ast.parse(source)))
    alike = all(one == two for one, two in itertools.zip_longest(*map(described, trees)))
    return alike and made.count(b"\n") == source.count(b"\n") and lean(made) == made


def test_the_runtime_is_the_same_program_on_the_same_lines():
    assert len(SOURCES) > 150
    assert [str(path) for path in SOURCES if not same(path)] == []


def test_what_only_people_read_goes():
    source = b'''"""A module."""
# A comment, e.g. this: \xc3\xa9
A: int = 1  # one


class B:
    """A class."""

    c: int = 2

    def d(self, e: "int" = 3, *f: int, g: int = 4, **h: int) -> "tuple[int, ...]":
        """A method."""

    def i(
        self,
        j: dict[
            str, int
        ] = {},
    ) -> dict[
        str, int
    ]:
        k: str = "# no comment -> \xc3\xa9: int"; l: int
        self.m: int = 1
        return "->" if j else k
'''
    assert lean(source).decode().split("\n") == [
        "", "", "A = 1", "", "", "class B:", "", "", "    c: int = 2", "",
        "    def d(self, e = 3, *f, g = 4, **h):", "        0", "", "    def i(", "        self,", "        j = {},",
        "", "", "    ):", "", "", '        k = "# no comment -> é: int"; l: int', "        self.m = 1",
        '        return "->" if j else k', "",
    ]  # fmt: skip


def test_the_runtime_is_built_once_for_all_threads_of_a_fleet():
    zipapp._built.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        built = list(pool.map(lambda _: zipapp.zipapp_bytes(), range(16)))
    assert len(set(map(id, built))) == 1
