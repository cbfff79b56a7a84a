"""The local mechanisms by their names in a recipe; ``edgeveil.edge_runtime.stages`` has one file for each."""

from __future__ import annotations

from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages import STAGES
from edgeveil.edge_runtime.stages.draw import MOST_PLACES
from edgeveil.edge_runtime.stages.mechanism import Design


def named(of: str) -> dict[str, Any]:
    """Each mechanism that a recipe may name for a ``mean`` (of vectors) or a ``share`` (of categories)."""
    kinds = [kind for kind in STAGES.kinds().values() if kind.facts.get("mechanism") and kind.facts["of"] == of]
    return {kind.facts["mechanism"]: kind.load()() for kind in kinds}


def of_vector(name: str, input_: str, d: int, alpha: float, *, radius: float = 1.0) -> Design:
    """A mechanism for ``input_``, u of d values in the unit cube. ``radius`` is that of duchi-l2, in half ranges.

    Raises ``BadInput`` for more than 4096 values.
    """
    if d > MOST_PLACES:
        raise BadInput(f"{name} takes at most {MOST_PLACES} values, and a reading has {d}: report fewer of them.")
    return named("mean")[name].design(input_, d, alpha, radius=radius)


def automatic(k: int, alpha: float) -> str:
    """The one of smallest error: randomised response for few categories (Wang et al., USENIX Security 2017)."""
    return min((kind.variance(k, alpha), name) for name, kind in named("share").items() if kind.automatic)[1]


def of_category(name: str, input_: str, k: int, alpha: float, *, once: float | None = None) -> Design:
    """A mechanism for ``input_``, an index below k. ``once``: alpha of one answer of one that is kept.

    Raises ``BadInput`` for fewer than 2 or more than 4096 categories.
    """
    name = automatic(k, alpha) if name == "auto" else name
    if not 2 <= k <= MOST_PLACES:
        raise BadInput(f"{name} takes 2 to {MOST_PLACES} categories; got {k}. Report something else, or merge them.")
    return named("share")[name].design(input_, k, alpha, once=once)
