"""When something leaves and how much: fixed by the signed manifest, made stricter at most, never by what was seen."""

from typing import NamedTuple, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest

TICK_HZ = 10.0  # of a bundle without a capture section, unless --fps is given
DEGRADED_AFTER_S = 60.0

Schedule = NamedTuple(
    "Schedule",
    [
        ("tick_s", float),  # seconds from one tick to the next
        ("slots", int),  # records that leave at each tick, whatever is seen
        ("on_fault", str),  # what they hold where there is nothing new: "previous" release or "flat" frame
        ("degraded_after_s", float),  # the period at whose end a lasting fault is announced
    ],
)


def schedule(manifest: Manifest, fps: Optional[float] = None) -> Schedule:
    """The schedule of a manifest; ``fps`` (ticks a second) may make it slower than was signed, never faster.

    A manifest without ``capture`` signs no schedule: then it is one record at each of ``fps`` ticks a second.
    Raises ``BadInput``.
    """
    if fps is not None and not 0 < fps <= 1000:
        raise BadInput("expected --fps above 0 and up to 1000; got {:g}".format(fps))
    capture = manifest.capture
    if capture is None:
        return Schedule(1.0 / (fps or TICK_HZ), 1, "previous", DEGRADED_AFTER_S)
    signed = float(capture.tick_hz)
    if fps is not None and fps > signed:
        raise BadInput(
            "expected --fps {:g} at most: the bundle's schedule is signed, and only a slower one may be asked for; "
            "got {:g}".format(signed, fps)
        )
    return Schedule(1.0 / (fps or signed), capture.slots, capture.on_fault, float(capture.degraded_after_s))
