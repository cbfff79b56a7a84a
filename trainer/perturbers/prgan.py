"""PR-GAN: a generator against a fixed D_y and D_z and a discriminator of its own (paper 001, section 5, eqs. 7 to 11).

The sign of eq. (7) as printed makes it a loss that D minimises: here it is the usual cross-entropy. Eq. (9) saturates
where D is sure, so the generator is trained with its non-saturating form, -log D(G(x)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from edgeveil.edge_runtime.stages.preprocess import to_raw
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Joint
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.networks.base import network
from edgeveil.trainer.networks.feeding import Feed, compiled, descend
from edgeveil.trainer.perturbers.base import Goal, as_perturber
from edgeveil.trainer.perturbers.int8 import Int8, fine_tune
from edgeveil.trainer.recipe import networks as recipe_networks
from edgeveil.trainer.recipe.perturber import Perturber
from edgeveil.trainer.recipe.training_sections import Budget, Section
from edgeveil.trainer.runs.fitted import FittedPerturber

if TYPE_CHECKING:
    from edgeveil.trainer.runs.run import Log


DRAFT = """\
[perturber]
kind = "{kind}"{why}
alpha = 10.0          # weight of keeping y and hiding z against looking real; larger hides more
distance = {distance:<10} # a sample may move this far at no cost; two samples are {apart:.2f} apart{rounded}

[perturber.generator]
architecture = "{architecture}"
width = {width}{more}
"""
ROUNDED = "\nstraight_through = true # few levels: the losses see samples rounded, as they are sent"


class Generator(Section):
    """The network that maps u to u', both in the unit cube."""

    architecture: recipe_networks.Generator = Field(
        description='"conv" for images, "mlp" for vectors. Or your own: `mine.py:build`, of the other keys with `clip` '
        "alone."
    )
    width: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Channels of the conv generator, hidden units of the mlp. Left out with a network of your own.",
    )
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

    @model_validator(mode="after")
    def _sized(self) -> Generator:
        if recipe_networks.is_function(self.architecture):
            sized = sorted(self.model_fields_set & {"width", "halvings", "blocks", "latent"})
            if sized and (self.width, self.halvings, self.blocks, self.latent) != (None, 2, 2, None):
                raise ValueError(f"no {sized[0]} with a network of your own, whose file says how large it is")
        elif self.width is None:
            raise ValueError(f'a `width` with architecture = "{self.architecture}"')
        return self


class Generated(Perturber):
    """What PR-GAN, its baselines and minimax share: a generator and the weights of its losses."""

    baseline = True
    hides_more = True
    streams = True
    trained = True
    not_private = "a generator sees the readings again in every step"
    why: ClassVar[Mapping[str, str]] = {}  # of a kind, after its name in what `recipe new` writes
    moves: ClassVar[float] = 0.3  # how far a sample may move at first, of the mean distance of two
    bottleneck: ClassVar[bool] = False  # of the mlp that `recipe new` writes

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
    int8: Int8 | None = Field(default=None, description="Fine-tuning for int8 files. Left out: none.")

    def resolved(self, folder: Path) -> Generated:
        """See ``Perturber.resolved``."""
        architecture = recipe_networks.resolved(self.generator.architecture, folder)
        return self.model_copy(update={"generator": self.generator.model_copy(update={"architecture": architecture})})

    def files(self) -> list[Path]:
        """See ``Perturber.files``."""
        own = recipe_networks.file_of(self.generator.architecture)
        return [] if own is None else [own]

    def check(self, dataset: Dataset) -> None:
        """See ``Perturber.check``."""
        if self.files():
            generator = build_generator(dataset.input, self.generator, noise=getattr(self, "noise", 0))
            if self.int8 is not None:
                from edgeveil.trainer.networks import rounded

                rounded.check(generator)

    def tuned(
        self,
        dataset: Dataset,
        generator: Any,
        rows: np.ndarray,
        *,
        of: Callable[[Any], tuple[Any, Any, dict[str, Any]]],
        score: Callable[[Any, float], Any],
        floor: float,
        chosen: int,
        log: Log,
        seed: int,
    ) -> FittedPerturber:
        """The generator as a perturber, after the fine-tuning of ``[perturber.int8]`` where there is one.

        ``rows`` (n, ...) are raw samples that training may see; the others are those of ``int8.fine_tune``.
        """
        from edgeveil.trainer.export.runners import CALIBRATION_ROWS, calibration

        fitted = as_perturber(dataset.input, generator, kind=self.kind)
        if self.int8 is not None:
            rng = np.random.default_rng([seed, 2])
            some = rows[np.sort(rng.permutation(len(rows))[:CALIBRATION_ROWS])]
            (inputs,) = calibration(fitted, some, rng).values()
            how: dict[str, Any] = {"of": of, "score": score, "floor": floor, "chosen": chosen, "log": log}
            fine_tune(self.int8, generator, inputs, **how)
        return fitted

    @classmethod
    def draft(cls, kind: str, dataset: Dataset, *, apart: float, stream: bool) -> str:
        """See ``Perturber.draft``."""
        spec, image = dataset.input, dataset.input.kind == "image"
        more, clipped = "", True
        if image:
            side = min(spec.shape[:2])
            more = f"\nhalvings = {1 if side < 16 else 2 if side < 64 else 3}"
        elif cls.bottleneck:
            clipped = False
            more = "\nlatent = 16           # bottleneck for all of x: a new adversary reads what bypasses it"
        if clipped:
            more += '\nclip = "returns"      # a clipped value keeps its gradient, or all may end up black'
        coarse = np.dtype(spec.dtype).kind in "iu" and float(np.max(spec.span)) <= 4
        return DRAFT.format(
            kind=kind,
            why=cls.why.get(kind, ""),
            distance=round(max(cls.moves * apart, 0.01), 2),
            apart=apart,
            rounded=ROUNDED if coarse else "",
            architecture="conv" if image else "mlp",
            width=24 if image else int(np.clip(2 * spec.shape[0], 32, 512)),
            more=more,
        )


