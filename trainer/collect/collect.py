"""Many devices' reports, each counted once, and what they say together. Nothing here sees a reading.

A report counts if its mechanism can make it, if no record of its id was counted before, and if it is the first of its
unit in its round. All others are refused and counted by reason.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.collect.estimates import Estimate
from edgeveil.trainer.collect.feeds.blocks import Block, Feed
from edgeveil.trainer.collect.once import Seen, keys
from edgeveil.trainer.collect.reporting import Reporting


@dataclass
class Gate:
    """Lets each report through once. ``refused`` counts the others, ``senders`` those that were counted, by sender."""

    reporting: Reporting
    slots: int
    refused: Counter[str] = field(default_factory=Counter)
    senders: Counter[bytes] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._ids, self._rounds = Seen(), Seen()

    def passed(self, block: Block) -> Block:
        """The part of a block that counts."""
        block = self._keep(block, block.slot < self.slots, "unknown slot")
        block = self._keep(block, self.reporting.decoder.made(block.reports), "outside the alphabet")
        block = self._keep(block, self._ids.first_seen(keys(block.sender, block.number)), "seen before")
        block = self._keep(block, self._rounds.first_seen(keys(self.units(block), block.round)), "second of its round")
        for sender, count in zip(*np.unique(block.sender, return_counts=True), strict=True):
            self.senders[sender] += int(count)
        return block

    def units(self, block: Block) -> np.ndarray:
        """Whose each report is, as bytes (n,), as far as a receiver knows: a subject's is its sender's."""
        if self.reporting.spending.unit == "subject":
            return keys(block.sender)
        return keys(block.sender, block.slot)

    def _keep(self, block: Block, mask: np.ndarray, reason: str) -> Block:
        if mask.all():
            return block
        self.refused[reason] += int((~mask).sum())
        return Block(*(column[mask] for column in block))


def collect(
    bundle: Bundle, reporting: Reporting, feeds: Iterable[Feed], kind: str, *, most: int | None = None
) -> dict[str, Any]:
    """The estimate of ``kind`` of all reports of the feeds, or of the first ``most`` and the rest of their block.

    Raises ``BadInput`` where no report came, or none of this bundle, and what the feeds raise.
    """
    spending, capture = reporting.spending, bundle.manifest.capture
    estimate = Estimate(
        kind,
        reporting.decoder,
        categories=reporting.categories,
        dependent=reporting.held or spending.unit != "release",
        names=reporting.names,
    )
    gate = Gate(reporting, capture.slots if capture else 1)
    counted = foreign = 0
    for feed in feeds:
        with contextlib.closing(feed.blocks()) as blocks:
            for block in blocks:
                passed = gate.passed(block)
                # What a device sends of a kept answer hangs together, whichever of its slots and tracks it is of.
                estimate.add(passed.reports, keys(passed.sender) if reporting.held else gate.units(passed))
                counted += len(passed.reports)
                if most is not None and counted >= most:
                    break
        foreign += feed.refused
    if foreign:
        gate.refused["of another format"] = foreign
    if not counted:
        said = ", ".join(f"{count} {reason}" for reason, count in gate.refused.items()) or "nothing came"
        raise BadInput(f"Reports of {bundle.manifest.name} were expected, and none can be counted: {said}.")
    if counted == 1:
        raise BadInput(
            f"Reports of at least 2 devices were expected of {bundle.manifest.name}; 1 can be counted, and one is no "
            "average. Collect more."
        )
    return {
        "schema": 1,
        "kind": "edgeveil-collection",
        "bundle": {"name": bundle.manifest.name, "manifest_sha256": bundle.manifest_sha256},
        "output": reporting.output.name,
        "mechanism": reporting.op,
        "epsilon": spending.micro_epsilon / 1e6,
        "unit": spending.unit,
        "estimate": kind,
        "reports": {"counted": counted, "senders": len(gate.senders), "refused": dict(sorted(gate.refused.items()))},
        **estimate.document(max(gate.senders.values())),
    }
