"""The budget of [private], shared out: to the encoder's steps, and to the pictures of the classes.

Both see the same units, so what they spend adds up: epsilon to epsilon, delta to delta.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.private.accounting import Claim, noise_for
from edgeveil.trainer.private.dpsgd import FEWEST_UNITS, Plan, plan
from edgeveil.trainer.recipe.private import Private


@dataclass(frozen=True)
class Shares:
    """What each mechanism spends of what was ``asked``, for so many ``units``."""

    asked: Private
    units: int
    encoder: Plan
    pictures: Claim


def shares(asked: Private, units: int) -> Shares:
    """The least noise of both. Raises ``BadInput`` for too few units, too large lots and a delta that is no chance."""
    if units < FEWEST_UNITS:
        raise BadInput(
            f"[private] has {units} units to train the encoder on, and {FEWEST_UNITS} are the fewest: with fewer, "
            "noise drowns what is learned. Add data."
        )
    if asked.delta >= 1 / units:
        raise BadInput(
            f"`private.delta`: expected below 1 / {units:,}, one unit's share of those that train the encoder; got "
            f"{asked.delta:g}."
        )
    if asked.lot > units:
        raise BadInput(f"`private.lot`: expected at most the {units:,} units that train the encoder; got {asked.lot}.")
    epsilon, delta = asked.epsilon * asked.pictures, asked.delta * asked.pictures
    encoder = plan(
        units,
        epsilon=asked.epsilon - epsilon,
        delta=asked.delta - delta,
        lot=asked.lot,
        steps=asked.steps,
        clip=asked.clip,
    )
    pictures = noise_for(epsilon, rate=1.0, steps=1, delta=delta)
    return Shares(asked, units, encoder, pictures)
