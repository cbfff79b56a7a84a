"""The shipped mechanisms on categories of any number of devices, through the board's own stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Stage, parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.measures import exact_law
from edgeveil.trainer.perturbers import local
from edgeveil.trainer.runs.fitted import preprocess_stage


def sent(stages: Sequence[Mapping[str, Any]], categories: np.ndarray) -> np.ndarray:
    """The board's reports of categories (n,), of a mechanism's ``stages``: with the system's noise, of any domain."""
    *draws, stage = stages
    flow = {one["output"]: kind_of(one).drawing(Stage(one))((len(categories), *one["shape"])) for one in draws}
    flow[stage["input"]] = categories
    exact_law.shipped(stage, draws)(flow)
    return np.asarray(flow[stage["output"]])


def reports(mechanism: str, k: int, alpha: float, categories: np.ndarray) -> np.ndarray:
    """The reports of categories (n,) below k, by the pipeline of one mechanism's bundle."""
    spec = InputSpec("vector", (k,), "float32", (-1.0,) * k, (1.0,) * k)
    argmax = {"stage": "table", "op": "argmax", "input": "u", "output": "category"}
    made = local.of_category(mechanism, "category", k, alpha)
    fitted = local.reported(spec, (preprocess_stage(spec), argmax), made)
    pipeline = Pipeline(parse(fitted.description()), tables=dict(fitted.tables), runners={})
    return np.asarray(pipeline.run(np.eye(k, dtype=np.float32)[categories])["report"])
