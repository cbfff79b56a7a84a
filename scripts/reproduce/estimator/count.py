"""Write devices/published.csv: what others measured on boards, with MACs that were counted or published.

Reads a table of published figures (``--from``; its columns are those of the result, less what is added here) and adds,
for each model and input, MACs, depthwise MACs, parameters and the bytes of a frame in and out. Each row says in
``cost_from`` where its MACs come from:

* ``published``: with the figure itself, or by the source named there;
* ``counted``: by our own counter, from the Keras builder of that name or from a network built here after its paper;
* empty: nobody says, and the row cannot carry an estimate; it stays for the record.

Nothing is guessed. ``device``, ``runtime`` and ``precision`` get one spelling beside the one they were published under.
"""

import csv
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce import record

RESULT = Path("devices/published.csv")
DROPPED = ("gflops_2xmac", "gmacs", "mparams", "effective_gflops", "fps", "published_as")
# published spelling -> the board, and what the interpreter runs on there
DEVICES = {
    r"Jetson Nano.*": "jetson-nano",
    r"Raspberry Pi 3 \+ Intel NCS2": "raspberry-pi-3-ncs2",
    r"Raspberry Pi 3B\+ \+ Coral USB.*": "raspberry-pi-3-coral-usb",
    r"Raspberry Pi 4B? \+ Coral USB.*": "raspberry-pi-4-coral-usb",
    r"Raspberry Pi 5 \+ Coral USB.*": "raspberry-pi-5-coral-usb",
    r"Raspberry Pi 3.*": "raspberry-pi-3",
    r"Raspberry Pi 4.*": "raspberry-pi-4",
    r"Raspberry Pi 5.*": "raspberry-pi-5",
    r"Coral Dev Board CPU.*": "coral-dev-board-cpu",
    r"Coral Dev Board.*": "coral-dev-board",
    r"Coral USB.*": "desktop-coral-usb",
    r"Movidius NCS.*": "desktop-ncs1",
    r"Intel NCS2": "desktop-ncs2",
}
RUNTIMES = {
    r"TensorRT.*": "tensorrt",
    r"TF-TRT": "tf-trt",
    r"TensorFlow": "tensorflow",
    r".*Edge TPU.*": "edgetpu",
    r"OpenVINO": "myriad",
    r"TFLite.*": "tflite",
    r"ncnn": "ncnn",
    r"framework CPU": "framework",
}
# (model, input): MMACs, million parameters, source
PUBLISHED = {
    ("efficientdet_d0", "512x512"): (
        2500.0,
        3.9,
        "EfficientDet paper (arXiv 1911.09070): 2.5B FLOPS, which it says are multiply-adds",
    ),
    ("shufflenet_v2_1.0", "224x224"): (146.0, 2.3, "Megvii's ShuffleNet-Series: 146M FLOPs, which are multiply-adds"),
    ("resnext50_32x4d", "224x224"): (4290.0, 25.03, "thop on torchvision's model (blog.csdn.net 127984916): 4.29 G"),
    **{
        (f"yolov8{size}", f"{side}x{side}"): (
            gflops * 1000 / 2 * (side / 640) ** 2,
            parameters,
            f"Ultralytics yolov8.yaml: {gflops} GFLOPs (2 x MACs) at 640x640; every convolution goes with the area",
        )
        for size, gflops, parameters in (("n", 8.9, 3.1572), ("s", 28.8, 11.16656))
        for side in (320, 512)
    },
}
# Rows beyond those of --from: MMDeploy's benchmark page, TensorRT column "JetsonNano2GB", batch 1.
ADDED = [
    {
        **{"device": "Jetson Nano 2GB", "runtime": "TensorRT 7.2 (MMDeploy)", "model": model, "precision": precision},
        **{"input": "224x224", "latency_ms": ms, "stat": "mean", "source": "MM"},
        **({"gmacs": "4.108", "mparams": "25.53"} if model == "resnet50" else {}),  # as in the other rows of it
    }
    for model, times in (
        ("resnet50", (("fp32", "59.32"), ("fp16", "30.54"))),
        ("resnext50_32x4d", (("fp32", "88.10"), ("fp16", "49.18"))),
        ("shufflenet_v2_1.0", (("fp32", "15.26"), ("fp16", "10.23"))),
    )
    for precision, ms in times
]
# Of networks that only publish a total: whether most convolutions have a depthwise half. Their share is taken from
# the counted MobileNets, EfficientNet or 0, by the backbone the model is named after.
BACKBONES = {
    "shufflenet": "mobilenet_v2_1.0",
    "mobilenet_v1": "mobilenet_v1_1.0",
    "mobilenet_v2": "mobilenet_v2_1.0",
    "efficient": "efficientnet_b0",
}