@dataclass(frozen=True)
class Networks:
    """G and D with their optimisers, which are trained, and D_y and D_z, which are not."""

    generator: Any
    discriminator: Any
    target: Any
    sensitive: Any
    generator_optimizer: Any
    discriminator_optimizer: Any
    sent: Callable[[Any], Any]  # v as the losses see it: unchanged, or rounded as it is sent

    def trained(self) -> dict[str, Any]:
        """All that a checkpoint must hold."""
        names = ("generator", "discriminator", "generator_optimizer", "discriminator_optimizer")
        return {name: getattr(self, name) for name in names}


class PrGan(Generated):
    """A generator against fixed D_y and D_z and a discriminator of its own (paper 001, eqs. 7 to 11), and baselines."""

    kinds = ("prgan", "ngp", "ap")
    titles = ("PR-GAN", "NGP", "AP")
    distributes = True
    why: ClassVar[Mapping[str, str]] = {
        "ngp": "          # PR-GAN without its discriminator (section 6.2 of the paper)",
        "ap": "           # PR-GAN without its target classifier (section 6.2 of the paper)",
    }

    kind: Literal["prgan", "ngp", "ap"] = Field(
        description="PR-GAN; NGP has no discriminator, AP no target classifier (section 6.2)."
    )

    def fit(
        self, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
    ) -> FittedPerturber:
        """Train on the second slice; keep the checkpoint that ``CheckpointScore.rank`` puts first on its validation.

        Where more than z is sensitive, the generator is trained against a D_z of the joint label; checkpoints are
        judged by D_z itself. Raises ``LimitNotMet`` where training diverges.
        """
        from edgeveil.trainer.networks.training import train_joint
        from edgeveil.trainer.perturbers import adversarial_score
        from edgeveil.trainer.runs.checkpoint_score import Judged, in_bfloat16, run_epochs, score_checkpoint

        seed = int(rng.integers(2**31))
        priced, sensitive = dataset.as_priced(), goal.sensitive
        if dataset.priced is not None:
            sensitive = train_joint(priced, goal.classifiers, budget, seed=seed, log=log)
        networks = build(dataset.input, self, goal.target, sensitive, seed=seed)
        to_fit, to_choose = fit_and_validation(dataset, "perturber")
        feed, chosen_u = Feed(dataset.unit(to_fit.x), to_fit.y.astype(np.int32)), dataset.unit(to_choose.x)
        against = replace(networks, target=in_bfloat16(goal.target), sensitive=in_bfloat16(sensitive))
        log.record(bfloat16=against.target is not goal.target)
        batch = min(budget.batch, len(to_fit))
        steps = len(to_fit) // batch
        limit = goal.limits.target_accuracy
        raw = to_raw(dataset.input.dtype, dataset.input.low, dataset.input.high)

        def epochs_of(trained: Networks) -> Callable[[int], dict[str, float]]:
            step = training_step(trained, priced.theta, self, dataset.joint.get("y"))

            def epoch(number: int) -> dict[str, float]:
                order = np.random.default_rng([seed, number]).permutation(len(to_fit))[: steps * batch]
                return mean_losses([step(*feed(*given)) for given in feed.batches(order.reshape(steps, batch))])

            return epoch

        def score(generator: Any, floor: float) -> Judged:
            def made_of(u: np.ndarray) -> np.ndarray:
                return dataset.as_sent(predict(generator, u))

            sent = made_of(chosen_u)
            score = score_checkpoint(
                chosen_u,
                sent,
                to_choose.y,
                to_choose.z,
                theta=dataset.theta,
                target=networks.target,
                sensitive=goal.sensitive,
            )
            learned_on = dataset, to_fit, lambda x: raw(made_of(dataset.unit(x)))
            score = adversarial_score.read_too(score, floor, *learned_on, to_choose, raw(sent))
            shown = {"acc_y": score.kept_accuracy, "acc_z": score.sensitive_accuracy, "distance": score.distance}
            rank = score.rank(floor=floor, most_distance=self.distance_slack * self.distance)
            return Judged(score.as_dict(), rank, shown)

        def of(model: Any) -> tuple[Any, Any, dict[str, Any]]:
            rate = self.int8.learning_rate if self.int8 is not None else self.learning_rate
            tuned = replace(against, generator=model, generator_optimizer=adam(model, rate))
            return epochs_of(tuned), lambda _, floor: score(model, floor), tuned.trained()

        ships = {"generator": networks.generator}
        chosen = run_epochs(
            log,
            epochs=budget.epochs,
            trained=networks.trained(),
            ships=ships,
            epoch=epochs_of(against),
            judged=lambda _: score(networks.generator, limit),
        )
        how: dict[str, Any] = {"of": of, "score": score, "floor": limit, "chosen": chosen, "log": log, "seed": seed}
        return self.tuned(dataset, networks.generator, to_fit.x, **how)


