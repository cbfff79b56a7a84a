"""The attack that a plan asks for, on the files of a publication before it has its name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeveil.trainer.publish.attack.attack import attack
from edgeveil.trainer.publish.attack.attack_limits import require
from edgeveil.trainer.publish.attack.donors import copies
from edgeveil.trainer.publish.attack.published import Output, read
from edgeveil.trainer.publish.plan import Plan


def attack_files(
    files: Sequence[Path],
    plan: Plan,
    labels: Mapping[str, Sequence[str]],
    *,
    people: Sequence[Hashable] = (),
    outputs: Sequence[Output] = (),
    records: Iterable[tuple[Hashable, bytes]] = (),
) -> dict[str, Any] | None:
    """The ``attack`` of a publication's statement; None where the plan asks for none.

    ``labels`` are the raw cells of the written rows, one file after the other, of the columns that the plan's attack
    names; ``people``, ``outputs`` and ``records`` as ``read`` and ``copies`` take them. Raises ``BadInput``, and
    ``LimitNotMet`` where attacks may learn more than the plan allows.
    """
    asked = plan.attack
    if asked is None:
        return None
    published = read(files, plan, people, outputs)
    z = [labels[asked.sensitive][row] for row in published.place]
    y = None if asked.target is None else [labels[asked.target][row] for row in published.place]
    found = attack(published, z, asked, y=y, copies=copies(published, records))
    require(found)
    return found
