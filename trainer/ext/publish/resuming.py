"""The state that a resumed run must match, what was drawn and what was paid.

Next to the master key is a list, of keyed hashes, of what was published by bundles that draw: twice reveals more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.ext.ledger.book import Ledger
from edgeveil.edge_runtime.manifest.manifest import Price
from edgeveil.edge_runtime.util.atomic import write_atomic, writing
from edgeveil.trainer.results import locked

WORK, STATE, DOCUMENT, SUFFIX = "work", "state.json", "publication.json", ".drawn"
State = dict[str, Any]


def begin(out: Path, state: State) -> None:
    """Make the folder and its work folder, and write the state of the run there."""
    with writing(out):
        (out / WORK).mkdir(parents=True, exist_ok=True)
    write_atomic(out / WORK / STATE, json.dumps(state, sort_keys=True).encode())


def require_unused(out: Path) -> None:
    """Raise ``BadInput`` where something is in the folder."""
    if (out / WORK / STATE).is_file():
        raise BadInput(f"{out} holds a publication that is not done yet: add --resume, or give another folder.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} is not empty: a publication is never written over another. Give another folder.")


def require_same(out: Path, state: State) -> State:
    """The state at the start. Raises ``BadInput`` where there is none, or where it was another."""
    if (out / DOCUMENT).is_file() and not (out / WORK / STATE).is_file():
        raise BadInput(f"The publication in {out} is done. Check it with edgeveil publish verify, without --resume.")
    try:
        was: State = json.loads((out / WORK / STATE).read_bytes())
    except (OSError, ValueError):
        raise BadInput(f"{out} holds no publication that was begun: leave out --resume.") from None
    for name in state.keys() - {"id"}:
        if was.get(name) != state[name]:
            raise BadInput(
                f"Cannot resume {out}: the {name} has changed. Use the original {name}, or give another folder."
            )
    return was


class Drawn:
    """The list next to a key. ``archive`` is the fingerprint of the recordings, ``publication`` that of the folder."""

    def __init__(self, key: Path) -> None:
        self._path = key.with_name(key.name + SUFFIX)

    def claim(self, archive: str, publication: str, *, again: bool) -> None:
        """Note a publication before its first draw. Raises ``BadInput`` for a second one, unless ``again``."""
        entry = {"archive": archive, "publication": publication}
        with self._changed() as listed:
            if any(one["archive"] == archive for one in listed if one != entry) and not again:
                raise BadInput(
                    "These recordings were published before by a bundle that draws: a second time reveals more of "
                    "them. Add --again if you want that."
                )
            listed[:] = [one for one in listed if one != entry] + [entry]

    def forget(self, publication: str) -> None:
        """Take out one whose frames were deleted before they were sent."""
        with self._changed() as listed:
            listed[:] = [one for one in listed if one["publication"] != publication]

    @contextmanager
    def _changed(self) -> Iterator[list[dict[str, str]]]:
        with locked(self._path, "publish archive"):
            try:
                listed = json.loads(self._path.read_bytes()) if self._path.exists() else []
            except (OSError, ValueError):
                raise BadInput(
                    f"{self._path} cannot be read: take your copy. It lists what was published before."
                ) from None
            yield listed
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
        raise BadInput("This bundle counts its releases: name the ledger with --ledger (edgeveil-edge ledger new).")
    opened = Ledger(str(ledger))
    units = [None if unit == "release" else one for one in people]
    wanted = Counter(units)
    left = min(most for most, _ in opened.left(price.limits)) // price.micro_epsilon
    if wanted[None] > left:
        raise LimitNotMet(
            f"The ledger has {left} releases left and {wanted[None]} were asked for: nothing was charged."
        )
    may = Counter(opened.charge(dict(wanted), *price).paid)
    payable = []
    for one in units:
        payable.append(may[one] > 0)
        may[one] -= 1
    return payable
