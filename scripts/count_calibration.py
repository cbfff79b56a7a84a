"""Write devices/calibration/published.csv: what others measured on boards, with MACs that were counted or published.

Reads a table of published figures (``--from``; its columns are those of the result, less what is added here) and adds,
for each model and input, MACs, depthwise MACs, parameters and the bytes of a frame in and out. Each row says in
``cost_from`` where its MACs come from:

* ``published``: with the figure itself, or by the source named there;
* ``counted``: by our own counter, from the Keras builder of that name or from a network built here after its paper;
* empty: nobody says, and the row cannot carry an estimate; it stays for the record.

Nothing is guessed. ``device``, ``runtime`` and ``precision`` get one spelling beside the one they were published under.
"""

import argparse
import csv
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge_runtime.files import write_atomic

RESULT = Path("devices/calibration/published.csv")
DROPPED = ("gflops_2xmac", "gmacs", "mparams", "effective_gflops", "fps", "published_as")
# published spelling -> the board, and what the interpreter runs on there
DEVICES = {
    r"Jetson Nano": "jetson-nano",
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
# Of networks that only publish a total: whether most convolutions have a depthwise half. Their share is taken from
# the counted MobileNets, EfficientNet or 0, by the backbone the model is named after.
BACKBONES = {"mobilenet_v1": "mobilenet_v1_1.0", "mobilenet_v2": "mobilenet_v2_1.0", "efficient": "efficientnet_b0"}


def counted(model: str, height: int, width: int) -> Any | None:
    """The ``FullCost`` of a model that a builder gives, at an input of that size; None where none does."""
    import keras

    from trainer.export.cost import keras_cost

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
    built: dict[str, Callable[[], Any]] = {"fcn_resnet18": lambda: fcn_resnet18(shape)}
    if model in applications:
        name, options = applications[model]
        network = getattr(keras.applications, name)(weights=None, input_shape=shape, **options)
    elif model in built:
        network = built[model]()
    else:
        return None
    cost = keras_cost(network)
    keras.backend.clear_session()
    return cost


def fcn_resnet18(shape: tuple[int, int, int]) -> Any:
    """ResNet-18 (He et al. 2015, table 1) with torchvision's FCN head at 1/32: what jetson-inference runs.

    Its issue 704 confirms the grid: 64 x 32 from 2048 x 1024. 21 classes (PASCAL VOC) stand for any of its data sets.
    """
    import keras

    layers = keras.layers

    def conv(h: Any, width: int, size: int, strides: int = 1) -> Any:
        return layers.BatchNormalization()(layers.Conv2D(width, size, strides, "same", use_bias=False)(h))

    image = keras.Input(shape)
    h = layers.MaxPooling2D(3, 2, "same")(layers.ReLU()(conv(image, 64, 7, 2)))
    for width in (64, 128, 256, 512):
        for block in range(2):
            strides = 2 if block == 0 and width > 64 else 1
            left = conv(layers.ReLU()(conv(h, width, 3, strides)), width, 3)
            h = layers.ReLU()(layers.Add()([left, conv(h, width, 1, 2) if strides == 2 else h]))
    return keras.Model(image, layers.Conv2D(21, 1)(layers.ReLU()(conv(h, 128, 3))))


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
    parser = argparse.ArgumentParser(description=__doc__, epilog="Example: scripts/count_calibration.py --from it.csv")
    parser.add_argument("--from", dest="source", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    with options.source.open(newline="") as file:
        rows = completed(list(csv.DictReader(file)))
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
    sys.exit(main())
