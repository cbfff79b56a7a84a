"""Minimax: PR-GAN whose sensitive classifiers keep learning on its output, with noise as a second input.

PR-GAN hides z from one D_z that was trained on raw samples and is then fixed; a classifier trained on x' predicts z as
well as before. Here three adversaries of different architecture take two steps each for every step of the generator.
In turn, one restarts every few epochs, so that the generator cannot adapt to what they happened to learn. The D_z of
the first slice is not used. The loss is eq. (11) with the mean over adversaries in eq. (8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from edgeveil.edge_runtime.stages.preprocess import to_raw
from edgeveil.trainer.datasets.base import Dataset, Joint
from edgeveil.trainer.datasets.slicing import few, fit_and_validation
from edgeveil.trainer.networks.feeding import Feed, descend
from edgeveil.trainer.perturbers import prgan
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.perturbers.prgan import Generated, hinge_loss, mean_losses, med_cross_entropy, train_discriminator
from edgeveil.trainer.recipe.training_sections import Budget
from edgeveil.trainer.runs.fitted import FittedPerturber

if TYPE_CHECKING:
    from edgeveil.trainer.runs.run import Log


@dataclass(frozen=True)
class Adversary:
    """A network in training, its constructor, and its optimiser with the variables of an unused one."""

    make: Callable[[], Any]
    model: Any
    optimizer: Any
    unused: Sequence[np.ndarray]

    def renew(self, seed: int) -> None:
        """Restart with new weights and an unused optimiser."""
        import keras

        keras.utils.set_random_seed(seed)
        self.model.set_weights(self.make().get_weights())
        for variable, value in zip(self.optimizer.variables, self.unused, strict=True):
            variable.assign(value)


@dataclass(frozen=True)
class Networks(prgan.Networks):
    """PR-GAN's networks and the adversaries, with their optimisers."""

    adversaries: Sequence[Adversary]

    def trained(self) -> dict[str, Any]:
        """All that a checkpoint must hold."""
        holders = super().trained()
        for number, adversary in enumerate(self.adversaries):
            holders |= {f"adversary{number}": adversary.model, f"adversary{number}_optimizer": adversary.optimizer}
        return holders


class Minimax(Generated):
    """PR-GAN against adversaries that keep learning on what it makes; beyond the paper."""

    kinds = ("minimax",)
    titles = ("Minimax",)
    why: ClassVar[Mapping[str, str]] = {
        "minimax": "      # PR-GAN against adversaries that keep learning on its output"
    }
    moves = 0.45
    bottleneck = True

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

    def fit(
        self, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
    ) -> FittedPerturber:
        """Train on the second slice; keep the checkpoint that keeps y and from which new adversaries predict z worst.

        Raises ``LimitNotMet`` where training diverges.
        """
        import tensorflow as tf

        from edgeveil.trainer.perturbers import adversarial_score
        from edgeveil.trainer.runs.checkpoint_score import Judged, run_epochs, score_checkpoint

        seed = int(rng.integers(2**31))
        to_fit, to_choose = fit_and_validation(dataset, "perturber")
        priced = dataset.as_priced()  # of what the adversaries learn; checkpoints are judged on z itself
        networks = build(priced, self, goal.target, goal.sensitive, seed=seed)
        labels = (one.astype(np.int32) for one in (to_fit.y, priced.z[to_fit.index]))
        feed, chosen_u = Feed(dataset.unit(to_fit.x), *labels), dataset.unit(to_choose.x)
        batch = min(budget.batch, len(to_fit))
        steps = len(to_fit) // batch
        limit = goal.limits.target_accuracy
        raw = to_raw(dataset.input.dtype, dataset.input.low, dataset.input.high)

        def epochs_of(trained: Networks) -> Callable[[int], dict[str, float]]:
            step = training_step(trained, priced.theta, self, dataset.joint.get("y"))

            def epoch(number: int) -> dict[str, float]:
                if number > 1 and (number - 1) % self.renew == 0:
                    turn = (number - 1) // self.renew
                    networks.adversaries[turn % len(networks.adversaries)].renew((seed + number) % 2**32)
                draw = np.random.default_rng([seed, number])
                order = np.concatenate([draw.permutation(len(to_fit)) for _ in range(self.adversary_steps + 1)])
                # Of each step one batch for the generator, the others for the adversaries.
                shares = order.reshape(self.adversary_steps + 1, -1)[:, : steps * batch].reshape(-1, steps, batch)
                batches = np.concatenate(list(shares), axis=1)
                losses = []
                for given in feed.batches(batches):
                    noise = draw.random((batches.shape[1], self.noise), np.float32)
                    losses.append(step(*feed(*given), tf.constant(noise)))
                return mean_losses(losses)

            return epoch

        def judged(generator: Any, number: int, floor: float, *, ranked: bool) -> Judged:
            draw = np.random.default_rng([seed, number, 1])
            sent = dataset.as_sent(generate(generator, chosen_u, self.noise, draw))
            score = score_checkpoint(
                chosen_u,
                sent,
                to_choose.y,
                to_choose.z,
                theta=dataset.theta,
                target=networks.target,
                sensitive=networks.sensitive,
            )

            def made_of(x: np.ndarray) -> np.ndarray:
                return raw(dataset.as_sent(generate(generator, dataset.unit(x), self.noise, draw)))

            shown = {"acc_y": score.target_accuracy, "distance": score.distance}
            measured = score.as_dict()
            if not ranked:
                return Judged(measured, None, shown)
            seen = few(dataset, to_fit.take(draw.permutation(len(to_fit))[: adversarial_score.SMALL.rows]))
            accuracy = adversarial_score.adversarial_accuracy(dataset, seen, made_of(seen.x), to_choose, raw(sent))
            score = adversarial_score.read_too(score, floor, dataset, seen, made_of, to_choose, raw(sent))
            measured, shown["acc_y"] = {**score.as_dict(), "fresh_accuracy": accuracy}, score.kept_accuracy
            rule = {"floor": floor, "most_distance": self.distance_slack * self.distance}
            return Judged(measured, adversarial_score.rank(score, accuracy, **rule), shown | {"fresh acc_z": accuracy})

        def judged_at(number: int) -> Judged:
            ranked = not number % self.judge_every or number == budget.epochs
            return judged(networks.generator, number, limit, ranked=ranked)

        def of(model: Any) -> tuple[Any, Any, dict[str, Any]]:
            rate = self.int8.learning_rate if self.int8 is not None else self.learning_rate
            tuned = replace(networks, generator=model, generator_optimizer=prgan.adam(model, rate))
            return epochs_of(tuned), lambda number, floor: judged(model, number, floor, ranked=True), tuned.trained()

        ships = {"generator": networks.generator}
        how: dict[str, Any] = {"trained": networks.trained(), "ships": ships, "judged": judged_at}
        chosen = run_epochs(log, epochs=budget.epochs, epoch=epochs_of(networks), **how)
        how = {"score": lambda model, floor: judged(model, 0, floor, ranked=True), "floor": limit, "seed": seed}
        return self.tuned(dataset, networks.generator, to_fit.x, of=of, chosen=chosen, log=log, **how)


