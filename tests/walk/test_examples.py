"""Every example of the documentation is accounted for: its command line understands it, and a table says how it runs.

``examples.toml`` lists the examples in the order in which they are run here, each with its exit code; and those that
are not, with the reason and the test that does what they do.
"""

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomllib

from edgeveil.edge_runtime.cli import main as edge
from edgeveil.trainer.recipe.schema import ALIASES, Recipe
from tests.support import once, programs
from tests.support.checkout import PACKAGES, ROOT
from tests.support.output import in_process
from tests.support.trial import no_trial, short_audit
from tests.walk import examples, own_data

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


VERBS = dict(examples.verbs())


def ways(steps: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Verb and exit code of each."""
    verbs = (max((name for name in VERBS if f"{step['do']} ".startswith(f"{name} ")), default="") for step in steps)
    return {(verb, str(step.get("exit", 0))) for verb, step in zip(verbs, steps, strict=True)}


def by_day() -> list[dict[str, Any]]:
    """The steps but for the nightly ones; before each, what stands for those left out since the last."""
    steps, left_out = [], []
    for step in TABLE["run"]:
        left_out.append(step.get("before", ""))
        if "nightly" in step:
            left_out.append(step["nightly"])
        else:
            steps.append({**step, "before": "\n".join(filter(None, left_out))})
            left_out = []
    return steps


def test_by_day_every_verb_ends_in_each_way_in_which_it_ends_at_night():
    assert ways(by_day()) == ways(TABLE["run"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a reader's own data."""
    pytest.importorskip("cv2")
    here = tmp_path_factory.mktemp("walk")
    with contextlib.chdir(here):
        own_data.write()
    (here / "demo").symlink_to(once.demo()[0])  # its classifiers are those of digits here
    return here


def _sh(script: str, here: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a shell; python3 is this one."""
    bash = ["bash", "-c", f'python3() {{ "{sys.executable}" "$@"; }}\n{script}']
    env = {**os.environ, "PYTHONPATH": f"{PACKAGES}:{ROOT}", "CHECKOUT": str(ROOT)}
    done = subprocess.run(
        bash, cwd=here, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def ours(monkeypatch, capfd):
    """A function that runs a line of one of our programs, with ``< FILE`` or ``> FILE``, in this process."""
    short_audit.shorten(monkeypatch, families=short_audit.FEW)
    no_trial.shorten(monkeypatch)
    workstation = in_process(monkeypatch, capfd)

    def board(*words):
        try:
            code = edge.main([*words])
        except SystemExit as ended:
            code = ended.code
        return code, *capfd.readouterr()

    def run(line):
        program, *words = shlex.split(line)
        file = {sign: Path(words.pop(words.index(sign) + 1)) for sign in "<>" if sign in words}
        words = [word for word in words if word not in file]
        with file.get("<", Path(os.devnull)).open() as given, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", given)
            code, out, said = (workstation if program == "edgeveil" else board)(*words)
        if ">" in file:
            file[">"].write_text(out)
        return code, out, said

    return run


@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.parametrize(
    "step",
    [*by_day(), *(pytest.param(one, id=f"{one['do']} at night", marks=pytest.mark.nightly) for one in TABLE["run"])],
    ids=lambda step: step["do"],
)
def test_an_example_runs(step, folder, ours, monkeypatch):
    """Our programs in this process, all else in a shell."""
    for name in step.get("needs", ()):
        programs.need(name)
    line = step["do"]
    for word, other in {**NOBODY, **step.get("swap", {})}.items():
        line = line.replace(word, other)
    line = f"{line} {step.get('add', '')}"
    monkeypatch.chdir(folder)
    before: list[str] = []  # of a shell, not run yet
    for one in step.get("before", "").splitlines():
        if one.startswith("edgeveil "):
            _sh("\n".join(before), folder)
            before = []
            code, _, said = ours(one)
            assert code == 0, said
        else:
            before.append(one)
    if line.startswith(("edgeveil ", "edgeveil-edge ")):
        shown = [f'printf %s "{line}"'] if "$" in line else []
        _, printed, _ = _sh("\n".join([*before, *shown]), folder)
        code, out, said = ours(printed if shown else line)
    else:
        code, out, said = _sh("\n".join([*before, line]), folder)
    expected = step.get("exit", 0)
    assert code in (expected if isinstance(expected, list) else [expected]), out + said
    assert "Traceback" not in out + said
    if code:
        assert said.strip(), "it failed and said nothing"
