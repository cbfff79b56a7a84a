"""Pages are found where they lie: a new one touches no list."""

import sys
from types import SimpleNamespace

import pytest

from scripts.reproduce.pages import write_pages
from tests.support.checkout import ROOT


def run(monkeypatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["write_pages", *words])
    write_pages.main()


def test_every_page_that_says_who_writes_it_has_a_module():
    said = [path for path in (ROOT / "docs").rglob("*.md") if "pages/write_pages.py`" in path.read_text()]
    known = {module.removeprefix("scripts.reproduce.") for module in write_pages.modules()}
    assert len(said) >= 18
    assert len(write_pages.pages()) == len(known) >= len(said)


def test_a_page_is_written_by_its_name_alone(monkeypatch):
    written = []
    modules = {name: SimpleNamespace(NAME=name, write=lambda name=name: written.append(name)) for name in "ba"}
    monkeypatch.setattr(write_pages, "modules", lambda: list(modules))
    monkeypatch.setattr(write_pages.importlib, "import_module", modules.__getitem__)
    run(monkeypatch, "b")
    assert written == ["b"]
    run(monkeypatch)
    assert written == ["b", "a", "b"]


def test_a_page_that_is_not_known_is_the_users_mistake(monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "no-such")
    assert ended.value.code == 2
    assert "came no-such" in capsys.readouterr().err
