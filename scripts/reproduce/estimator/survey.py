"""A vendor's tool, in a Python of its own, on the recipes' networks: the command line, the search and the record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts.reproduce import record
from scripts.reproduce.estimator import untrained


class Tool(NamedTuple):
    """What is asked of each network.

    ``package`` is what the Python has, ``version`` says which one (and raises where there is none), ``key`` names it in
    the record. ``row`` makes a recipe's row, with the keyword ``python``; one with the key ``failed`` says why not.
    """

    package: str
    key: str
    version: Callable[[Path], str]
    row: Callable[..., dict[str, Any]]
    failed: str


def survey(file: str, text: str | None, result: Path, tool: Tool) -> int:
    """Ask one tool of all networks, and record what it found at ``result``; 3 where one of them failed."""
    kind = result.stem
    script = record.Script(file, text, "--python VENV/bin/python faces-prgan")
    script.add_argument("--python", type=Path, required=True, help=f"the Python that has {tool.package}")
    script.add_argument("--work", type=Path, default=Path("runs") / kind, help="folder of what was finished")
    script.add_argument("--every", action="store_true", help="every recipe, and not one for each form of network")
    script.add_argument("recipes", nargs="*", metavar="RECIPE", help="these alone, and no record")
    asked = script.parse_args()
    found = {tool.key: tool.version(asked.python)}
    load_tensorflow()
    rows: list[dict[str, Any]] = []
    without = []
    names = asked.recipes or (Recipe.names() if asked.every else untrained.FORMS)
    for name, row in untrained.rows(names, partial(tool.row, python=asked.python), asked.work):
        say(f"{name}: {row or 'no network'}")
        if row is None:
            without.append(name)
        else:
            rows.append(row)
    if not asked.recipes:
        document = {"kind": kind, "what": (text or "").splitlines()[0], **found, "rows": rows}
        document |= {"without_a_network": without, **record.here()}
        record.write(result, script.made_by(asked), document)
    return 3 if any(tool.failed in row for row in rows) else 0
