"""Kinds in a flat folder: one file each, with its facts as literals of its class; entry points add a user's own.

A kind is a class whose body has the registry's key (``schemes = ("npz",)`` or ``name = "tflite"``). Its facts are the
class attributes that are literals, and those of its base classes in the same folder. They are read from the source
text, so that a process can use the facts of a kind whose code it must not load. A board does not list folders at each
start: ``table`` is written into its zipapp when that is built, and read in place of the folder.
"""

import functools
import importlib
import importlib.util
import json
import os
import re
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput, nearest

TABLE = "kinds.json"  # next to this module, in a zipapp alone
PACKAGE = __name__.rpartition(".")[0]
_CLASS = re.compile(r"class \w+[(:]")
_BEGIN = re.compile(r"(|    )[\w@#\"']")  # of a statement of a module or of a class body


class Kind(NamedTuple):
    """One name of a kind: the module and class behind it, and the literals of its class body."""

    name: str
    module: str
    attribute: str
    facts: Dict[str, Any]

    def load(self) -> Any:
        """The class. Raises what its module raises at import."""
        return getattr(importlib.import_module(self.module), self.attribute)


class Registry(object):
    """The kinds of a package by name. ``key`` is the attribute with a kind's name, or the tuple of its names."""

    def __init__(
        self,
        package: str,
        *,
        key: str,
        group: Optional[str] = None,
        word: str = "kind",
        functions: Optional[Dict[str, Any]] = None,
    ) -> None:
        self.package, self.key, self.group, self.word = package, key, group, word
        self.functions = functions  # facts of an entry point that is a function; None: it must be a class
        self._kinds: Optional[Dict[str, Kind]] = None
        self._plugins: Tuple[List[str], Dict[str, Kind]] = ([], {})  # and the path that they were found on

    def kinds(self) -> Dict[str, Kind]:
        """All kinds of the package's folder, by name, in the order of their files."""
        if self._kinds is None:
            written = _written().get(self.package)
            rows = self.rows() if written is None else written
            self._kinds = {row[0]: Kind(*row) for row in rows}
        return self._kinds

    def find(self, name: str) -> Optional[Kind]:
        """The kind of a name: of the folder, else of an installed package's entry point; None where there is none."""
        return self.kinds().get(name) or self.plugins().get(name)

    def __getitem__(self, name: str) -> Kind:
        """The kind of a name. Raises ``BadInput``, with the nearest name, for one that there is not."""
        kind = self.find(name)
        if kind is not None:
            return kind
        known = sorted([*self.kinds(), *self.plugins()])
        near = nearest(name, known)
        problem = "expected a {} of {}; got {!r}".format(self.word, ", ".join(known), name)
        raise BadInput(problem + (". Did you mean {}?".format(near) if near else ""))

    def plugins(self) -> Dict[str, Kind]:
        """The kinds that installed packages add by the entry points of ``group``; one of ours is never replaced.

        Raises ``BadInput`` where an entry point names no class with the registry's key.
        """
        if self.group is None:
            return {}
        if self._plugins[0] == sys.path:
            return self._plugins[1]
        added = {}  # type: Dict[str, Kind]
        for name, value in entry_points(self.group):
            module, _, attribute = value.partition(":")
            spec = _spec_of(module)
            source = spec.loader.get_source(module) if spec and spec.loader else None
            # Its base classes may be ours, with their facts.
            classes = dict(_classes(self._sources()), **_classes({module: source}, whole=True)) if source else {}
            rows = _rows_of(classes, self.key)
            mine = [row for row in rows if row[2] == attribute]
            if self.functions is not None and re.search(r"^def {}\(".format(attribute), source or "", re.M):
                mine = [(name, module, attribute, self.functions)]
            if not mine:
                problem = "the entry point {} = {} of {}: expected MODULE:CLASS with {} in its body; there is none"
                raise BadInput(problem.format(name, value, self.group, self.key))
            added.update((row[0], Kind(*row)) for row in mine if row[0] not in self.kinds())
        self._plugins = (list(sys.path), added)
        return added

    def rows(self) -> List[Tuple[str, str, str, Dict[str, Any]]]:
        """What the folder's files hold: name, module, class, facts. The row of each name in a zipapp's table."""
        return _rows_of(_classes(self._sources()), self.key)

    def _sources(self) -> Dict[str, Optional[str]]:
        """Module -> its source text, of the folder's files; the package itself is not imported."""
        import pkgutil

        spec: Any = importlib.util.find_spec(self.package)
        sources: Dict[str, Optional[str]] = {}
        modules: List[Any] = sorted(pkgutil.iter_modules(spec.submodule_search_locations), key=_name_of)
        for finder, name, _ in modules:
            module = self.package + "." + name
            # The finder of a zip is its loader; that of a folder finds one.
            loader = finder if hasattr(finder, "get_source") else finder.find_spec(module).loader  # type: Any
            sources[module] = loader.get_source(module)
        return sources