def build(dataset: Dataset, section: Minimax, target: Any, sensitive: Any, *, seed: int) -> Networks:
    """All networks for samples of ``dataset``. Raises ``BadInput`` where the generator does not fit them."""
    import keras

    from edgeveil.models import adversaries

    prgan_networks = prgan.build(dataset.input, section, target, sensitive, seed=seed, noise=section.noise)
    learning = []
    for make in adversaries.adversaries(dataset.input.shape, len(dataset.z_names)):
        model = make()
        optimizer = keras.optimizers.Adam(section.adversary_learning_rate)
        optimizer.build(model.trainable_variables)
        learning.append(Adversary(make, model, optimizer, [v.numpy() for v in optimizer.variables]))
    return Networks(**vars(prgan_networks), adversaries=learning)


def training_step(networks: Networks, theta: np.ndarray, section: Minimax, joint: Joint | None = None) -> Any:
    """A compiled step: samples u (k n, *shape) in the unit cube, y and z (k n,) and noise (k n, noise) in, losses out.

    The first n rows are the generator's and the discriminator's. On the others, n at a time, every adversary takes
    ``adversary_steps`` steps before; k is one more than these. ``joint`` as in ``prgan.training_step``.
    """
    import tensorflow as tf

    med = tf.constant(theta, tf.float32)
    generator, discriminator = networks.generator, networks.discriminator
    kept = prgan.kept_loss(joint)
    shares = section.adversary_steps + 1

    @tf.function(reduce_retracing=True)
    def step(u: Any, y: Any, z: Any, noise: Any) -> dict[str, Any]:
        parts = [tf.split(value, shares) for value in (u, y, z, noise)]
        for of_u, of_y, of_z, of_noise in zip(*(part[1:] for part in parts), strict=True):
            perturbed = networks.sent(generator([of_u, of_noise], training=True))
            possible = tf.gather(med, of_y) > 0
            for adversary in networks.adversaries:
                with tf.GradientTape() as tape:
                    logits = tf.where(possible, adversary.model(perturbed, training=True), -1e9)
                    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(of_z, logits))
                descend(loss, tape, adversary.model, adversary.optimizer)
        u, y, _, noise = (part[0] for part in parts)
        losses = {}
        if section.gan:
            perturbed = networks.sent(generator([u, noise], training=True))
            losses["loss_discriminator"] = train_discriminator(
                discriminator, networks.discriminator_optimizer, u, perturbed
            )
        with tf.GradientTape() as tape:
            perturbed = networks.sent(generator([u, noise], training=True))
            p = tf.gather(med, y)
            each = [
                tf.reduce_mean(med_cross_entropy(a.model(perturbed, training=False), p)) for a in networks.adversaries
            ]
            logits = networks.target(perturbed, training=False)
            keep = kept(y, logits)
            hinge = hinge_loss(u, perturbed, section.distance)
            hidden = tf.add_n(each) / len(each)
            total = section.alpha * (keep + hidden) + section.beta * hinge
            if section.gan:
                losses["loss_gan"] = tf.reduce_mean(tf.nn.softplus(-discriminator(perturbed, training=False)))
                total += section.gan * losses["loss_gan"]
        descend(total, tape, generator, networks.generator_optimizer)
        losses |= {"loss_sensitive": hidden, "loss_target": keep, "loss_hinge": hinge, "loss_generator": total}
        return losses

    return step


def generate(generator: Any, u: np.ndarray, noise: int, rng: np.random.Generator, *, batch: int = 1024) -> np.ndarray:
    """The generator's output for u (n, *shape) with seeded noise, for the choice alone; the board draws its own."""
    drawn = rng.random((len(u), noise), np.float32)
    pieces = [generator([u[i : i + batch], drawn[i : i + batch]], training=False) for i in range(0, len(u), batch)]
    return np.concatenate([np.asarray(piece) for piece in pieces])
