"""The shipped mechanisms on vectors and categories of any number of devices, through the board's own pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Stage, parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages.mechanism import excess
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.measures import exact_law
from edgeveil.trainer.perturbers import local
from edgeveil.trainer.perturbers.local import Local
from edgeveil.trainer.runs.fitted import FittedPerturber, decoded, preprocess_stage

BATCH = 4096


def sent(stages: Sequence[Mapping[str, Any]], categories: np.ndarray) -> np.ndarray:
    """The board's reports of categories (n,), of a mechanism's ``stages``: with the system's noise, of any domain."""
    *draws, stage = stages
    flow = {one["output"]: kind_of(one).drawing(Stage(one))((len(categories), *one["shape"])) for one in draws}
    flow[stage["input"]] = categories
    exact_law.shipped(stage, draws)(flow)
    return np.asarray(flow[stage["output"]])


def cube(d: int) -> InputSpec:
    """Vectors of d values from -1 to 1."""
    return InputSpec("vector", (d,), "float32", (-1.0,) * d, (1.0,) * d)


class Vectors:
    """One mechanism at one alpha: ``reports`` are what devices send, ``estimates`` what a collector reads from each."""

    def __init__(self, mechanism: str, d: int, alpha: float, *, radius: float = 1.0) -> None:
        section = Local(kind="local", of="reading", mechanism=mechanism, epsilon=alpha, radius=radius)  # type: ignore[arg-type]
        self.fitted = local.reading(section, cube(d))
        self._pipeline = pipeline(self.fitted)
        self._decoder = self.fitted.tables[local.DECODER]

    def reports(self, x: np.ndarray) -> np.ndarray:
        """The reports (n, places) of vectors x (n, d)."""
        x = x.astype(np.float32)
        pieces = [self._pipeline.run(x[at : at + BATCH])["report"] for at in range(0, len(x), BATCH)]
        return np.concatenate(pieces)

    def estimates(self, x: np.ndarray) -> np.ndarray:
        """Unbiased estimates (n, d) of vectors x (n, d), each from its own report; float32."""
        return decoded(self.reports(x), self._decoder)


def pipeline(fitted: FittedPerturber) -> Pipeline:
    """The board's pipeline of a perturber without a network."""
    return Pipeline(parse(fitted.description()), tables=dict(fitted.tables), runners={})


class Categories:
    """One mechanism at one alpha for k categories."""

    def __init__(self, mechanism: str, k: int, alpha: float) -> None:
        self.made = local.of_category(mechanism, "category", k, alpha)
        spec, self._k, self._alpha = cube(k), k, alpha
        argmax = {"stage": "table", "op": "argmax", "input": "u", "output": "category"}
        self.fitted = local.reported(spec, (preprocess_stage(spec), argmax), self.made)
        self._pipeline = pipeline(self.fitted)

    def reports(self, category: np.ndarray) -> np.ndarray:
        """The reports of categories (n,)."""
        eye = np.eye(self._k, dtype=np.float32)
        pieces = [self._pipeline.run(eye[category[at : at + BATCH]])["report"] for at in range(0, len(category), BATCH)]
        return np.concatenate(pieces)

    def shares(self, category: np.ndarray) -> np.ndarray:
        """The estimated share (k,) of each category among these (n,), from a report of each."""
        reports = self.reports(category)
        if self.made.slope is not None and self.made.offset is not None:
            return reports.mean(axis=0) @ self.made.slope + self.made.offset
        if self.made.tables is not None:
            row = self.made.tables["response"][0].astype(np.float64) / 2**32
            return (np.bincount(reports, minlength=self._k) / len(reports) - row[1]) / (row[0] - row[1])
        (truth,) = (one for one in self.made.stages if one.get("distribution") == "coin")
        # H[row, i] = (-1)^(ones in row & i)
        signs = 1 - 2 * (np.bitwise_count((reports >> 1)[:, None] & np.arange(self._k)) % 2).astype(np.int64)
        return ((2 * (reports & 1) - 1)[:, None] * signs).mean(axis=0) / excess(truth["numerator"])
