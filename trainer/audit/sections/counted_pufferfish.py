"""(epsilon, delta)-Pufferfish of a codebook, counted on the codes that were sent for rows that no training saw.

Unlike Theorem 2's bound of one classifier (the section ``diagnostic``) it holds for every attack on one release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from edgeveil.trainer.attacks import rows
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.sections.certificate_section import CHANNEL, unit_of
from edgeveil.trainer.audit.subject import RELEASED, SENT, Bottleneck
from edgeveil.trainer.measures.certificate import chosen, shared
from edgeveil.trainer.measures.enough import RATE
from edgeveil.trainer.measures.pufferfish import Pufferfish, counted

NAME = "counted Pufferfish"
PRIOR, SUPPORTS = "the recipe's prior", "every prior with its supports"
CODES = f"{NAME}, loss of a code"


def section(found: Pufferfish, unit: str, *, tried: int = 1, looks: int = 0) -> list[Finding]:
    """Its bounds: delta for each epsilon, over the recipe's prior and over all, and the loss of every code.

    Where too few were counted, the reason.
    """
    given = f"with {100 * found.confidence:g} % confidence for one sample, given y, for {unit} drawn like those counted"
    given += f" ({terms})" if (terms := chosen(tried, looks)) else ""
    more: dict[str, Any] = {"kind": NAME, "confidence": found.confidence, "fewest": found.fewest}
    more |= {"tried": tried, "looks": looks}
    facts: dict[str, Any] = {"rows": found.units, "more": more}
    if found.codes is None:
        few = f"the rarest pair of y and z was counted for {found.fewest:,} {unit}, and {RATE} are needed"
        return [Finding(CHANNEL, NAME, not_run=few, **facts)]
    facts["bound"] = True
    findings = []
    for prior, losses in ((PRIOR, found.prior), (SUPPORTS, found.supports)):
        for one in losses:
            name = f"{NAME} over {prior}, delta at epsilon {one.epsilon:g}"
            text = f"({one.epsilon:g}, {_up(one.delta)})-Pufferfish over {prior}, {given}"
            findings.append(Finding(CHANNEL, name, "number", one.delta, (one.estimate, one.delta), text=text, **facts))
    codes = found.codes
    if codes.delta >= 1:
        rare = f"codes that came for fewer than {RATE} {unit} of some z may weigh all, so no loss of a code is bounded"
        return [*findings, Finding(CHANNEL, CODES, not_run=rare, rows=found.units, more=more)]
    text = f"({_up(codes.epsilon)}, {_up(codes.delta)})-Pufferfish over {SUPPORTS}, by the ends of every code, {given}"
    facts["more"] = {**more, "delta": codes.delta}
    return [*findings, Finding(CHANNEL, CODES, "epsilon", codes.epsilon, (None, codes.epsilon), text=text, **facts)]


def _up(number: float) -> str:
    """Three decimals, never below the bound."""
    return f"{np.ceil(round(1000 * number, 6)) / 1000:g}"


class CountedPufferfish(Section):
    """The counted (epsilon, delta), of outputs that are functions of one code."""

    name = "counted Pufferfish"
    order = 6

    def applies(self, about: About) -> bool:
        """Codebooks alone: of other outputs no law can be counted."""
        return not isinstance(about.perturbed.bottleneck, str)

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``, on the slices ``attack`` and ``test``."""
        dataset, outputs = about.dataset, about.perturbed.outputs
        at, unseen = rows.places(dataset), dataset.rows(rows.unseen(dataset))
        table, classes, through = (
            about.perturbed.table,
            len(dataset.y_names),
            cast(Bottleneck, about.perturbed.bottleneck),
        )
        known = through.rows or 0
        codes = max(known, int(outputs[SENT].max()) + 1) if table is None else table.shape[1]
        stated = not through.hidden_label and codes == known and codes % classes == 0
        code = outputs[RELEASED][slice(at.fresh.start, at.test.stop)].astype(np.int64)
        tried, looks = about.asked.tried, about.looks
        terms: dict[str, Any] = {"confidence": about.asked.confidence, "tried": shared(tried, looks)}
        terms |= {"theta": dataset.theta, "shape": (classes, codes, len(dataset.z_names))}
        terms |= {"label": np.arange(codes) * classes // codes if stated else None}
        rng = np.random.default_rng([about.seed, 14])
        found = counted(unseen.y, code, unseen.z, cluster=unseen.cluster, rng=rng, **terms)
        return section(found, unit_of(dataset), tried=tried, looks=looks)
