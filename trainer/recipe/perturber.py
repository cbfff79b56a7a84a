"""``[perturber]`` of a linear cleaner, and of the noise that it is compared with."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from edgeveil.edge_runtime.stages import STAGES
from edgeveil.trainer.recipe.codebook_section import Codebook
from edgeveil.trainer.recipe.training_sections import MOST_EPSILON, Section


class _Linear(Section):
    """What a cleaner and the mechanism it is compared with share: an operator and the error it may make."""

    unbounded: ClassVar[bool] = True

    eps: float = Field(default=0.01, ge=0, description="Allowed squared error of the wanted outputs on each vector.")
    eps_per: Literal["label", "vector"] = Field(
        default="label", description="Whether `eps` is for each wanted output or for all of them together."
    )
    operator: str = Field(
        default="data",
        description='Where A_d, the predictor\'s first operator, is from: "data" (least squares on the first slice), '
        '"npy:FILE" (features, outputs), or "keras:FILE" (first Dense or Conv2D), relative to the recipe.',
    )
    ridge: float = Field(default=0.0, ge=0, description='Added to the diagonal by least squares; for `"data"` and A_c.')

    @field_validator("operator")
    @classmethod
    def _known_operator(cls, operator: str) -> str:
        kind, colon, place = operator.partition(":")
        if operator != "data" and not (kind in ("npy", "keras") and colon and place):
            raise ValueError('"data", "npy:FILE" or "keras:FILE"')
        return operator


class Cleaner(_Linear):
    """A linear cleaner (paper 000): removes from a vector what the predictor's operator does not need."""

    kind: Literal["cleaner"] = Field(description="A linear cleaner.")
    method: Literal["exact", "approximate", "algorithm1"] = Field(
        default="algorithm1",
        description="What is removed first: the null space alone (`eps` counts as 0), what A_d weighs least, or what "
        "is worth least to the predictor per worth to the adversary.",
    )


class Noise(_Linear):
    """Laplace noise on every feature with the error of a cleaner, to compare with. No differential privacy."""

    kind: Literal["noise"] = Field(description="Laplace noise on every feature.")


# ``[perturber]`` of a locally private report.


_KINDS = [kind.facts for kind in STAGES.kinds().values() if kind.facts.get("mechanism")]
VECTOR_MECHANISMS = tuple(one["mechanism"] for one in _KINDS if one["of"] == "mean")
CATEGORY_MECHANISMS = ("auto", *(one["mechanism"] for one in _KINDS if one["of"] == "share"))
KEPT_MECHANISMS = tuple(one["mechanism"] for one in _KINDS if one["once"])  # their permanent answer is kept
MECHANISMS = VECTOR_MECHANISMS + CATEGORY_MECHANISMS


