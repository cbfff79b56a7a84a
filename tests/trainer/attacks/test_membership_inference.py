"""Membership inference: it finds rows that a model remembers, and nothing where there is nothing."""

import numpy as np
import pytest
from scipy.special import log_softmax

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.model_inversion import confidence, halves, likelihood_ratio
from edgeveil.trainer.audit.probes.areas import area, curve


def test_confidence_orders_rows_as_the_loss_does():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    loss = -log_softmax(logits, axis=1)[np.arange(200), labels]
    found = confidence(logits, labels)
    assert np.array_equal(np.argsort(found), np.argsort(-loss))
    p = np.exp(-loss)
    assert np.allclose(found, np.log(p / (1 - p)))


@pytest.mark.parametrize("models", [2, 8])
def test_every_row_is_in_half_of_the_models(models):
    inside = halves(501, models, np.random.default_rng(1))
    assert (inside.sum(axis=0) == models // 2).all()
    assert inside.sum(axis=1).min() > 190  # about half of the rows each, and not the same ones
    assert not np.array_equal(inside[0], inside[1])


def remembering(gap, shadows=8, rows=4000, seed=2):
    """Confidences of rows that are as hard as they are, plus ``gap`` in the models that were trained on them."""
    rng = np.random.default_rng(seed)
    inside = halves(rows, shadows + 1 + (shadows + 1) % 2, rng)[: shadows + 1]
    hardness = 4 * rng.normal(size=rows)
    values = hardness + gap * inside + rng.normal(size=inside.shape)
    return values[0], values[1:], inside


def test_the_ratio_finds_what_hardness_hides_from_the_loss():
    target, shadows, inside = remembering(1.5)
    found = area(curve(likelihood_ratio(target, shadows, inside[1:]), inside[0]))
    by_loss = area(curve(target, inside[0]))
    assert by_loss < 0.65
    assert found > 0.78  # with the means known it would be .86


def test_where_nothing_is_remembered_nothing_is_found():
    target, shadows, inside = remembering(0.0)
    assert area(curve(likelihood_ratio(target, shadows, inside[1:]), inside[0])) == pytest.approx(0.5, abs=0.05)


def test_confidences_that_never_change_do_not_break_it():
    inside = halves(20, 4, np.random.default_rng(3))
    assert np.isfinite(likelihood_ratio(np.zeros(20), np.zeros((4, 20)), inside)).all()


def test_rows_that_all_shadows_know_are_refused():
    inside = np.ones((4, 10), bool)
    for side in (inside, ~inside):
        with pytest.raises(BadInput, match="every row in some shadow models"):
            likelihood_ratio(np.zeros(10), np.zeros((4, 10)), side)
