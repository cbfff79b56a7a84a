"""The ``[perturber]`` section that ``edgeveil recipe new`` writes, for every kind of perturber, with its reasons."""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.datasets.slicing import FEWEST_ROWS, fit_and_validation
from edgeveil.trainer.perturbers.codebook import synthesis
from edgeveil.trainer.recipe import messages

GENERATED = ("prgan", "ngp", "ap", "minimax")
LINEAR = ("cleaner", "noise")
TRAINED = (*GENERATED, "codebook")  # in the epochs of the budget
KINDS = ("codebook", "label-only", "local", *LINEAR, *GENERATED, "laplace")
PROMISED = ("local", "laplace")  # an epsilon, which asks for public bounds
TITLES = {
    "prgan": "PR-GAN",
    "ngp": "NGP",
    "ap": "AP",
    "minimax": "Minimax",
    "codebook": "A codebook",
    "label-only": "Label-only",
    "local": "A locally private report",
    "laplace": "Laplace noise",
    "cleaner": "A linear cleaner",
    "noise": "Noise like a cleaner's",
}
ROWS_OF_A_CODE = 10  # at least: a code's picture is a mean of so many
CODES = 4  # of each class, where there are few rows
SMALL = 5000  # rows of the second slice: below that every step of a codebook sees all of them

GENERATOR = """\
[perturber]
kind = "{kind}"{why}
alpha = 10.0          # weight of keeping y and hiding z against looking real; larger hides more
distance = {distance:<10} # a sample may move this far at no cost; two samples are {apart:.2f} apart{rounded}

[perturber.generator]
architecture = "{architecture}"
width = {width}{more}
"""
WHY = {
    "prgan": "",
    "ngp": "          # PR-GAN without its discriminator (section 6.2 of the paper)",
    "ap": "           # PR-GAN without its target classifier (section 6.2 of the paper)",
    "minimax": "      # PR-GAN against adversaries that keep learning on its output",
}
ROUNDED = "\nstraight_through = true # few levels: the losses see samples rounded, as they are sent"

CODEBOOK = """\
# The class and one of a few codes are sent, so they can be counted: see [certificate].
[perturber]
kind = "codebook"
{keep}
codes = {codes:<13} # of each class; more keep more, and need more rows{held}
price = 4.0           # the cost of information about z in a code; larger hides more
steps = {steps}{small}{width}
{synthesis}

# The bound is shared by all configurations that are ever compared on the test rows: count them here.
[certificate]
tried = 1
"""
PIXELS = """\
# What the codes should keep of a sample: "pixels" (its values), "moments" of pictures, attributes.
keep = ["pixels"]"""
MOTION = """\
# What the codes should keep of a window: these, or "pixels" (its values).
keep = ["energy", "tempo"]"""
LITTLE = "\ndropout = 0.3         # for small data: every step sees all rows"
HELD = """
hold = "period:600s"  # a stream: a class keeps one code for ten minutes (docs/explanation/streams.md)"""
DONOR = 'synthesis = "donor"   # a sample of a person who consents (array `consent`) is sent in place of another\'s'
CENTROID = """\
synthesis = "centroid" # the mean of samples of at least so many different people is sent
fewest_subjects = {fewest}"""

PLAIN = {
    "label-only": """\
# The floor: D_y ships, and its prediction is all that is sent, drawn as that class's mean.
[perturber]
kind = "label-only"
""",
    "local": """\
# Of {of}: one report tells little of anything; a collector who gets many estimates {what}.
[perturber]
kind = "local"
of = "{of}"
mechanism = "{mechanism}"
epsilon = 1.0         # alpha: the odds of anything about a reading change by at most e^alpha

[spending]
unit = "release"      # all releases of a device add up; "subject" where the source says whose each is
most = 10.0           # epsilon, then nothing leaves any more
""",
    "laplace": """\
# eps is searched: the smallest at which D_y stays above the floor of [limits].
[perturber]
kind = "laplace"
""",
    "cleaner": """\
[perturber]
kind = "cleaner"
method = "algorithm1" # or "exact", "approximate"
eps = 0.01            # the squared error that each wanted output may have
""",
    "noise": """\
[perturber]
kind = "noise"
eps = 0.01            # the squared error of the cleaner that it is compared with
""",
}


