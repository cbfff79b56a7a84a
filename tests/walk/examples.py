"""Every example of a command: in the ``--help`` of each verb, and in the shell blocks of README and docs.

A block of code is a shell block if it is indented, or fenced without a language or as ``sh``.
"""

import functools
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import typer.core
import typer.main

from edgeveil.edge_runtime.cli import main as edge
from edgeveil.trainer.cli.main import app
from tests.support.checkout import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ZIPAPP = "edgeveil-edge.pyz"  # what boards run, as edgeveil-edge


class Example(NamedTuple):
    """A line for a shell, on one line and without its comment, and where it stands."""

    line: str
    where: str


def examples() -> list[Example]:
    """All of them, in the order of the pages; a line that stands in two places comes twice."""
    return [*_of_help(), *_of_pages()]


@functools.cache
def edgeveil() -> Any:
    """The workstation's command line; to build it takes longer than to read a line by it."""
    return typer.main.get_command(app)


def verbs() -> Iterator[tuple[str, Any]]:
    """Every command of both programs, by its whole name: click's for the workstation, argparse's for the edge."""
    yield from _below("edgeveil", edgeveil())
    for name, parser in edge._parser()._subparsers._group_actions[0].choices.items():
        yield f"edgeveil-edge {name}", parser


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from _below(f"{name} {word}", inner)


def _of_help() -> Iterator[Example]:
    for name, command in verbs():
        # "Example: one; another", or "example:", a line for each, and a blank one
        shown = re.split(r"[Ee]xamples?:\s", command.epilog or "", maxsplit=1)[1:]
        for line in re.split(r"; (?=edgeveil)|\n", shown[0].partition("\n\n")[0]) if shown else ():
            yield Example(line.strip(), f"{name} --help")


def _of_pages() -> Iterator[Example]:
    for page in PAGES:
        for line in shell_lines(page.read_text(encoding="utf-8")):
            yield Example(line, str(page.relative_to(ROOT)))


def shell_lines(text: str) -> Iterator[str]:
    """The lines of a page's shell blocks, each whole, with single spaces and without its comment."""
    language = None  # of the fence that is open
    for line in text.replace("\\\n", " ").splitlines():
        fence = re.match(r" *```(\w*)$", line)
        if fence:
            language = fence[1] if language is None else None
        elif language in ("", "sh") or (language is None and line.startswith("    ")):
            command = " ".join(re.sub(r"(^|\s)#.*", "", line).split())
            if command:
                yield command


def commands(line: str) -> Iterator[list[str]]:
    """The words of each command of a line, without settings of the environment and without ``> FILE``."""
    words: list[str] = []
    for word in [*shlex.split(line), "&&"]:
        if word == "&&":
            yield words[: words.index(">")] if ">" in words else words
            words = []
        elif words or not re.fullmatch(r"[A-Z_]+=.*", word):
            words.append(word)


def check(words: list[str]) -> None:
    """That a command could start: ours as its own command line reads it, but not run; a script of ours is there.

    Raises click's own exceptions, ``SystemExit`` for the edge's, ``AssertionError`` for all else.
    """
    program, rest = words[0], words[1:]
    if program == "edgeveil":
        _check_edgeveil(rest)
    elif program == "edgeveil-edge":
        edge._parser().parse_args(rest)
    elif any(word.endswith(ZIPAPP) for word in rest) and "python3" in words:
        place = next(place for place, word in enumerate(words) if word.endswith(ZIPAPP))
        edge._parser().parse_args(words[place + 1 :])
    elif rest[:1] == ["-m"] and rest[1].startswith("scripts."):
        source = ROOT / (rest[1].replace(".", "/") + ".py")
        assert source.is_file(), f"there is no {source}"
        known = _with_its_imports(source)
        missing = [word for word in rest if word.startswith("--") and f'"{word}"' not in known]
        assert not missing, f"{source} does not know {missing}"
    elif program.startswith("scripts/"):
        assert (ROOT / program).is_file(), f"there is no {program}"
    else:
        assert program in OTHERS, f"{program} is none of our programs, nor of {sorted(OTHERS)}"


def _with_its_imports(script: Path) -> str:
    """The text of a script and of the scripts it imports, which may add its options."""
    text = script.read_text()
    imported = re.findall(r"^from (scripts[\w.]*) import", text, re.MULTILINE)
    beside = (ROOT / (name.replace(".", "/") + ".py") for name in imported)
    return "".join([text, *(path.read_text() for path in beside if path.is_file())])


OTHERS = {".", "apt-get", "cp", "echo", "install", "mkdir", "pip", "python3", "scp", "ssh", "ssh-keygen", "su"}


def _check_edgeveil(words: list[str]) -> None:
    command, name, parent = edgeveil(), "edgeveil", None
    opened = ExitStack()  # a context that is closed takes back what its words set in the environment
    try:
        while True:
            parent = command.make_context(name, words, parent=parent)
            opened.callback(parent.close)
            if not isinstance(command, typer.core.TyperGroup):
                return
            name, command, words = command.resolve_command(parent, [*parent._protected_args, *parent.args])
    except typer.Exit:  # --version
        return
    finally:
        opened.close()
