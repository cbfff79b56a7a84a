"""Outlets of a bundle that no attack of the audit reads: named for the verdict and the card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgeveil.edge_runtime.manifest import outlets
from edgeveil.trainer.audit.findings import UNATTACKED, Finding
from edgeveil.trainer.audit.sections import About, Section

_LEAVE = {outlets.NOISE: "with noise", outlets.EXACT: "exactly"}


def section(manifest: Mapping[str, Any]) -> list[Finding]:
    """One finding for each outlet of a bundle that carries more than its outputs."""
    return [
        Finding(
            outlet.name,
            "any attack",
            not_run=f"{outlet.form}, leave {_LEAVE[level]}, up to {outlet.bits(manifest):.1f} bits in each; no figure "
            "and no bound of this audit is of them",
            more={"kind": UNATTACKED, "level": level},
        )
        for outlet, level in outlets.unattacked(manifest)
    ]


class Outlets(Section):
    """Outlets beyond the outputs that were attacked."""

    name = "outlets"  # a literal, UNATTACKED
    order = 12

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``."""
        return section(about.subject.manifest)
