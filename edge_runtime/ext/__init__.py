"""The extensions: what some bundles ask for, and the rest runs without.

``ledger`` counts what was spent, ``counting`` counts people, ``shift`` compares codes with those of the audit. An
extension may import the spine; the spine imports none of them, and loads a part by name where a bundle asks for it.
"""

import importlib
from typing import Any


def part(extension: str, name: str) -> Any:
    """A module of an extension, loaded now."""
    return importlib.import_module("{}.{}.{}".format(__name__, extension, name))