def check_kind(kind: str) -> None:
    """Raise ``BadInput`` for an unknown kind."""
    messages.refuse_old(kind, messages.KINDS, "--kind: the perturber kind")
    if kind not in KINDS:
        raise BadInput(f'--kind: expected one of {", ".join(KINDS)}; got "{kind}".')


def usual(dataset: Dataset, *, stream: bool = False) -> tuple[str, str]:
    """The kind that holds for such data, "codebook" or "label-only", and why."""
    part = dataset.part("perturber")
    cells = len(np.unique(np.stack([part.y, part.z]), axis=1).T)
    needed = max(FEWEST_ROWS * cells, ROWS_OF_A_CODE * CODES * len(dataset.y_names))
    if _fewest(dataset, stream=stream).min() < 2:
        return "label-only", "a class of y has one person to learn codes from, and a mean must be of several"
    if len(part) < needed:
        return "label-only", f"codes are learned from {len(part)} rows here, and {needed} are needed"
    return "codebook", "what it sends can be counted"


def section(kind: str, dataset: Dataset, *, apart: float, stream: bool = False) -> str:
    """``[perturber]`` and the sections it needs, with settings that suit such data.

    ``apart`` is the mean distance of two samples in the unit cube; ``stream``: a camera gives many frames of a
    person. Raises ``BadInput`` for an unknown kind, or for one that these data cannot have.
    """
    check_kind(kind)
    if kind in LINEAR and dataset.input.kind != "vector":
        what = "pictures" if dataset.input.kind == "image" else "series"
        raise BadInput(f'--kind {kind} is for vectors, and these are {what}: give "codebook" or "label-only".')
    if kind in GENERATED:
        return _generated(kind, dataset, apart)
    if kind == "local":
        vector = dataset.input.kind == "vector"
        words = ("reading", "means", "duchi-linf") if vector else ("label", "shares of classes", "auto")
        return PLAIN[kind].format(**dict(zip(("of", "what", "mechanism"), words, strict=True)))
    return _codebook(dataset, stream=stream) if kind == "codebook" else PLAIN[kind]


def _generated(kind: str, dataset: Dataset, apart: float) -> str:
    spec, image = dataset.input, dataset.input.kind == "image"
    more, clipped = "", True
    if image:
        side = min(spec.shape[:2])
        more = f"\nhalvings = {1 if side < 16 else 2 if side < 64 else 3}"
    elif kind == "minimax":
        clipped = False
        more = "\nlatent = 16           # bottleneck for all of x: a new adversary reads what bypasses it"
    if clipped:
        more += '\nclip = "returns"      # a clipped value keeps its gradient, or all may end up black'
    coarse = np.dtype(spec.dtype).kind in "iu" and float(np.max(spec.span)) <= 4
    return GENERATOR.format(
        kind=kind,
        why=WHY[kind],
        distance=round(max((0.45 if kind == "minimax" else 0.3) * apart, 0.01), 2),
        apart=apart,
        rounded=ROUNDED if coarse else "",
        architecture="conv" if image else "mlp",
        width=24 if image else int(np.clip(2 * spec.shape[0], 32, 512)),
        more=more,
    )


def _fewest(dataset: Dataset, *, stream: bool) -> np.ndarray:
    """How many people (samples, where none are named) each class of y has among the rows that codes are drawn from."""
    part, _ = fit_and_validation(dataset, "perturber")
    if not stream:
        first, _ = fit_and_validation(dataset, "classifiers")
        part = dataset.rows(np.concatenate([part.index, first.index]))
    return synthesis.fewest_people(part.y, part.cluster, classes=len(dataset.y_names))


def _codebook(dataset: Dataset, *, stream: bool) -> str:
    part = dataset.part("perturber")
    small = len(part) < SMALL
    consents = dataset.consent is not None and bool(dataset.consent[part.index].any())
    people = _fewest(dataset, stream=stream)
    if not consents:
        synthesis.check_people(people, dataset.y_names, fewest=2)
    return CODEBOOK.format(
        keep=MOTION if {"energy", "tempo"} <= set(dataset.attributes) else PIXELS,
        held=HELD if stream else "",
        codes=CODES if len(part) < 500 else 8 if small else 32,
        steps=300 if small else 1400,
        small=LITTLE if small else "",
        width=f"\nwidth = {int(np.clip(2 * dataset.input.shape[0], 64, 256))}"
        if dataset.input.kind == "vector"
        else "",
        synthesis=DONOR if consents else CENTROID.format(fewest=int(np.clip(people.min(), 2, 10))),
    )
