"""The WiFi fingerprints of ``wifi`` as a phone measures them: how strong each of 520 access points was.

Each value is the strength in dBm above -105, the weakest being 1, and 0 where nothing was heard. The same records,
labels and attributes as ``wifi``, whose paper keeps of each value only whether it is above 0.
"""

from __future__ import annotations

from edgeveil.trainer.datasets.loaders import wifi
from edgeveil.trainer.datasets.readings import Readings


def load(*, target: str, sensitive: str) -> Readings:
    """Fingerprints uint8 (520,), 0 to 105; else as ``wifi.load``. Raises ``BadInput``."""
    return wifi.load(target=target, sensitive=sensitive, strength=True)
