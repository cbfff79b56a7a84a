"""Linear cleaners as perturbers: operators from the recipe, and the cleaner in closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.perturbers.base import as_perturber
from edgeveil.trainer.recipe.perturber import Perturber
from edgeveil.trainer.runs.fitted import FittedPerturber

if TYPE_CHECKING:
    from edgeveil.trainer.runs.run import Log


HEAD_ROOM = 4.0  # codes beyond this many times the largest in training saturate
LARGEST = 2**15 - 1


class Linear(Perturber):
    """What a cleaner and the mechanism it is compared with share: an operator and the error it may make."""

    unbounded = True
    streams = True
    batched = True
    drafted: ClassVar[str]  # the keys that `recipe new` writes

    eps: float = Field(default=0.01, ge=0, description="Allowed squared error of the wanted outputs on each vector.")
    eps_per: Literal["label", "vector"] = Field(
        default="label", description="Whether `eps` is for each wanted output or for all of them together."
    )
    operator: str = Field(
        default="data",
        description='Where A_d, the predictor\'s first operator, is from: "data" (least squares on the first slice), '
        '"npy:FILE" (features, outputs), "keras:FILE" (first Dense or Conv2D) or "pt2:FILE" (first nn.Linear), '
        "relative to the recipe.",
    )
    ridge: float = Field(default=0.0, ge=0, description='Added to the diagonal by least squares; for `"data"` and A_c.')

    @field_validator("operator")
    @classmethod
    def _known_operator(cls, operator: str) -> str:
        kind, colon, place = operator.partition(":")
        if operator != "data" and not (kind in ("npy", "keras", "pt2") and colon and place):
            raise ValueError('"data", "npy:FILE", "keras:FILE" or "pt2:FILE"')
        return operator

    @property
    def meets_eps(self) -> bool:
        """Whether the error of each vector is ``eps``, or its largest where that is less."""
        return False

    def resolved(self, folder: Path) -> Perturber:
        """See ``Perturber.resolved``."""
        kind, _, place = self.operator.partition(":")
        operator = f"{kind}:{(folder / Path(place).expanduser()).resolve()}"
        return self if self.operator == "data" else self.model_copy(update={"operator": operator})

    @classmethod
    def draft(cls, kind: str, dataset: Dataset, *, apart: float, stream: bool) -> str:
        """See ``Perturber.draft``."""
        if dataset.input.kind != "vector":
            what = "pictures" if dataset.input.kind == "image" else "series"
            raise BadInput(f'--kind {kind} is for vectors, and these are {what}: give "codebook" or "label-only".')
        return super().draft(kind, dataset, apart=apart, stream=stream) + cls.drafted


class Cleaner(Linear):
    """A linear cleaner (paper 000): removes from a vector what the predictor's operator does not need."""

    kinds = ("cleaner",)
    titles = ("A linear cleaner",)
    only_float32 = (
        "a cleaner squares, divides and takes a root, where fewer digits lose the small values: the error would no "
        "longer be eps; send the code instead (--emit code)"
    )
    without_interpreter = True
    drafted = """\
method = "algorithm1" # or "exact", "approximate"
eps = 0.01            # the squared error that each wanted output may have
"""

    kind: Literal["cleaner"] = Field(description="A linear cleaner.")
    method: Literal["exact", "approximate", "algorithm1"] = Field(
        default="algorithm1",
        description="What is removed first: the null space alone (`eps` counts as 0), what A_d weighs least, or what "
        "is worth least to the predictor per worth to the adversary.",
    )

    @property
    def meets_eps(self) -> bool:
        """See ``Linear``."""
        return self.method != "exact"

    def fit(self, dataset: Dataset, *, log: Log, **_: Any) -> FittedPerturber:
        """The recipe's cleaner, in closed form. Raises ``BadInput``."""
        from edgeveil.models.cleaners import linear_cleaner
        from edgeveil.trainer import linear
        from edgeveil.trainer.linear import hidden_operator, linear_problem

        problem = linear_problem(self, dataset)
        if self.method == "exact":
            fitted = linear.exact(problem.a_d)
        elif self.method == "approximate":
            fitted = linear.approximate(problem.a_d, eps=problem.eps)
        else:
            a_c = hidden_operator(self, dataset, problem.mean)
            fitted = linear.algorithm1(problem.a_d, a_c, eps=problem.eps)
        log.record(cleaner={"rank": fitted.rank, "eps": fitted.eps})
        network = linear_cleaner(fitted.encoder, fitted.decoder, fitted.eps, problem.mean)
        return as_perturber(dataset.input, network, kind="cleaner", model="cleaner", identity_allowed=True)

    @classmethod
    def as_code(cls, fitted: FittedPerturber, x: np.ndarray, pool: np.ndarray | None = None) -> FittedPerturber:
        """The code as int16, whose step is a power of two, from training samples x (n, features).

        The table ``decoder`` (r + 1, features) includes the step: x~ = [code, 1] decoder.
        """
        from edgeveil.models.cleaners import arrays
        from edgeveil.trainer.export import runners

        keras = runners.on_keras(fitted)
        keras.run(x, {})
        code = keras.flow("c")
        most = 0.0 if code is None else float(np.abs(code).max())
        scale = 2.0 ** math.ceil(math.log2(HEAD_ROOM * max(most, 1e-6) / LARGEST))
        made_of = arrays(fitted.models["cleaner"])
        decoder = np.vstack([made_of["decoder"] * np.float32(scale), made_of["decoder_bias"]])
        quantise = {"stage": "quantise", "input": "c", "output": "q", "scale": scale, "dtype": "int16"}
        output = {"name": "code", "kind": "code", "tensor": "q", "shape": [len(decoder) - 1], "dtype": "int16"}
        return replace(
            fitted,
            stages=(*(stage for stage in fitted.stages if stage["stage"] != "output"), quantise),
            outputs=({**output, "decoder": "decoder"},),
            tables={"decoder": decoder},
        )


# The Laplace mechanism as a perturber: noise from the device's own generator, with the error of a cleaner.


class Noise(Linear):
    """Laplace noise on every feature with the error of a cleaner, to compare with. No differential privacy."""

    kinds = ("noise",)
    titles = ("Noise like a cleaner's",)
    only_float32 = "noise this small would be lost with fewer digits"
    drafted = "eps = 0.01            # the squared error of the cleaner that it is compared with\n"

    kind: Literal["noise"] = Field(description="Laplace noise on every feature.")

    def fit(self, dataset: Dataset, *, log: Log, **_: Any) -> FittedPerturber:
        """Laplace noise whose mean e_utility is the recipe's eps; nothing is trained."""
        from edgeveil.models.mechanisms import laplace
        from edgeveil.trainer.linear import linear_problem, scale_for

        problem = linear_problem(self, dataset)
        scale = scale_for(problem.a_d, eps=problem.eps)
        log.record(noise={"scale": scale, "eps": problem.eps})
        network = laplace(dataset.input.shape[0], scale)
        return as_perturber(dataset.input, network, kind="noise", model="mechanism", identity_allowed=True)
