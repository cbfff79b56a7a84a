"""The folder docs/boards: a page for each board, and the list of them."""

from __future__ import annotations

import json
from pathlib import Path

from edgeveil.devices import profiles
from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce.pages.boards import board_pages, matrix
from scripts.reproduce.record import ROOT

NAME = "boards"
FOLDER = Path("docs/boards")
INDEX = "README.md"


def index() -> str:
    """The list of all pages."""
    lines = [f"* [{profiles.load(name).title}]({name}.md)" for name in profiles.names()]
    lines += ["", "What of each was run, and on what; none of it on the board itself:", ""]
    lines += matrix.lines(json.loads((ROOT / matrix.RESULT).read_text()))
    return "\n".join(["# Boards, one by one", "", "<!-- recorded: boards -->", *lines, "<!-- end -->", ""])


def write() -> None:
    """Write the page of every shipped profile, and their list."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in profiles.names():
        write_atomic(FOLDER / f"{name}.md", board_pages.page(profiles.load(name)).encode())
    write_atomic(FOLDER / INDEX, index().encode())
