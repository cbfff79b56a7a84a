"""How fast a bundle's artefact perturbs here: a repeatable protocol, with a verdict on the figures.

In this order: the first frame; a warm-up until steady; the series of frames, at full speed or at a camera's pace, with
the board's sensors read between frames; the interpreters alone; the whole loop; the golden vectors again.
"""

import csv
import math
import os
import re
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime import __version__, machine
from edgeveil.edge_runtime.bench import latency
from edgeveil.edge_runtime.bench.sensors import Sensors, number, read
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, FrameDropped, PrivacyStop
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import Input, Manifest
from edgeveil.edge_runtime.pipeline.perturber import Perturber

# Energy from an external meter: a CSV of seconds since 1970 and watts, with a header, taken on the same clock.


COLUMNS = ("time_s", "watts")
MOST_GAP_S = 2.0  # between two samples; within less, a run can change its power


def energy(path: str, begin_s: float, end_s: float) -> Dict[str, float]:
    """Mean watts and joules between two times, by the trapezoidal rule.

    Raises ``BadInput`` if the file is not such a CSV, does not cover the run, runs backwards, or has a gap.
    """
    times, watts = _read(path)
    if not len(times) or times[0] > begin_s or times[-1] < end_s:
        raise BadInput("meter: expected {} to cover the whole run, from before to after; it does not".format(path))
    near = times[(times >= begin_s - MOST_GAP_S) & (times <= end_s + MOST_GAP_S)]
    gap = np.diff(near).max() if len(near) > 1 else math.inf
    if gap > MOST_GAP_S:
        raise BadInput(
            "meter: expected a sample every {:g} s in {}; it has a gap of {:.3g} s. Measure again".format(
                MOST_GAP_S, path, gap
            )
        )
    within = (times > begin_s) & (times < end_s)
    first, last = np.interp([begin_s, end_s], times, watts)
    time, power = np.r_[begin_s, times[within], end_s], np.r_[first, watts[within], last]
    joules = float((np.diff(time) * (power[1:] + power[:-1]) / 2).sum())
    return {"watts": joules / (end_s - begin_s), "joules": joules}


