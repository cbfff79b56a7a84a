"""Every example of the documentation is accounted for: its command line understands it, and a table says how it runs.

``examples.toml`` lists the examples in the order in which they are run here, each with its exit code; and those that
are not, with the reason and the test that does what they do.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib

from edgeveil.trainer.recipe.schema import ALIASES, Recipe
from edgeveil.trainer.scaffold import first_look
from tests.support import once, programs
from tests.support.checkout import PACKAGES, ROOT
from tests.support.output import in_process
from tests.support.trial import short_audit
from tests.walk import examples

TABLE = tomllib.loads((ROOT / "tests/walk/examples.toml").read_text())
FOUND = examples.examples()
LINES = sorted({example.line for example in FOUND})
# An address at which nothing answers stands for a board: a test must not flash what has its name in some network.
NOBODY = {"ssh://pi@edgepi": "ssh://pi@127.0.0.1:1"}


def test_every_example_is_understood():
    wrong, recipes = {}, {*Recipe.names(), *ALIASES}
    for line in LINES:
        try:
            for words in examples.commands(line):
                examples.check(words)
                if words[0] == "edgeveil" and words[1] in ("train", "sweep"):
                    assert words[2] in recipes or words[2].endswith(".toml")
        except (Exception, SystemExit) as error:
            wrong[line] = error
    assert wrong == {}


def test_an_example_that_is_wrong_is_found():
    for line, wrong in {
        "edgeveil bundle verify mine.veil --toward trust": "--toward",
        "edgeveil trian mnist": "trian",
        "edgeveil bench mine.veil --rounds many": "valid integer",
        "edgeveil seal": "folder",
        "scripts/nothing": "scripts/nothing",
        "rm -r root": "rm is none",
    }.items():
        with pytest.raises(Exception, match=f"(?i){wrong}"):
            examples.check(next(examples.commands(line)))
    for line in ("edgeveil-edge verify mine.veil --toward trust", "python3 edgeveil-edge.pyz verify"):
        with pytest.raises(SystemExit):
            examples.check(next(examples.commands(line)))


def test_shell_lines_are_whole_and_the_code_of_others_is_left():
    text = """    edgeveil a \\
        b   # why
prose
```python
x = 1
```
```
edgeveil c
# alone
```
"""
    assert list(examples.shell_lines(text)) == ["edgeveil a b", "edgeveil c"]
    assert list(examples.commands("A=1 edgeveil a && edgeveil b > c")) == [["edgeveil", "a"], ["edgeveil", "b"]]


def test_every_verb_has_an_example_that_was_found():
    verbs = {name: command for name, command in examples.verbs() if not getattr(command, "commands", None)}
    of_help = [example for example in FOUND if example.where.endswith("--help")]
    assert {f"{name} --help" for name in verbs} == {example.where for example in of_help}
    assert all(example.line.startswith("edgeveil") for example in of_help)


def listed() -> Iterator[str]:
    """The examples of the table."""
    yield from (step["do"] for step in TABLE["run"])
    for group in TABLE["not-run"]:
        yield from group["do"]


def test_every_example_is_run_or_the_table_says_why_not():
    lines = list(listed())
    assert sorted({line for line in lines if lines.count(line) > 1}) == [], "listed twice"
    assert sorted(set(LINES) - set(lines)) == [], "in no list: say in tests/walk/examples.toml how it is run"
    assert sorted(set(lines) - set(LINES)) == [], "in the table, but nowhere in the documentation"


def test_what_is_not_run_has_a_reason_and_a_test_that_is_there():
    for group in TABLE["not-run"]:
        assert group["why"]
        assert "test" not in group or (ROOT / group["test"]).exists(), group


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a reader's own data, and the two commands beside it."""
    pytest.importorskip("cv2")
    base = tmp_path_factory.mktemp("walk")
    (base / "bin").mkdir()
    for name, words in {
        "edgeveil": "-m edgeveil.trainer.cli.main",
        "edgeveil-edge": "-m edgeveil.edge_runtime",
        "python3": "",
    }.items():
        program = base / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        program.chmod(0o755)
    (base / "here").mkdir()
    _sh(f"{sys.executable} -m tests.walk.own_data", base / "here", check=True)
    (base / "here" / "demo").symlink_to(once.demo()[0])  # its classifiers are those of digits here
    return base / "here"


def _sh(script: str, here: Path, *, check: bool = False) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "PATH": f"{here.parent / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": f"{PACKAGES}:{ROOT}",
        "CHECKOUT": str(ROOT),
    }
    return subprocess.run(
        ["bash", "-c", script],
        cwd=here,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=check,
    )


@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.parametrize("step", TABLE["run"], ids=lambda step: step["do"])
def test_an_example_runs(folder, step, monkeypatch, capfd):
    """Of edgeveil in this process, unless a shell has something to do with it; of all else in one."""
    for name in step.get("needs", ()):
        programs.need(name)
    line = step["do"]
    for word, other in {**NOBODY, **step.get("swap", {})}.items():
        line = line.replace(word, other)
    before, line = step.get("before", ""), f"{line} {step.get('add', '')}"
    if line.startswith("edgeveil ") and not re.search("[$<>&|;]", line):
        _sh(before, folder)
        short_audit.shorten(monkeypatch, families=short_audit.FEW)
        monkeypatch.setattr(first_look, "TRIAL_S", 4.0)
        monkeypatch.chdir(folder)
        code, out, said = in_process(monkeypatch, capfd)(*shlex.split(line)[1:])
    else:
        ended = _sh(f"{before}\n{line}", folder)
        code, out, said = ended.returncode, ended.stdout, ended.stderr
    expected = step.get("exit", 0)
    assert code in (expected if isinstance(expected, list) else [expected]), out + said
    assert "Traceback" not in out + said
    if code:
        assert said.strip(), "it failed and said nothing"
