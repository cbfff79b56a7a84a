"""The extensions: what some bundles ask for, and the rest runs without.

``ledger`` counts what was spent, ``counting`` counts people, ``shift`` compares codes with those of the audit. An
extension may import the spine; the spine imports none of them. It has their modules by the names below, each loaded
where one of its own names is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeveil.edge_runtime.ext.counting import inside as counter
    from edgeveil.edge_runtime.ext.ledger import allowance, book
    from edgeveil.edge_runtime.ext.shift import distance
    from edgeveil.edge_runtime.ext.shift import outside as shift_watch
else:

    class _Later(object):
        def __init__(self, module: str) -> None:
            self._module = module

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(__name__ + self._module), name)

    counter, allowance, book, distance, shift_watch = map(
        _Later, (".counting.inside", ".ledger.allowance", ".ledger.book", ".shift.distance", ".shift.outside")
    )

__all__ = ["allowance", "book", "counter", "distance", "shift_watch"]