def _read(path: str) -> Tuple[np.ndarray, np.ndarray]:
    """Times and watts, each (n,)."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        times, watts = np.array([[float(row[name]) for row in rows] for name in COLUMNS])
    except (OSError, UnicodeDecodeError):
        raise BadInput("meter: expected a CSV file in {}; it cannot be read".format(path)) from None
    except (KeyError, TypeError, ValueError):
        raise BadInput(
            "meter: expected the columns {} with numbers in {}".format(" and ".join(COLUMNS), path)
        ) from None
    backwards = np.diff(times) < 0
    if backwards.any():
        raise BadInput(
            "meter: expected increasing times in {}; they go back at {:.3f}".format(path, times[1:][backwards][0])
        )
    if not (np.isfinite(times).all() and np.isfinite(watts).all() and (watts >= 0).all()):
        raise BadInput("meter: expected watts from 0 in {}; it holds something else".format(path))
    return times, watts


# What a board says of its power before and after a run: its mode, whether its clocks are fixed, past throttling.
#
# A sample each second misses a short drop. A Raspberry Pi remembers each since boot (the high bits of ``vcgencmd
# get_throttled``), a Jetson has a power mode (``nvpmodel -q``) and clocks that ``jetson_clocks`` fixes.


# Under-voltage, frequency capped, throttled, soft temperature limit: each has occurred since boot.
_PI_SINCE_BOOT = 0xF0000


def power_state(places: Mapping[str, str]) -> Dict[str, Any]:
    """What the sensors of these places say now; None for what the board does not."""
    raw = {name: read(places[name]) if name in places else None for name in _READ}
    mode = raw["power_mode"]
    match = re.search(r"NV Power Mode:\s*(\S+)", mode or "")
    bits = re.search(r"0x[0-9a-fA-F]+", raw["throttled"] or "")
    return {
        "power_mode": match.group(1) if match else mode,
        "clock_floor_mhz": number(raw["clock_floor_khz"], 1e-3),
        "clock_ceiling_mhz": number(raw["clock_ceiling_khz"], 1e-3),
        "throttled_since_boot": int(bits.group(), 16) & _PI_SINCE_BOOT if bits else None,
    }


def power_problems(before: Mapping[str, Any], after: Mapping[str, Any], places: Mapping[str, str]) -> List[str]:
    """Why a run between these two states says nothing of the board at its usual speed."""
    problems = []
    new = (after["throttled_since_boot"] or 0) & ~(before["throttled_since_boot"] or 0)
    if new:
        problems.append(
            "throttled: the board remembers it since the start ({:#x}); cool it, or give it a better supply".format(new)
        )
    mode, wanted = before["power_mode"], places.get("expected_power_mode")
    if after["power_mode"] != mode:
        problems.append("power mode: it changed from {} to {}".format(mode, after["power_mode"]))
    if wanted and mode != wanted:
        problems.append(
            "power mode: it is {}, and figures are for {}; set it (sudo nvpmodel -m 0)".format(
                mode or "not known", wanted
            )
        )
    for state in (before, after):
        low, high = state["clock_floor_mhz"], state["clock_ceiling_mhz"]
        if low is not None and high is not None and low < high:
            problems.append(
                "clocks: not fixed, from {:.0f} to {:.0f} MHz; fix them (sudo jetson_clocks)".format(low, high)
            )
            break
    return problems


_READ = ("power_mode", "clock_floor_khz", "clock_ceiling_khz", "throttled")


SCHEMA = 3
LEAST_COUNT = 100  # for a p99 that is not just the largest value
LEAST_SECONDS = 1.0
MOST_DRIFT = 0.10  # of the median, between the halves of the run
LEAST_CPU = 0.90  # of one core's time: below, something else used it
MOST_LOAD = 1.5  # runnable tasks a core when the run starts
PUBLISH = latency.Minimum(1024, 600.0)  # of figures to publish, as MLPerf's single stream
WINDOWS, WINDOW_S = 5, 60.0
RAN_ON = ("device", "kernels", "said_by")


class Protocol(NamedTuple):
    """How to time. ``sensors`` are the places of sensors, ``meter`` a CSV of an external power meter."""

    minimum: latency.Minimum = latency.Minimum(300, 2.0)
    warm_up: latency.Minimum = latency.Minimum(30, 0.25)
    pace_fps: Optional[float] = None
    sustained: bool = False
    loop_seconds: float = 1.0
    sensors: Optional[Dict[str, str]] = None
    meter: Optional[str] = None

    def check(self) -> None:
        """Raises ``BadInput`` for impossible values."""
        if self.minimum.calls < 1 or self.minimum.seconds < 0:
            raise BadInput("expected at least 1 frame and 0 seconds; got {} and {}".format(*self.minimum))
        if self.pace_fps is not None and not 0 < self.pace_fps < 1e6:
            raise BadInput("expected a pace above 0 frames a second; got {:g}".format(self.pace_fps))


class Clocks(NamedTuple):
    """The clocks and the load; tests inject their own."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time
    unix: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    load: Callable[[], Optional[float]] = machine.load


USUAL, REAL = Protocol(), Clocks()


