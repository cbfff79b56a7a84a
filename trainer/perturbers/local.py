"""Locally private reports (paper 002, Definition 3): of a vector, of the class that D_y predicts, or of a code.

One report tells little of anything, whoever reads it; a collector who gets many estimates means and shares from them.
So that a run can be judged, and a receiver has a sample, a report ships with a decoder: x~ of a vector is unbiased, and
x~ of a class or code is made of mean pictures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages.mechanism import REPORT, Design, held
from edgeveil.edge_runtime.stages.preprocess import to_raw
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.perturbers import mechanism_stages
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.perturbers.codebook import fit as codebook
from edgeveil.trainer.perturbers.codebook import stream_codes
from edgeveil.trainer.perturbers.label_only import class_of
from edgeveil.trainer.recipe.perturber import Local
from edgeveil.trainer.recipe.training_sections import Budget
from edgeveil.trainer.runs.fitted import FittedPerturber, preprocess_stage
from edgeveil.trainer.runs.run import Log

DECODER = "decoder"


def fit(
    section: Local, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
) -> FittedPerturber:
    """The mechanism that the recipe asks for, behind what it reports. Raises ``BadInput`` where the data do not fit."""
    if section.of == "reading":
        fitted = reading(section, dataset.input)
    elif section.codebook is None:
        fitted = _label(section, dataset, goal.target)
    else:
        learned = codebook.fit(section.codebook, dataset, goal=goal, rng=rng, budget=budget, log=log)
        fitted = _code(section, dataset, learned, len(dataset.y_names) * section.codebook.codes)
    log.record(local={"of": section.of, "mechanism": _name(fitted), "report": fitted.outputs[0]["shape"]})
    return fitted


def _name(fitted: FittedPerturber) -> str:
    reports = [kind for stage in fitted.stages if (kind := kind_of(stage)).reports and kind.mechanism]
    return reports[-1].mechanism


def reading(section: Local, spec: InputSpec) -> FittedPerturber:
    """A vector's report, with the decoder of its unbiased x~. Raises ``BadInput`` for pictures."""
    if spec.kind != "vector":
        raise BadInput(
            f'`perturber.of`: "reading" is for vectors; these are pictures of shape {spec.shape}: take of = "label".'
        )
    if "radius" not in mechanism_stages.named("mean")[section.mechanism].fields:
        spec = within(spec, section.radius)
    low, high = np.asarray(spec.low, np.float64), np.asarray(spec.high, np.float64)
    made = mechanism_stages.of_vector(section.mechanism, "u", spec.shape[0], section.epsilon, radius=section.radius)
    decoder = made.decoder(np.diag((high - low) / 2), (high + low) / 2)
    return reported(spec, (preprocess_stage(spec),), made, decoder=decoder)


def within(spec: InputSpec, radius: float) -> InputSpec:
    """The range shrunk (or widened) around its middle, so that ``radius`` half ranges are its ends."""
    low, high = np.asarray(spec.low, np.float64), np.asarray(spec.high, np.float64)
    half, middle = radius * (high - low) / 2, (high + low) / 2
    return replace(spec, low=tuple((middle - half).tolist()), high=tuple((middle + half).tolist()))


def _label(section: Local, dataset: Dataset, model: Any) -> FittedPerturber:
    """The predicted class's report; its pictures are the class means of the second slice."""
    part, classes = dataset.part("perturber"), len(dataset.y_names)
    u = dataset.unit(part.x)
    means = np.stack([u[part.y == label].mean(axis=0) for label in range(classes)])[:, None]
    made = _of_category(section, "predicted", classes)
    fitted = reported(
        dataset.input, class_of(dataset.input, model, "predicted"), made, **_pictures(dataset, made, means)
    )
    return replace(fitted, models={"classifier": model}, stream=_stream(section))


def _code(section: Local, dataset: Dataset, fitted: FittedPerturber, codes: int) -> FittedPerturber:
    """The report of a codebook's code; its pictures are the codebook's own."""
    until = next(place for place, stage in enumerate(fitted.stages) if stage.get("output") == "code")
    table = fitted.tables["pictures"]
    pictures = table.reshape(codes, -1, *table.shape[1:])
    if table.dtype.kind in "iu":  # whole samples already
        pictures = dataset.unit(pictures).reshape(pictures.shape)
    made = _of_category(section, "code", codes)
    told = reported(dataset.input, fitted.stages[: until + 1], made, **_pictures(dataset, made, pictures))
    return replace(told, models=fitted.models, substituted=fitted.substituted, stream=_stream(section))


def _of_category(section: Local, input_: str, k: int) -> Design:
    made = mechanism_stages.of_category(section.mechanism, input_, k, section.epsilon, once=section.instantaneous)
    return made if section.hold == "none" or section.instantaneous is not None else held(made)


def _stream(section: Local) -> Mapping[str, Any] | None:
    """The manifest's; the first frame of a track decides."""
    return stream_codes.stream("track:1" if section.hold == "track" else section.hold)


def _pictures(dataset: Dataset, made: Design, pictures: np.ndarray) -> dict[str, np.ndarray | None]:
    """The decoder of categories, of their pictures (k, m, *shape) in the unit cube: of an index, these; of bits, the
    mixture of mean pictures whose shares they estimate; none of Hadamard responses, whose index is not a category."""
    ends = dataset.input.low, dataset.input.high
    if made.slope is None and made.tables:
        return {"decoder": to_raw(dataset.input.dtype, *ends)(pictures.astype(np.float32))}
    means = pictures.mean(axis=1).astype(np.float64)
    raw = np.asarray(dataset.input.low) + means * dataset.input.span
    return {"decoder": made.decoder(raw.reshape(len(raw), math.prod(dataset.input.shape)))}


def reported(
    spec: InputSpec, before: tuple[dict[str, Any], ...], made: Design, *, decoder: np.ndarray | None = None
) -> FittedPerturber:
    """The stages ``before`` and those of the mechanism, and its report as the one output."""
    output = {"name": REPORT, "kind": "code", "tensor": REPORT, "shape": list(made.shape), "dtype": made.dtype}
    tables = dict(made.tables or {})
    if decoder is not None:
        output[DECODER], tables[DECODER] = DECODER, decoder
    return FittedPerturber(kind="local", input=spec, stages=(*before, *made.stages), outputs=(output,), tables=tables)
