"""What ``edgeveil estimate`` says of networks that others measured on its boards and that its table does not have.

They were looked for after the regression was settled, and nothing was fitted to them. Records
docs/results/bench/not-in-table.json, and writes its table in docs/results/estimator.md. Takes seconds.
"""

from pathlib import Path
from typing import Any

from edgeveil.devices.latency.calibration import published
from edgeveil.devices.latency.estimate import SHARE, Network, estimate
from edgeveil.devices.latency.regression import Regression
from edgeveil.trainer.report.bench import write_guide
from scripts.reproduce import record

RESULT = Path("docs/results/bench/not-in-table.json")
GUIDE = Path("docs/results/estimator.md")
IDEIN = "github.com/Idein/aicast_jetson_benchmark: trtexec, JetPack 4.6.1"
QENGINEERING = "github.com/Qengineering/YoloV8-TensorRT-Jetson_Nano: rate of the inference alone"
# Thousand million floating-point operations, two for a MAC, and million parameters, at 640 x 640.
COSTS = {
    "yolox_s_leaky": (26.8, 9.0, "Megvii's YOLOX, README"),
    "yolov8n": (8.9, 3.1572, "Ultralytics yolov8.yaml"),
    "yolov8s": (28.8, 11.16656, "Ultralytics yolov8.yaml"),
}
MEASURED = [
    ("yolox_s_leaky", "jetson-nano/tensorrt", "fp32", 153.3, IDEIN),
    ("yolox_s_leaky", "jetson-nano/tensorrt", "fp16", 93.7, IDEIN),
    ("yolov8n", "jetson-nano/tensorrt", "fp16", 1000 / 19, QENGINEERING),
    ("yolov8s", "jetson-nano/tensorrt", "fp16", 1000 / 9.25, QENGINEERING),
]


def rows() -> list[dict[str, Any]]:
    """Each measurement with the estimate. Raises ``ValueError`` for one that the table has."""
    table = published()
    there = {(row.group, row.model, row.precision) for row in table}
    model, found = Regression(table), []
    for name, group, precision, ms, source in MEASURED:
        if (group, name, precision) in there:
            raise ValueError(f"{name} on {group} is in the table")
        gflops, millions, cost_from = COSTS[name]
        network = Network(name, gflops * 1e9 / 2, 0.0, millions * 1e6, 3 * 640 * 640)
        said = estimate(network, group, precision, model)
        row = {"network": name, "group": group, "precision": precision, "measured_fps": round(1000 / ms, 3)}
        row |= {"source": source, "cost_from": cost_from, "far": said.far, "refused": said.refused}
        row |= {key: getattr(said, key) and round(getattr(said, key), 3) for key in ("fps_low", "fps", "fps_high")}
        found.append(row)
    return found


def main() -> int:
    """Estimate, and record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    options = script.parse_args()
    document = {"what": "estimates of networks that the table does not have", "share": SHARE, "rows": rows()}
    record.write(options.out, script.path, document)
    if options.out == RESULT:
        write_guide(RESULT.parent, GUIDE)
    return 0


if __name__ == "__main__":
    record.run(main)