def table(registries: List[Registry]) -> bytes:
    """The table of a zipapp: the rows of each registry's package."""
    return json.dumps({one.package: one.rows() for one in registries}, sort_keys=True).encode()


def entry_points(group: str) -> Iterator[Tuple[str, str]]:
    """Name and value of each entry point of a group, of all packages on the path, the same on every Python.

    Reads ``*.dist-info/entry_points.txt`` (the format is that of the Python packaging guide): the standard library
    reads them from 3.8 on.
    """
    yield from _entry_points(tuple(sys.path)).get(group, ())


@functools.lru_cache(maxsize=4)
def _entry_points(path: Tuple[str, ...]) -> Dict[str, List[Tuple[str, str]]]:
    import configparser

    groups = {}  # type: Dict[str, List[Tuple[str, str]]]
    for folder in dict.fromkeys(path):
        names = sorted(os.listdir(folder or ".")) if os.path.isdir(folder or ".") else ()
        for name in names:
            file = os.path.join(folder or ".", name, "entry_points.txt")
            if not name.endswith((".dist-info", ".egg-info")) or not os.path.isfile(file):
                continue
            parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
            parser.optionxform = str  # type: ignore[assignment, method-assign]
            try:
                parser.read(file, encoding="utf-8")
            except configparser.Error:
                continue  # another package's damage is not ours to report
            for group in parser.sections():
                groups.setdefault(group, []).extend((key.strip(), value.strip()) for key, value in parser.items(group))
    return groups


@functools.lru_cache(maxsize=None)
def _written() -> Dict[str, Any]:
    """The table of the zipapp that this runs from; empty elsewhere."""
    loader = getattr(__spec__, "loader", None)
    if loader is not None and hasattr(loader, "archive"):
        table = json.loads(loader.get_data(os.path.join(os.path.dirname(__file__), TABLE)).decode())
        return {package: [(*row[:3], _tuples(row[3])) for row in rows] for package, rows in table.items()}
    return {}


def _tuples(value: Any) -> Any:
    """A literal with tuples in place of lists, which JSON has none of."""
    if isinstance(value, dict):
        return {key: _tuples(one) for key, one in value.items()}
    return tuple(_tuples(one) for one in value) if isinstance(value, (list, tuple)) else value


def _spec_of(module: str) -> Any:
    try:
        return importlib.util.find_spec(module)
    except ImportError:
        return None


def _name_of(module: Any) -> str:
    return str(module[1])


def outline(source: str) -> str:
    """The classes of a source text without their functions: parsing these too would take most of a start's time.

    It reads indentation as the formatter of this project writes it.
    """
    lines: List[str] = []
    in_class = is_kept = False
    for line in source.splitlines():
        begin = _BEGIN.match(line)
        if begin is not None and not begin.group(1):
            lines += ["    pass"] * in_class
            in_class = is_kept = _CLASS.match(line) is not None
        elif begin is not None:
            is_kept = in_class and not line[4:].startswith(("def ", "@", "async "))
        if is_kept:
            lines.append(line)
    return "\n".join(lines + ["    pass"] * in_class)


def _classes(sources: Dict[str, Optional[str]], *, whole: bool = False) -> Dict[str, Tuple[str, Any]]:
    """Class name -> its module and its syntax tree, of the source texts of some modules or, quicker, their outlines."""
    import ast

    classes = {}  # type: Dict[str, Tuple[str, Any]]
    for module, source in sources.items():
        try:
            tree = ast.parse(source or "" if whole else outline(source or ""))
        except SyntaxError:  # a text within has no indentation
            tree = ast.parse(source or "")
        classes.update((node.name, (module, node)) for node in tree.body if isinstance(node, ast.ClassDef))
    return classes


def _rows_of(classes: Dict[str, Tuple[str, Any]], key: str) -> List[Tuple[str, str, str, Dict[str, Any]]]:
    rows = []
    for name, (module, node) in classes.items():
        own = _literals(node)
        if key not in own:
            continue
        facts = dict(_inherited(node, classes), **own)
        names = facts[key] if isinstance(facts[key], (tuple, list)) else (facts[key],)
        rows += [(one, module, name, facts) for one in names]
    return rows


def _inherited(node: Any, classes: Dict[str, Tuple[str, Any]]) -> Dict[str, Any]:
    facts = {}  # type: Dict[str, Any]
    for base in reversed(node.bases):
        name = getattr(base, "id", getattr(base, "attr", None))  # Source, base.Source
        if name in classes and classes[name][1] is not node:
            parent = classes[name][1]
            facts.update(_inherited(parent, classes))
            facts.update(_literals(parent))
    return facts


def _literals(node: Any) -> Dict[str, Any]:
    """The class attributes of a class body whose values are literals."""
    import ast

    literals = {}
    for line in node.body:
        if isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name):
            target, value = line.targets[0].id, line.value
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value is not None:
            target, value = line.target.id, line.value
        else:
            continue
        try:
            literals[target] = _tuples(ast.literal_eval(value))
        except ValueError:
            continue  # computed at import: no fact
    return literals