def bench(perturber: Perturber, protocol: Protocol = USUAL, clocks: Clocks = REAL) -> Dict[str, Any]:
    """The document of ``docs/reference/schemas/bench.schema.json``, as a dict.

    Frames are random samples over the range of the manifest's ``input``, perturbed one at a time. ``verdict`` is
    ``"VALID"``, or ``"INVALID"`` with ``reasons``: then do not quote the figures. Raises ``BadInput`` for an impossible
    protocol, ``DeviceFailed`` if a synthetic frame is dropped or the clock fails.
    """
    protocol.check()
    frames = synthetic_frames(perturber.manifest.input)
    call = _perturb(perturber, frames)
    load_before = clocks.load()
    first = latency.take(call, latency.Minimum(1, 0), clocks.wall)
    warm = latency.warm_up(call, protocol.warm_up, clocks.wall)
    state_before = power_state(protocol.sensors or {})
    sensors = Sensors(protocol.sensors or {}, every_s=max(1.0, protocol.minimum.seconds / 1000))
    begin, cpu_before, wall_before = clocks.unix(), clocks.cpu(), clocks.wall()
    times = latency.take(
        call, protocol.minimum, clocks.wall, pace_fps=protocol.pace_fps, sleep=clocks.sleep, between=sensors.sample
    )
    cpu_ratio = (clocks.cpu() - cpu_before) / max(clocks.wall() - wall_before, 1e-9)
    end = clocks.unix()
    state_after = power_state(protocol.sensors or {})
    steady_rss = machine.rss_bytes()
    bare = None
    if perturber.pipeline.runners:
        bare_call = _interpreters(perturber)
        latency.warm_up(bare_call, protocol.warm_up, clocks.wall)
        few = latency.Minimum(min(protocol.minimum.calls, 3000), min(protocol.minimum.seconds, 10.0))
        bare = latency.figures(latency.take(bare_call, few, clocks.wall))
    loop = _loop_rate(perturber, frames, protocol.loop_seconds)
    parity = _parity(perturber)
    drift = latency.drift(times)
    reasons = _too_short_or_busy(protocol, times, cpu_ratio, load_before)
    if abs(drift) > MOST_DRIFT:
        reasons.append("drift: the second half ran {:+.0%} of the first; let it warm up or cool down".format(drift))
    reasons += sensors.problems() + power_problems(state_before, state_after, protocol.sensors or {})
    if parity["lost"]:
        reasons.append("parity lost: the golden vectors no longer come out; what was timed is not what was audited")
    pace = None
    if protocol.pace_fps is not None:
        pace = {"fps": protocol.pace_fps, "late": times.late, "late_share": times.late / len(times.took)}
    power = _power(protocol, sensors, begin, end, len(times.took), reasons)
    spec = perturber.manifest.input
    return dict(
        _facts(perturber),
        schema=SCHEMA,
        input_shape=list(spec.shape),
        input_values=int(np.prod(spec.shape)),
        first_ms=first.took[0] * 1e3,
        latency_ms=latency.figures(times),
        interpreter_ms=bare,
        fps=len(times.took) / times.seconds(),
        whole_loop=loop,
        count=len(times.took),
        seconds=times.seconds(),
        began_unix=begin,
        warm_up=warm,
        windows=latency.windows(times, max(WINDOWS, int(times.seconds() / WINDOW_S))),
        drift=drift,
        pace=pace,
        sustained=protocol.sustained,
        sensors=sensors.samples,
        power_state={"before": state_before, "after": state_after},
        power=power,
        parity=parity,
        cpu_ratio=cpu_ratio,
        load=load_before,
        peak_rss_bytes=machine.peak_rss_bytes(),
        steady_rss_bytes=steady_rss,
        machine=machine.facts(),
        verdict="INVALID" if reasons else "VALID",
        reasons=reasons,
    )


def synthetic_frames(spec: Input, count: int = 16) -> List[RawFrame]:
    """Random samples over the whole range of the manifest's ``input``; the same ones every time."""
    rng = np.random.RandomState(0)
    # Without a range, values from 0 to 1 will do: the time does not depend on them.
    low, high = (np.asarray(0.0 if spec.low is None else spec.low), np.asarray(1.0 if spec.high is None else spec.high))
    dtype = np.dtype(spec.dtype)
    frames = []
    for index in range(count):
        data = low + rng.random_sample(spec.shape) * (high - low)
        frames.append(RawFrame((np.rint(data) if dtype.kind in "iu" else data).astype(dtype), index))
    return frames


def _perturb(perturber: Perturber, frames: List[RawFrame]) -> Callable[[int], None]:
    def call(turn: int) -> None:
        try:
            perturber.perturb(frames[turn % len(frames)])
        except FrameDropped as drop:
            reason = drop.reason
        else:
            return
        raise DeviceFailed("a synthetic frame was dropped ({}): this artefact does not run here".format(reason))

    return call


