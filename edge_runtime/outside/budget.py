"""What a service may still release: an allowance on the device's ledger where its bundle promises an epsilon."""

from typing import Any, Optional, Tuple, Union

from edgeveil.edge_runtime.bundle.spend_limits import count_price_of, price_of
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.errors import BadInput, PrivacyStop
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ipc.schedule import Schedule
from edgeveil.edge_runtime.ledger.allowance import Allowance
from edgeveil.edge_runtime.ledger.book import Price
from edgeveil.edge_runtime.ledger.inside_count import COUNTS
from edgeveil.edge_runtime.ledger.ledger_file import Ledger, LedgerUnfit
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.promises.spending import repeats_paid


class Unlimited(object):
    """The allowance of a bundle that promises nothing of what it tells: everything may leave."""

    def start(self, _page: Counters) -> None:
        """There is nothing to reserve."""

    def take(self, _releases: int) -> bool:
        """Always."""
        return True

    def take_one(self) -> bool:
        """Always."""
        return True

    def spent(self) -> bool:
        """Never."""
        return False


def price_here(settings: Settings, manifest: Manifest) -> Optional[Price]:
    """What one release of a verified bundle costs under the policy of this device; None where it promises nothing."""
    return None if manifest.spending is None else price_of(manifest, open_trust(settings.trust).policy)


def count_price_here(settings: Settings, manifest: Manifest) -> Optional[Price]:
    """As ``price_here``, for the counts of one period; None where they leave without noise, or there are none."""
    exact = manifest.counts is None or manifest.counts.noise is None
    return None if exact else count_price_of(manifest, open_trust(settings.trust).policy)


def promises(settings: Settings, manifest: Manifest) -> Tuple[Any, ...]:
    """What a verified bundle promises, and what its releases cost here; equal where one may replace another."""
    return manifest.spending, price_here(settings, manifest), count_price_here(settings, manifest)


def open_allowance(settings: Settings, manifest: Manifest, plan: Schedule) -> Union[Allowance, Unlimited]:
    """The allowance for a verified bundle. Raises ``PrivacyStop`` where it needs a ledger and none can be charged,
    ``BadInput`` where the settings ask to charge each subject."""
    if settings.subject_column is not None:
        raise BadInput(
            "expected --subject-column with files alone: a service counts all that leaves as one unit. Leave it out, "
            "or go from csv: to a file"
        )
    price = price_here(settings, manifest)
    return _allowance(settings, price, slots=plan.slots, tick_s=plan.tick_s, repeats=repeats_paid(manifest))


def open_count_allowance(settings: Settings, manifest: Manifest) -> Union[Allowance, Unlimited]:
    """As ``open_allowance``, for one record of counts a period."""
    period_s = 0.0 if manifest.counts is None else float(manifest.counts.period_s)
    return _allowance(settings, count_price_here(settings, manifest), slots=1, tick_s=period_s, of=COUNTS)


def _allowance(settings: Settings, price: Optional[Price], **options: Any) -> Union[Allowance, Unlimited]:
    if price is None:
        return Unlimited()
    try:
        return Allowance(Ledger(settings.ledger), price, **options)
    except LedgerUnfit as error:
        raise PrivacyStop(str(error)) from None