def build(spec: InputSpec, section: Generated, target: Any, sensitive: Any, *, seed: int, noise: int = 0) -> Networks:
    """All networks for samples of ``spec``. Raises ``BadInput`` where the generator does not fit them."""
    import keras

    from edgeveil.trainer.runs.checkpoint_score import identity, straight_through

    keras.utils.set_random_seed(seed)
    generator = build_generator(spec, section.generator, noise=noise)
    discriminator = build_discriminator(spec)
    return Networks(
        generator,
        discriminator,
        target,
        sensitive,
        adam(generator, section.learning_rate),
        adam(discriminator, section.discriminator_learning_rate),
        straight_through(spec) if section.straight_through else identity,
    )


def adam(model: Any, rate: float) -> Any:
    """Adam with the momentum usual for GANs, built for the variables of ``model``."""
    import keras

    optimizer = keras.optimizers.Adam(rate, beta_1=0.5)
    optimizer.build(model.trainable_variables)
    return optimizer


def build_generator(spec: InputSpec, section: Generator, *, noise: int = 0) -> Any:
    """An untrained generator for samples of ``spec``; ``noise`` above 0 is the length of a second input.

    Raises ``BadInput`` where section and samples do not fit.
    """
    return network(section.architecture, spec).build(spec, settings=section, noise=noise)


def build_discriminator(spec: InputSpec) -> Any:
    """An untrained discriminator for samples of ``spec``."""
    from edgeveil.models.adversaries import conv_discriminator, mlp_discriminator, series_discriminator

    if spec.kind == "vector":
        return mlp_discriminator(spec.shape[0])
    make: Callable[..., Any] = series_discriminator if spec.kind == "series" else conv_discriminator
    return make(spec.shape)