class Local(Section):
    """A report that is alpha-locally differentially private (paper 002, Definition 3): of many, a collector learns."""

    kind: Literal["local"] = Field(description="A locally private report, from which a collector estimates.")
    of: Literal["reading", "label", "code"] = Field(
        description='What is reported: "reading", the vector itself; "label", the class that D_y predicts; "code", the '
        "code of a `codebook`."
    )
    mechanism: Literal[MECHANISMS] = Field(  # type: ignore[valid-type]
        description='Of a reading: "duchi-linf" (the minimax one for vectors in a cube), "duchi-l2" (in a '
        'ball), "laplace", "hybrid" (smallest error). Of classes and codes: "k-rr", "oue", "hrr", or "auto": k-rr '
        'below 3 e^alpha + 2 of them, else oue. "rappor" keeps a permanent answer for as long as `hold` says, and '
        "sends an instantaneous one of it with every frame."
    )
    epsilon: float = Field(
        gt=0,
        le=MOST_EPSILON,
        description="alpha: one release changes the odds of anything about its reading by a factor of at most e^alpha.",
    )
    radius: float = Field(
        default=1.0,
        gt=0,
        le=1e6,
        description="reading: how far from the middle of `data.low` and `data.high` a value may be, in half ranges "
        "(duchi-l2: the length of all of them together); what is further is clipped. Smaller has less noise.",
    )
    codebook: Codebook | None = Field(default=None, description="code: the codebook whose codes are reported.")
    hold: str = Field(
        default="none",
        pattern=r"^(none|track|period:[1-9][0-9]{0,3}s)$",
        description='label, code: "track" or "period:600s" answers once for a track or clock period, of its first '
        'frame; the ledger is charged for that answer, and what is sent of it again costs nothing. "none": every '
        "frame is answered anew, and charged.",
    )
    instantaneous: float | None = Field(
        default=None,
        gt=0,
        lt=MOST_EPSILON,
        description="rappor: alpha of one instantaneous answer where no other is seen. All those of a permanent answer "
        "together tell at most `epsilon`, which must be larger, and which is what is charged.",
    )

    @model_validator(mode="after")
    def _belongs_together(self) -> Local:
        wants_vector = self.of == "reading"
        if (self.mechanism in VECTOR_MECHANISMS) != wants_vector:
            known = VECTOR_MECHANISMS if wants_vector else CATEGORY_MECHANISMS
            names = ", ".join(f'"{one}"' for one in known)
            raise ValueError(f'one of {names} with `of = "{self.of}"`; got "{self.mechanism}"')
        if self.of != "reading" and self.radius != 1.0:
            raise ValueError("no `radius` but with readings: classes have no distance")
        self._keeps(wants_vector)
        if (self.of == "code") != (self.codebook is not None):
            wanted = "a section [perturber.codebook]" if self.of == "code" else "no section [perturber.codebook]"
            raise ValueError(f'{wanted} with `of = "{self.of}"`')
        if self.codebook is not None and self.codebook.hold != "none":
            raise ValueError("no `hold` in [perturber.codebook]: its code is reported")
        return self

    def _keeps(self, is_vector: bool) -> None:
        """Raise ``ValueError`` where what is kept does not fit the mechanism."""
        if is_vector and self.hold != "none":
            raise ValueError(f'no `hold` with `of = "{self.of}"`: a vector that is kept is no stream; report classes')
        kept = self.mechanism in KEPT_MECHANISMS
        if kept and self.hold == "none":
            raise ValueError(
                f'`hold` of "track" or "period:600s" with "{self.mechanism}", which keeps its permanent answer so long'
            )
        if kept != (self.instantaneous is not None):
            raise ValueError(f'{"" if kept else "no "}`instantaneous` with `mechanism = "{self.mechanism}"`')
        if self.instantaneous is not None and self.instantaneous >= self.epsilon:
            raise ValueError(
                f"`instantaneous` below `epsilon`, which all answers together tell, {self.epsilon:g}; got "
                f"{self.instantaneous:g}"
            )


# ``[perturber]`` of a generator: PR-GAN, its baselines, and minimax.


class Generator(Section):
    """The network that maps u to u', both in the unit cube."""

    architecture: Literal["conv", "mlp"] = Field(description='"conv" for images, "mlp" for vectors.')
    width: int = Field(ge=1, le=4096, description="Channels of the conv generator, hidden units of the mlp.")
    halvings: int = Field(default=2, ge=1, le=5, description="conv only: times that height and width are halved.")
    blocks: int = Field(default=2, ge=1, le=8, description="Residual blocks (conv) or hidden layers (mlp).")
    latent: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="mlp only: size of a bottleneck for all of u. Left out: the network's output is added to u.",
    )
    clip: Literal["returns"] | None = Field(
        default=None,
        description='"returns": in training a clipped value keeps its gradient where a step leads back into the range, '
        "so that a generator that has made everything black can recover. Left out: it has none. Not with `latent`, "
        "where nothing is clipped.",
    )

    @field_validator("clip")
    @classmethod
    def _clips(cls, clip: str | None, info: ValidationInfo) -> str | None:
        if clip is not None and info.data.get("latent") is not None:
            raise ValueError("no such key with `latent`, where nothing is clipped")
        return clip


