"""The most that a device may tell: what the bundle promises, and ``spend`` of the owner's ``policy.json``. Both hold.

::

    "spend":{"most_epsilon":10,"period_s":86400}
"""

import math
from typing import Any, List, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ledger.book import Limit, Price
from edgeveil.edge_runtime.manifest.count import DAY_S
from edgeveil.edge_runtime.manifest.manifest import Manifest

_MICRO = 10**6
_MOST_EPSILON, _MOST_PERIOD_S = 1e6, 1e9


def read_spend(value: Any, path: str) -> Limit:
    """The limit in a policy's ``spend``. Raises ``BadInput``."""
    if type(value) is not dict or sorted(value) != ["most_epsilon", "period_s"]:
        raise BadInput("Expected the keys most_epsilon, period_s as 'spend' of {}. Correct it.".format(path))
    most, period_s = value["most_epsilon"], value["period_s"]
    if type(most) not in (int, float) or not 1 / _MICRO <= most <= _MOST_EPSILON:
        raise BadInput(
            "Expected a number from 1e-6 to 1e6 as 'most_epsilon' of 'spend' in {}. Correct it.".format(path)
        )
    if period_s is not None and (type(period_s) not in (int, float) or not 1 <= period_s <= _MOST_PERIOD_S):
        raise BadInput(
            "Expected seconds from 1 to 1e9, or null, as 'period_s' of 'spend' in {}. Correct it.".format(path)
        )
    return Limit(math.floor(most * _MICRO), None if period_s is None else float(period_s))


def price_of(manifest: Manifest, policy: Optional[Any]) -> Optional[Price]:
    """What a release of this bundle costs, and all limits on it; None for a bundle that does not count what it tells.

    ``policy`` is the device's ``Policy``; under one with ``spend``, ``Policy.check`` refuses such a bundle.
    """
    spending = manifest.spending
    if spending is None:
        return None
    return Price(spending.micro_epsilon, _limits(Limit(spending.most_micro_epsilon, spending.period_s), policy))


def count_price_of(manifest: Manifest, policy: Optional[Any]) -> Optional[Price]:
    """As ``price_of``, for the counts of one period; None where they have no noise, or nothing is counted."""
    noise = None if manifest.counts is None else manifest.counts.noise
    if noise is None:
        return None
    return Price(noise.micro_epsilon, _limits(Limit(noise.most_micro_epsilon, DAY_S), policy))


def _limits(own: Limit, policy: Optional[Any]) -> List[Limit]:
    limits = [own]
    if policy is not None and policy.spend is not None:
        limits.append(policy.spend)
    return limits