def training_step(networks: Networks, theta: np.ndarray, section: PrGan, joint: Joint | None = None) -> Any:
    """A compiled step: samples u (n, *shape) in the unit cube and y (n,) in, the losses out by name.

    D is trained on eq. (7), then G on eq. (11); D_y and D_z never change. NGP is without D, AP without D_y. Where y is
    of several targets (``joint``), eqs. (8) and (11) have a sum over them.
    """
    import tensorflow as tf

    med = tf.constant(theta, tf.float32)
    generator, discriminator = networks.generator, networks.discriminator
    kept = kept_loss(joint)

    @compiled
    def step(u: Any, y: Any) -> dict[str, Any]:
        losses = {}
        with tf.GradientTape() as tape:
            perturbed = networks.sent(generator(u, training=True))
            if section.kind != "ngp":
                with tape.stop_recording():
                    losses["loss_discriminator"] = train_discriminator(
                        discriminator, networks.discriminator_optimizer, u, perturbed
                    )
            z_term = med_cross_entropy(networks.sensitive(perturbed, training=False), tf.gather(med, y))
            adversary = tf.reduce_mean(z_term)
            hinge = hinge_loss(u, perturbed, section.distance)
            losses |= {"loss_sensitive": adversary, "loss_hinge": hinge}
            if section.kind != "ap":
                logits = networks.target(perturbed, training=False)
                losses["loss_target"] = kept(y, logits)
                adversary += losses["loss_target"]
            total = section.alpha * adversary + section.beta * hinge
            if section.kind != "ngp":
                losses["loss_gan"] = tf.reduce_mean(tf.nn.softplus(-discriminator(perturbed, training=False)))
                total += losses["loss_gan"]
        descend(total, tape, generator, networks.generator_optimizer)
        return losses | {"loss_generator": total}

    return step


def train_discriminator(discriminator: Any, optimizer: Any, u: Any, made: Any) -> Any:
    """One step of D on samples u and perturbed ones ``made``: the loss, eq. (7)."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        real, false = discriminator(u, training=True), discriminator(made, training=True)
        loss = tf.reduce_mean(tf.nn.softplus(-real)) + tf.reduce_mean(tf.nn.softplus(false))
    descend(loss, tape, discriminator, optimizer)
    return loss


def kept_loss(joint: Joint | None) -> Callable[[Any, Any], Any]:
    """L of eq. (8) for y: a function of y (n,) and the logits (n, classes of y) of D_y to the mean cross-entropy.

    Of several targets it is the sum of each one's cross-entropy, by the marginal of D_y's softmax over joint classes:
    D_y stays one network, whose answer is a class that occurs.
    """
    import tensorflow as tf

    if joint is None:
        return lambda y, logits: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    alike = [tf.constant(classes @ classes.T > 0) for _, classes in joint]  # which joint classes share the target's

    def summed(y: Any, logits: Any) -> Any:
        log_p = tf.nn.log_softmax(logits)
        each = [tf.reduce_logsumexp(tf.where(tf.gather(one, y), log_p, -1e9), axis=1) for one in alike]
        return -tf.reduce_mean(tf.add_n(each))

    return summed


def med_cross_entropy(logits: Any, p: Any) -> Any:
    """CE(MED(z|y), D_z(x'|y)) of eq. (8), (n,): logits (n, classes of z) masked to the z with p > 0 and renormalised.

    Its least value is the entropy of p (n, classes of z), where D_z predicts exactly p.
    """
    import tensorflow as tf

    allowed = p > 0
    log_d = tf.nn.log_softmax(tf.where(allowed, logits, -1e9))
    return -tf.reduce_sum(tf.where(allowed, p * log_d, 0.0), axis=1)


def hinge_loss(u: Any, made: Any, c: float) -> Any:
    """Eq. (10): the mean of max(0, |G(u) - u| - c), Euclidean, over samples (n, ...)."""
    import tensorflow as tf

    squared = tf.reduce_sum(tf.square(made - u), axis=list(range(1, len(u.shape))))
    # The root has no gradient at 0, where the generator starts.
    return tf.reduce_mean(tf.nn.relu(tf.sqrt(squared + 1e-12) - c))


def mean_losses(steps: list[dict[str, Any]]) -> dict[str, float]:
    """The losses of several steps, averaged by name."""
    return {name: float(np.mean([float(losses[name]) for losses in steps])) for name in steps[0]}