def _interpreters(perturber: Perturber) -> Callable[[int], None]:
    rng = np.random.RandomState(0)
    calls = [perturber.pipeline.runners[name].bare_call(rng) for name in _runs(perturber.manifest)]

    def call(_turn: int) -> None:
        for one in calls:
            one()

    return call


def _runs(manifest: Manifest) -> List[str]:
    """The model of every artefact stage, in order: a model used twice costs twice."""
    return [stage.model for stage in manifest.stages if stage.stage == "artefact"]


def _loop_rate(perturber: Perturber, frames: List[RawFrame], seconds: float) -> Optional[Dict[str, Any]]:
    if seconds <= 0:
        return None
    from edgeveil.edge_runtime.bench import loop_rate

    return loop_rate.measure(perturber, frames, seconds)


def _parity(perturber: Perturber) -> Dict[str, Any]:
    lost = False
    try:
        perturber.recheck()
    except PrivacyStop:
        lost = True
    return {"max_abs": perturber.info["self_test"]["max_abs"], "lost": lost}


def _power(
    protocol: Protocol, sensors: Sensors, begin: float, end: float, count: int, reasons: List[str]
) -> Optional[Dict[str, Any]]:
    """Watts and joules a frame, or None: not measured. A bad meter file adds a reason instead."""
    if protocol.meter is not None:
        try:
            measured = energy(protocol.meter, begin, end)
        except BadInput as error:
            reasons.append(str(error))
            return None
        return {"from": "meter", "watts": measured["watts"], "joules_a_frame": measured["joules"] / count}
    watts = sensors.power_w()
    if watts is None:
        return None
    return {"from": "sensor", "watts": watts, "joules_a_frame": watts * (end - begin) / count}


def _too_short_or_busy(protocol: Protocol, times: latency.Times, cpu_ratio: float, load: Optional[float]) -> List[str]:
    cores = os.cpu_count() or 1
    reasons = []
    passed = times.seconds() if protocol.pace_fps is None else times.began[-1] + times.took[-1]
    if len(times.took) < LEAST_COUNT or passed < LEAST_SECONDS:
        reasons.append(
            "too short: {} frames in {:.2f} s; the least is {} in {:g} s".format(
                len(times.took), times.seconds(), LEAST_COUNT, LEAST_SECONDS
            )
        )
    # At a camera's pace the process sleeps between frames, and has no core of its own.
    if protocol.pace_fps is None and cpu_ratio < LEAST_CPU:
        reasons.append("busy: this process had {:.0%} of a core; stop other programs".format(cpu_ratio))
    if load is not None and load > MOST_LOAD * cores:
        reasons.append("busy: load {:.1f} on {} cores before the start; stop other programs".format(load, cores))
    return reasons


def _facts(perturber: Perturber) -> Dict[str, Any]:
    models = perturber.manifest.models
    hashes = sorted(perturber.info["artefact_sha256"].items())
    infos = [info for _, info in sorted(perturber.info["backends"].items())]
    placements = [(name, runner.placement()) for name, runner in sorted(perturber.pipeline.runners.items())]
    macs = sum(models[name].macs for name in _runs(perturber.manifest))
    return {
        "bundle": {"name": perturber.info["name"], "manifest_sha256": perturber.info["manifest_sha256"]},
        "artefact": perturber.artefact,
        # Of a pipeline with several networks, this is the first; "artefacts" has all.
        "artefact_sha256": hashes[0][1] if hashes else None,
        "artefacts": dict(hashes),
        "backend": infos[0]["backend"] if infos else "numpy",
        "backend_version": infos[0]["version"] if infos else np.__version__,
        "threads": infos[0]["threads"] if infos else 1,
        "ran_on": [dict(model=name, **{key: one[key] for key in RAN_ON}) for name, one in placements],
        "versions": {
            "edge_runtime": __version__,
            "numpy": np.__version__,
            "driver": placements[0][1]["driver"] if placements else "not applicable",
            "compiler": placements[0][1]["compiler"] if placements else "not applicable",
        },
        "macs": macs,
        "flops": 2 * macs,
        "parameters": sum(model.parameters for model in models.values()),
    }
