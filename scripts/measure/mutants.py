"""Mutants of bundle, pipeline, ledger and sandbox that tests do not notice, of this commit and of an earlier one.

A mutant changes one place of one file: a comparison, and/or, not, a whole number, True, an operator, a check that
raises, a call, a returned value. The same number is drawn of each package. A coverage run maps each line to the tests
of these packages that run it; the quickest of them run on a mutant until one fails. Killed: a test fails, or takes more
than ``MOST_S``. Records docs/results/security/mutants.json with every survivor; what was run is kept in --runs.

    python -m scripts.measure.mutants
"""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.progress import say
from scripts import record
from scripts.measure.export_time import tree

OUT = record.RESULTS / "security" / "mutants.json"
# Of each package its folders below edge_runtime, today's and those of baecb1ef; tests lie in folders of the same names.
PACKAGES = {
    "bundle": ("bundle", "manifest", "signing"),
    "pipeline": ("pipeline", "stages"),
    "ledger": ("ext/ledger", "ledger"),
    "sandbox": ("sandbox",),
}
MOST_S, MOST_TESTS = 60, 12
SWAPS: dict[type, type] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr},
    **{ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
}
COVER = """
import json, math, sys, time, coverage, pytest
watch = coverage.Coverage(config_file=False, data_file=None, source=[sys.argv[1]])
watch.set_option("run:dynamic_context", "test_function")
seconds = {}
class Times:
    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("[")[0]
        seconds[name] = seconds.get(name, 0.0) + (report.duration if report.passed else math.inf)
watch.start()
pytest.main(["-q", "-o", "addopts=", "-p", "no:cacheprovider", *sys.argv[3:]], plugins=[Times()])
watch.stop()
lines = {file: watch.get_data().contexts_by_lineno(file) for file in watch.get_data().measured_files()}
json.dump({"lines": lines, "seconds": {name: s for name, s in seconds.items() if s < math.inf}}, open(sys.argv[2], "w"))
"""
# Forks a child for each line of tests, with numpy and pytest in it by then and nothing of the product.
SERVER = """
import json, os, signal, sys, time
import numpy, pytest
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for one in (0, 1, 2):
            os.dup2(null, one)
        os._exit(int(pytest.main(["-x", "-q", "-o", "addopts=", "-p", "no:cacheprovider", *json.loads(line)])))
    code, until = None, time.monotonic() + float(sys.argv[1])
    while code is None and time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
        time.sleep(0.02)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if code is None:
        os.waitpid(child, 0)
    print(code, flush=True)
"""


class Mutant(NamedTuple):
    """A file, the lines of a place in it, and the text that stands there before and after."""

    file: str
    first: int
    last: int
    span: tuple[int, int]  # bytes of the file
    old: str
    new: str


def changed(node: ast.AST) -> ast.AST | str | None:
    """The mutant of one node; None where there is none."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        return ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(SWAPS[type(node.op)](), node.values)
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not isinstance(node.left, ast.Constant):
        return ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        return ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return "pass"
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        return "return None"
    return None


def walked(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run: no annotation, no message of an error, no text."""
    yield node
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "type_params"):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.AST):
                    yield from walked(one)


