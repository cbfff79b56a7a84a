"""The ``[perturber]`` section of a recipe: one model per kind, told apart by ``kind``.

A new kind adds a model here, its name to ``Perturber``, and its module to ``edgeveil.trainer.perturbers.KINDS``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator


class Section(BaseModel):
    """A part of a recipe: every key known, every type exact, nothing changed once it is read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    unbounded: ClassVar[bool] = False  # whether a perturber takes vectors as they are, without a range


MOST_CODES = 1024  # of a class: more have too few readings each to be counted
MOST_EPSILON = 20.0  # beyond it nothing is promised: e^20 is half a billion


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


class Codebook(Section):
    """A codebook: an encoder's class and one of its codes, a channel on the code, and a picture of it."""

    kind: Literal["codebook"] = Field(
        description="The predicted class and one of its codes are sent, as a picture of the code."
    )
    keep: list[str] = Field(
        min_length=1,
        description='What the codes should keep: "pixels", "moments" (ink, slant, stroke) or one of these, attributes '
        "of the data set.",
    )
    weights: list[Annotated[float, Field(gt=0)]] | None = Field(
        default=None, description="How much each of `keep` counts in T. Left out: all alike."
    )
    codes: int = Field(default=32, ge=2, le=MOST_CODES, description="Codes of each class of y; of each token.")
    tokens: int = Field(
        default=1,
        ge=1,
        le=4,
        description="funnel: numbers that make up a code, each one of `codes`. Each describes what those before leave "
        f"of T, and all are priced together. A class has `codes` to the power of `tokens` codes, at most {MOST_CODES}.",
    )
    method: Literal["funnel", "residual"] = Field(
        default="funnel",
        description='How codes are made: "funnel" learns a head; "residual" clusters what z does not explain of T '
        "(little data, many z).",
    )
    price: float = Field(
        default=4.0,
        ge=0,
        description="lambda: squared distance of T (variance 1 in all) that a nat about z is worth. Larger hides more.",
    )
    evenness: float = Field(
        default=0.02,
        ge=0,
        description="funnel: eta, squared distance of T that a nat of H(c|y) is worth. Larger makes codes equally "
        "frequent, so that the bound for every code has rows for each; 0.2 costs little.",
    )
    steps: int = Field(default=1400, ge=1, le=1_000_000, description="Steps of learning the codes.")
    code_batch: int = Field(default=1024, ge=0, description="Rows per step; 0: all rows in every step, for small data.")
    shrinkage: float = Field(
        default=4.0, ge=0, description="Weight in rows of P(c|y) in P(c|z, y); 4 to 8 on small data."
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Of the code head; about 0.3 on small data.")
    learning_rate: float = Field(default=2e-3, gt=0, le=1, description="AdamW's first rate for the trunk.")
    weight_decay: float = Field(default=0.01, ge=0, description="AdamW's decay; about 0.1 on small data.")
    width: int = Field(default=16, ge=1, le=4096, description="First channels (images) or hidden units (vectors).")
    features: int = Field(default=128, ge=1, le=4096, description="Outputs of the trunk.")
    label_from: Literal["first", "both"] = Field(
        default="first",
        description='Training slices that y-hat is learned from. "both": by a network of its own, built as D_y is; '
        "where data are few it reads y better, and it about doubles the cost on the board.",
    )
    width_of_head: int = Field(default=128, ge=1, le=4096, description="Hidden units of the code head.")
    channel: Literal["none", "lp", "independent"] = Field(
        default="none",
        description='How c becomes c\': "none" sends c, "lp" adds the least noise under `bound`, "independent" draws '
        'anew. Where `hold` is a track or a period it is "independent" and may be left out.',
    )
    epsilon: float | None = Field(
        default=None,
        gt=0,
        le=MOST_EPSILON,
        description="alpha of randomised response (k-rr) behind the code, over the codes of all classes: as of "
        "label-only. It is a channel of its own, so it goes with no other `channel` or `merge_below`. Where `hold` is "
        "a track or a period it is behind the class, and the answer is kept and charged once: that of a track before "
        "its vote and that of after it, that of a period's first frame.",
    )
    merge_below: int = Field(
        default=0,
        ge=0,
        description="Codes that fewer subjects have than this (samples, where the data name none) are sent as the "
        "nearest of their class, so that the bound for every code has units for each; 0: all stay.",
    )
    bound: float = Field(default=0.1, ge=0, description="lp: largest distance of log P(z|c') from log P(z), in nats.")
    synthesis: Literal["centroid", "donor", "decoder"] = Field(
        default="centroid",
        description='"centroid": the mean of a code; "donor": a real sample of it; "decoder": pictures that a network '
        "drew from the code and noise.",
    )
    fewest_subjects: int = Field(
        default=10,
        ge=2,
        description="centroid: fewest different people in each mean; samples, where the data name no people.",
    )
    donors: int = Field(
        default=16,
        ge=1,
        le=4096,
        description="donor, decoder: pictures of each code, a power of two. Donors are the most typical samples of "
        "their code and z, so few keep more of T, and many train better models (docs/explanation/perturbers.md).",
    )
    decoder_steps: int = Field(default=1500, ge=1, le=1_000_000, description="decoder: steps of its training.")
    latent: int = Field(default=8, ge=1, le=256, description="decoder: random numbers behind each picture.")
    public_data: bool = Field(default=False, description="donor: the data are public, so receivers may see samples.")
    copies: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Images: copies of each training sample; all but the first are changed by the next three keys.",
    )
    shift: int = Field(default=0, ge=0, le=32, description="Copies are moved by up to this many pixels each way.")
    scale: float = Field(default=0.0, ge=0, le=0.5, description="Copies are scaled by up to this share, up or down.")
    offset: float = Field(
        default=0.0,
        ge=0,
        le=0.5,
        description="Copies are brighter or darker by up to this share of the range; zeros stay.",
    )
    acknowledge: Literal["", "code-per-frame leaks", "code-per-bout leaks"] = Field(
        default="", description='Must be stated for `hold` by "frame" or "bout"; manifest and audit repeat it.'
    )
    hold: str = Field(
        default="none",
        pattern=r"^(none|frame|bout:[1-9][0-9]{0,2}|track:[1-9][0-9]{0,2}|period:[1-9][0-9]{0,3}s)$",
        description='"none": samples that do not belong together. Of a stream: "track:7", a class by seven votes and '
        'one draw per track; "period:600s", one draw per class and clock period; "bout:4", the code of the first '
        'frame of a class, kept until four frames in a row were of others; "frame", a code for every frame.',
    )

    @model_validator(mode="before")
    @classmethod
    def _channel_of_streams(cls, table: Any) -> Any:
        held = isinstance(table, dict) and str(table.get("hold", "")).startswith(("track", "period"))
        return {"channel": "independent", **table} if held else table

    @field_validator("hold")
    @classmethod
    def _holds(cls, hold: str, info: ValidationInfo) -> str:
        if hold == "frame" and info.data.get("acknowledge") != "code-per-frame leaks":
            raise ValueError(
                '"track:7" or "period:600s", since a code for every frame of a stream tells who it is within seconds '
                '(docs/explanation/streams.md); or `hold = "frame"` with acknowledge = "code-per-frame leaks"'
            )
        if hold.startswith("bout") and info.data.get("acknowledge") != "code-per-bout leaks":
            raise ValueError('"bout:4" with acknowledge = "code-per-bout leaks": the codes of many bouts add up')
        if not hold.startswith(("frame", "bout")) and info.data.get("acknowledge"):
            raise ValueError('"frame" or "bout:4" with `acknowledge`, which is for these alone')
        if hold.startswith(("track", "period")) and info.data.get("channel") != "independent":
            raise ValueError('"none" or "frame" with this `channel`: what is held is drawn by "independent" alone')
        return hold

    @property
    def codes_of_class(self) -> int:
        """Codes of each class of y, of all tokens together."""
        return int(self.codes**self.tokens)

    @property
    def bare(self) -> bool:
        """Whether every sample's code is sent as it is."""
        return self.channel == "none" and not self.merge_below and self.epsilon is None and self.hold == "none"

    @model_validator(mode="after")
    def _one_channel(self) -> Codebook:
        held = self.hold.startswith(("track", "period"))  # its code is drawn of the answer, whatever the class was
        if self.epsilon is not None and ((self.channel != "none" and not held) or self.merge_below):
            raise ValueError("no `channel` and no `merge_below` with `epsilon`, which is a channel of its own")
        if self.epsilon is not None and self.hold.startswith("bout"):
            raise ValueError("`hold` by track or period with `epsilon`: the classes of a bout leave as they are read")
        return self

    @model_validator(mode="after")
    def _tokens_are_learned(self) -> Codebook:
        if self.codes_of_class > MOST_CODES:
            raise ValueError(
                f"at most {MOST_CODES} codes of a class, `codes` to the power of `tokens`; got {self.codes_of_class}"
            )
        if self.tokens > 1 and self.method != "funnel":
            raise ValueError('method = "funnel" with several `tokens`: "residual" has one')
        if self.tokens > 1 and self.hold.startswith(("track", "period")):
            raise ValueError("one of `tokens` with this `hold`: what is held is drawn of the class alone")
        return self


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


