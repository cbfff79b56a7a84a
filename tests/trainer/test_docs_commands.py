"""Every ``edgeveil`` command on a page exists and takes the options that the page gives it."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from trainer import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(text: str) -> list[str]:
    """The lines of a page's examples that call ``edgeveil``, and those in the middle of its text."""
    text = text.replace("\\\n", " ")
    blocks = "".join(re.findall(r"^ *```\n.*?```", text, re.MULTILINE | re.DOTALL))
    examples = re.findall(r"^ *(edgeveil [^#\n]+)", blocks, re.MULTILINE)
    return examples + re.findall(r"[^`]`(edgeveil [a-z][^`\n\\]*)`", text)


def unknown(line: str) -> list[str]:
    """The words of a command line that the command does not know: its own name, or options."""
    here, known, wrong = typer.main.get_command(cli.app), {"--help", "--version"}, []
    for word in shlex.split(line)[1:]:
        inner = getattr(here, "commands", {})
        if word in inner:
            here = inner[word]
        elif word.startswith("--"):
            known |= {name for one in here.params for name in (*one.opts, *one.secondary_opts)}
            wrong += [] if word.partition("=")[0] in known else [word]
        elif inner and not any(one.param_type_name == "argument" for one in here.params):
            return [*wrong, word]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_exists(page):
    found = {line: unknown(line) for line in commands(page.read_text(encoding="utf-8"))}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


def test_what_does_not_exist_is_noticed():
    assert unknown("edgeveil train mnist --out runs/mnist --budget quick") == []
    assert unknown("edgeveil bundle inspect x.veil --trust trust") == []
    assert unknown("edgeveil fleet hall.toml flash x.veil --dry-run") == []
    assert unknown("edgeveil train mnist --fast") == ["--fast"]
    assert unknown("edgeveil trian mnist") == ["trian"]
    assert commands("say `edgeveil status` or\n\n```\nedgeveil seal x --out y  # done\n```\n") == [
        "edgeveil seal x --out y  ",
        "edgeveil status",
    ]
