"""A bundle that promises what it tells: the class of the largest feature goes through a channel, and the code leaves.

``Board`` is a device with a ledger: its clock, its identity and its restarts are the test's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.ext.ledger import book
from edgeveil.edge_runtime.ext.ledger.book import Ledger, create
from edgeveil.edge_runtime.manifest.manifest import Limit, Price
from tests.support import bundles

COST = 1_609_438  # ln 5: five times as many rights as of each wrong
MACHINE = "0123456789abcdef" * 2


def counted_example(
    *,
    releases: int = 10,
    unit: str = "release",
    period_s: float | None = None,
    example: tuple[dict[str, Any], dict[str, bytes]] | None = None,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members; ``releases`` may leave of each unit, in all or in ``period_s`` seconds."""
    manifest, members = example or bundles.numpy_example()
    label = members.pop("golden/numpy.label.npy")
    for name in ("tables/means.npy", "golden/numpy.frame.npy"):
        del members[name]
    classes = manifest["input"]["shape"][0]
    wrong = -(-(2**20) // (classes + 4))
    table = np.full((classes, classes), wrong, np.uint32)
    np.fill_diagonal(table, 2**20 - (classes - 1) * wrong)
    members |= {"tables/q.npy": bundles.npy(table)}
    members |= {"golden/draws.code.npy": label, "golden/numpy.code.npy": label}
    draw = {"stage": "draw", "distribution": "channel", "input": "label", "table": "q", "output": "code"}
    manifest["stages"] = [*manifest["stages"][:2], draw]
    manifest["tables"] = {"q": {"file": "tables/q.npy", "shape": [classes, classes], "dtype": "uint32"}}
    manifest["outputs"] = [{"name": "code", "kind": "code", "tensor": "code", "shape": [], "dtype": "int64"}]
    manifest["golden"]["draws"] = {"code": "golden/draws.code.npy"}
    manifest["golden"]["outputs"] = {"numpy": {"code": "golden/numpy.code.npy"}}
    spending = {"micro_epsilon": COST, "unit": unit, "most_micro_epsilon": releases * COST, "period_s": period_s}
    return {**manifest, "spending": spending}, members


def price(releases: int, period_s: float | None = None, cost: int = COST) -> Price:
    """What ``counted_example`` costs, under its limit alone."""
    return Price(cost, [Limit(releases * cost, period_s)])


class Board:
    """A device that was on for ``up_s`` since its start ``boot``, with a ledger in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.path, self.up_s, self.boot, self.machine = folder / "ledger", 1000, "first", MACHINE
        create(str(self.path), machine=lambda: MACHINE)

    def clock(self) -> float:
        return float(self.up_s)

    def ledger(self, **options: Any) -> Ledger:
        """The ledger as a new process opens it."""
        return Ledger(str(self.path), uptime=lambda: (self.boot, self.up_s), machine=lambda: self.machine, **options)

    def restart(self) -> None:
        """A start of the machine."""
        self.boot, self.up_s = self.boot + "+", 5

    def spent(self) -> int:
        """What is on the disk, in whole releases."""
        return book.decode(self.path.read_bytes()).lifetime // COST
