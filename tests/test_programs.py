"""Every program that a test starts is asked for in one place: tests/support/programs.py."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.checkout import ROOT

pytestmark = pytest.mark.programs
STARTS = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {"system", "popen", "execv", "execve", "execvp", "execvpe", "posix_spawn", "posix_spawnp"}
    | {f"spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
    | {f"exec{kind}" for kind in ("l", "le", "lp", "lpe")},
    "pty": {"spawn"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}


# Without any of these a module starts and looks for nothing.
MAY_START = re.compile(r"\b(subprocess|pty|asyncio|shutil)\b|\bos\.(system|popen|exec|posix_spawn|spawn)")


class Starts:
    """The literal names of programs that a module starts or looks for, with their lines."""

    def __init__(self, tree):
        self.found, self._holds, self._arguments, self._calls = [], {}, {}, {}
        starts = []
        self._note(tree, None, starts)
        for call, function in starts:
            for word in started(call):
                self._first(word, function, call.lineno, frozenset())

    def _note(self, node, function, starts):
        """What each name may hold in each function: by assignments, loops, and the calls of the function."""
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.FunctionDef):
                every = [*child.args.posonlyargs, *child.args.args, *filter(None, [child.args.vararg])]
                for place, one in enumerate(every):
                    self._arguments[child, one.arg] = place
            elif isinstance(child, ast.Assign):
                for target in child.targets:
                    self._bind(function, target, child.value)
            elif isinstance(child, (ast.AnnAssign, ast.NamedExpr)):
                self._bind(function, child.target, child.value)
            elif isinstance(child, (ast.For, ast.comprehension)):
                for one in getattr(child.iter, "elts", []):
                    self._bind(function, child.target, one)
            elif isinstance(child, ast.Call):
                starts.append((child, function))
                name = getattr(child.func, "attr", getattr(child.func, "id", None))
                self._calls.setdefault(name, []).append((child, function))
            self._note(child, inner, starts)

    def _bind(self, function, target, value):
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            for one, other in zip(target.elts, value.elts, strict=False):
                self._bind(function, one, other)
        else:
            self._holds.setdefault((function, getattr(target, "id", None)), []).append(value)

    def _first(self, word, function, line, seen):
        """Follows an expression to the strings that may be its first word."""
        if isinstance(word, ast.Constant) and isinstance(word.value, str):
            self.found.append((line, Path(word.value.partition(" ")[0]).name))
        elif isinstance(word, ast.Name) and (function, word.id) not in seen:
            self._named(word.id, function, line, seen | {(function, word.id)})
        else:
            for one in first_words(word):
                self._first(one, function, line, seen)

    def _named(self, name, function, line, seen):
        for scope in {function, None}:
            for one in self._holds.get((scope, name), []):
                self._first(one, scope, line, seen)
        if (place := self._arguments.get((function, name))) is not None:
            for call, caller in self._calls.get(function.name, []):
                # Of a method, ``self`` is not among the arguments of a call.
                at = place - isinstance(call.func, ast.Attribute)
                if 0 <= at < len(call.args):
                    self._first(call.args[at], caller, line, seen)


def started(call):
    """The expressions of which a call starts, or looks for, the first word; none where it does neither."""
    module, name = getattr(getattr(call.func, "value", None), "id", None), getattr(call.func, "attr", None)
    if not call.args or ((module, name) != ("shutil", "which") and name not in STARTS.get(module, ())):
        return []
    named = [keyword.value for keyword in call.keywords if keyword.arg == "executable"]
    return [call.args[name.startswith("spawn") and len(call.args) > 1], *named]


def first_words(word):
    """The parts of an expression, other than a name or a string, that may hold its first word."""
    if isinstance(word, (ast.List, ast.Tuple)):
        return word.elts[:1]
    if isinstance(word, ast.Starred):
        return [word.value]
    if isinstance(word, ast.BinOp):
        return [word.left]
    if isinstance(word, ast.IfExp):
        return [word.body, word.orelse]
    if isinstance(word, ast.BoolOp):
        return word.values
    if isinstance(word, (ast.ListComp, ast.GeneratorExp)):
        return [word.generators[0].iter]
    if isinstance(word, ast.Call) and getattr(word.func, "id", None) in ("str", "list", "tuple", "map"):
        return word.args[-1:]
    return []


def foreign(text):
    """The programs that are started and are not everywhere."""
    return sorted({(line, name) for line, name in Starts(ast.parse(text)).found if name not in programs.EVERYWHERE})


def test_no_test_starts_a_program_that_it_did_not_ask_for():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != ROOT / "tests/support/programs.py" and MAY_START.search(text := path.read_text())
        for line, name in foreign(text)
    ]
    assert found == [], "ask with programs.need of tests/support/programs.py"


@pytest.mark.parametrize(
    "text",
    [
        'subprocess.run(["mformat", "-i"], check=True)',
        'subprocess.Popen(["/sbin/mformat", *more])',
        'subprocess.check_output("mformat -i x", shell=True)',
        'command = ["mformat"]\nsubprocess.run([*command, "x"])',
        'command = ["mformat"] + more\nsubprocess.run(list(map(str, command)))',
        'for command in (["mformat", "-i"], ["sh"]):\n    subprocess.run([str(word) for word in command])',
        'def tool(*command):\n    subprocess.run([str(word) for word in command])\ntool("mformat", "-i")',
        'class Board:\n    def tool(self, command):\n        subprocess.run(command)\nBoard().tool(["mformat"])',
        'one, other = ["sh"], ["mformat"]\nsubprocess.run(one)\nsubprocess.run(other)',
        'subprocess.run(["true"], executable="mformat")',
        'os.execvp("mformat", words)',
        'os.system("mformat -i x")',
        'shutil.which("mformat")',
        'subprocess.run(["mformat" if here else "sh"])',
    ],
)
def test_each_way_to_start_one_is_found(text):
    assert [name for _, name in foreign(text)] == ["mformat"]
    assert MAY_START.search(text)


def test_what_is_asked_for_is_found_here_or_skips_with_its_name_and_its_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception) as skipped:
        programs.need("mformat", "mke2fs", "mcopy", "OpenNI2")
    reason = str(skipped.value)
    assert reason == (
        "NO mformat, mke2fs, mcopy, OpenNI2 HERE: apt-get install --no-install-recommends e2fsprogs libopenni2-0 mtools"
    )
    (tmp_path / "mformat").write_text("#!/bin/sh\n")
    (tmp_path / "mformat").chmod(0o755)
    assert programs.need("mformat") == str(tmp_path / "mformat")
    board = "NO EMULATED BOARD HERE: error: an emulated board needs: apt-get install --no-install-recommends cpio"
    assert programs.summary([reason, "no data", board]) == (
        "2 tests were skipped for want of OpenNI2, cpio, mcopy, mformat, mke2fs: "
        "apt-get install --no-install-recommends cpio e2fsprogs libopenni2-0 mtools"
    )
    assert programs.summary(["no data"]) == ""


@pytest.mark.skipif(programs.bare_path() == programs.FULL, reason="no dpkg, or no program but a bare Debian's")
def test_until_it_asks_a_test_has_what_a_bare_debian_has(tmp_path, monkeypatch):
    bare = programs.bare_path()
    assert os.environ["PATH"] == bare
    there = {path.name for path in Path(bare).iterdir()}
    assert there >= programs.EVERYWHERE
    assert there & set(programs.PROGRAMS) == set()
    (tmp_path / "mformat").write_text("#!/bin/sh\n")
    (tmp_path / "mformat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{bare}")
    programs.need("mformat")
    assert os.environ["PATH"] == f"{tmp_path}:{programs.FULL}"
    assert programs.asked


def test_a_test_that_asks_is_marked(monkeypatch):
    monkeypatch.setattr(programs, "marked", False)
    with pytest.raises(RuntimeError, match="marker programs"):
        programs.need("mformat")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_summary_ends_with_what_to_install(tmp_path, workers):
    """Two tests want a program, with and without workers; pytest's own closing line stays the last."""
    (tmp_path / "conftest.py").write_text(
        (ROOT / "tests/conftest.py").read_text().replace("Path(__file__).parents[1]", f"Path({str(ROOT)!r})")
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = programs: as here\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\nfrom tests.support import programs\n"
        "pytestmark = pytest.mark.programs\n"
        "def test_one(): programs.need('mformat')\n"
        "def test_two(): programs.need('sshd', 'mcopy')\n"
        "def test_three(): pass\n"
    )  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-n", workers, "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    line, closing = done.stdout.splitlines()[-2:]
    assert line == (
        "2 tests were skipped for want of mcopy, mformat, sshd: "
        "apt-get install --no-install-recommends mtools openssh-server"
    )
    assert "1 passed, 2 skipped" in closing


def test_the_packages_are_known_before_there_is_an_environment(tmp_path):
    command = [sys.executable, "-I", "-S", str(ROOT / "tests/support/programs.py")]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == programs.packages([*programs.PROGRAMS, *programs.LIBRARIES]).split()
    assert "tests/support/programs.py" in (ROOT / ".ci/run").read_text()
