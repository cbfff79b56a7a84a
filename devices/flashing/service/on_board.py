"""A service that a board has, as its probe found it."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PORT = 9464  # of its pages, where no setting names another


@dataclass(frozen=True)
class OnBoard:
    """A service that a board has: its folder, and what its settings say; ``health`` as in --health.

    ``users`` are those that its units run as, ``counts`` says whether it has a ledger.
    """

    name: str
    root: str
    source: str = ""
    health: str = ""
    users: tuple[str, ...] = ()
    counts: bool = False

    @property
    def port(self) -> int:
        """The port of its pages; 0 where it has none."""
        port = self.health.partition("?")[0].rpartition(":")[2] if self.health else str(FIRST_PORT)
        return int(port) if port.isdigit() else 0
