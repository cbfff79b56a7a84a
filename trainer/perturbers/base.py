"""What a perturber is fitted for, and the stages of one that is a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.recipe.training_sections import Classifiers, Limits
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage


@dataclass(frozen=True)
class Goal:
    """What x' must keep and hide: the classifiers D_y and D_z, and the recipe's limits.

    ``target`` and ``sensitive`` are Keras models from the unit cube to logits, None for kinds that use neither.
    ``classifiers`` are the settings of their training, for a kind that trains a classifier of its own; ``private`` is
    the privacy promised to the people behind the data, None without a promise. ``error`` is the probability
    with which its certificate may be wrong.
    """

    limits: Limits
    classifiers: Classifiers
    target: Any = None
    sensitive: Any = None
    private: Private | None = None
    error: float = 0.05


def as_perturber(
    spec: InputSpec, network: Any, *, kind: str, model: str = "generator", identity_allowed: bool = False
) -> FittedPerturber:
    """A network from u to ``output`` as a perturber: preprocess, draw noise if it takes any, run, back to raw samples.

    The network's first input is u, a second one uniform noise. An output ``code`` becomes the tensor ``c``.
    """
    first, *noise = network.inputs
    inputs, draws = {first.name: "u"}, []
    for drawn in noise:
        inputs[drawn.name] = "noise"
        draws.append({"stage": "draw", "distribution": "uniform", "output": "noise", "shape": [int(drawn.shape[1])]})
    outputs = {"output": "v"} | ({"code": "c"} if "code" in network.output_names else {})
    artefact = {"stage": "artefact", "model": model, "inputs": inputs, "outputs": outputs}
    return FittedPerturber(
        kind=kind,
        input=spec,
        stages=(preprocess_stage(spec), *draws, artefact, output_stage(spec)),
        outputs=(frame_output(spec),),
        models={model: network},
        identity_allowed=identity_allowed,
    )