def counted(model: str, height: int, width: int) -> Any | None:
    """The ``FullCost`` of a model that a builder gives, at an input of that size; None where none does."""
    import keras

    import scripts.reproduce.estimator.networks as networks
    from edgeveil.trainer.graphs.cost import keras_cost

    shape = (height, width, 3)
    applications = {
        "mobilenet_v1_1.0": ("MobileNet", {}),
        "mobilenet_v2_1.0": ("MobileNetV2", {}),
        "densenet": ("DenseNet121", {}),
        "inception_resnet_v2": ("InceptionResNetV2", {}),
        "resnet50": ("ResNet50", {}),
        "resnet50_v1": ("ResNet50", {}),
        "resnet50_v2": ("ResNet50V2", {}),
        "resnet152_v2": ("ResNet152V2", {}),
        "vgg16": ("VGG16", {}),
        "vgg19": ("VGG19", {}),
        "efficientnet_b0": ("EfficientNetB0", {}),
    }
    built: dict[str, Callable[..., Any]] = {
        "fcn_resnet18": networks.fcn_resnet18,
        "fast_scnn": networks.fast_scnn,
        "squeezenet": networks.squeezenet,
        "efficientnet_edgetpu_s": lambda shape: networks.efficientnet_edgetpu(shape, 1.0),
        "efficientnet_edgetpu_m": lambda shape: networks.efficientnet_edgetpu(shape, 1.1),
    }
    if model in applications:
        name, options = applications[model]
        network = getattr(keras.applications, name)(weights=None, input_shape=shape, **options)
    elif model in built:
        network = built[model](shape)
    else:
        return None
    cost = keras_cost(network)
    keras.backend.clear_session()
    return cost


def spelling(table: dict[str, str], text: str) -> str:
    """The one spelling of a published name; empty where nobody has said which."""
    return next((name for pattern, name in table.items() if re.fullmatch(pattern, text)), "")


def precision(row: dict[str, str]) -> str:
    """int8, fp16 or fp32."""
    return next(p for p in ("int8", "fp16", "fp32") if row["precision"].startswith(p))


def completed(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The rows with one spelling of what they are about, and with what can be said of their models' costs."""
    costs: dict[tuple[str, str], Any] = {}
    shares: dict[str, float] = {}
    for name in BACKBONES.values():
        cost = counted(name, 224, 224)
        shares[name] = cost.depthwise_macs / cost.macs
    result = []
    for row in rows:
        key = (row["model"], row["input"])
        if row["model"] == "squeezenet" and row["runtime"] != "ncnn":
            # It has two versions, one twice as costly as the other; ncnn alone says which.
            result.append(_row(row, None, shares))
            continue
        if key not in costs and row["gmacs"]:
            costs[key] = None  # the row itself says
        if key not in costs:
            width, height = (int(n) for n in row["input"].split("x")[:2])
            costs[key] = counted(row["model"], height, width)
            print(f"{key}: {getattr(costs[key], 'macs', None)}", file=sys.stderr)
        result.append(_row(row, costs[key], shares))
    return result


def _row(row: dict[str, str], cost: Any, shares: dict[str, float]) -> dict[str, Any]:
    backbone = next((of for name, of in BACKBONES.items() if name in row["model"]), None)
    share = shares[backbone] if backbone else 0.0
    found = PUBLISHED.get((row["model"], row["input"]))
    macs, parameters, source = "", "", ""
    if row["gmacs"]:
        macs, parameters = round(float(row["gmacs"]) * 1e9), round(float(row["mparams"]) * 1e6)
        source = "published: the Open Model Zoo's page of the model"
    elif cost is not None:
        macs, parameters, source = cost.macs, cost.parameters, "counted"
        share = cost.depthwise_macs / cost.macs
    elif found:
        macs, parameters, source = round(found[0] * 1e6), round(found[1] * 1e6), "published: " + found[2]
    sizes = [int(n) for n in row["input"].split("x")]
    values = sizes[0] * sizes[1] * (sizes[2] if len(sizes) > 2 else 3)
    added = {
        "device": spelling(DEVICES, row["device"]),
        "runtime": spelling(RUNTIMES, row["runtime"]),
        "precision": precision(row),
        "macs": macs,
        "depthwise_macs": round(share * macs) if macs else "",
        "parameters": parameters,
        "input_values": values,
        "cost_from": source,
        "published_device": row["device"],
        "published_runtime": row["runtime"],
        "published_precision": row["precision"],
    }
    kept = {name: value for name, value in row.items() if name not in (*DROPPED, *added)}
    return {**{n: added[n] for n in ("device", "runtime")}, "model": kept.pop("model"), **kept, **added}


def main() -> int:
    """Count, and write the table."""
    script = record.Script(__file__, __doc__, "--from it.csv", out=RESULT)
    script.add_argument("--from", dest="source", type=Path, required=True)
    options = script.parse_args()
    with options.source.open(newline="") as file:
        given = csv.DictReader(file)
        rows = completed([*given, *({**dict.fromkeys(given.fieldnames or (), ""), **row} for row in ADDED)])
    columns = ["device", "runtime", "precision", "threads", "model", "input", "latency_ms", "stat", "macs"]
    columns += ["depthwise_macs", "parameters", "input_values", "cost_from", "source", "note"]
    columns += ["published_device", "published_runtime", "published_precision"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(options.out, text.getvalue().encode())
    usable = sum(1 for row in rows if row["macs"] and row["latency_ms"])
    print(f"{options.out}: {len(rows)} rows, {usable} of them can carry an estimate", file=sys.stderr)
    return 0


if __name__ == "__main__":
    record.run(main)