def mutants(root: Path, package: str) -> list[Mutant]:
    """Every mutant of a package."""
    found = []
    folders = [root / "edge_runtime" / name for name in PACKAGES[package]]
    for path in sorted({file for folder in folders for file in folder.rglob("*.py")}):
        data = path.read_bytes()
        begins = [0]
        for line in data.splitlines(keepends=True):
            begins.append(begins[-1] + len(line))
        for node in walked(ast.parse(data)):
            new = changed(node)
            if new is not None:
                start = begins[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
                end = begins[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
                text = new if isinstance(new, str) else f"({ast.unparse(ast.fix_missing_locations(new))})"
                of = str(path.relative_to(root)), node.lineno, node.end_lineno  # type: ignore[attr-defined]
                found.append(Mutant(*of, (start, end), data[start:end].decode(), text))
    return found


def tests_of(mutant: Mutant, root: Path, cover: dict[str, Any]) -> list[str]:
    """The quickest tests that run its lines; of a line that runs at import alone, those of its module."""
    lines = cover["lines"].get(str((root / mutant.file).resolve()), {})
    span = range(mutant.first, mutant.last + 1)
    names = {name for line, names in lines.items() if int(line) in span for name in names if name}
    names = names or {name for every in lines.values() for name in every if name}
    known = [one for one in cover["seconds"] if one.rpartition("/")[2].replace(".py::", ".") in names]
    return sorted(known, key=lambda one: (cover["seconds"][one], one))[:MOST_TESTS]


def survives(mutant: Mutant, root: Path, tests: list[str], stamp: int, server: subprocess.Popen[str]) -> bool:
    """Whether these tests pass with it; ``stamp`` is the file's time meanwhile, which no other text of it has."""
    path = root / mutant.file
    data, times = path.read_bytes(), path.stat()
    (start, end) = mutant.span
    path.write_bytes(data[:start] + mutant.new.encode() + data[end:])
    os.utime(path, (stamp, stamp))  # so that it is compiled anew
    try:
        print(json.dumps(tests), file=server.stdin, flush=True)
        answer = server.stdout.readline() if server.stdout else ""
    finally:
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if not answer:
        raise DeviceFailed("the process that runs the tests has ended")
    return answer.strip() == "0"


def measured(commit: str, count: int, seed: int, runs: Path) -> dict[str, Any]:
    """Of one commit: how many of each package are killed, and the survivors."""
    root = runs / commit
    packages = root / "packages"
    if not packages.is_dir():
        packages = tree(commit, root, parts=())
    folders = [f"tests/edge_runtime/{name}" for names in PACKAGES.values() for name in names]
    folders = [one for one in (*folders, "tests/hostile_bundles") if (root / one).is_dir()]
    os.environ["PYTHONPATH"] = os.pathsep.join((str(packages), str(root)))
    covered = runs / f"{commit}-cover.json"
    if not covered.is_file():
        words = [sys.executable, "-c", COVER, str(root / "edge_runtime"), str(covered.resolve()), *folders]
        subprocess.run(words, cwd=root, check=True, stdout=sys.stderr)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", SERVER, str(MOST_S)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(words, cwd=root, env=environment, **pipes)
    cover, rows = json.loads(covered.read_text()), []
    for package in PACKAGES:
        every = mutants(root, package)
        drawn = random.Random(f"{seed} {package}").sample(every, min(count, len(every)))  # noqa: S311
        for number, one in enumerate(drawn):

            def run(mutant: Mutant = one, of: str = package, stamp: int = 10**9 + 2 * number) -> dict[str, Any]:
                tests = tests_of(mutant, root, cover)
                left = not tests or survives(mutant, root, tests, stamp, server)
                return {**mutant._asdict(), "package": of, "tests": len(tests), "survives": left}

            rows.append(record.kept(runs / f"{commit}-{package}-{number}.json", run))
        left = sum(row["survives"] for row in rows if row["package"] == package)
        say(f"{commit}, {package}: {left} of {count} survive")
    server.communicate()
    return {"commit": commit, "rows": rows}


def main() -> None:
    """Measure both trees, and record."""
    script = record.Script(__file__, __doc__, out=OUT)
    script.add_argument("--runs", type=Path, default=Path("runs/mutants"))
    script.add_argument("--commits", nargs=2, default=["baecb1ef", "HEAD"], help="before, and now")
    script.add_argument("--count", type=int, default=75, help="mutants of each package")
    script.add_argument("--seed", type=int, default=0)
    options = script.parse_args()
    trees = {}
    for name, commit in zip(("before", "now"), options.commits, strict=True):
        named = subprocess.run(["git", "rev-parse", "--short=8", commit], capture_output=True, text=True, check=True)
        found = measured(named.stdout.strip(), options.count, options.seed, options.runs.resolve())
        rows = found.pop("rows")
        shares = {
            package: {
                "drawn": sum(row["package"] == package for row in rows),
                "survive": sum(row["survives"] for row in rows if row["package"] == package),
            }
            for package in PACKAGES
        }
        trees[name] = {**found, "packages": shares, "survivors": [row for row in rows if row["survives"]]}
        say(f"{name}: {sum(one['survive'] for one in shares.values())} survive")
    record.write(options.out, script.made_by(options), {"seed": options.seed, **trees, **record.here()})


if __name__ == "__main__":
    record.run(main)
