"""Pages with parts that are written from records, so that no measured number is typed by hand.

Such a part is between ``<!-- recorded: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from edgeveil.edge_runtime.errors import BadInput

_PART = re.compile(r"(<!-- recorded: ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, makers: Mapping[str, Callable[[], Any]]) -> str:
    """``text`` with every marked part written again. Raises ``BadInput`` for a part without a maker, or a maker without
    a part."""
    missing = [name for name in makers if f"<!-- recorded: {name} -->" not in text]

    def made(match: re.Match[str]) -> str:
        name = match[2]
        if name not in makers:
            raise BadInput(f"There is no table called {name}; there are {', '.join(makers)}.")
        return f"{match[1]}{makers[name]()}{match[3]}"

    out = _PART.sub(made, text)
    if missing:
        raise BadInput(f"The page has no part for {', '.join(missing)}: put <!-- recorded: NAME --> and <!-- end -->.")
    return out
