"""How fast a bundle's artefact perturbs here: the model alone, on synthetic frames, with a verdict on the figures."""

import os
import time
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from edge_runtime import machine
from edge_runtime.errors import BadInput, DeviceFailed, FrameDropped
from edge_runtime.frames import RawFrame
from edge_runtime.perturber import Perturber

LEAST_COUNT = 100  # for a p99 that is more than the largest value
LEAST_SECONDS = 1.0
MOST_DRIFT = 0.10  # of the median, between the halves of the run
LEAST_CPU = 0.90  # of one core's time: below, something else had it
MOST_LOAD = 1.5  # runnable tasks a core when the run starts


def bench(
    perturber: Perturber,
    *,
    min_count: int = 300,
    min_seconds: float = 2.0,
    warm_up_count: int = 30,
    warm_up_seconds: float = 0.5,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.process_time,
    load: Callable[[], Optional[float]] = machine.load,
) -> Dict[str, Any]:
    """The document of ``docs/schemas/bench.schema.json``, as a dict.

    Times ``Perturber.perturb`` on random readings, one at a time, until ``min_count`` frames *and* ``min_seconds``
    of them have passed, after a warm-up of the same kind; then the interpreters alone, on random numbers in their own
    form. ``verdict`` is ``"VALID"``, or ``"INVALID"`` with ``reasons``: then the figures are not to be quoted.
    Raises ``BadInput`` for floors below 1 frame or 0 s, ``DeviceFailed`` where a synthetic frame is dropped.
    """
    if min_count < 1 or min_seconds < 0:
        raise BadInput("expected at least 1 frame and 0 seconds; got {} and {}".format(min_count, min_seconds))
    frames = synthetic_frames(perturber.manifest["input"])
    load_before = load()
    _series(_perturb(perturber, frames), warm_up_count, warm_up_seconds, clock)
    cpu_before, wall_before = cpu_clock(), clock()
    times = _series(_perturb(perturber, frames), min_count, min_seconds, clock)
    cpu_ratio = (cpu_clock() - cpu_before) / max(clock() - wall_before, 1e-9)
    bare = None
    if perturber.pipeline.runners:
        call = _interpreters(perturber)
        _series(call, warm_up_count, warm_up_seconds, clock)
        bare = _figures(_series(call, min_count, min_seconds, clock))
    drift = _drift(times)
    reasons = _reasons(times, drift, cpu_ratio, load_before)
    return dict(
        _facts(perturber),
        schema=1,
        latency_ms=_figures(times),
        interpreter_ms=bare,
        fps=len(times) / sum(times),
        count=len(times),
        seconds=sum(times),
        warm_up={"count": warm_up_count, "seconds": warm_up_seconds},
        drift=drift,
        cpu_ratio=cpu_ratio,
        load=load_before,
        peak_rss_bytes=machine.peak_rss_bytes(),
        machine=machine.facts(),
        verdict="INVALID" if reasons else "VALID",
        reasons=reasons,
    )


def synthetic_frames(spec: Dict[str, Any], count: int = 16) -> List[RawFrame]:
    """Random readings over the whole range of the manifest's ``input``; the same ones every time."""
    rng = np.random.RandomState(0)
    # Without a range, readings between 0 and 1 will do: time does not depend on them.
    low, high = (np.asarray(0.0 + at if spec[end] is None else spec[end]) for at, end in enumerate(("low", "high")))
    dtype = np.dtype(spec["dtype"])
    frames = []
    for index in range(count):
        data = low + rng.random_sample(tuple(spec["shape"])) * (high - low)
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


def _runs(manifest: Dict[str, Any]) -> List[str]:
    """The model of every artefact stage, in order: one that is used twice costs twice."""
    return [stage["model"] for stage in manifest["stages"] if stage["stage"] == "artefact"]


def _series(call: Callable[[int], None], count: int, seconds: float, clock: Callable[[], float]) -> List[float]:
    """The seconds each call took, until both floors are reached."""
    times: List[float] = []
    total = 0.0
    while len(times) < count or total < seconds:
        start = clock()
        call(len(times))
        times.append(clock() - start)
        total += times[-1]
    return times


def _figures(times: List[float]) -> Dict[str, float]:
    ms = np.asarray(times) * 1e3
    p50, p90, p99 = np.percentile(ms, [50, 90, 99]).tolist()
    return {
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "mean": float(ms.mean()),
        "min": float(ms.min()),
        "max": float(ms.max()),
    }


def _drift(times: List[float]) -> float:
    half = len(times) // 2
    first, second = np.median(times[:half] or times), np.median(times[half:])
    return float(second / first - 1)


def _reasons(times: List[float], drift: float, cpu_ratio: float, load: Optional[float]) -> List[str]:
    cores = os.cpu_count() or 1
    reasons = []
    if len(times) < LEAST_COUNT or sum(times) < LEAST_SECONDS:
        reasons.append(
            "too short: {} frames in {:.2f} s, and {} in {:g} s are the least".format(
                len(times), sum(times), LEAST_COUNT, LEAST_SECONDS
            )
        )
    if abs(drift) > MOST_DRIFT:
        reasons.append("drift: the second half ran {:+.0%} of the first; let it warm up or cool down".format(drift))
    if cpu_ratio < LEAST_CPU:
        reasons.append("busy: this process had {:.0%} of a core; end what else runs".format(cpu_ratio))
    if load is not None and load > MOST_LOAD * cores:
        reasons.append("busy: load {:.1f} on {} cores before the start; end what else runs".format(load, cores))
    return reasons


def _facts(perturber: Perturber) -> Dict[str, Any]:
    models = perturber.manifest["models"]
    hashes = sorted(perturber.info["artefact_sha256"].items())
    infos = [info for _, info in sorted(perturber.info["backends"].items())]
    macs = sum(models[name]["macs"] for name in _runs(perturber.manifest))
    return {
        "bundle": {"name": perturber.info["name"], "manifest_sha256": perturber.info["manifest_sha256"]},
        "artefact": perturber.artefact,
        # One network is the rule; the others of a pipeline with several stand in "artefacts".
        "artefact_sha256": hashes[0][1] if hashes else None,
        "artefacts": dict(hashes),
        "backend": infos[0]["backend"] if infos else "numpy",
        "backend_version": infos[0]["version"] if infos else np.__version__,
        "threads": infos[0]["threads"] if infos else 1,
        "macs": macs,
        "flops": 2 * macs,
        "parameters": sum(model["parameters"] for model in models.values()),
    }
