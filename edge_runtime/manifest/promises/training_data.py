"""The manifest's ``training``: what a bundle promises the people it was trained on, and what of it depends on them.

Nothing on a device can check it: the privacy card says it where every mark is public or private.
"""

from typing import Any

from edgeveil.edge_runtime.formats.validate import mapping, one_of, positive, record, text

UNITS = ("subject", "row")
NEIGHBOURS = ("add or remove", "replace")


def check_training(training: Any) -> None:
    """Raise ``BundleRefused`` unless this is such a promise with its keys in their limits."""
    record(training, "training", ("epsilon", "delta", "unit", "neighbours", "marks"))
    positive(training["epsilon"], "training.epsilon")
    positive(training["delta"], "training.delta", 1)
    one_of(training["unit"], "training.unit", UNITS)
    one_of(training["neighbours"], "training.neighbours", NEIGHBOURS)
    marks = training["marks"]
    record(marks, "training.marks", ("models", "tables", "range", "calibration"))
    for kind in ("models", "tables"):
        for name, mark in mapping(marks[kind], "training.marks." + kind).items():
            text(mark, "training.marks.{}.{}".format(kind, name))
    for kind in ("range", "calibration"):
        text(marks[kind], "training.marks." + kind)
