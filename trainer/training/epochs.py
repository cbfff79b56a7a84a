"""The epochs of a perturber's training: resume, stop on divergence, keep the best checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.progress import progress
from edgeveil.trainer.runs.log import Log

EXPLODED = 1e3  # times the loss of the first epoch, or this where that was below 1: no training recovers from there


@dataclass(frozen=True)
class Judged:
    """The measures of a checkpoint, its rank (smaller is better; None: not ranked), and the figures for progress."""

    measured: Mapping[str, float]
    rank: Sequence[float] | None
    shown: Mapping[str, float]


def run_epochs(
    log: Log,
    *,
    epochs: int,
    trained: Mapping[str, Any],
    ships: Mapping[str, Any],
    epoch: Callable[[int], dict[str, float]],
    judged: Callable[[int], Judged],
) -> None:
    """Run ``epoch`` (number to mean losses, ``loss_generator`` among them) and ``judged`` up to number ``epochs``.

    ``trained`` is all that a resumed training needs (networks, optimisers); ``ships`` is restored at the end to the
    epoch of the best rank. Resumes from the last checkpoint. Raises ``LimitNotMet`` where training diverges: a measure
    is not a number, or the generator's loss is a thousand times that of the first epoch; the checkpoint before is kept.
    """
    last, best = log.checkpoint("last", **trained), log.checkpoint("best", **ships)
    facts: dict[str, Any] = {"epoch": 0, "best_epoch": 0, "rank": None, "first_loss": None, **(last.restore() or {})}
    with whole_steps() as check, progress("perturber", total=epochs, done=facts["epoch"]) as advance:
        for number in range(facts["epoch"] + 1, epochs + 1):
            losses = epoch(number)
            found = judged(number)
            measured = losses | {f"validation_{name}": value for name, value in found.measured.items()}
            if facts["first_loss"] is None:
                facts["first_loss"] = losses["loss_generator"]
            check_converging(number, measured, losses["loss_generator"], facts["first_loss"])
            log.metric(stage="perturber", step=number, **measured)
            rank = None if found.rank is None else list(found.rank)
            if rank is not None and (facts["rank"] is None or rank < facts["rank"]):
                facts |= {"best_epoch": number, "rank": rank}
                best.save(**found.measured)
            facts["epoch"] = number
            last.save(**facts)
            advance(**found.shown)
            check()
    best.restore()
    log.record(chosen_epoch=facts["best_epoch"])


def check_converging(number: int, measured: Mapping[str, float], loss: float, first: float) -> None:
    """Raise ``LimitNotMet`` if training has diverged in epoch ``number``."""
    if not np.isfinite(list(measured.values())).all():
        what = "a loss is no longer a number"
    elif abs(loss) > EXPLODED * max(1.0, abs(first)):
        what = f"the generator's loss went from {first:.3g} to {loss:.3g}"
    else:
        return
    kept = f"The checkpoint of epoch {number - 1} is kept. " if number > 1 else ""
    raise LimitNotMet(
        f"Training diverged in epoch {number}: {what}. {kept}Lower `perturber.learning_rate` or `perturber.alpha` and "
        "train into another folder."
    )
