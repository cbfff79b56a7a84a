"""Probes: attacks other than attribute inference (linkage, membership, copies, codes), one class a file.

The registry finds them. A probe returns findings about what it ``asks``. ``attacks.rows.places`` says which of the rows
of all slices are to learn on and to test on.
"""

from __future__ import annotations

from edgeveil.edge_runtime.registry import Registry
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import About


class Probe:
    """A probe by its ``name``; of those that ask the same, the ones with a lower ``order`` come first."""

    name: str
    asks: str
    order = 1

    def run(self, about: About) -> list[Finding]:
        """What it finds, with ``asks`` as the question."""
        raise NotImplementedError


PROBES = Registry(__name__, key="name", word="probe")


def probes() -> list[Probe]:
    """Every probe, by what it asks."""
    kinds = sorted(PROBES.kinds().values(), key=lambda kind: (kind.facts["asks"], kind.facts.get("order", 1)))
    return [kind.load()() for kind in kinds]
