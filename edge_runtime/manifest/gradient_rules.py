"""What a ``parameters`` and a ``gradient`` stage of a manifest may say.

``parameters`` are those of a model that a collector trains: they come from without, round by round, within the bound
``most``. A gradient is that of the loss of one sample at these parameters, clipped. It tells as much as the sample, so
only a mechanism may take it.
"""

from typing import Any, Dict, List, Sequence

from edgeveil.edge_runtime.formats.validate import one_of, positive, refuse, shape
from edgeveil.edge_runtime.manifest.mechanism_rules import MOST_PLACES

LOSSES = ("logistic", "squared", "median")
LARGEST = 1e6  # of a parameter, or of a gradient's bound
KEYS = {
    "parameters": ("stage", "output", "shape", "most"),
    "gradient": ("stage", "loss", "input", "parameters", "clip", "low", "high", "output"),
}

Stage = Dict[str, Any]


def parameters_of(stages: Sequence[Stage]) -> List[Stage]:
    """The ``parameters`` stages among those of a manifest: none or one."""
    return [stage for stage in stages if stage["stage"] == "parameters"]


def check_parameters(stage: Stage, at: str) -> List[int]:
    """Their shape. Raises ``BundleRefused``."""
    size = shape(stage["shape"], at + ".shape", 1, 1)
    if size[0] > MOST_PLACES:
        refuse("wrong-value", at + ".shape", "expected at most {} parameters, got {}".format(MOST_PLACES, size[0]))
    positive(stage["most"], at + ".most", LARGEST)
    return size


def check_gradient(stage: Stage, at: str, features: Sequence[int], parameters: Sequence[int]) -> List[int]:
    """Its shape: one value for each parameter. ``features`` is the shape of the sample, whose last value is the label.

    Raises ``BundleRefused``.
    """
    loss = one_of(stage["loss"], at + ".loss", LOSSES)
    positive(stage["clip"], at + ".clip", LARGEST)
    if len(features) != 1 or [features[0] - 1] != list(parameters):
        problem = "expected a vector of {} features and a label, got the shape {}"
        refuse("wrong-value", at + ".input", problem.format(parameters[0], list(features)))
    if stage["low"] is None:
        refuse("wrong-value", at, "an input without a range has no bounds to keep a promise within")
    label = [end[-1] if isinstance(end, list) else end for end in (stage["low"], stage["high"])]
    if loss == "logistic" and label != [0, 1]:
        refuse("wrong-value", at, "the label of a logistic loss is 0 or 1, and here it is {} to {}".format(*label))
    return list(parameters)
