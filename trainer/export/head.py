"""A perturber that sends its head's label in addition: a linear stage, and the largest of its scores."""

from __future__ import annotations

from dataclasses import replace

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext import private
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Head

SCORES = "head_scores"


def with_head(fitted: FittedPerturber, head: Head | None) -> FittedPerturber:
    """The same perturber with a further output ``head``, the class of y by the run's head.

    Raises ``BadInput`` where there is no head, and for one whose noise came of a seed.
    """
    if head is None:
        raise BadInput("This run has no head to emit: train with a section [head], or leave out --emit both.")
    if head.promise is None:
        raise BadInput(
            "The head's noise came of `head.random_state`, so who knows the seed knows the noise, and nothing is "
            "promised. Leave the key out and train again, or export without --emit both."
        )
    from edgeveil.models.classifiers import linear_head

    sample = "u" if head.of == "reading" else _before_output(fitted)
    training = fitted.training
    if training is not None:
        mark = private.head_mark(head.mechanism, head.promise)
        marks = {**training["marks"], "models": {**training["marks"]["models"], private.HEAD: mark}}
        training = {**training, "marks": marks}
    return replace(
        fitted,
        stages=(
            *fitted.stages,
            {"stage": "artefact", "model": private.HEAD, "inputs": {"sample": sample}, "outputs": {"scores": SCORES}},
            {"stage": "table", "op": "argmax", "input": SCORES, "output": private.HEAD},
        ),
        outputs=(
            *fitted.outputs,
            {"name": private.HEAD, "kind": "label", "tensor": private.HEAD, "shape": [], "dtype": "int64"},
        ),
        models={**fitted.models, private.HEAD: linear_head(fitted.input.shape, head.weights, head.bias)},
        training=training,
    )


def _before_output(fitted: FittedPerturber) -> str:
    """The tensor of what is sent, in the unit cube."""
    tensor = next((stage["input"] for stage in fitted.stages if stage["stage"] == "output"), None)
    if tensor is None:
        raise BadInput('What this perturber sends is a whole sample of a table: train with `head.of = "reading"`.')
    return str(tensor)
