"""What clipping example by example costs a training step: time and memory beside a plain step.

Records docs/results/dp/clipped-sums.json. Each network has a process of its own. Plain and clipped steps take turns, at
lots of 512, so that other work on the machine meets both alike; seconds are by the clock and by the processor, of all
its threads. ``mapped`` is one gradient for each example by tf.vectorized_map, in another process. Memory is the peak of
the whole process, TensorFlow and data among it, after clipped steps and before any step.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from scripts.reproduce import record

RESULT = Path("docs/results/dp/clipped-sums.json")
LOT, CLASSES, CODES, FEATURES = 512, 2, 32, 128
NETWORKS = ("encoder", "small", "vectors")
MOST_RATIO, MOST_GB = 3.0, 1.2
BUSY = "other work ran on the machine; steps took turns, and only their ratio is judged"


def network(name: str) -> Any:
    """A codebook's encoder and the small classifier, of MNIST's pictures; Table 1's network, of WiFi fingerprints."""
    from edgeveil.models import classifiers, encoders

    if name == "vectors":
        return classifiers.table1_wifi(520, CLASSES)
    if name == "small":
        return classifiers.small((28, 28, 1), CLASSES, width=16)
    trunk = encoders.image_trunk((28, 28, 1), width=16, features=FEATURES)
    heads = encoders.label_head(FEATURES, CLASSES), encoders.code_head(FEATURES, CLASSES, CODES)
    return encoders.encoder(trunk, *heads)


def measured(name: str, way: str, times: int) -> dict[str, Any]:
    """Medians of both kinds of step, the clipped one by its ``way``: "formula" or "mapped"."""
    import tensorflow as tf

    from edgeveil.trainer.private.per_example import Clipped

    model, rng = network(name), np.random.default_rng(0)
    x = tf.constant(rng.random((LOT, *model.input_shape[1:])), tf.float32)
    labels = tf.constant(rng.integers(0, CLASSES, LOT), tf.int32)
    clipped = Clipped(model)
    clipped.by_formula = clipped.by_formula and way == "formula"

    def loss(outputs: Any, of: Any) -> Any:
        parts = outputs if isinstance(outputs, list | tuple) else [outputs]
        return tf.add_n([tf.nn.sparse_softmax_cross_entropy_with_logits(of, one) for one in parts])

    @tf.function
    def plain() -> Any:
        with tf.GradientTape() as tape:
            total = tf.reduce_mean(loss(model(x, training=False), labels))
        return tape.gradient(total, clipped.weights)

    @tf.function
    def by_example() -> Any:
        return clipped.sums(x, labels, loss, 1.0, tf.ones(LOT))[0]

    before = _peak()
    seconds: dict[str, list[tuple[float, float]]] = {"plain": [], "clipped": []}
    _timed(by_example)  # the first calls trace
    _timed(plain)
    for _ in range(times):
        seconds["plain"].append(_timed(plain))
        seconds["clipped"].append(_timed(by_example))
    found = {kind: np.array(each) for kind, each in seconds.items()}
    # The ratio of neighbours in time, and of those the median.
    ratios = np.median(found["clipped"] / found["plain"], axis=0)
    medians = {
        kind: dict(zip(("clock", "processor"), map(float, np.median(each, axis=0)), strict=True))
        for kind, each in found.items()
    }
    return {
        "network": name,
        "way": way,
        "by_formula": clipped.by_formula,
        "weights": int(sum(np.prod(weight.shape) for weight in clipped.weights)),
        "times": times,
        "seconds": medians,
        "ratio": {"clock": float(ratios[0]), "processor": float(ratios[1])},
        "peak_gb": {"before": before, "after": _peak()},
    }


def _timed(step: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of one step by the clock and by the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    for one in step():
        one.numpy()
    return time.perf_counter() - clock, time.process_time() - processor


def _peak() -> float:
    """The largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> int:
    """Measure all networks, and write the record; 3 where a limit is not met."""
    script = record.Script(__file__, __doc__, "--times 5", out=RESULT)
    script.add_argument("--times", type=int, default=30, help="steps of each kind (default: 30)")
    asked = script.parse_args()
    if asked.times < 3:
        script.error(f"3 steps or more were expected, for a median; came {asked.times}")
    rows = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        for name in NETWORKS:
            for way, times in (("formula", asked.times), ("mapped", 3)):
                rows.append(pool.submit(measured, name, way, times).result())
                print(rows[-1], flush=True)
    ours = [row for row in rows if row["way"] == "formula"]
    held = {
        "by_formula": all(row["by_formula"] for row in ours),
        "ratio": max(row["ratio"]["processor"] for row in ours) <= MOST_RATIO,
        "memory": max(row["peak_gb"]["after"] for row in ours) <= MOST_GB,
    }
    limits = {"ratio": MOST_RATIO, "peak_gb": MOST_GB}
    document = {**record.here(), "lot": LOT, "rows": rows, "limits": limits, "held": held, "load": BUSY}
    record.write(asked.out, script.made_by(asked), document)
    return 0 if all(held.values()) else 3


if __name__ == "__main__":
    record.run(main)
