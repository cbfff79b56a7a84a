"""The emission schedule: fixed by the signed manifest. Settings may make it stricter; frames never change it."""

from typing import NamedTuple, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest

TICK_HZ = 10.0  # of a bundle without a capture section, unless --fps is given
DEGRADED_AFTER_S = 60.0
SLACK_S = 0.02  # or a quarter of a tick: what is not there by then waits for the next tick
BURST_S = 1.0  # windows of a time series that come within this time of each other all have a tick
NICE = 10  # of the processes that see raw frames, so that on one core the outside does not wait for them

Schedule = NamedTuple(
    "Schedule",
    [
        ("tick_s", float),  # seconds from one tick to the next
        ("slots", int),  # records emitted at each tick, whatever the camera sees
        ("on_fault", str),  # what they hold without a new set: the "previous" one or the "flat" one
        ("degraded_after_s", float),  # the period at whose end a lasting fault is announced
        ("backlog", int),  # frames that may wait for their ticks; then the oldest is dropped
    ],
)


def schedule(manifest: Manifest, fps: Optional[float] = None) -> Schedule:
    """The schedule of a manifest; ``fps`` (ticks a second) may make it slower than signed, never faster.

    A manifest without ``capture`` signs no schedule: it gets one record a tick. Raises ``BadInput``.
    """
    if fps is not None and not 0 < fps <= 1000:
        raise BadInput("expected --fps above 0 and up to 1000; got {:g}".format(fps))
    capture = manifest.capture
    if capture is None:
        ticks_hz = fps or TICK_HZ
        return Schedule(1.0 / ticks_hz, 1, "previous", DEGRADED_AFTER_S, _backlog(manifest, ticks_hz))
    signed = float(capture.tick_hz)
    if fps is not None and fps > signed:
        raise BadInput(
            "expected --fps {:g} at most, the signed schedule of the bundle; got {:g}. Choose a slower one".format(
                signed, fps
            )
        )
    ticks_hz, fault_s = fps or signed, float(capture.degraded_after_s)
    return Schedule(1.0 / ticks_hz, capture.slots, capture.on_fault, fault_s, _backlog(manifest, ticks_hz))


def _backlog(manifest: Manifest, ticks_hz: float) -> int:
    # Of a camera the newest picture is the best one; a window of a time series is not in the one after it.
    return 1 + int(BURST_S * ticks_hz) if manifest.input.kind == "series" else 1