class Laplace(Section):
    """Discrete Laplace noise on every value: differentially private, and the same for y as for z."""

    kind: Literal["laplace"] = Field(description="The Laplace mechanism.")
    eps: float | None = Field(
        default=None,
        ge=1e-3,
        le=100,
        description="Epsilon of one value; that of a whole sample is this times the number of values. Left out: the "
        "smallest of 0.01 to 10 at which Acc(D_y) stays above `limits.target_accuracy` on validation.",
    )
    levels: int = Field(
        default=255,
        ge=1,
        le=65536,
        description="Steps between the smallest and the largest value; integers of one range have their own.",
    )


VECTOR_MECHANISMS = ("duchi-linf", "duchi-l2", "laplace", "hybrid")
CATEGORY_MECHANISMS = ("auto", "k-rr", "oue", "hrr", "rappor")


class Local(Section):
    """A report that is alpha-locally differentially private (paper 002, Definition 3): of many, a collector learns."""

    kind: Literal["local"] = Field(description="A locally private report, from which a collector estimates.")
    of: Literal["reading", "gradient", "label", "code"] = Field(
        description='What is reported: "reading", the vector itself; "gradient", that of a loss at the parameters of a '
        'training round (edgeveil federate); "label", the class that D_y predicts; "code", the code of a `codebook`.'
    )
    mechanism: Literal["duchi-linf", "duchi-l2", "laplace", "hybrid", "auto", "k-rr", "oue", "hrr", "rappor"] = Field(
        description='Of a reading or gradient: "duchi-linf" (the minimax one for vectors in a cube), "duchi-l2" (in a '
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
    loss: Literal["logistic", "squared", "median"] | None = Field(
        default=None,
        description="gradient: of the score theta . features and the label, the last value of a reading: logistic "
        "regression (labels 0 and 1), least squares, or least absolute deviations.",
    )
    clip: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="gradient: the most of each of its values, either way; what is further is clipped.",
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
        wants_vector = self.of in ("reading", "gradient")
        if (self.mechanism in VECTOR_MECHANISMS) != wants_vector:
            known = VECTOR_MECHANISMS if wants_vector else CATEGORY_MECHANISMS
            names = ", ".join(f'"{one}"' for one in known)
            raise ValueError(f'one of {names} with `of = "{self.of}"`; got "{self.mechanism}"')
        if self.of != "reading" and self.radius != 1.0:
            raise ValueError("no `radius` but with readings: `clip` bounds a gradient, and classes have no distance")
        gradient = {"`loss`": self.loss is not None, "`clip`": self.clip is not None}
        if set(gradient.values()) != {self.of == "gradient"}:
            wrong = next(name for name, there in gradient.items() if there != (self.of == "gradient"))
            raise ValueError(f'{"" if self.of == "gradient" else "no "}{wrong} with `of = "{self.of}"`')
        self._keeps(wants_vector)
        if (self.of == "code") != (self.codebook is not None):
            wanted = "a section [perturber.codebook]" if self.of == "code" else "no section [perturber.codebook]"
            raise ValueError(f'{wanted} with `of = "{self.of}"`')
        if self.codebook is not None and not self.codebook.bare:
            raise ValueError(
                "no `channel`, `merge_below`, `epsilon` or `hold` in [perturber.codebook]: its code is reported"
            )
        return self

    def _keeps(self, is_vector: bool) -> None:
        """Raise ``ValueError`` where what is kept does not fit the mechanism."""
        if is_vector and self.hold != "none":
            raise ValueError(f'no `hold` with `of = "{self.of}"`: a vector that is kept is no stream; report classes')
        rappor = self.mechanism == "rappor"
        if rappor and self.hold == "none":
            raise ValueError(
                '`hold` of "track" or "period:600s" with "rappor", which keeps its permanent answer so long'
            )
        if rappor != (self.instantaneous is not None):
            raise ValueError(f'{"" if rappor else "no "}`instantaneous` with `mechanism = "{self.mechanism}"`')
        if self.instantaneous is not None and self.instantaneous >= self.epsilon:
            raise ValueError(
                f"`instantaneous` below `epsilon`, which all answers together tell, {self.epsilon:g}; got "
                f"{self.instantaneous:g}"
            )


Perturber = Annotated[
    PrGan | Minimax | LabelOnly | Codebook | Cleaner | Noise | Laplace | Local, Field(discriminator="kind")
]
