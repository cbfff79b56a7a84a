"""Who publishes the same recordings twice by a bundle that draws tells twice: that is asked for, and paid for.

Beside the master key lies a list of what was published by such bundles, as keyed hashes alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.ledger.book import Price
from edgeveil.edge_runtime.ledger.ledger_file import Ledger
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.results import locked

SUFFIX = ".drawn"


class Drawn:
    """The list beside a key. ``archive`` is the fingerprint of the recordings, ``publication`` that of the folder."""

    def __init__(self, key: Path) -> None:
        self._path = key.with_name(key.name + SUFFIX)

    def claim(self, archive: str, publication: str, *, again: bool) -> None:
        """Note a publication before its first draw. Raises ``BadInput`` for a second one, unless ``again``."""
        with locked(self._path, "publish archive"):
            listed = self._read()
            others = [one for one in listed if one["archive"] == archive and one["publication"] != publication]
            if others and not again:
                raise BadInput(
                    "These recordings were published before by a bundle that draws: a second time tells more of them. "
                    "Add --again if you want that."
                )
            entry = {"archive": archive, "publication": publication}
            if entry not in listed:
                self._write([*listed, entry])

    def forget(self, publication: str) -> None:
        """Take out one whose frames are gone before anybody had them."""
        with locked(self._path, "publish archive"):
            listed = self._read()
            if any(one["publication"] == publication for one in listed):
                self._write([one for one in listed if one["publication"] != publication])

    def _read(self) -> list[dict[str, str]]:
        try:
            found: list[dict[str, str]] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError):
            raise BadInput(f"{self._path} cannot be read: take your copy. It says what was published before.") from None
        return found

    def _write(self, listed: Sequence[dict[str, str]]) -> None:
        write_atomic(self._path, json.dumps(listed).encode(), mode=0o600)


def paid(ledger: Path | None, price: Price | None, unit: str, people: Sequence[int | None]) -> list[bool]:
    """Charge for every row (``people``: whose it is) and return which are paid for; all, where nothing is promised.

    Raises ``BadInput`` without a ledger, ``LimitNotMet`` where the whole machine's account has too little left: then
    nothing is charged.
    """
    if price is None:
        if ledger is not None:
            raise BadInput("A ledger was given, and this bundle promises nothing to count: leave out --ledger.")
        return [True] * len(people)
    if ledger is None:
        raise BadInput("This bundle counts what it tells: name the ledger with --ledger (edgeveil-edge ledger new).")
    opened = Ledger(str(ledger))
    units = [None if unit == "release" else one for one in people]
    wanted = Counter(units)
    left = min(most for most, _ in opened.left(price.limits)) // price.micro_epsilon
    if wanted[None] > left:
        raise LimitNotMet(
            f"The ledger has {left} releases left and {wanted[None]} were asked for: nothing was charged."
        )
    may = Counter(opened.charge(dict(wanted), *price).paid)
    found = []
    for one in units:
        found.append(may[one] > 0)
        may[one] -= 1
    return found
