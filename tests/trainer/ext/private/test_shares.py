"""The budget of [private]: its parts add up to what was asked, and what cannot be is refused."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.private.noise import shares
from edgeveil.trainer.recipe.private import Private

ASKED = Private(epsilon=8.0, delta=1e-5, lot=64, steps=20)


def test_the_shares_add_up_to_the_budget_and_use_it():
    made = shares(ASKED.model_copy(update={"pictures": 0.25}), 1000)
    claims = made.encoder.claim, made.pictures
    assert [claim.epsilon for claim in claims] == pytest.approx([6.0, 2.0], rel=0.01)
    assert sum(claim.epsilon for claim in claims) <= 8.0
    assert sum(claim.delta for claim in claims) <= 1e-5 * (1 + 1e-12)
    assert (claims[0].rate, claims[0].steps) == (0.064, 20)
    assert (claims[1].rate, claims[1].steps) == (1.0, 1)


@pytest.mark.parametrize(
    ("changes", "units", "words"),
    [
        ({}, 99, "99 units.*100 are the fewest"),
        ({"delta": 0.01}, 100, "below 1 / 100"),
        ({"lot": 1001}, 1000, "at most the 1,000 units"),
    ],
)
def test_what_means_nothing_is_refused(changes, units, words):
    with pytest.raises(BadInput, match=words):
        shares(ASKED.model_copy(update=changes), units)
