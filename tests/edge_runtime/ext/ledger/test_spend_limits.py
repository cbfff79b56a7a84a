"""``spend`` of a policy: a further limit, and no bundle under it that does not count."""

import pytest

from edgeveil.edge_runtime.bundle.policy import Policy, read_policy
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.manifest import Limit
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.util import strict_json
from tests.support import bundles
from tests.support.promised.counted_bundles import COST, counted_example

SPEND = {"most_epsilon": 6.5, "period_s": None}


def policy(spend=SPEND, hide=()):
    return read_policy(strict_json.dumps({"schema": 1, "hide": list(hide), "spend": spend}))


def opened(tmp_path, example, demands):
    made = bundles.make_bundle(tmp_path, example=example)
    with Perturber.open(str(made.path), trust=Trust([bundles.trusted()], policy=demands)) as perturber:
        return perturber.price


def test_bundle_and_policy_both_hold(tmp_path):
    own = Limit(10 * COST, 60.0)
    assert opened(tmp_path, counted_example(period_s=60.0), None) == (COST, [own])
    assert opened(tmp_path, counted_example(period_s=60.0), policy()) == (COST, [own, Limit(6_500_000, None)])
    assert opened(tmp_path, counted_example(period_s=60.0), Policy([])) == (COST, [own])
    assert opened(tmp_path, bundles.numpy_example(), None) is None


def test_a_bundle_that_does_not_count_does_not_run_under_it(tmp_path):
    with pytest.raises(BundleRefused, match="must count what it tells") as refused:
        opened(tmp_path, bundles.numpy_example(), policy())
    assert refused.value.reason == "policy-not-met"


def test_it_is_rounded_down_and_its_period_is_in_seconds():
    assert policy({"most_epsilon": 1.9999999, "period_s": 60}).spend == Limit(1_999_999, 60.0)


@pytest.mark.parametrize(
    ("spend", "says"),
    [
        (None, "spend: expected an object"),
        ({}, "'most_epsilon' is missing"),
        ({"most_epsilon": 1}, "'period_s' is missing"),
        ({**SPEND, "more": 1}, "the key 'more' is not known"),
        ({**SPEND, "most_epsilon": 0}, "expected 1e-06 to 1e.06"),
        ({**SPEND, "most_epsilon": True}, "expected a number"),
        ({**SPEND, "most_epsilon": "1"}, "expected a number"),
        ({**SPEND, "period_s": 0}, "expected 1 to 1e.09"),
        ({**SPEND, "period_s": -1.0}, "expected 1 to 1e.09"),
        ({**SPEND, "period_s": "day"}, "expected a number"),
    ],
)
def test_it_is_read_strictly(spend, says):
    with pytest.raises(BadInput, match=says):
        policy(spend)


def test_without_it_a_policy_hides_something():
    with pytest.raises(BadInput, match="1 to 16"):
        read_policy(strict_json.dumps({"schema": 1, "hide": []}))
