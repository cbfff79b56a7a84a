"""The variants of the estimator: what was compared is on record, and the product has the one that was chosen."""

import json

from edgeveil.devices.latency.calibration import published
from edgeveil.devices.latency.estimate import SHARE
from edgeveil.devices.latency.regression import Regression
from scripts.reproduce.estimator.variants import USUAL, scored, spreads
from tests.devices.latency.test_estimate import made


def test_variants_are_compared_by_networks_left_out():
    near, far = (scored(made(noise=noise), SHARE) for noise in (0.05, 0.6))
    assert len(near) == 9
    assert all(near[name][0] < far[name][0] for name in near)


def test_the_product_has_the_variant_that_was_chosen_and_the_figures_on_record_are_those_of_all_nine(request):
    recorded = json.loads((request.config.rootpath / "docs/results/bench/estimator.json").read_text())
    fits = scored(published(), SHARE)
    assert recorded["fitted_in_use"] == USUAL
    assert set(recorded["variants"]) == set(fits)
    for name, (score, fit) in fits.items():
        assert recorded["variants"][name]["score_inside"] == round(score, 3), name
        assert recorded["variants"][name]["stretch"] == {kind: round(by, 3) for kind, by in fit.stretch.items()}, name
    product = Regression(published())
    assert recorded["spreads_of_the_whole_table"] == spreads(product)
    assert product.stretch == fits[USUAL][1].stretch
