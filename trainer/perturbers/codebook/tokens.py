"""Several tokens a code: residual quantisation with the price on what all tokens tell together.

A further token describes what those before left of T. It is learned within each class and code of those before. By the
chain rule

    I(c1, c2; z | y) = I(c1; z | y) + I(c2; z | y, c1),

so one price on each token within its group is that price on the joint code. Tokens that were priced each by itself
could tell together what none of them tells alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.perturbers.codebook import funnel
from edgeveil.trainer.perturbers.codebook.group_means import group_means
from edgeveil.trainer.perturbers.codebook.training import Report, code_head
from edgeveil.trainer.recipe.perturber import Codebook


def token_heads(
    rows: funnel.Rows, section: Codebook, *, classes: tuple[int, int], rng: np.random.Generator, report: Report
) -> list[Any]:
    """A head for each of ``section.tokens``, from trunk features (n, f) to logits (n, groups * codes).

    The groups of the first are the classes of y, those of a further one the codes of the tokens before. ``report``
    counts the steps of all tokens. Raises as ``funnel.learn``.
    """
    groups, n_z = classes
    group, left, heads = rows.y, rows.kept, []
    for token in range(section.tokens):
        left_over = funnel.Rows(rows.features, left, group, rows.z, rows.group)
        first = token * section.steps

        def told(step: int, values: dict[str, float], first: int = first) -> None:
            report(first + step, values)

        head = code_head(left_over, section, classes=(groups, n_z), rng=rng, report=told, token=token + 1)
        heads.append(head)
        group = funnel.code_within(predict(head, rows.features), group, groups)
        groups *= section.codes
        left = left - group_means(left, group, groups)[group].astype(left.dtype)
    return heads
