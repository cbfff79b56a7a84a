"""Measured latencies, published and of your own boards: the rows that an estimate is based on.

``published.csv`` was written by ``scripts/reproduce/estimator/count.py`` at commit baecb1ef;
docs/reference/benchmarks.md explains its columns and their pitfalls.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, reason

_TABLE = Path(__file__).parent / "published.csv"
_SAME = {"resnet50_v1": "resnet50"}  # one network under two names: leaving it out must leave out both
BENCH_SCHEMAS = (2, 3)  # the keys used here are the same in both
_PRECISIONS = {"float32": "fp32", "float16": "fp16"}


@dataclass(frozen=True)
class Row:
    """One measured latency. ``group`` is the board and what runs networks on it: ``raspberry-pi-4/tflite``."""

    group: str
    precision: str  # int8, fp16, fp32
    model: str
    input: str
    latency_ms: float
    macs: float
    depthwise_macs: float
    parameters: float
    input_values: float
    threads: float  # 0 where it does not apply
    source: str
    cost_from: str
    usb: str = ""  # "2" or "3" where the accelerator is on USB
    detector: bool = False  # ends in decoding and suppressing boxes, which run on the host's processor

    @property
    def runtime(self) -> str:
        """What runs networks there: edgetpu, tensorrt, tflite, ..."""
        return self.group.partition("/")[2]

    def describe(self) -> str:
        """The row for people."""
        threads = f", {self.threads:g} threads" if self.threads else ""
        where = f"{self.precision} on {self.group}{threads}"
        return f"{self.model} {self.input} {where}: {self.latency_ms:g} ms ({self.source})"


def published(path: Path = _TABLE) -> list[Row]:
    """The rows that have a latency and MACs, in the file's order. Raises ``BadInput`` for an invalid table."""
    rows = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                if line["latency_ms"] and line["macs"] and line["device"] and line["runtime"]:
                    rows.append(_row(line))
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise BadInput(
            f"{path} is not a calibration table: {reason(error)}. docs/reference/benchmarks.md names its columns."
        ) from None
    for row in rows:
        if row.latency_ms <= 0 or row.macs <= 0:
            raise BadInput(f"{path}: a latency and MACs above 0 were expected; got {row.describe()}.")
    return rows


def _row(line: Mapping[str, str]) -> Row:
    cpu = line["runtime"] in ("tflite", "ncnn", "tensorflow", "framework", "tf-trt")
    default = 4.0 if cpu else 0.0  # these boards have four cores; sources that do not name the threads used all of them
    note = line["note"] + line["published_device"]
    return Row(
        group=f"{line['device']}/{line['runtime']}",
        precision=line["precision"],
        model=_SAME.get(line["model"], line["model"]),
        input=line["input"],
        latency_ms=float(line["latency_ms"]),
        macs=float(line["macs"]),
        depthwise_macs=float(line["depthwise_macs"] or 0),
        parameters=float(line["parameters"]),
        input_values=float(line["input_values"]),
        threads=float(line["threads"] or default) if cpu else 0.0,
        source=line["source"],
        cost_from=line["cost_from"],
        usb="2" if "USB2" in note else "3" if "USB" in note or "NCS" in note else "",
        detector=line["model"].startswith(("ssd", "tiny_yolo", "yolo", "efficientdet")),
    )


def precision_of(artefact: str) -> str:
    """The precision of an artefact as rows spell it: fp32 of ``onnx-float32``."""
    name = artefact.split("-")[1]
    return _PRECISIONS.get(name, name)


def measured(paths: Iterable[Path]) -> list[Row]:
    """Your own results, as files of ``edgeveil-edge bench --json``. Raises ``BadInput`` for any other file.

    The group is the name of the board, or of its processor, and the backend. An INVALID result is refused: it must not
    be quoted.
    """
    rows = []
    for path in paths:
        try:
            document = json.loads(path.read_text())
            schema = document.get("schema")
        except (OSError, ValueError, AttributeError) as error:
            raise BadInput(f"A result of edgeveil-edge bench --json was expected in {path}: {reason(error)}.") from None
        if schema not in BENCH_SCHEMAS or "latency_ms" not in document:
            raise BadInput(
                f"{path}: a bench result of schema 2 or 3 was expected; it says {schema!r}. Run bench again."
            )
        if document["verdict"] != "VALID":
            raise BadInput(f"{path} is INVALID ({'; '.join(document['reasons'])}); measure again before it counts.")
        if not document["macs"]:
            raise BadInput(
                f"{path} is of a pipeline without networks, so it cannot be used for other networks. Leave it out."
            )
        rows.append(_of_result(document, path))
    return rows


def _of_result(document: Mapping[str, Any], path: Path) -> Row:
    place = document["machine"]["board"] or document["machine"]["processor"] or document["machine"]["architecture"]
    return Row(
        group=f"{place}/{document['backend']}",
        precision=precision_of(document["artefact"]),
        model=document["bundle"]["name"],
        input="x".join(str(n) for n in document["input_shape"]),
        latency_ms=float(document["latency_ms"]["p50"]),
        macs=float(document["macs"]),
        depthwise_macs=0.0,
        parameters=float(document["parameters"]),
        input_values=float(document["input_values"]),
        threads=float(document["threads"]),
        source=f"measured: {path.name}",
        cost_from="manifest",
    )
