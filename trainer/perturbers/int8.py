"""Fine-tuning of a generator with int8's steps in it, where int8 loses y: the section and the epochs.

What is trained is the generator itself, by its perturber's own losses on the second slice, with a rounded network in
its place (``networks.rounded``). The export quantises as it always does, and calibrates on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.training_sections import Section

if TYPE_CHECKING:
    from edgeveil.trainer.runs.checkpoint_score import Judged
    from edgeveil.trainer.runs.run import Log

STAGE = "int8"


class Int8(Section):
    """Fine-tune the generator with the steps of an int8 file, where these cost more of y than a margin."""

    margin: float = Field(
        default=0.01, ge=0, lt=1, description="Accuracy of y on validation that int8 may lose without any."
    )
    epochs: int = Field(default=10, ge=1, le=10000, description="Epochs where it loses more; the best one ships.")
    learning_rate: float = Field(default=2e-4, gt=0, le=1, description="Adam's rate for the generator in them.")


def fine_tune(
    section: Int8,
    generator: Any,
    rows: Mapping[str, np.ndarray],
    *,
    of: Callable[[Any], tuple[Callable[[int], dict[str, float]], Callable[[int, float], Judged], dict[str, Any]]],
    score: Callable[[Any, float], Judged],
    floor: float,
    chosen: int,
    log: Log,
) -> None:
    """Fine-tune ``generator`` in place where int8 loses more than the margin; print and record what was found.

    ``rows`` are its inputs to calibrate on, by name. ``of`` makes, of a rounded network, what trains and judges it and
    all that a checkpoint must hold; ``score`` judges any network with a floor of y. ``chosen`` is the epoch that the
    generator is of. The epochs change nothing where none is better than no fine-tuning. Raises ``LimitNotMet`` where
    training diverges.
    """
    from edgeveil.trainer.networks.rounded import Rounded
    from edgeveil.trainer.runs.checkpoint_score import run_epochs

    rounded = Rounded(generator)
    rounded.measure(rows)
    exact = score(generator, floor).shown["acc_y"]
    # Where y is within the margin, what hides z better is better.
    least = max(0.0, exact - section.margin)
    before = score(rounded.model, least)
    facts: dict[str, Any] = {"margin": section.margin, "float32": exact, "int8": before.shown["acc_y"], "epochs": 0}
    lost = f"On validation y is read right {exact:.3f} of float32 and {facts['int8']:.3f} of int8"
    if facts["int8"] >= least:
        say(f"{lost}, within `perturber.int8.margin`, {section.margin:g}: no fine-tuning.")
        log.record(int8=facts)
        return
    say(f"{lost}, which loses more than {section.margin:g}: fine-tuning with its steps, {section.epochs} epochs.")
    epoch, judged, trained = of(rounded.model)

    def measured(number: int) -> dict[str, float]:
        rounded.measure(rows)  # before, since a resumed training has other ranges than at its end
        losses = epoch(number)
        rounded.measure(rows)
        return losses

    weights = generator.get_weights()
    ships = {"generator": generator}
    how: dict[str, Any] = {"epoch": measured, "judged": lambda number: judged(number, least)}
    best = run_epochs(
        log, epochs=section.epochs, trained={**trained, **ships}, ships=ships, stage=STAGE, of=f"{chosen}-", **how
    )
    rounded.measure(rows)
    after = score(rounded.model, least)
    if before.rank is not None and after.rank is not None and list(after.rank) >= list(before.rank):
        generator.set_weights(weights)
        best, after = 0, before
    facts |= {"epochs": section.epochs, "tuned_epoch": best, "tuned": after.shown["acc_y"]}
    log.record(int8=facts)
    kept = f"epoch {best} has {facts['tuned']:.3f} in int8" if best else "no epoch was better, and none is taken"
    say(f"After fine-tuning {kept}.")