class _Generated(Section):
    """What PR-GAN, its baselines and minimax share: a generator and the weights of its losses."""

    generator: Generator = Field(description="The network that ships.")
    alpha: float = Field(default=1.0, gt=0, description="Weight of L_Adv (eq. 8): keep y, bring D_z to MED.")
    beta: float = Field(default=1.0, ge=0, description="Weight of L_hinge (eq. 10).")
    distance: float = Field(
        gt=0, description="c of eq. 10: Euclidean distance between u and u', in the unit cube, that costs nothing."
    )
    distance_slack: float = Field(
        default=1.5,
        ge=1.0,
        description="A checkpoint whose mean distance is over `distance` times this is taken only if no other will do.",
    )
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Adam's rate for the generator.")
    discriminator_learning_rate: float = Field(
        default=2e-4, gt=0, le=1, description="Adam's rate for the discriminator."
    )
    straight_through: bool = Field(
        default=False,
        description="Integers of few levels (WiFi): the losses see x' rounded, as it is sent; the gradient passes.",
    )


class PrGan(_Generated):
    """A generator against fixed D_y and D_z and a discriminator of its own (paper 001, eqs. 7 to 11), and baselines."""

    kind: Literal["prgan", "ngp", "ap"] = Field(
        description="PR-GAN; NGP has no discriminator, AP no target classifier (section 6.2)."
    )


class Minimax(_Generated):
    """PR-GAN against adversaries that keep learning on what it makes; beyond the paper."""

    kind: Literal["minimax"] = Field(description="A generator trained against adversaries that keep learning.")
    noise: int = Field(default=16, ge=1, le=1024, description="Random inputs of the generator per sample.")
    gan: float = Field(default=0.3, ge=0, description="Weight of L_GAN (eq. 9).")
    adversary_learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Adam's rate for the adversaries.")
    adversary_steps: int = Field(default=2, ge=1, le=20, description="Steps of each adversary per generator step.")
    renew: int = Field(default=4, ge=1, description="Epochs between resets of one adversary, in turn.")
    judge_every: int = Field(
        default=5,
        ge=1,
        description="Epochs between checkpoints that freshly trained adversaries score; the last one is scored too.",
    )


# The ``[perturber]`` section of a recipe: one model per kind, told apart by ``kind``.
#
# A new kind adds a model here or in ``kinds``, its name to ``Perturber``, and its module to
# ``edgeveil.trainer.perturbers.KINDS``.


__all__ = [
    "Cleaner",
    "Codebook",
    "Generator",
    "LabelOnly",
    "Laplace",
    "Local",
    "Minimax",
    "Noise",
    "Perturber",
    "PrGan",
]


class LabelOnly(Section):
    """The floor: only the predicted y is sent, drawn as that class's mean training sample or as a donor's."""

    kind: Literal["label-only"] = Field(description="The predicted label is sent and nothing else.")
    network: Literal["target", "small", "table1-wifi"] = Field(
        default="target",
        description="The classifier that ships: D_y itself, or one of its own, trained on the second slice.",
    )
    width: int = Field(default=16, ge=1, le=512, description="Channels of the first layer; `small` only.")
    picture: Literal["mean", "donor"] = Field(
        default="mean",
        description='"mean": the mean of the class. "donor": a real sample of the class, drawn anew each time.',
    )
    donors: int = Field(default=256, ge=1, le=4096, description="donor: samples of each class, a power of two.")
    public_data: bool = Field(default=False, description="donor: the data are public, so receivers may see samples.")
    epsilon: float | None = Field(
        default=None,
        gt=0,
        le=MOST_EPSILON,
        description="alpha of randomised response (k-rr) behind the class: one release changes the odds of anything "
        "about its reading by a factor of at most e^alpha. Goes with `[spending]`. Left out: the class is sent as it "
        "is.",
    )


class Laplace(Section):
    """Discrete Laplace noise on every value: differentially private, and the same for y as for z."""

    kind: Literal["laplace"] = Field(description="The Laplace mechanism.")
    eps: float | None = Field(
        default=None,
        ge=1e-3,
        le=100,
        description="Epsilon of one value; that of a whole sample is this times the number of values. Left out: the "
        "smallest of 0.01 to 100 at which Acc(D_y) stays above `limits.target_accuracy` on validation.",
    )
    levels: int = Field(
        default=255,
        ge=1,
        le=65536,
        description="Steps between the smallest and the largest value; integers of one range have their own.",
    )


Perturber = Annotated[
    PrGan | Minimax | LabelOnly | Codebook | Cleaner | Noise | Laplace | Local, Field(discriminator="kind")
]
